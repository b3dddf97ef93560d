//! Files, tools and the cache that servers are installed into.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Result, ServiceError, io_error};

/// Lines of a log that an error message quotes: enough for a Java stack trace's head.
const LOG_TAIL_LINES: usize = 25;
/// Written last into an installed folder: what it was made from.
const STAMP: &str = ".recipe";
/// Written first, so that a broken-off run of another recipe is not resumed.
const STARTED_STAMP: &str = ".recipe.started";

/// The cache of things downloaded once: `MILLRACE_CACHE`, or `.cache/millrace` in the home folder.
#[must_use]
pub fn cache_dir() -> PathBuf {
    match (std::env::var_os("MILLRACE_CACHE"), std::env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => {
            std::path::absolute(&cache).unwrap_or_else(|_| PathBuf::from(cache))
        }
        (_, Some(home)) => PathBuf::from(home).join(".cache/millrace"),
        (_, None) => PathBuf::from("/var/cache/millrace"),
    }
}

/// Installs something into the cache's folder `name` once, whatever number of processes ask at a
/// time.
///
/// `fill` gets a folder to fill, which is renamed into place when it succeeds; what a broken-off
/// run left there is still in it, so an installer that can resume does. `recipe` is what the
/// content is made from: when it changes, the folder is made anew.
///
/// # Errors
/// Those of `fill`, and those of the file system.
pub(crate) fn install_once(
    name: &str,
    recipe: &str,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    install_into(&cache_dir(), name, recipe, fill)
}

fn install_into(
    cache: &Path,
    name: &str,
    recipe: &str,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let target = cache.join(name);
    let made_from = |dir: &Path, stamp: &str| {
        fs::read_to_string(dir.join(stamp)).is_ok_and(|found| found == recipe)
    };
    if made_from(&target, STAMP) {
        return Ok(target);
    }
    create_dir(cache)?;
    let lock_path = cache.join(format!("{name}.lock"));
    let lock =
        File::create(&lock_path).map_err(io_error(format!("create {}", lock_path.display())))?;
    lock.lock().map_err(io_error(format!("lock {}", lock_path.display())))?;
    if made_from(&target, STAMP) {
        return Ok(target);
    }
    let partial = cache.join(format!("{name}.partial"));
    if !made_from(&partial, STARTED_STAMP) {
        remove_dir(&partial)?;
    }
    create_dir(&partial)?;
    write_file(&partial.join(STARTED_STAMP), recipe)?;
    fill(&partial)?;
    write_file(&partial.join(STAMP), recipe)?;
    remove_dir(&target)?;
    fs::rename(&partial, &target)
        .map_err(io_error(format!("rename {} into place", partial.display())))?;
    Ok(target)
}

/// `rm -rf`, with an error that names the folder; one that is not there is fine.
fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error(format!("remove {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}

/// `mkdir -p`, with an error that names the folder.
pub(crate) fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(io_error(format!("create {}", path.display())))
}

/// Writes a file that only its owner can read, with an error that names it.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(io_error(format!("write {}", path.display())))
}

/// The folder a server lives in: the one given, or a temporary one that goes when dropped.
pub(crate) fn home(
    given: Option<&Path>,
    prefix: &str,
) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(dir) = given {
        return Ok((dir.to_owned(), None));
    }
    let scratch = tempfile::Builder::new()
        .prefix(prefix)
        .tempdir()
        .map_err(io_error("make a temporary folder"))?;
    Ok((scratch.path().to_owned(), Some(scratch)))
}

/// Runs a set-up command to its end; its output is quoted if it fails.
pub(crate) fn run(action: &str, command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(io_error(format!("run {}", command.get_program().display())))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ServiceError::Command {
        action: action.to_owned(),
        status: output.status,
        tail: last_lines(&text),
    })
}

/// Finds a program on the PATH.
pub(crate) fn find_tool(tool: &'static str, hint: &'static str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(tool))
        .find(|candidate| candidate.is_file())
        .ok_or(ServiceError::MissingTool { tool, hint })
}

/// The last lines of a text, as many as an error should quote.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight test processes may need the engine at once; it is 560 MB.
    #[test]
    fn what_is_in_the_cache_is_not_made_again_until_its_recipe_changes() {
        let cache = tempfile::tempdir().unwrap();
        let install = |recipe: &str, content: &str| {
            let dir = install_into(cache.path(), "tool", recipe, |dir| {
                write_file(&dir.join("content"), content)
            });
            fs::read_to_string(dir.unwrap().join("content")).unwrap()
        };
        assert_eq!(install("v1", "first"), "first");
        assert_eq!(install("v1", "second"), "first");
        assert_eq!(install("v2", "third"), "third");
    }

    /// An install that broke off goes on from what it has, but never from another version's files.
    #[test]
    fn a_broken_off_install_resumes_only_from_its_own_recipe() {
        let cache = tempfile::tempdir().unwrap();
        let break_off = |dir: &Path| {
            write_file(&dir.join("half"), "")?;
            Err(io_error("go on")(io::ErrorKind::Interrupted.into()))
        };
        let has_half = |recipe: &str| {
            let dir = install_into(cache.path(), "tool", recipe, |_| Ok(())).unwrap();
            dir.join("half").exists()
        };
        install_into(cache.path(), "tool", "v1", break_off).unwrap_err();
        assert!(has_half("v1"));
        install_into(cache.path(), "tool", "v2", break_off).unwrap_err();
        assert!(!has_half("v3"));
    }
}
