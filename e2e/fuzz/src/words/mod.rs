//! Settings, declarations, rules, and what servers answer, as text.

pub mod answer;
pub mod config;
pub mod ddl;
pub mod resource;
pub mod rules;
mod sql;
