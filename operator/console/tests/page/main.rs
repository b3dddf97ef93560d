//! Pages of a pipeline in trouble and of a list: what they say, that nothing in them becomes
//! markup, and how they look in a browser.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod escaping;
mod fixture;
mod pictures;
mod says;
