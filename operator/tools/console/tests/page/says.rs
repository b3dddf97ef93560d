//! Tests of the pages' content.

use millrace_console::list::{self, Filter, ListView};
use millrace_console::pipeline::{self, PipelineView};
use millrace_reports::{DeadLetterReport, ProducerReport, ReadyState, Summary, summarize_pipeline};

use crate::page::fixture::{Fixture, fixture};

/// Renders the fixture's page.
pub(crate) fn rendered(fixture: &Fixture, reloads: bool) -> String {
    let Fixture { facts, decisions, steps, day, events, producers, dead_letters, links } = fixture;
    pipeline::render_pipeline(&PipelineView {
        facts,
        decisions,
        steps,
        day,
        events,
        producers,
        dead_letters: dead_letters.as_ref(),
        links,
        reloads,
        footer: "millrace-operator test",
    })
}

/// Renders a list with one pipeline in each state, whose texts `words` returns.
pub(crate) fn listed(words: &dyn Fn(&str) -> String, filter: &Filter) -> String {
    let mut troubled = summarize_pipeline(&fixture(words).facts.pipeline);
    troubled.name = words("prod");
    let row = |name: &str, verdict, reason: &str, loses| Summary {
        namespace: words("shop"),
        name: words(name),
        verdict,
        reason: words(reason),
        message: words("the newest spec is not observed yet"),
        loses,
        lag_seconds: Some(1),
        ..troubled.clone()
    };
    let rows = [
        troubled.clone(),
        row("checkout", ReadyState::Ready, "Reconciled", false),
        row("payments", ReadyState::Ready, "Reconciled", true),
        row("search", ReadyState::Unknown, "NotObserved", false),
    ];
    list::render_list(&ListView {
        filter,
        rows: &rows,
        matching: 1_204,
        all: 1_204,
        unreadable: &[(words("shop/broken"), words("invalid type: null, expected a string"))],
        footer: "millrace-operator test",
    })
}

/// Scenario: a pipeline with a crashing gateway, lag, routes, dead letters, a rollout, a waiting
/// plan. Guarantee: the page has each part: why it isn't Ready with what to do, rates and lag of
/// each hop, who reads each route, figures of the analysis, decisions with inputs, reasons, statements, targets, gaps.
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
        "TelemetryPipeline audit/audit",
        "1,861,003",
        "no GatewayPool reads the topic",
        "lag: 14 s over the bound of 1 min",
        "<dd class=\"badink\">1 min 14 s</dd>",
        "Verdict: Passed",
        "610,000",
        "HoldWindow",
        "GrowForBacklog",
        "2 of 3 edge pods",
        "9.6 MiB/s",
        "77.7 %",
        "too_long",
        "lost: retention deleted it unread",
        "<td>30 min ago</td><td>otlp_logs_dead_letter</td>",
        "ALTER TABLE `otel`.`otel_logs` DROP COLUMN IF EXISTS `Flags`",
        "list otel.otel_logs.Flags in consent",
        "9c1f0e7a2b44",
        "36 MiB",
        "207",
        "OOMKilled, exit code 137",
        "does not answer on its admin port",
        "Last 24 hours",
        "gateway pods: 3",
        "back-off restarting failed container",
        "<summary>3 pods, 2 ready</summary>",
        "href=\"https://grafana.example/d/millrace-pipelines?var-namespace=obs&amp;var-pool=prod\"",
        "href=\"https://ch.example/play#SELECT%20*%20FROM%20otel.otel_logs\"",
        "http-equiv=\"refresh\"",
        "href=\"?still=1\"",
    ] {
        let found = page.contains(part);
        assert!(found, "{part} is not on the page:\n{page}");
    }
    assert!(!rendered(&fixture(&str::to_owned), false).contains("http-equiv"));
}

