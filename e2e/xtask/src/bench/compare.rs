//! `xtask bench-compare`: builds the collector and its benchmarks of two commits and runs them in
//! turns, each with the harness of its own commit, so that a slow minute hits both.
//!
//! Each pair of runs gives one ratio for each figure: what B costs where A costs 1. A difference is
//! seen only when all pairs are on one side: with six pairs of equal programs that happens once in
//! 32 figures. A figure that is dearer by more than [`DEARER_MOST`], and seen to be, fails the run.
//! The same commit twice shows the machine's noise.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::build::commit::{self, Built, Wanted};
use crate::{say, shell};

/// What a change may cost at most, on any figure.
const DEARER_MOST: f64 = 0.05;
/// Fewer say nothing: five pairs of equal programs are on one side once in 16 figures.
const PAIRS_LEAST: usize = 5;

/// What is compared; every field may also be given as a variable, as `make` passes them on.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The commit that is compared with.
    #[arg(long, env = "A", default_value = "HEAD~1")]
    a: String,
    /// The commit that is judged.
    #[arg(long, env = "B", default_value = "HEAD")]
    b: String,
    /// Cases by name or group, parted by commas.
    #[arg(long, env = "CASE", default_value = "gateway-lean,gateway-rich,edge-grpc-gzip,stages")]
    case: String,
    /// Pairs of runs, at least five.
    #[arg(long, env = "PAIRS", default_value_t = 6)]
    pairs: usize,
}

/// What runs a commit's benchmarks.
const WANTED: Wanted = Wanted {
    folder: "compare",
    packages: &[
        &["-p", "millrace-bench", "-p", "millrace-ddl", "-p", "millrace-loadgen"],
        &["-p", "millrace-columns", "--example", "columns-bench"],
        &["-p", "millrace-collector", "--no-default-features", "--features", "system"],
    ],
    programs: &[
        "millrace-bench",
        "clickhouse-ddl",
        "millrace-loadgen",
        "millrace-collector",
        "examples/columns-bench",
    ],
    folders: &[],
};

/// Which figure: the words of its line, and its name.
type Key = (String, String);

/// Builds, runs, and says what was seen.
pub(crate) fn run(options: &Options) -> Result<()> {
    let pairs = options.pairs;
    ensure!(
        pairs >= PAIRS_LEAST,
        "PAIRS is {pairs}: write {PAIRS_LEAST} or more, since fewer show no difference"
    );
    let folder = commit::folder(WANTED.folder)?;
    let [a, b] = [&options.a, &options.b].map(|name| commit::built(name, &WANTED));
    let (a, b) = (a?, b?);
    let mut ratios: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for pair in 0..options.pairs {
        say::step(&format!("pair {} of {}: {}", pair + 1, options.pairs, options.case));
        // Who goes first changes, so that neither is always the one on a warm machine.
        let (of_a, of_b) = if pair.is_multiple_of(2) {
            let of_a = measured(&folder, &a, &options.case)?;
            (of_a, measured(&folder, &b, &options.case)?)
        } else {
            let of_b = measured(&folder, &b, &options.case)?;
            (measured(&folder, &a, &options.case)?, of_b)
        };
        for (key, cost) in of_b {
            let before = of_a.get(&key).filter(|before| **before > 0.0);
            let Some(before) = before else { continue };
            ratios.entry(key).or_default().push(cost / before);
        }
    }
    say::step(&format!("what {} costs where {} costs 1:", b.commit, a.commit));
    let mut dearer = Vec::new();
    for ((line, figure), ratios) in &ratios {
        let Some(seen) = Seen::of(ratios) else { continue };
        say::line(&format!("{seen}  {line} {figure}"));
        if seen.is_dearer() {
            dearer.push(format!("{line} {figure}"));
        }
    }
    ensure!(!ratios.is_empty(), "no figure is in the results of both commits");
    let most = DEARER_MOST * 100.0;
    ensure!(dearer.is_empty(), "more than {most} % dearer: {}", dearer.join("; "));
    Ok(())
}

