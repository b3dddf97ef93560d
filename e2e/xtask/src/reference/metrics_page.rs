//! docs/reference/metrics.md: every metric with its labels and help text, read from the sources that
//! register them.
//!
//! It reads Rust as words, marks and texts, no more: a name, a comma, and a help text (or a constant
//! that has it) are a metric, and what follows in `&[...]` are its labels. Labels that don't stand there
//! are in `ELSEWHERE`; nobody notices if one is missing.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::shell;

/// Where the collector's metrics are registered, by their whole names, besides the files of
/// `is_source`.
pub(crate) const COLLECTOR: &[&str] = &[
    "collector/core/pipeline/src/telemetry.rs",
    "collector/rules/src/metrics.rs",
    "collector/sources/pods/src/watch.rs",
    "collector/sources/pods/src/namespaces.rs",
    "collector/sources/pods/src/share.rs",
];
/// Where those of both programs are, by their whole names.
const BOTH: &[&str] =
    &["collector/core/observe/src/process.rs", "collector/core/observe/src/otlp/mod.rs"];
/// Where the operator's are, each in the file that records it.
const OPERATOR: &str = "operator/src/";
/// How the names of the operator's begin.
pub(crate) const OPERATOR_PREFIX: &str = "millrace_operator_";
/// The folder of the sources' crates.
const SOURCES: &str = "collector/sources/";
const PAGE: &str = "docs/reference/metrics.md";
/// What makes histograms in these sources: those have `_bucket`, `_sum` and `_count`.
const HISTOGRAMS: [&str; 3] = ["histogram", "seconds", "Seconds"];
/// Labels that stand in what makes several metrics, or behind a name of its own.
const ELSEWHERE: [(&str, &[&str]); 6] = [
    ("millrace_build_info", &["version", "commit", "allocator"]),
    ("millrace_operator_build_info", &["version", "commit", "allocator"]),
    ("millrace_consumer_lag_seconds", &["topic", "partition"]),
    ("millrace_files_namespace_behind_bytes", &["writer_namespace"]),
    ("millrace_files_namespace_behind_seconds", &["writer_namespace"]),
    ("millrace_own_telemetry_total", &["what", "result"]),
];

/// Whether a file registers metrics of collectors, or of both programs: each source has its own in
/// `metrics.rs`.
pub(crate) fn is_collector(path: &str) -> bool {
    COLLECTOR.contains(&path) || BOTH.contains(&path) || is_source(path)
}

fn is_source(path: &str) -> bool {
    let below = path.strip_prefix(SOURCES).and_then(|path| path.strip_suffix("/src/metrics.rs"));
    below.is_some_and(|name| !name.contains('/'))
}

/// Whether a file may declare metrics of the operator.
pub(crate) fn is_operator(path: &str) -> bool {
    path.starts_with(OPERATOR) && path.ends_with(".rs") && !path.ends_with("/tests.rs")
}

/// The operator's files.
fn operator_files() -> Result<Vec<String>> {
    let listed = shell::output("git", &["ls-files", "--cached", "--others", OPERATOR])?;
    let files =
        listed.lines().filter(|path| is_operator(path) && shell::root().join(path).exists());
    Ok(files.map(str::to_owned).collect())
}

/// The files that register collectors' metrics.
fn collector_files() -> Result<Vec<String>> {
    let listed = shell::output("git", &["ls-files", "--cached", "--others", SOURCES])?;
    let sources =
        listed.lines().filter(|path| is_source(path) && shell::root().join(path).exists());
    Ok(COLLECTOR.iter().copied().chain(sources).map(str::to_owned).collect())
}

/// Writes the page.
pub(crate) fn write() -> Result<()> {
    let path = shell::root().join(PAGE);
    fs::write(&path, page()?).with_context(|| format!("cannot write {}", path.display()))
}

