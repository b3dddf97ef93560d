//! Where the product's binaries are. They are built beforehand (`cargo xtask test` does it), in
//! release mode: what is tested is what is shipped.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The folder the binaries were built into: `MILLRACE_BIN_DIR`, else the workspace's own.
pub fn folder() -> PathBuf {
    if let Some(dir) = env::var_os("MILLRACE_BIN_DIR") {
        return PathBuf::from(dir);
    }
    target().join("release")
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The workspace's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default()
}

/// One binary's path.
///
/// # Errors
/// When it has not been built; the message says how to build it.
pub fn path(name: &str) -> Result<PathBuf> {
    let path = folder().join(name);
    if !path.is_file() {
        bail!("{} is not there: build it with `cargo xtask build`", path.display());
    }
    Ok(path)
}
