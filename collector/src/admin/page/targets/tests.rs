//! Tests of the page of targets and its JSON.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use millrace_source_prometheus::{DroppedCounts, LastScrape, TargetState};

use super::*;

const NOW: u64 = 1_000_000_000_000;

fn target(number: usize, last: LastScrape) -> TargetView {
    TargetView {
        job: "node".into(),
        url: format!("http://n{number}:9100/metrics"),
        labels: vec![("env".into(), "production".into())],
        last,
    }
}

fn scraped() -> LastScrape {
    LastScrape {
        state: TargetState::Up,
        began_unix_millis: NOW - 4000,
        duration_seconds: 0.0123,
        samples: 1234,
        good_samples: Some(1234),
        series: 1200,
        next_unix_millis: NOW + 11_000,
        error: String::new(),
    }
}

fn view(targets: Vec<TargetView>) -> TargetsView {
    let job = JobView { name: "node".into(), up: targets.len() as u64, ..JobView::default() };
    let total = targets.len();
    TargetsView {
        now_unix_millis: NOW,
        from: 0,
        total,
        targets,
        jobs: vec![job],
        lists: Vec::new(),
        share: None,
    }
}

/// Scenario: a target that is up, one that is down, one that was not scraped yet; lists, one of
/// them unreadable; entries that aren't scraped. Guarantee: the page states each in words.
#[test]
fn the_page_says_what_is_scraped_and_what_is_not() {
    let down = LastScrape {
        state: TargetState::Down,
        error: "no complete answer within 10 s".into(),
        ..scraped()
    };
    let mut view = view(vec![
        target(1, scraped()),
        target(2, down),
        target(3, LastScrape { next_unix_millis: NOW + 1000, ..LastScrape::default() }),
    ]);
    view.jobs[0].down = 1;
    view.jobs[0].dropped = DroppedCounts {
        duplicate: 2,
        invalid: 1,
        example: "`x` is not a target".into(),
        ..DroppedCounts::default()
    };
    view.lists = vec![
        ListView {
            source: "/lists/a.json".into(),
            read_unix_millis: NOW - 65_000,
            ..ListView::default()
        },
        ListView {
            source: "http://lists/b".into(),
            error: "line 3: unknown field `x`".into(),
            ..ListView::default()
        },
    ];
    let page = render_page(&view);
    for part in [
        "http://n1:9100/metrics<div class=\"labels\">env=\"production\"</div>",
        "<td class=\"up\">up</td><td class=\"n\">4 s ago</td><td class=\"n\">12 ms</td>\
         <td class=\"n\">1,234</td><td class=\"n\">1,200</td><td class=\"n\">in 11 s</td>",
        "<div class=\"error\">no complete answer within 10 s</div>",
        "<td class=\"unknown\">unknown</td><td class=\"n\">never</td><td class=\"n\">–</td>",
        "Not scraped: 2 duplicate, 1 unusable, for example `x` is not a target",
        "<h2>Lists: 2 of 2</h2>",
        "http://lists/b<div class=\"error\">line 3: unknown field `x`</div>",
        "<td class=\"n\">1 min 5 s ago</td>",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(page.find("http://lists/b").unwrap() < page.find("/lists/a.json").unwrap());
    let nothing = super::render_page(&TargetsView::default());
    assert!(nothing.contains("This process scrapes nothing"), "{nothing}");
}

/// Scenario: markup in every text that others decide. Guarantee: the page escapes all of it, and
/// the JSON returns it unchanged.
#[test]
fn what_others_say_is_no_markup() {
    let evil = "<script>alert(1)</script>\"'&<b x=\n\u{0}";
    let mut view = view(vec![TargetView {
        job: evil.into(),
        url: evil.into(),
        labels: vec![(evil.into(), evil.into())],
        last: LastScrape { error: evil.into(), ..scraped() },
    }]);
    view.jobs[0].name = evil.into();
    view.jobs[0].dropped =
        DroppedCounts { invalid: 1, example: evil.into(), ..DroppedCounts::default() };
    view.lists = vec![ListView {
        job: evil.into(),
        source: evil.into(),
        error: evil.into(),
        ..ListView::default()
    }];
    let page = render_page(&view);
    assert!(!page.contains("<script") && !page.contains("<b x"), "{page}");
    assert_eq!(page.matches("&lt;script&gt;").count(), 10, "{page}");
    let json: Value = serde_json::from_str(&super::render_json(&view)).unwrap();
    assert_eq!(json["targets"][0]["labels"][evil], evil);
    assert_eq!(json["lists"][0]["error"], evil);
    assert_eq!(json["jobs"][0]["dropped"]["example"], evil);
}

/// Scenario: a target that is up and one that was not scraped. Guarantee: the documented shape,
/// with null for unknown values.
#[test]
fn json_has_the_documented_shape() {
    let view = view(vec![target(1, scraped()), target(2, LastScrape::default())]);
    let value: Value = serde_json::from_str(&render_json(&view)).unwrap();
    assert_eq!(value["nowUnixMillis"], NOW);
    assert_eq!(
        (&value["from"], &value["total"], &value["next"]),
        (&json!(0), &json!(2), &Value::Null)
    );
    assert_eq!(
        value["targets"][0],
        json!({
            "job": "node", "url": "http://n1:9100/metrics", "labels": {"env": "production"},
            "state": "up", "scrapedUnixMillis": NOW - 4000, "durationSeconds": 0.0123,
            "samples": 1234, "series": 1200, "nextUnixMillis": NOW + 11_000, "error": null,
        })
    );
    assert_eq!(value["targets"][1]["state"], "unknown");
    assert_eq!(value["targets"][1]["samples"], Value::Null);
}

/// Scenario: parts of many targets, with short labels and with the longest. Guarantee: each part is
/// bounded and has the start of the next, and together they are all targets.
#[test]
fn parts_are_bounded_and_complete() {
    let long = LastScrape { error: "<".repeat(300), ..scraped() };
    let mut all: Vec<_> = (0..3000).map(|number| target(number, long.clone())).collect();
    for target in &mut all {
        target.labels = vec![("l".into(), "<".repeat(4000))];
    }
    let (mut from, mut seen) = (0, Vec::new());
    loop {
        let targets = all[from..].iter().take(JSON_MAX).cloned().collect();
        let part = TargetsView { from, total: all.len(), ..view(targets) };
        let text = render_json(&part);
        assert!(text.len() < BYTES_MAX + 40_000, "{}", text.len());
        let value: Value = serde_json::from_str(&text).unwrap();
        let urls = value["targets"].as_array().unwrap().iter();
        seen.extend(urls.map(|target| target["url"].as_str().unwrap().to_owned()));
        match value["next"].as_u64() {
            Some(next) => from = usize::try_from(next).unwrap(),
            None => break,
        }
    }
    assert!(seen.iter().eq(all.iter().map(|target| &target.url)));
    let targets = all[400..].iter().take(ROWS_MAX).cloned().collect();
    let part = render_page(&TargetsView { from: 400, total: all.len(), ..view(targets) });
    assert!(part.len() < BYTES_MAX + 60_000, "{}", part.len());
    assert!(part.contains("Targets 401 to ") && part.contains("of 3000."), "{part:.2000}");
    assert!(part.contains("href=\"/targets?from=200\""));
}

/// Scenario: queries of every form. Guarantee: a number or 0.
#[test]
fn the_beginning_is_read_from_the_query() {
    for (query, expected) in
        [("", 0), ("from=7", 7), ("a=b&from=9", 9), ("from=-1", 0), ("from=", 0)]
    {
        assert_eq!(parse_from(query), expected, "{query}");
    }
}

/// Scenario: targets come from a share: none is assigned yet; one is being applied while the API
/// server is down. Guarantee: page and JSON state the version and the problem.
#[test]
fn the_page_says_which_version_of_the_share_is_scraped() {
    let mut view = view(Vec::new());
    view.jobs.clear();
    view.share = Some(ShareView::default());
    assert!(render_page(&view).contains("the operator has not written yet"));
    assert!(!render_page(&view).contains("scrapes nothing"));
    let fault = "cannot reach the API server: <refused>".to_owned();
    view.share = Some(ShareView { read: Some(8), version: Some(7), entries: 2, fault });
    let text = render_page(&view);
    assert!(text.contains("version 8, entries 2. Scrapes of removed targets are ending."));
    assert!(text.contains("&lt;refused&gt;"), "{text}");
    let value: Value = serde_json::from_str(&render_json(&view)).unwrap();
    assert_eq!(value["share"]["read"], 8);
    assert_eq!(value["share"]["version"], 7);
}