/// Scenario: a pipeline whose status has the documentation's address, none, and one that is no web
/// page. Guarantee: a remedy links to its section of that release; the last two have no link.
#[test]
fn a_remedy_links_to_the_documentation_of_its_release() {
    let page_of = |url: Option<&str>| {
        let mut fixture = fixture(&str::to_owned);
        let status = fixture.facts.pipeline.status.as_mut().unwrap();
        status.documentation_url = url.map(str::to_owned);
        rendered(&fixture, false)
    };
    let page = page_of(Some("https://docs.example/millrace/0.1.0/"));
    let link = "href=\"https://docs.example/millrace/0.1.0/troubleshooting.html#not-ready\"";
    assert!(page.contains(link), "{page}");
    for url in [None, Some("javascript:alert(1)//")] {
        let page = page_of(url);
        assert!(!page.contains("javascript:") && !page.contains("#not-ready\""), "{page}");
        assert!(page.contains("docs/troubleshooting.md#not-ready"), "{page}");
    }
}

/// Returns the page's cards of problems, each with its first words.
fn cards(page: &str) -> Vec<&str> {
    let problems = page.split("<h2 id=\"problems\">").nth(1).unwrap();
    let problems = problems.split("<h2>").next().unwrap();
    let cards = problems.split("<li class=\"state ").skip(1);
    cards.map(|card| card.split("<b>").nth(1).unwrap().split("</b>").next().unwrap()).collect()
}

/// Scenario: a new image that no registry has, in three pools, whose messages name other pods; a
/// column that waits for consent, in four conditions. Guarantee: one card for each, below the path
/// of records; advice is folded, what is broken is not.
#[test]
fn each_cause_is_one_card_below_the_path() {
    let mut bad = fixture(&str::to_owned);
    let image = "registry.example/millrace/collector:9.9.9-system";
    let pull = |pod: &str| format!("pod {pod}: its image can't be pulled; see its events");
    let not_ready = |message: String| {
        let condition = |type_: &str| {
            serde_json::json!({"type": type_, "status": "False", "reason": "ImagePullFailed",
                "message": message, "lastTransitionTime": "2026-11-26T11:50:00Z",
                "observedGeneration": 3})
        };
        serde_json::from_value(serde_json::json!([condition("PodsReady"), condition("Ready")]))
    };
    for edge in &mut bad.facts.edges {
        let status = edge.status.as_mut().unwrap();
        let message = pull(&format!("{}-edge-try-4f", edge.metadata.name.as_deref().unwrap()));
        let text = format!("no pod was changed to {image} with config-1: {message}");
        status.conditions = not_ready(text).unwrap();
        let change = serde_json::json!({"stage": "Rejected", "reason": "ImagePullFailed",
            "message": message, "image": image, "configMap": "config-1", "digest": "d1",
            "since": "2026-11-26T11:50:00Z"});
        status.pending_change = Some(serde_json::from_value(change).unwrap());
    }
    let status = bad.facts.gateways[0].status.as_mut().unwrap();
    let rollout = status.rollout.as_mut().unwrap();
    rollout.reason = "ImagePullFailed".to_owned();
    rollout.message = pull("prod-gateway-try-77");
    rollout.after.image = image.to_owned();
    let text = format!("{image} was rolled back: ImagePullFailed: {}", rollout.message);
    for condition in &mut status.conditions[..2] {
        condition.reason = "RolledBack".to_owned();
        condition.message.clone_from(&text);
    }
    let ready = &mut bad.facts.pipeline.status.as_mut().unwrap().conditions[0];
    ready.reason = "RolledBack".to_owned();
    ready.message = format!("GatewayPool prod: {text}");
    let page = rendered(&bad, true);
    assert_eq!(
        cards(&page),
        ["ConsentRequired", "ImagePullFailed", "RecordsDeadLettered", "ConnectionUnencrypted"]
    );
    assert!(
        page.contains("EdgePool prod-clients, EdgePool prod-nodes, GatewayPool prod"),
        "{page}"
    );
    let order = ["Path of records", "id=\"problems\"", "<h2>Rollouts", "<h2>Tables"];
    assert!(order.map(|part| page.find(part).unwrap()).is_sorted(), "{page}");
    for (fold, word) in [("<details open>", "Broken"), ("<details>", "Advice")] {
        let ink = if word == "Advice" { "warnink" } else { "badink" };
        assert!(page.contains(&format!("{fold}<summary><b class=\"{ink}\">{word}</b>")), "{page}");
    }
}

