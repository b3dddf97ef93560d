//! Both programs' observability of themselves: `process_*` and the build ([`process`]), metrics as
//! text with exemplars ([`text`], [`exemplars`]), the listener that serves them
//! ([`http_listener`]), and their own traces and logs by OTLP ([`otlp`]).
//!
//! It must not depend on records, pools or kinds, nor block its callers: items that can't be sent
//! in time are dropped and counted.

mod error_chain;
pub mod exemplars;
pub mod http_listener;
pub mod listen;
pub mod log;
pub mod otlp;
pub mod process;
pub mod text;

pub use error_chain::error_chain;
