//! Programs of others that tests and releases call.

pub mod chromium;
pub mod cosign;
pub mod krew;
pub mod kstatus;
pub mod olm;
pub mod prometheus;
