//! The commands of the program.

pub(crate) mod dead_letters;
mod output;
pub(crate) mod rows;
pub(crate) mod rules;
pub(crate) mod run;
