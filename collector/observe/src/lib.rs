//! What both programs say of themselves: `process_*` and the build ([`process`]), metrics as text
//! with exemplars ([`text`], [`exemplars`]), and their own traces and logs by OTLP ([`otlp`]).
//!
//! It must not know a record, a pool or a kind, nor make anybody wait: what can't be sent in time
//! is dropped and counted.

pub mod exemplars;
pub mod log;
pub mod otlp;
pub mod process;
pub mod text;
