//! Names in README.md and docs/*.md: paths, links, `make` targets, tasks with their arguments,
//! crates, tests and metrics must be in the tree. It judges names, never what is
//! said of them. Of pages below docs (generated from types, written by simulations, records of
//! measurements) and of those beside README.md only the links are judged.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::links::led_to;
use crate::reference::metrics_page::{self, OPERATOR_PREFIX};
use crate::shell;

/// Files whose words count as names in the tree.
const SOURCES: &[&str] = &["rs", "py", "toml", "yaml"];
/// A word with so many underscores is a name of ours: a test, a field, a setting. Shorter ones may
/// be other programs' (`otlp_proto`), unless they begin like a suite of tests.
const UNDERSCORES_MIN: usize = 2;

/// One line for each broken rule.
pub(super) fn broken_rules() -> Result<Vec<String>> {
    let listed = shell::output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let mut files = Vec::new();
    for path in listed.lines() {
        let full = shell::root().join(path);
        let kind = ending(path);
        let read = path == "Makefile" || kind == "md" || SOURCES.contains(&kind);
        if full.exists() {
            let text = match read {
                true => fs::read_to_string(&full).with_context(|| format!("cannot read {path}"))?,
                false => String::new(),
            };
            files.push((path.to_owned(), text));
        }
    }
    let tree = Tree::of(&files);
    let pages = files.iter().filter_map(|(path, text)| Some((path, text, judged(path)?)));
    Ok(pages.flat_map(|(path, text, what)| judge(&tree, path, text, what)).collect())
}

fn ending(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or_default()
}

/// What of a page is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// Names and links.
    All,
    Links,
}

fn judged(path: &str) -> Option<Judged> {
    let below = path.strip_prefix("docs/");
    match below {
        _ if ending(path) != "md" => None,
        Some(name) if name.contains('/') => Some(Judged::Links),
        Some(_) => Some(Judged::All),
        None if path.ends_with("README.md") => Some(Judged::All),
        None => (!path.contains('/')).then_some(Judged::Links),
    }
}

/// What there is to name.
#[derive(Debug, Default)]
struct Tree {
    paths: BTreeSet<String>,
    /// The first parts of paths: a word that begins with one and a slash is a path.
    tops: BTreeSet<String>,
    /// Of the Makefile.
    targets: BTreeSet<String>,
    /// Of `cargo xtask`.
    tasks: BTreeSet<String>,
    crates: BTreeSet<String>,
    /// How the names of end-to-end modules of tests begin.
    prefixes: BTreeSet<String>,
    words: HashSet<String>,
    metrics: BTreeSet<String>,
    /// Of each page, as links name them.
    headings: BTreeMap<String, BTreeSet<String>>,
}

impl Tree {
    fn of(files: &[(String, String)]) -> Self {
        let mut tree = Self::default();
        let tasks = crate::Args::command();
        tree.tasks.extend(tasks.get_subcommands().map(|task| task.get_name().to_owned()));
        for (path, text) in files {
            tree.add_path(path);
            match ending(path) {
                _ if path == "Makefile" => tree.targets.extend(targets(text)),
                "md" => {
                    let headings = outside_code(text).map(|(_, line)| line);
                    let headings = headings.filter(|line| line.starts_with('#')).map(anchor);
                    tree.headings.insert(path.clone(), headings.collect());
                }
                kind if SOURCES.contains(&kind) && !path.contains("xtask/src/check") => {
                    let names = words(text).filter(|word| word.contains('_'));
                    tree.words.extend(names.map(str::to_owned));
                }
                _ => {}
            }
            if path.ends_with("Cargo.toml") {
                let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
                tree.crates.extend(name.map(|name| name.trim_end_matches('"').to_owned()));
            }
            if metrics_page::is_collector(path) {
                tree.metrics.extend(quoted(text).map(str::to_owned));
            } else if metrics_page::is_operator(path) {
                let names = quoted(text).filter(|name| name.starts_with(OPERATOR_PREFIX));
                tree.metrics.extend(names.map(str::to_owned));
            }
        }
        tree
    }

    fn add_path(&mut self, path: &str) {
        if let Some((top, _)) = path.split_once('/') {
            self.tops.insert(top.to_owned());
        }
        let folders = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
        self.paths.extend(folders);
        self.paths.insert(path.to_owned());
        let Some((folder, name)) = path.rsplit_once("/tests/") else { return };
        let Some(name) = name.strip_suffix(".rs") else { return };
        let module = name.trim_end_matches("/mod");
        if !module.contains('/') {
            self.words.insert(module.to_owned());
            let prefix = module.split_once('_').filter(|_| folder == "e2e");
            self.prefixes.extend(prefix.map(|(prefix, _)| prefix.to_owned()));
        }
    }

