//! How programs come into the cache: packages, modules that are built, images.

pub mod binaries;
pub(crate) mod debian;
pub mod foreign;
pub mod image;
pub(crate) mod module;
pub mod wheel;
