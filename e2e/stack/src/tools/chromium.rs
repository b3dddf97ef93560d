//! Chromium, for tests of pages. It is found, never fetched: a browser has half of a desktop's
//! libraries beside it, and most machines that run tests have none.

use std::env;
use std::path::PathBuf;

/// What it is called, by Debian, others and Google.
const NAMES: [&str; 4] =
    ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"];

/// How to get it.
pub const HINT: &str = "apt-get install --no-install-recommends chromium, or name one in CHROMIUM";

/// The program: what `CHROMIUM` names, or one on the PATH.
#[must_use]
pub fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os("CHROMIUM") {
        return Some(named.into()).filter(|path: &PathBuf| path.is_file());
    }
    let folders = env::var_os("PATH")?;
    let mut paths = env::split_paths(&folders);
    paths.find_map(|folder| NAMES.iter().map(|name| folder.join(name)).find(|it| it.is_file()))
}
