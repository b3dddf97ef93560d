//! Every commit since the release before, listed by git-cliff (`cliff.toml`): CHANGES.md, for who wants
//! to know what was done. What users notice is CHANGELOG.md, written by hand.
//!
//! Must not be the notes, or say what they say: of a commit it has the first line and the id alone.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::build::commit;
use crate::release::plan::{self, CHANGES_FILE, Plan};
use crate::tool::Tool;
use crate::{say, shell};

/// Without what asks forges and looks for newer versions: it has git alone.
pub(crate) const GIT_CLIFF: Tool = Tool {
    name: "git-cliff",
    version: "2.14.2",
    wheel: None,
    options: &["--no-default-features", "--bin", "git-cliff"],
    takes: "80 s",
};

/// Digits of a commit's id in the list.
const ID_DIGITS: usize = 12;

/// Writes the list into the release's folder.
pub(crate) fn write(plan: &Plan, git_cliff: &Path) -> Result<()> {
    let file = plan.folder.join(CHANGES_FILE);
    let mut args = vec!["--config", "cliff.toml", "--output"];
    let (output, range) = (file.to_string_lossy(), range()?);
    args.push(&output);
    args.extend(range.as_deref());
    shell::output(&git_cliff.to_string_lossy(), &args).map(drop)
}

/// That each commit since the release before is in the list once, but merges, and nothing else.
pub(crate) fn check(plan: &Plan) -> Result<()> {
    let range = range()?;
    let since = range.as_deref().unwrap_or("HEAD");
    let commits = shell::output("git", &["rev-list", "--no-merges", since])?;
    let wanted: Vec<&str> = commits.lines().filter_map(|id| id.get(..ID_DIGITS)).collect();
    let list =
        String::from_utf8(plan::read(&plan.folder.join(CHANGES_FILE))?).context(CHANGES_FILE)?;
    once(&wanted, &list)
        .with_context(|| format!("{CHANGES_FILE} doesn't have each commit once"))?;
    let before = range.as_deref().map_or("the first", |range| range.trim_end_matches("..HEAD"));
    say::step(&format!("{CHANGES_FILE}: {} commits since {before}, each once", wanted.len()));
    Ok(())
}

/// What git knows as the commits since the release before; none if this is the first one.
fn range() -> Result<Option<String>> {
    let before = commit::releases()?.pop();
    Ok(before.map(|tag| format!("{tag}..HEAD")))
}

/// That the list names each id of `wanted` once, and no other.
fn once(wanted: &[&str], list: &str) -> Result<()> {
    let mut times: BTreeMap<&str, usize> = wanted.iter().map(|id| (*id, 0)).collect();
    for line in list.lines().filter(|line| line.starts_with("- ")) {
        let id = line.rsplit_once(" (`").and_then(|(_, end)| end.strip_suffix("`)"));
        let id = id.with_context(|| format!("no commit's id at the end of {line:?}"))?;
        *times.get_mut(id).with_context(|| format!("{id} is no commit since then"))? += 1;
    }
    let odd: Vec<String> =
        times.iter().filter(|(_, n)| **n != 1).map(|(id, n)| format!("{id} {n} times")).collect();
    if !odd.is_empty() {
        bail!("{}", odd.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::once;

    /// Scenario: lists with each commit, without one, with one twice, with a stranger, and with a
    /// line of another form. Guarantee: the first alone passes, and the others name what is wrong.
    #[test]
    fn a_list_has_each_commit_once() {
        let wanted = ["0a", "0b"];
        once(&wanted, "# C\n\n## Docs\n\n- Docs: `a` (b) (`0b`)\n\n## Else\n\n- c (`0a`)\n")
            .unwrap();
        for (list, reason) in [
            ("- c (`0a`)\n", "0b 0 times"),
            ("- c (`0a`)\n- d (`0b`)\n- c (`0a`)\n", "0a 2 times"),
            ("- c (`0a`)\n- d (`0b`)\n- e (`0c`)\n", "0c is no commit"),
            ("- c\n", "no commit's id"),
        ] {
            let refused = once(&wanted, list).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