    /// What is wrong with a word that may be a path.
    fn path(&self, word: &str) -> Option<String> {
        let word = word.trim_end_matches('.');
        let top = word.split_once('/').map(|(top, _)| top);
        let path = word.trim_end_matches('/');
        let known = match top {
            _ if word.contains('*') || stands_for_others(path) => true,
            Some(top) if self.tops.contains(top) => self.paths.contains(path),
            _ if ending(path) == "rs" && path != "rs" => {
                let end = format!("/{path}");
                self.paths.iter().any(|known| known.ends_with(&end))
            }
            _ => true,
        };
        (!known).then(|| format!("there is no {path}"))
    }

    /// What is wrong with a piece of code: commands and what they are given.
    fn command(&self, code: &str) -> Vec<String> {
        let parts: Vec<&str> = code.split_whitespace().collect();
        let pairs = parts.windows(2).filter_map(|pair| {
            let name = pair[1];
            let plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
            if !name.bytes().all(plain) || name.starts_with('-') {
                return None;
            }
            match pair[0] {
                "make" if !self.targets.contains(name) => {
                    Some(format!("make has no target {name}"))
                }
                "xtask" if !self.tasks.contains(name) => Some(format!("xtask has no task {name}")),
                "-p" if !self.crates.contains(name) => Some(format!("there is no crate {name}")),
                _ => None,
            }
        });
        let arguments = parts.iter().position(|part| *part == "xtask").and_then(|at| {
            let known = parts.get(at + 1).is_some_and(|task| self.tasks.contains(*task));
            known.then(|| refused(&parts[at..])).flatten()
        });
        let metrics = words(code).filter(|word| word.starts_with("millrace_"));
        let metrics = metrics.filter(|word| !self.is_metric(word) && !self.is_crate(word));
        let metrics = metrics.filter(|word| !self.is_recorded(code, word));
        let metrics = metrics.map(|word| format!("nothing registers the metric {word}"));
        pairs.chain(arguments).chain(metrics).collect()
    }

    fn is_metric(&self, word: &str) -> bool {
        let parts = ["", "_count", "_sum", "_bucket"];
        let mut families = parts.iter().filter_map(|part| word.strip_suffix(part));
        families.any(|family| self.metrics.contains(family))
    }

    /// Whether a counter stands in the name of what a rule records of it (`level:metric:operations`),
    /// which is without its ending.
    fn is_recorded(&self, code: &str, word: &str) -> bool {
        code.contains(&format!(":{word}:")) && self.metrics.contains(&format!("{word}_total"))
    }

    fn is_crate(&self, word: &str) -> bool {
        self.crates.contains(&word.replace('_', "-"))
    }

    /// What is wrong with a name in backticks.
    fn name(&self, code: &str) -> Option<String> {
        let name = code.split(['{', '(']).next().unwrap_or_default();
        let plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let (prefix, _) = name.split_once('_')?;
        let ours = name.matches('_').count() >= UNDERSCORES_MIN || self.prefixes.contains(prefix);
        let judged = ours && !prefix.is_empty() && prefix != "millrace" && name.bytes().all(plain);
        (judged && !self.words.contains(name)).then(|| format!("nothing has the name {name}"))
    }

    /// What is wrong with a link from a page.
    fn link(&self, page: &str, target: &str) -> Option<String> {
        if target.contains("://") {
            return None;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { page.to_owned() } else { led_to(page, file) };
        if !self.paths.contains(&path) {
            return Some(format!("a link leads to {path}, which isn't there"));
        }
        let known = self.headings.get(&path).is_some_and(|known| known.contains(heading));
        (!heading.is_empty() && !known).then(|| format!("{path} has no heading #{heading}"))
    }
}

/// What `cargo xtask` says to a task and its arguments; whether some are missing is not asked.
fn refused(words: &[&str]) -> Option<String> {
    let error = crate::Args::command().try_get_matches_from(words).err()?;
    let is_short = error.kind() == ErrorKind::MissingRequiredArgument;
    (!is_short && error.use_stderr()).then(|| format!("{}: {}", words.join(" "), error.kind()))
}

/// Targets are what a line of the Makefile begins with, before a colon.
fn targets(makefile: &str) -> impl Iterator<Item = String> + '_ {
    let names = makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
    names.filter(|name| !name.contains([' ', '.', '\t'])).map(str::to_owned)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Whether a part of a path is a word for many, such as `FILE` or `TARGET.tar`.
fn stands_for_others(path: &str) -> bool {
    let parts = path.split(['/', '.']).filter(|part| *part != "README");
    let mut long = parts.filter(|part| part.len() > 1);
    long.any(|part| part.bytes().all(|byte| byte.is_ascii_uppercase()))
}

/// What stands between double quotes, literals over several lines aside.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// A heading as a link names it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Lines with their numbers from 0, and whether each stands in a block of code; fences are left out.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        Some((number, line, fenced))
    })
}

fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    lines(text).filter(|(.., fenced)| !fenced).map(|(number, line, _)| (number, line))
}

