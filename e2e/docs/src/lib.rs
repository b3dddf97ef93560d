//! The pages: those that are made of types, and what the others tell people to type.
//!
//! [`settings`] writes the reference of the collector's settings from their types. [`pages`],
//! [`shell`] and [`documents`] find commands and YAML in pages, which tests put to the programs and
//! types that take them; [`runs`] says which commands tests run too. Nothing here is linked into what
//! users run, or runs a command.

pub mod documents;
pub mod pages;
pub mod runs;
pub mod settings;
pub mod shell;
