//! Tests of the command line, and that docs/kubectl.md shows the tool's output.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{CommandFactory, Parser};
use millrace_crds::Reason;
use millrace_plugin::args::{Cli, Command};

use crate::plugin::support::golden_path;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Scenario: the complete command line. Guarantee: clap finds no contradiction in it, options may
/// follow the command, and errors about invalid values name the valid ones.
#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
    let parse = |line: &[&str]| Cli::try_parse_from([&["kubectl-millrace"][..], line].concat());
    let cli = parse(&["status", "prod", "-n", "obs", "-o", "json", "--context", "c"]).unwrap();
    assert_eq!(cli.cluster.namespace.as_deref(), Some("obs"));
    assert!(matches!(cli.command, Command::Status(_)));
    let error = parse(&["lag", "--interval", "soon"]).unwrap_err().to_string();
    assert!(error.contains("is not a number of seconds"), "{error}");
    assert!(parse(&["lag", "--interval", "61"]).is_err());
    for line in [["verify", "--records", "10001"], ["send", "--wait", "0"]] {
        assert!(parse(&line).is_err(), "{line:?}");
    }
    assert!(parse(&["uninstall"]).is_err(), "uninstall without --check must not be taken");
    assert!(parse(&["status", "prod", "-A"]).is_err());
    let tool = parse(&["dead-letters", "resend", "--reason", "truncated", "--dry-run"]).unwrap();
    assert!(format!("{tool:?}").contains("\"--reason\", \"truncated\", \"--dry-run\""), "{tool:?}");
}

/// Scenario: every reason of a condition. Guarantee: if it has a remedy, the remedy's section is a
/// heading of that page; the table of conditions compiles only if each has one or needs none.
#[test]
fn each_remedy_leads_to_a_section() {
    for reason in Reason::ALL {
        let Some(found) = reason.remedy() else { continue };
        let (page, anchor) = found.section.split_once('#').unwrap();
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let kept =
                text.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
            kept.collect::<String>().replace(' ', "-")
        });
        assert!(headings.collect::<BTreeSet<_>>().contains(anchor), "{reason}: {}", found.section);
    }
}

/// Scenario: the page about the tool. Guarantee: each output that it shows is one that a test
/// produced; of the sample records of rules it shows the first.
#[test]
fn the_page_shows_what_the_tool_prints() {
    let page = std::fs::read_to_string(root().join("docs/kubectl.md")).unwrap();
    for name in [
        "status-trouble.txt",
        "why.txt",
        "rollout-status.txt",
        "plan.txt",
        "send.txt",
        "verify.txt",
    ] {
        let text = std::fs::read_to_string(golden_path(name)).unwrap();
        assert!(page.contains(text.trim_end()), "docs/kubectl.md lacks what {name} has");
    }
    let text = std::fs::read_to_string(golden_path("rules-test.txt")).unwrap();
    let (first, others) = text.split_once("record 2").unwrap();
    let total = others.lines().last().unwrap();
    assert!(page.contains(&format!("{first}...\n{total}")), "docs/kubectl.md lacks {first}");
}
