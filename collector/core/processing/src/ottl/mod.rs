//! The language of rules: OpenTelemetry's transformation language (OTTL), compiled to programs.
//!
//! [`lexer`] and [`parser`] read a statement into [`syntax`] with positions; [`compile`] resolves
//! paths, functions and enums, and reports what isn't supported.

pub(crate) mod arguments;
pub(crate) mod compile;
pub(crate) mod context;
pub(crate) mod converters;
pub(crate) mod editors;
pub(crate) mod error;
pub(crate) mod expressions;
pub(crate) mod functions;
pub(crate) mod glob;
pub(crate) mod go_char;
pub(crate) mod go_class;
pub(crate) mod go_regex;
pub(crate) mod lexer;
pub(crate) mod parser;
pub(crate) mod paths;
pub(crate) mod strptime;
pub(crate) mod syntax;
pub(crate) mod unquote;
