//! Where the product's binaries are: beside the program that asks. Tests are compiled together with
//! what they run; benchmarks are release builds and run release builds.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The folder the binaries were built into: `MILLRACE_BIN_DIR`, else this program's own.
pub fn folder() -> PathBuf {
    if let Some(dir) = env::var_os("MILLRACE_BIN_DIR") {
        return PathBuf::from(dir);
    }
    let program = env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or_else(|| Path::new("."));
    // Cargo puts tests one folder below.
    let built = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
    built.map(PathBuf::from).unwrap_or_default()
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
        bail!("{} is not there: build it with `cargo build --workspace`", path.display());
    }
    Ok(path)
}
