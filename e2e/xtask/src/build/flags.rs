//! What makes a program the same whichever folder it is built in: this machine's paths are replaced
//! in what rustc and the C compilers write. Every release build has it, so that what tests run is
//! what a release ships.
//!
//! The source's own path is not among them: cargo hands rustc the workspace's files by paths from
//! its root, and release builds have no debug information, which would name the folder. So clones
//! in different folders that share a target folder, as CI's do, share compiled dependencies.
//!
//! Limits: the compilers, their versions and Debian's C libraries are not fixed here; a release's
//! provenance names them. Flags of the user's own (`RUSTFLAGS`, `CFLAGS`) are not taken.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Between the flags of `CARGO_ENCODED_RUSTFLAGS`, which may have spaces in them.
const SEPARATOR: &str = "\u{1f}";

/// The folders that a build reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    pub(crate) target: PathBuf,
    pub(crate) cargo_home: PathBuf,
}

impl Folders {
    /// Of a target folder, with the user's crates.
    pub(crate) fn new(target: &Path) -> Self {
        let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        Self {
            target: std::path::absolute(target).unwrap_or_else(|_| target.to_path_buf()),
            cargo_home: set.unwrap_or_else(|| home.join(".cargo")),
        }
    }

    /// Each path with what is written for it. Compilers take the last that matches.
    fn maps(&self) -> [String; 2] {
        let map = |path: &Path, name: &str| format!("{}=/{name}", path.display());
        [map(&self.cargo_home, "cargo"), map(&self.target, "target")]
    }

    /// For rustc.
    pub(crate) fn rust(&self) -> String {
        self.maps().map(|map| format!("--remap-path-prefix={map}")).join(SEPARATOR)
    }

    /// For the C compilers.
    pub(crate) fn c(&self) -> String {
        self.maps().map(|map| format!("-ffile-prefix-map={map}")).join(" ")
    }

    /// Sets them for a call of cargo.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env("CARGO_ENCODED_RUSTFLAGS", self.rust());
        command.env("CFLAGS", self.c()).env("CXXFLAGS", self.c());
        command.env("CARGO_TARGET_DIR", &self.target);
    }
}

#[cfg(test)]
mod tests {
    use super::Folders;

    /// Scenario: folders with spaces in their names. Guarantee: both kinds of compilers get both,
    /// in the form in which each of them reads several.
    #[test]
    fn both_kinds_of_compilers_get_both_folders() {
        let folders = Folders { target: "/a b/target".into(), cargo_home: "/c".into() };
        let flags: Vec<_> = folders.rust().split('\u{1f}').map(str::to_owned).collect();
        let both = ["--remap-path-prefix=/c=/cargo", "--remap-path-prefix=/a b/target=/target"];
        assert_eq!(flags, both);
        assert!(folders.c().ends_with("-ffile-prefix-map=/a b/target=/target"));
    }
}
