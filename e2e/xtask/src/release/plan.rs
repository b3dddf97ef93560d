//! What is released: version, commit, platforms, collectors, and where the files go.
//!
//! The version is Cargo.toml's; both charts must say the same. The notes are what CHANGELOG.md says,
//! by hand, for users; `changes` lists the commits. A commit with the version's tag and a section of
//! its own in CHANGELOG.md is a release, everything else a trial.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use millrace_stack::image::Platform;
use serde_json::Value;

use crate::build::{Collectors, VERSION, target};
use crate::shell;

/// The file's name.
pub(crate) const CHANGES_FILE: &str = "CHANGES.md";

/// How much of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// This machine's platform and the default collector alone, and nothing built twice.
    #[arg(long)]
    pub(super) quick: bool,
    /// Take the binaries of an earlier build.
    #[arg(long)]
    pub(super) no_build: bool,
}

const CHARTS: [&str; 2] = ["millrace-crds", "millrace"];

/// The notes' file.
pub(crate) const NOTES: &str = "NOTES.md";

/// The variable with the registry that signatures and OLM's bundle name.
const REGISTRY: &str = "MILLRACE_RELEASE_REGISTRY";
/// The registry of a trial. Nobody can own it (RFC 2606).
const TRIAL_REGISTRY: &str = "registry.example.com";

/// What is released, and of what.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) version: &'static str,
    /// The whole hash.
    pub(crate) commit: String,
    /// Whether files differ from that commit.
    pub(crate) dirty: bool,
    /// When the commit was made: the time that the release has.
    pub(crate) epoch_seconds: u64,
    pub(crate) platforms: Vec<Platform>,
    pub(crate) collectors: Collectors,
    /// Where everything is written.
    pub(crate) folder: PathBuf,
    pub(crate) notes: Notes,
    /// The registry that signatures and OLM's bundle name: where the release will be published.
    pub(crate) registry: String,
}

/// What changed, for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notes {
    pub(crate) text: String,
    /// Whether they stand under the version, not under "Unreleased".
    pub(crate) is_final: bool,
}

impl Notes {
    /// The file of them.
    pub(crate) fn file(&self) -> String {
        format!("{}\n\nEvery commit is in {} beside this file.\n", self.text, CHANGES_FILE)
    }
}

impl Plan {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        for chart in CHARTS {
            let path = shell::root().join("charts").join(chart).join("Chart.yaml");
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            same_version(&text, VERSION).with_context(|| format!("charts/{chart}/Chart.yaml"))?;
        }
        let changelog = std::fs::read_to_string(shell::root().join("CHANGELOG.md"))
            .context("cannot read CHANGELOG.md")?;
        let git =
            |args: &[&str]| Ok::<_, anyhow::Error>(shell::output("git", args)?.trim().to_owned());
        let dirty = !git(&["status", "--porcelain"])?.is_empty();
        let tags = git(&["tag", "--points-at", "HEAD"])?;
        let tagged = tags.lines().any(|tag| tag == format!("v{VERSION}"));
        let notes = notes(&changelog, VERSION)?;
        if tagged && (dirty || !notes.is_final) {
            bail!(
                "v{VERSION} is a release: commit every change, and give CHANGELOG.md a section \
                 `## {VERSION}`"
            );
        }
        let folder = target().join("releases").join(VERSION);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self {
            version: VERSION,
            commit: git(&["rev-parse", "HEAD"])?,
            dirty,
            epoch_seconds: git(&["log", "-1", "--format=%ct"])?.parse().context("git's time")?,
            platforms: match options.quick {
                true => Platform::host().into_iter().collect(),
                false => Platform::ALL.to_vec(),
            },
            collectors: if options.quick { Collectors::Default } else { Collectors::All },
            folder,
            notes,
            registry: registry(std::env::var(REGISTRY).ok(), tagged)?,
        })
    }

    /// A folder of the release, made.
    pub(crate) fn below(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// What people call it.
    pub(crate) fn kind(&self) -> &'static str {
        if self.notes.is_final { "release" } else { "trial" }
    }
}