/// One run of a commit's own harness: what each figure costs.
fn measured(folder: &Path, built: &Built, case: &str) -> Result<BTreeMap<Key, f64>> {
    let out = folder.join(format!("{}-run", built.commit));
    let program = built.programs.join("millrace-bench");
    let mut command = shell::command(&program.to_string_lossy(), &["--case", case]);
    command.arg("--out").arg(&out).env("MILLRACE_BIN_DIR", &built.programs);
    if std::env::var_os("RUNS").is_none() {
        command.env("RUNS", "3");
    }
    // The harness prints its lines too; they are read from its file.
    command.stdout(std::process::Stdio::null());
    shell::run_command(&mut command)?;
    let path = out.join("results.jsonl");
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let mut costs = BTreeMap::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line)
            .with_context(|| format!("{} has no line of results: {line}", path.display()))?;
        costs.extend(costs_of(&value));
    }
    if costs.is_empty() {
        bail!("{} has no figure by CPU time", path.display());
    }
    Ok(costs)
}

/// The figures of a line in yardsticks, as costs: a rate the other way round. A line without
/// yardsticks is of a commit before they were, and is left out.
fn costs_of(line: &Value) -> Vec<(Key, f64)> {
    let (Some(fields), Some(multiples)) = (line.as_object(), line["in_yardsticks"].as_object())
    else {
        return Vec::new();
    };
    let words = fields.iter().filter(|(name, _)| *name != "version");
    let words: Vec<&str> = words.filter_map(|(_, value)| value.as_str()).collect();
    let figures = multiples.iter().filter(|(name, _)| !name.ends_with("_range"));
    let cost = |(name, value): (&String, &Value)| {
        let value = value.as_f64().filter(|value| *value > 0.0)?;
        let is_rate = name.contains("_per_cpu_s") || name.contains("_per_thread_s");
        let cost = if is_rate { value.recip() } else { value };
        Some(((words.join(" "), name.clone()), cost))
    };
    figures.filter_map(cost).collect()
}

/// What all pairs say of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    least: f64,
    median: f64,
    most: f64,
}

impl Seen {
    /// `None` of no pairs.
    fn of(ratios: &[f64]) -> Option<Self> {
        let mut sorted = ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { least, median, most })
    }

    /// All pairs are on one side.
    fn is_different(self) -> bool {
        self.least > 1.0 || self.most < 1.0
    }

    fn is_dearer(self) -> bool {
        self.is_different() && self.median > 1.0 + DEARER_MOST
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { least, median, most } = *self;
        let verdict = match (self.is_different(), median > 1.0) {
            (false, _) => "no difference seen",
            (true, true) => "dearer",
            (true, false) => "cheaper",
        };
        write!(f, "{median:.3} ({least:.3} to {most:.3})  {verdict:18}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Seen, costs_of};
    use serde_json::json;

    /// Scenario: pairs on both sides, all a little dearer, all much dearer, all cheaper. Guarantee:
    /// only what all pairs agree on is called different, and only what is much dearer fails.
    #[test]
    fn a_difference_is_what_all_pairs_agree_on() {
        let seen = |ratios: &[f64]| Seen::of(ratios).unwrap();
        let noise = seen(&[0.9, 1.2, 1.3, 1.1, 1.2, 1.4]);
        assert!(!noise.is_different() && !noise.is_dearer());
        assert!(noise.to_string().contains("no difference seen"));
        let little = seen(&[1.01, 1.02, 1.03, 1.02, 1.01]);
        assert!(little.is_different() && !little.is_dearer());
        assert!(seen(&[1.04, 1.08, 1.07, 1.09, 1.06]).is_dearer());
        assert!(seen(&[0.9, 0.8, 0.7, 0.9, 0.9]).to_string().contains("cheaper"));
        assert_eq!(Seen::of(&[]), None);
    }

    /// Scenario: a line with a rate and a time, one without yardsticks. Guarantee: both are costs
    /// under the line's words; the other line gives nothing.
    #[test]
    fn rates_and_times_are_both_costs() {
        let line = json!({
            "case": "gateway-lean", "collector": "millrace", "version": "0.1.0", "runs": 3,
            "in_yardsticks": {
                "records_per_cpu_s": 16.0, "records_per_cpu_s_range": [15.0, 17.0], "ns": 0.5,
            },
        });
        let costs = costs_of(&line);
        let key = |name: &str| ("gateway-lean millrace".to_owned(), name.to_owned());
        assert_eq!(costs, [(key("ns"), 0.5), (key("records_per_cpu_s"), 1.0 / 16.0)]);
        assert!(costs_of(&json!({"case": "gateway-lean", "records_per_cpu_s": 3})).is_empty());
    }
}
