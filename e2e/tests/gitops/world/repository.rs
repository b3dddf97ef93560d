//! The git repository that Argo CD syncs from: a bare one that the stack serves, and a working copy
//! that tests change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_stack::argocd::ArgoCd;
use tempfile::TempDir;

/// Its name, under which it is served.
const NAME: &str = "millrace.git";
/// Its only branch.
const BRANCH: &str = "main";

/// The repository, with a working copy of its newest commit.
pub(in crate::gitops) struct Repository {
    copy: TempDir,
    url: String,
}

impl Repository {
    /// The one that Argo CD is served; empty if there was none.
    pub(in crate::gitops) fn open(argocd: &ArgoCd<'_>) -> Result<Self> {
        let bare = argocd.repositories().join(NAME);
        if !bare.exists() {
            let path = bare.to_string_lossy();
            git(Path::new("/"), &["init", "--quiet", "--bare", "--initial-branch", BRANCH, &path])?;
        }
        let copy = tempfile::tempdir()?;
        git(copy.path(), &["clone", "--quiet", &bare.to_string_lossy(), "."])?;
        Ok(Self { copy, url: argocd.repository_url(NAME) })
    }

    /// Where Argo CD finds it.
    pub(in crate::gitops) fn url(&self) -> &str {
        &self.url
    }

    /// A file or folder of the working copy, for changing it.
    pub(in crate::gitops) fn path(&self, name: &str) -> PathBuf {
        self.copy.path().join(name)
    }

    /// Writes a file of the working copy.
    pub(in crate::gitops) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path(name);
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Commits all of the working copy and pushes it. Gives the commit's id.
    pub(in crate::gitops) fn commit(&self, message: &str) -> Result<String> {
        git(self.copy.path(), &["add", "--all"])?;
        git(self.copy.path(), &["commit", "--quiet", "--allow-empty", "--message", message])?;
        self.push()
    }

    /// Takes the newest commit back by another one.
    pub(in crate::gitops) fn revert(&self) -> Result<String> {
        git(self.copy.path(), &["revert", "--no-edit", "HEAD"])?;
        self.push()
    }

    /// Writes the files of the newest commit into a compressed archive.
    pub(in crate::gitops) fn archive(&self, target: &Path) -> Result<()> {
        let target = format!("--output={}", target.display());
        git(self.copy.path(), &["archive", "--format=tar.gz", &target, "HEAD^{tree}"]).map(drop)
    }

    fn push(&self) -> Result<String> {
        git(self.copy.path(), &["push", "--quiet", "origin", &format!("HEAD:{BRANCH}")])?;
        Ok(git(self.copy.path(), &["rev-parse", "HEAD"])?.trim().to_owned())
    }
}

fn git(folder: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(args);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "a test");
        command.env(format!("GIT_{who}_EMAIL"), "test@example.com");
    }
    let output = command.output().context("git could not be started")?;
    if !output.status.success() {
        bail!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
