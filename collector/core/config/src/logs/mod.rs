//! The sections of what is read as log lines: containers' logs, log files, the kernel's log.

pub(crate) mod containers;
pub(crate) mod files;
pub(crate) mod kernel;
pub(crate) mod log_records;