/// Where the links of a line lead to.
pub(super) fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Everything that a page names and the tree hasn't.
fn judge(tree: &Tree, page: &str, text: &str, what: Judged) -> Vec<String> {
    let report = |number: usize, what: String| format!("{page}:{}: {what}", number + 1);
    let mut broken = Vec::new();
    for (number, line) in outside_code(text) {
        let found = links(line).filter_map(|target| tree.link(page, target));
        broken.extend(found.map(|what| report(number, what)));
    }
    if what == Judged::Links {
        return broken;
    }
    for (number, line, fenced) in lines(text) {
        let mut found: Vec<String> = Vec::new();
        let between = |c: char| c.is_whitespace() || "`()[]{}<>|,;:#\"'=".contains(c);
        found.extend(line.split(between).filter_map(|word| tree.path(word)));
        if fenced {
            let code = line.split(" #").next().unwrap_or_default();
            found.extend(tree.command(code));
        } else {
            for code in line.split('`').skip(1).step_by(2) {
                found.extend(tree.command(code));
                found.extend(tree.name(code));
            }
        }
        broken.extend(found.into_iter().map(|what| report(number, what)));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::{Judged, Tree, judge, judged};
    use crate::reference::metrics_page::COLLECTOR;

    fn tree() -> Tree {
        let files = [
            ("Makefile", "test: prerequisites ## Everything\n"),
            ("a/src/lib.rs", "//! x\nfn records_are_kept_in_order() {}\n"),
            ("a/Cargo.toml", "[package]\nname = \"millrace-a\"\n"),
            ("e2e/tests/path_whole.rs", "//! x\n"),
            ("docs/other.md", "# Other things, and `code`\n```sh\n# a remark\n```\n"),
            (COLLECTOR[0], "(\"millrace_records_total\", \"Records.\")\n"),
            (
                "operator/src/reconcile/metrics.rs",
                "Seconds::new(\"millrace_operator_queue_duration_seconds\", \"Waiting.\", [])\n",
            ),
        ];
        let files: Vec<_> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Tree::of(&files)
    }

    /// Scenario: a page that names what there is, and words that are names of nothing of ours.
    /// Guarantee: nothing is reported.
    #[test]
    fn names_of_what_there_is_pass() {
        let page = "See `a/src`, [that](other.md#other-things-and-code), \
                    docs/other.md#other-things-and-code, a/TARGET.tar, and src/lib.rs: \
                    `records_are_kept_in_order` in `path_whole`, `otlp_proto`, `make test FROM=a`, \
                    make it so; `millrace_records_total{kind}`, `millrace_a::thing`.\n\
                    ```\nmake test   # make what is missing\n\
                    cargo test -p millrace-a path_whole\ncargo xtask chaos --no-build\n\
                    rate(millrace_operator_queue_duration_seconds_count[5m])\n```\n";
        assert_eq!(judge(&tree(), "docs/page.md", page, Judged::All), Vec::<String>::new());
    }

    /// Scenario: names that are nowhere: a folder, a file, a target, a task, a suite, a crate, a
    /// test, metrics of both programs, a page, a heading. Guarantee: each is one report with its
    /// line.
    #[test]
    fn each_name_that_is_nowhere_is_told_with_its_line() {
        for line in [
            "in `a/gone/`",
            "manifests of a/gone.yaml.",
            "in a/README.md",
            "`gone.rs`",
            "`make gone`",
            "`cargo xtask gone`",
            "`cargo xtask chaos --gone`",
            "`cargo test -p millrace-gone`",
            "`records_are_kept_for_ever`",
            "`path_gone`",
            "`millrace_gone_total{kind}`",
            "`millrace_operator_gone`",
            "[that](gone.md)",
            "[that](other.md#gone)",
            "[that](other.md#a-remark)",
        ] {
            let page = format!("# Page\n{line}\n");
            let broken = judge(&tree(), "docs/page.md", &page, Judged::All);
            assert_eq!(broken.len(), 1, "{line}: {broken:?}");
            assert!(broken[0].starts_with("docs/page.md:2: "), "{broken:?}");
        }
    }

    /// Scenario: a record of measurements below docs, with a name that is nowhere and links that
    /// lead to a page, an image and a heading that aren't there. Guarantee: the links are reported,
    /// and the name is not.
    #[test]
    fn of_pages_below_docs_the_links_are_judged() {
        let text = "`millrace_gone_total` of [that](../other.md), not [this](../gone.md),\n\
                    ![a picture](gone.svg), [a heading](#gone)\n```\n[code](gone.md)\n```\n";
        let page = "docs/part/page.md";
        assert_eq!(judged(page), Some(Judged::Links));
        assert_eq!(judged("SECURITY.md"), Some(Judged::Links));
        assert_eq!(judged("docs/page.md"), Some(Judged::All));
        assert_eq!(judged("crds/src/part.md"), None);
        let broken = judge(&tree(), page, text, Judged::Links);
        let lines: Vec<_> = broken.iter().map(|line| line.split(": ").next()).collect();
        let at = |line| Some(format!("{page}:{line}"));
        assert_eq!(lines, [at(1).as_deref(), at(2).as_deref(), at(2).as_deref()], "{broken:?}");
    }
}
