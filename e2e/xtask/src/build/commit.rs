//! Another commit's programs, built in a worktree of its own that is gone afterwards. Kept by
//! commit, so that the next run takes them; dependencies are compiled once for all commits.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{build, say, shell};

/// What is built of a commit, and what is kept of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The folder in cargo's target folder that commits are kept in.
    pub(crate) folder: &'static str,
    /// Arguments of each `cargo build --release`.
    pub(crate) packages: &'static [&'static [&'static str]],
    /// Programs by their path in the release folder.
    pub(crate) programs: &'static [&'static str],
    /// Folders of the source that are kept beside them.
    pub(crate) folders: &'static [&'static str],
}

/// A commit's programs.
#[derive(Debug)]
pub(crate) struct Built {
    /// The first twelve digits of its id.
    pub(crate) commit: String,
    /// Where its programs and folders are.
    pub(crate) programs: PathBuf,
}

/// Where commits of a kind are kept.
///
/// # Errors
/// When there is no working folder.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    std::path::absolute(build::target().join(name)).context("no working folder")
}

/// Builds what is wanted of the commit that git knows as `name`.
///
/// # Errors
/// When git doesn't know it, or it can't be built.
pub(crate) fn built(name: &str, wanted: &Wanted) -> Result<Built> {
    let folder = folder(wanted.folder)?;
    let commit = shell::output("git", &["rev-parse", "--short=12", &format!("{name}^{{commit}}")])?;
    let commit = commit.trim().to_owned();
    let (tree, programs) = (folder.join(&commit), folder.join(format!("{commit}-programs")));
    if programs.join("done").exists() {
        return Ok(Built { commit, programs });
    }
    say::step(&format!("building {name} ({commit})"));
    if !tree.exists() {
        let path = tree.to_string_lossy();
        shell::run("git", &["worktree", "add", "--detach", "--force", &path, &commit])?;
    }
    let made = folder.join("build");
    for select in wanted.packages {
        let mut command = shell::command("cargo", &["build", "--release", "--locked"]);
        command.args(*select).current_dir(&tree).env("CARGO_TARGET_DIR", &made);
        shell::run_command(&mut command)?;
    }
    for program in wanted.programs {
        keep(&made.join("release").join(program), &programs.join(program))?;
    }
    for part in wanted.folders {
        keep_folder(&tree.join(part), &programs.join(part))?;
    }
    fs::write(programs.join("done"), "")?;
    shell::run("git", &["worktree", "remove", "--force", &tree.to_string_lossy()])?;
    Ok(Built { commit, programs })
}

/// Tags of releases before this version that HEAD has in it, the oldest first.
///
/// # Errors
/// When git can't say.
pub(crate) fn releases() -> Result<Vec<String>> {
    // A pre-release comes before its version.
    let args = ["-c", "versionsort.suffix=-", "tag", "--merged", "HEAD", "--list", "v[0-9]*"];
    let tags = shell::output("git", &[&args[..], &["--sort=version:refname"]].concat())?;
    Ok(before(&tags, build::VERSION))
}

fn before(tags: &str, version: &str) -> Vec<String> {
    let own = format!("v{version}");
    tags.lines().filter(|tag| *tag != own).map(str::to_owned).collect()
}

fn keep(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().with_context(|| format!("{} has no folder", to.display()))?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

fn keep_folder(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => keep_folder(&path, &to)?,
            false => keep(&path, &to)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::before;

    /// Scenario: this version's own tag among others. Guarantee: it isn't before itself.
    #[test]
    fn a_release_is_not_before_itself() {
        assert_eq!(before("v0.1.0-rc.1\nv0.1.0\n", "0.1.0"), ["v0.1.0-rc.1"]);
        assert_eq!(before("v0.1.0\nv0.2.0\n", "0.2.0"), ["v0.1.0"]);
        assert!(before("", "0.1.0").is_empty());
    }
}