fn page() -> Result<String> {
    let mut page = String::from(
        "<!-- Generated from the sources by xtask; do not edit. -->\n# Metrics\n\n\
         Every metric with its help text. What they mean together, and alerts on them: \
         [observing](../observing.md#metrics).\n",
    );
    let both = BOTH.iter().map(|file| (*file).to_owned()).collect();
    for (title, sources, prefix) in [
        ("Of collectors", collector_files()?, ""),
        ("Of both programs", both, ""),
        ("Of the operator", operator_files()?, OPERATOR_PREFIX),
    ] {
        let mut found = BTreeMap::new();
        for source in &sources {
            for (name, metric) in metrics(&read(source)?) {
                if name.starts_with(prefix) {
                    let earlier = found.insert(name.clone(), metric);
                    ensure!(earlier.is_none(), "{name} is declared twice");
                }
            }
        }
        table(&mut page, title, &found)?;
    }
    Ok(page)
}

fn read(source: &str) -> Result<String> {
    let text = fs::read_to_string(shell::root().join(source)).with_context(|| source.to_owned())?;
    Ok(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned())
}

fn table(page: &mut String, title: &str, metrics: &BTreeMap<String, Metric>) -> Result<()> {
    ensure!(!metrics.is_empty(), "no metric found: {title}");
    write!(page, "\n## {title}\n\n| metric | labels | meaning |\n| --- | --- | --- |\n")?;
    for (name, Metric { labels, help, histogram }) in metrics {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let more = if *histogram { " A histogram." } else { "" };
        let help = help.replace('|', "\\|");
        writeln!(page, "| `{name}` | {} | {help}{more} |", labels.join(", "))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Metric {
    labels: Vec<String>,
    help: String,
    histogram: bool,
}

/// A piece of source.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Word(String),
    Mark(char),
}

use Piece::{Mark, Text, Word};

/// The metrics of one source, by name.
fn metrics(source: &str) -> Vec<(String, Metric)> {
    let pieces = pieces(source);
    let helps = constants(&pieces);
    let mut found = Vec::new();
    for (at, around) in pieces.windows(3).enumerate() {
        let (Text(name), Mark(',')) = (&around[0], &around[1]) else { continue };
        let help = match &around[2] {
            Text(help) => Some(help),
            Word(constant) => helps.get(constant.as_str()).copied(),
            Mark(_) => None,
        };
        let Some(help) = help.filter(|help| help.ends_with('.') && is_name(name)) else { continue };
        let makes = pieces[..at].iter().rev().find_map(|piece| match piece {
            Word(word) if word != "new" => Some(word.as_str()),
            _ => None,
        });
        let histogram = makes.is_some_and(|word| HISTOGRAMS.contains(&word));
        let elsewhere = ELSEWHERE.iter().find(|(known, _)| known == name);
        let labels = match elsewhere {
            Some((_, labels)) => labels.iter().map(|label| (*label).to_owned()).collect(),
            None => labels(&pieces, &pieces[at + 3..]),
        };
        found.push((name.clone(), Metric { labels, help: help.clone(), histogram }));
    }
    found
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Texts by the names of their constants.
fn constants(pieces: &[Piece]) -> BTreeMap<&str, &String> {
    let consts = pieces.windows(7).filter_map(|it| match it {
        [Word(word), Word(name), Mark(':'), Mark('&'), Word(_), Mark('='), Text(text)]
            if word == "const" =>
        {
            Some((name.as_str(), text))
        }
        _ => None,
    });
    consts.collect()
}

/// The labels after a help text: a list, or the name of one.
fn labels(all: &[Piece], after: &[Piece]) -> Vec<String> {
    let mut after = after.iter().skip_while(|piece| matches!(piece, Mark(')' | ',')));
    let first = after.next();
    let list: Vec<&Piece> = match first {
        Some(Mark('&')) => after.skip(1).collect(),
        Some(Mark('[')) => after.collect(),
        Some(Word(name)) => {
            let begins = [Word(name.clone()), Mark('='), Mark('&'), Mark('[')];
            let at = all.windows(begins.len()).position(|it| it == begins);
            at.map(|at| all[at + begins.len()..].iter().collect()).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let texts = list.into_iter().take_while(|piece| **piece != Mark(']'));
    let texts = texts.filter_map(|piece| match piece {
        Text(text) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

fn pieces(source: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("//") {
            rest = after.split_once('\n').map_or("", |(_, below)| below);
        } else if let Some(after) = rest.strip_prefix('"') {
            let (text, after) = text(after);
            pieces.push(Text(text));
            rest = after;
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            pieces.push(Word(word.to_owned()));
            rest = after;
        } else {
            if !first.is_whitespace() {
                pieces.push(Mark(first));
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    pieces
}

/// A text up to its closing quote, continued lines joined, and what follows.
fn text(source: &str) -> (String, &str) {
    let mut text = String::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '\\']) {
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if rest[at..].starts_with('"') {
            return (text, after);
        }
        rest = match after.strip_prefix('\n') {
            Some(below) => below.trim_start(),
            None => {
                text.extend(after.chars().next());
                after.get(1..).unwrap_or_default()
            }
        };
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::{ELSEWHERE, Metric, PAGE, metrics, page, read};
    use crate::shell;
    use anyhow::{Result, ensure};

    /// Scenario: metrics as the sources register them: with labels and without, a help text over two
    /// lines, one in a constant, labels with a name, a histogram; beside other texts. Guarantee: each
    /// with its labels and text, and nothing else.
    #[test]
    fn metrics_are_read_with_labels_and_help() {
        let source = r#"
            // gauge("a_comment", "Not one.")
            const HELP: &str = "By \"constant\".";
            let labels = &["pool", "table"];
            a: counters(
                "a_total",
                "All, \
                 counted.",
                &["reason", "signal"],
            )?,
            b: gauge("b", HELP)?, c: GaugeVec::new(Opts::new("c", "Named."), labels)?,
            d: seconds("millrace_build_info", "How long.")?, label("kind", "a"), "e",
            f: new(Opts::new("f", "Over lines.",), &["g"],)?,
            const H: Seconds<1> = Seconds::new("h", "Declared.", ["kind"]);
            const I: Gauge<0> = Gauge::new("i", "Declared, too.", []);
        "#;
        let found = metrics(source);
        let wanted: [(&str, &[&str], &str, bool); 7] = [
            ("a_total", &["reason", "signal"], "All, counted.", false),
            ("b", &[], "By \"constant\".", false),
            ("c", &["pool", "table"], "Named.", false),
            ("millrace_build_info", &["version", "commit", "allocator"], "How long.", true),
            ("f", &["g"], "Over lines.", false),
            ("h", &["kind"], "Declared.", true),
            ("i", &[], "Declared, too.", false),
        ];
        let wanted = wanted.map(|(name, labels, help, histogram)| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            (name.to_owned(), Metric { labels, help: help.to_owned(), histogram })
        });
        assert_eq!(found, wanted);
    }

    /// Scenario: a metric came, went or says something else, and nobody ran `make codegen`.
    /// Guarantee: this fails; so it does for a metric that is registered in another way than this
    /// file can read.
    #[test]
    fn the_page_has_every_metric() -> Result<()> {
        let page = page()?;
        let committed = std::fs::read_to_string(shell::root().join(PAGE))?;
        ensure!(committed == page, "{PAGE} is out of date: run `cargo xtask codegen`");
        for (name, _) in ELSEWHERE {
            ensure!(page.contains(&format!("| `{name}` |")), "there is no {name}");
        }
        let collector = super::collector_files()?.into_iter().map(|source| (source, "millrace_"));
        let operator = super::operator_files()?.into_iter();
        let operator = operator.map(|source| (source, super::OPERATOR_PREFIX));
        for (source, prefix) in collector.chain(operator) {
            let text = read(&source)?;
            let names = text.split('"').filter(|it| it.starts_with(prefix));
            for name in names.filter(|name| super::is_name(name)) {
                ensure!(page.contains(&format!("| `{name}` |")), "{name} of {source} isn't told");
            }
        }
        Ok(())
    }
}