/// Returns the page's part about records that were not stored.
fn unstored_part(page: &str) -> &str {
    let part = page.split("<h2>Rejected, dead-lettered, lost</h2>").nth(1).unwrap();
    part.split("<h2>").next().unwrap()
}

/// Scenario: a page without dead letters opened, with them, and with none reported. Guarantee: the
/// first has only the link; the second lists each with time, reason, size and both positions, the
/// newest first; the third states that there are none.
#[test]
fn dead_letters_are_listed_when_they_are_opened() {
    let mut fixture = fixture(&str::to_owned);
    let page = rendered(&fixture, false);
    let opened = unstored_part(&page);
    let row = |stored: &str, reason: &str, position: &str, source: &str| {
        format!(
            "<td>{stored} ago</td><td>logs</td><td>{reason}</td><td class=\"n\">640 B</td>\
             <td>otlp_logs_dead_letter {position}</td><td>otlp_logs {source}</td>"
        )
    };
    let rows = [
        row("30 min", "malformed", "7:154", "3:86410"),
        row("30 min", "too_long", "7:155", "3:86405"),
        row("31 min", "malformed", "7:?", "3:86350"),
    ];
    let found = rows.map(|row| opened.find(&row).unwrap_or_else(|| panic!("{row}: {opened}")));
    assert!(found.is_sorted(), "{opened}");
    assert!(opened.contains("2 of 3 pods reported"), "{opened}");
    fixture.dead_letters = Some(DeadLetterReport::default());
    assert!(unstored_part(&rendered(&fixture, false)).contains("None reported"));
    fixture.dead_letters = None;
    let page = rendered(&fixture, true);
    let closed = unstored_part(&page);
    assert!(closed.contains("href=\"?dead-letters=1#dead-letters\""), "{closed}");
    assert!(!closed.contains("otlp_logs_dead_letter 7:"), "{closed}");
}

/// Scenario: only the pipeline itself was read, once. Guarantee: the page states what is unknown,
/// without a rate, and without a zero in its place.
#[test]
fn what_is_not_known_is_not_zero() {
    let mut bare = fixture(&str::to_owned);
    bare.decisions.clear();
    bare.steps.clear();
    bare.day.clear();
    bare.events.clear();
    bare.producers = ProducerReport::default();
    bare.dead_letters = None;
    bare.facts.interval_seconds = None;
    bare.facts.pods.clear();
    bare.facts.gateways.clear();
    let page = rendered(&bare, true);
    assert!(page.contains("Rates need two readings"), "{page}");
    assert!(page.contains("?/s") && !page.contains("0/s"), "{page}");
    assert!(!page.contains("producers"), "{page}");
    assert!(page.contains("No decision since"), "{page}");
    assert!(page.contains("History begins when") && page.contains("None in the last hour"));
}

/// Scenario: a list of more pipelines than a page has. Guarantee: each with its state, the troubled
/// ones with the reason, links to the next page that retain the filter, and to each pipeline.
#[test]
fn the_list_says_why_not_and_goes_on() {
    let filter = Filter::from_query("namespace=a%26b&name=&state=troubled&from=100&still=1");
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
        "Unknown",
        "keeps crashing",
        "<b class=\"badink\">lag 1 min 14 s, over the bound of 1 min</b>",
        "namespace=a%26b&amp;name=&amp;state=troubled&amp;from=200",
        "from=0",
        "shop/broken can&#39;t be read",
    ] {
        let part = part.replace("can&#39;t", "can't");
        assert!(page.contains(&part), "{part} is not in the list:\n{page}");
    }
}