/// Writes a file, with its name in the error.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a file, with its name in the error.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Where the release will be published. A trial is published nowhere.
fn registry(named: Option<String>, is_release: bool) -> Result<String> {
    match named.filter(|it| !it.is_empty()) {
        Some(named) => Ok(named.trim_end_matches('/').to_owned()),
        None if is_release => bail!("set {REGISTRY} to the registry that the release goes to"),
        None => Ok(TRIAL_REGISTRY.to_owned()),
    }
}

fn same_version(chart: &str, version: &str) -> Result<()> {
    for field in ["version", "appVersion"] {
        let start = format!("{field}: ");
        let said = chart.lines().find_map(|line| line.strip_prefix(start.as_str()));
        let said = said.unwrap_or_default().trim_matches('"');
        if said != version {
            bail!("{field} is {said:?}, Cargo.toml's version is {version}: write the same in both");
        }
    }
    Ok(())
}

/// The version's section of the changelog, or what is not released yet.
fn notes(changelog: &str, version: &str) -> Result<Notes> {
    let section = |title: &str| {
        let mut lines = changelog.lines().skip_while(|line| !is_titled(line, title)).skip(1);
        let text: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("## ")).collect();
        let text = text.join("\n").trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    match (section(version), section("Unreleased")) {
        (Some(text), _) => Ok(Notes { text, is_final: true }),
        (None, Some(text)) => Ok(Notes { text, is_final: false }),
        (None, None) => bail!("CHANGELOG.md has neither `## {version}` nor `## Unreleased`"),
    }
}

/// `## TITLE`, or `## TITLE - DATE`.
fn is_titled(line: &str, title: &str) -> bool {
    line.strip_prefix("## ").and_then(|rest| rest.split(' ').next()) == Some(title)
}

/// JSON for people too.
pub(crate) fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value).context("no JSON")? + "\n")
}

#[cfg(test)]
mod tests {
    use super::{notes, registry, same_version};

    /// Scenario: a changelog with a section of the version, and one without. Guarantee: the section
    /// alone, and it makes a release; otherwise what is not released yet, and it makes a trial.
    #[test]
    fn notes_are_the_versions_section() {
        let text = "# Changes\n## Unreleased\n- c\n## 0.2.0 - 2026-12-01\n- b\n\n## 0.1.0\n- a\n";
        let second = notes(text, "0.2.0").unwrap();
        assert_eq!((second.text.as_str(), second.is_final), ("- b", true));
        let third = notes(text, "0.3.0").unwrap();
        assert_eq!((third.text.as_str(), third.is_final), ("- c", false));
        assert!(notes("# Changes\n", "0.1.0").is_err());
    }

    /// Scenario: a release and a trial, with and without a registry named. Guarantee: a release is
    /// refused without one, and a trial names one that is nobody's.
    #[test]
    fn a_release_names_the_registry_that_it_goes_to() {
        let named = || Some("ghcr.io/team/".to_owned());
        assert_eq!(registry(named(), true).unwrap(), "ghcr.io/team");
        assert_eq!(registry(None, false).unwrap(), "registry.example.com");
        let refused = registry(None, true).unwrap_err().to_string();
        assert!(refused.contains("MILLRACE_RELEASE_REGISTRY"), "{refused}");
    }

    /// Scenario: a chart of another version. Guarantee: it is refused, and told which field.
    #[test]
    fn a_chart_of_another_version_is_refused() {
        assert!(same_version("version: 0.2.0\nappVersion: \"0.2.0\"\n", "0.2.0").is_ok());
        let refused = same_version("version: 0.2.0\nappVersion: 0.1.0\n", "0.2.0").unwrap_err();
        assert!(refused.to_string().contains("appVersion is \"0.1.0\""), "{refused}");
    }
}
