//! Faults and simulations: each hands over to its harness.

pub(crate) mod chaos;
pub(crate) mod keeper_faults;
pub(crate) mod sim;
