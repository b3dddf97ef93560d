//! Commands that read a file of the user's.

mod convert;
mod explain_defaults;
mod plan;
mod rules;
