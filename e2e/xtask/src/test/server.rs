//! The suites of tables and inserts against ClickHouse servers by address, which
//! `millrace_stack::clickhouse` gives to tests instead of an engine of their own.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};
use millrace_stack::clickhouse::{MET_VARIABLE, NOT_HERE, SERVER_VARIABLE};

use super::summary::Outcome;
use super::{ANY, nextest};
use crate::{say, shell};

const SUITES: &str = "package(millrace-e2e) & test(/^(tables|ingest|replicated)::/)";

/// Which servers, and what of the suites.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Address of an empty server, such as http://user:password@host:8123; several run one after
    /// the other.
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Only tests whose path contains this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// Runs the suites on each server, one test at a time, and says which versions and engines they
/// met.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { urls, only } = options;
    nextest::compile()?;
    let filter = match only {
        Some(only) => format!("{SUITES} & test({only})"),
        None => SUITES.to_owned(),
    };
    let mut failed = BTreeSet::new();
    for url in urls {
        let place = url.rsplit('@').next().unwrap_or(url).trim_start_matches("http://");
        say::step(&format!("ClickHouse at {place}"));
        let met = shell::root().join("target/test-server.met");
        let _ = fs::remove_file(&met);
        let file = met.to_string_lossy().into_owned();
        let selection = nextest::Selection {
            filter: Some(filter.clone()),
            variables: &[(SERVER_VARIABLE, url), (MET_VARIABLE, &file)],
            ..nextest::Selection::at_a_time(ANY, 1)
        };
        let ran = nextest::run(&selection)?;
        let report = fs::read_to_string(nextest::report_path(ANY));
        let elsewhere = not_here(&report.context("the runner left no report")?);
        let is_failure = |name: &str| !elsewhere.contains(name);
        let names = ran.iter().filter(|test| test.outcome == Outcome::Failed);
        let names: Vec<&str> = names.map(|test| test.name.as_str()).collect();
        let of_server: Vec<&str> = names.iter().copied().filter(|name| is_failure(name)).collect();
        for line in met_lines(&fs::read_to_string(&met).unwrap_or_default()) {
            say::line(&format!("{place}: {line}"));
        }
        say::line(&format!(
            "{place}: {} passed, {} failed, {} need an engine that they start themselves",
            ran.len() - names.len(),
            of_server.len(),
            names.len() - of_server.len(),
        ));
        failed.extend(of_server.into_iter().map(|name| format!("{name} on {place}")));
    }
    for name in &failed {
        say::line(&format!("FAILED {name}"));
    }
    match failed.len() {
        0 => Ok(()),
        count => bail!("{count} tests failed"),
    }
}

/// The failed tests of a JUnit report that can't run on a server by address.
fn not_here(report: &str) -> BTreeSet<String> {
    let cases = report.split("<testcase ").skip(1).filter(|case| case.contains(NOT_HERE));
    let name = |case: &str| Some(case.split_once("name=\"")?.1.split_once('"')?.0.to_owned());
    cases.filter_map(name).collect()
}

/// Each version with the engines that tests met there.
fn met_lines(met: &str) -> Vec<String> {
    let lines: BTreeSet<(&str, &str)> =
        met.lines().filter_map(|line| line.split_once('\t')).collect();
    let versions: BTreeSet<&str> = lines.iter().map(|(version, _)| *version).collect();
    let of_version = |version: &str| {
        let engines = lines.iter().filter(|(of, _)| *of == version).map(|(_, engine)| *engine);
        format!("ClickHouse {version}: {}", engines.collect::<Vec<_>>().join(", "))
    };
    versions.into_iter().map(of_version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a report of a test that passed, one that can't run there and one that failed.
    /// Guarantee: only the second is told from failures.
    #[test]
    fn tests_that_need_their_own_engine_are_no_failures() {
        let report = format!(
            "<testcase name=\"a\" classname=\"x\" time=\"1\"></testcase>\n\
             <testcase name=\"b\" classname=\"x\" time=\"1\"><failure>{NOT_HERE}: it has no \
             Keeper</failure></testcase>\n\
             <testcase name=\"c\" classname=\"x\" time=\"1\"><failure>no</failure></testcase>"
        );
        assert_eq!(not_here(&report).into_iter().collect::<Vec<_>>(), ["b"]);
    }

    /// Scenario: what several tests met, twice over. Guarantee: a line for each version.
    #[test]
    fn what_was_met_is_said_once_for_each_version() {
        let met = "26.9.2.1\tMergeTree\n26.9.2.1\tdatabase Atomic\n26.9.2.1\tMergeTree\n\
                   25.8.1.1\tLog\n";
        let expected =
            ["ClickHouse 25.8.1.1: Log", "ClickHouse 26.9.2.1: MergeTree, database Atomic"];
        assert_eq!(met_lines(met), expected);
    }
}
