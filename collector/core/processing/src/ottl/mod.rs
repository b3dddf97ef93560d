//! The language of rules: OpenTelemetry's transformation language (OTTL), compiled to programs.
//!
//! [`parser`] reads a statement into its syntax with positions; [`compile`] resolves paths,
//! functions and enums, and reports what isn't supported.

pub(crate) mod compile;
pub(crate) mod context;
pub(crate) mod error;
pub(crate) mod expressions;
pub(crate) mod functions;
pub(crate) mod glob;
pub(crate) mod go_regex;
pub(crate) mod parser;
pub(crate) mod paths;
