//! Inserts: what is sent, and what follows from the answer.

pub(crate) mod deliver;
pub(crate) mod encoder;
pub(crate) mod insert_window;
pub(crate) mod next_step;
pub(crate) mod plan;
pub(crate) mod response;
