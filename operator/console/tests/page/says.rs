//! What pages say.

use millrace_console::list::{self, Filter, ListView};
use millrace_console::pipeline::{self, PipelineView};
use millrace_reports::{Summary, Verdict, summary};

use crate::fixture::{Fixture, fixture};

/// The fixture's page.
pub(crate) fn rendered(fixture: &Fixture, reloads: bool) -> String {
    let Fixture { facts, decisions, steps } = fixture;
    pipeline::page(&PipelineView {
        facts,
        decisions,
        steps,
        reloads,
        note: "millrace-operator test",
    })
}

/// A list with one pipeline in each state, whose texts `words` gives.
pub(crate) fn listed(words: &dyn Fn(&str) -> String, filter: &Filter) -> String {
    let mut troubled = summary(&fixture(words).facts.pipeline);
    troubled.name = words("prod");
    let row = |name: &str, verdict, reason: &str, loses| Summary {
        namespace: words("shop"),
        name: words(name),
        verdict,
        reason: words(reason),
        message: words("no operator has looked at the newest spec"),
        loses,
        lag_seconds: Some(1),
        ..troubled.clone()
    };
    let rows = [
        troubled.clone(),
        row("checkout", Verdict::Ready, "AsAsked", false),
        row("payments", Verdict::Ready, "AsAsked", true),
        row("search", Verdict::Unknown, "NotObserved", false),
    ];
    list::page(&ListView {
        filter,
        rows: &rows,
        matching: 1_204,
        all: 1_204,
        unreadable: &[(words("shop/broken"), words("invalid type: null, expected a string"))],
        note: "millrace-operator test",
    })
}

/// Scenario: a pipeline with a crashing gateway, lag, dead letters, a rollout, a plan that waits.
/// Guarantee: each part of the page says it: why it isn't Ready with what to do, rates and lag of
/// each hop, the judge's figures, decisions with inputs, reasons, statements, targets, gaps.
#[test]
fn a_pipeline_in_trouble_is_told_whole() {
    let page = rendered(&fixture(&str::to_owned), true);
    for part in [
        "Not ready",
        "PodCrashing",
        "read `kubectl millrace logs --previous`",
        "44,000/s",
        "41,000/s",
        "1 min 14 s",
        "max=\"120\" value=\"74.2\"",
        "The judge: Passed",
        "610,000",
        "HoldWindow",
        "GrowForBacklog",
        "too_long",
        "lost: retention deleted it unread",
        "ALTER TABLE `otel`.`otel_logs` DROP COLUMN IF EXISTS `Flags`",
        "name otel_logs.Flags in spec.consent",
        "9c1f0e7a2b44",
        "36 MiB",
        "207",
        "OOMKilled, exit code 137",
        "does not answer on its admin port",
        "http-equiv=\"refresh\"",
        "href=\"?still=1\"",
    ] {
        let found = page.contains(part);
        assert!(found, "{part} is not on the page:\n{page}");
    }
    assert!(!rendered(&fixture(&str::to_owned), false).contains("http-equiv"));
}

/// Scenario: nothing was read but the pipeline itself, once. Guarantee: a page that says what is not
/// known, without a rate, and without a zero in its place.
#[test]
fn what_is_not_known_is_not_zero() {
    let mut bare = fixture(&str::to_owned);
    bare.decisions.clear();
    bare.steps.clear();
    bare.facts.interval_seconds = None;
    bare.facts.pods.clear();
    bare.facts.gateways.clear();
    let page = rendered(&bare, true);
    assert!(page.contains("Rates need two readings"), "{page}");
    assert!(page.contains("?/s") && !page.contains("0/s"), "{page}");
    assert!(page.contains("No decision since"), "{page}");
}

/// Scenario: a list of more pipelines than a page has. Guarantee: each with its state, the troubled
/// ones with why, links to the next page that keep the filter, and to each pipeline.
#[test]
fn the_list_says_why_not_and_goes_on() {
    let filter = Filter::of("namespace=a%26b&name=&state=troubled&from=100&still=1");
    let expected = Filter {
        namespace: "a&b".to_owned(),
        troubled: true,
        from: 100,
        still: true,
        ..Filter::default()
    };
    assert_eq!(filter, expected);
    let page = listed(&str::to_owned, &filter);
    for part in [
        "href=\"pipelines/obs/prod\"",
        "Not ready",
        "Ready, with losses",
        "Not known",
        "keeps crashing",
        "lag 1 min 14 s (bound 1 min)",
        "namespace=a%26b&amp;name=&amp;state=troubled&amp;from=200",
        "from=0",
        "shop/broken can&#39;t be read",
    ] {
        let part = part.replace("can&#39;t", "can't");
        assert!(page.contains(&part), "{part} is not in the list:\n{page}");
    }
}
