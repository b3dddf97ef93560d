//! The console as a person uses it, in Chromium: the operator's port forwarded by kubectl, a pipeline
//! with load, dead letters, a change that was taken back and a plan that waits. By mouse, by keyboard,
//! in the dark, at 400 pixels; with pictures.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_e2e::browser::Browser;
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{EDGE, NAME, Pipeline, Wish, resources};
use millrace_e2e::{binaries, console, http, wait};
use millrace_stack::Stack;
use serde_json::{Value, json};

/// A canary is tried, found without an image and taken back within three minutes.
const LIMIT: Duration = Duration::from_secs(240);
/// What flows meanwhile, in spans a second, and more of them than the test takes.
const RATE: u64 = 500;
const SPANS: u64 = RATE * 1_200;
/// As wide as a desk's window, and as a telephone's.
const WIDE: u32 = 1_280;
const NARROW: u32 = 400;
/// The top of a page: pictures in a repository are to be small.
const PICTURE_HEIGHT_MAX: u32 = 1_700;
/// Places that take the keyboard on a page of one pipeline: links, folds, tables, statements.
const TABS_MAX: usize = 80;
/// A log record that the table is made to refuse.
const NEVER: &str = "never stored";

/// The sections of a pipeline's page that this pipeline fills, from top to bottom.
const SECTIONS: [&str; 12] = [
    "Path of records",
    "Problems",
    "Last 24 hours",
    "Resources",
    "Events",
    "Rollouts",
    "Number of gateways",
    "Sizing over time",
    "Rejected, dead-lettered, lost",
    "Tables",
    "Targets and files",
    "Pods",
];

/// One pool for clients, one for nodes' logs, one that scrapes the operator.
fn edges() -> Value {
    let resources = resources();
    json!([
        {"name": "clients", "replicas": 1, "resources": resources},
        {"name": "nodes", "mode": "DaemonSet", "resources": resources,
            "receivers": {"containers": {"startAt": "End"}}},
        {"name": "scraper", "replicas": 1, "resources": resources, "receivers": {"prometheus": {
            "jobs": [{"name": "operator", "targets": ["millrace-operator-metrics.millrace-system:8080"],
                "intervalSeconds": 5, "timeoutSeconds": 5}]}}},
    ])
}

/// Has a record refused by its table, which gateways keep as a dead letter.
fn set_one_aside(stack: &Stack, cluster: &Cluster, pipeline: &Pipeline<'_>) {
    let refuse = format!("ALTER TABLE DATABASE.otel_logs ADD CONSTRAINT c CHECK Body != '{NEVER}'");
    pipeline.query(stack, &refuse).unwrap();
    let service =
        cluster.get(&pipeline.namespace.name, "service", &format!("{EDGE}-edge")).unwrap();
    let address = service["spec"]["clusterIP"].as_str().unwrap().parse::<Ipv4Addr>().unwrap();
    let record = json!({"body": {"stringValue": NEVER}});
    let request = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).to_string();
    let kind = [("content-type", "application/json")];
    let answer =
        http::send((address, 4318).into(), "POST", "/v1/logs", &kind, request.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Asks for an image that no node has, and for spans that are kept for a day: the first is taken
/// back, the second deletes rows and waits for consent.
fn ask_for_trouble(cluster: &Cluster, pipeline: &mut Pipeline<'_>) {
    pipeline.change(|wish| wish.version = Some("9.9.9")).unwrap();
    let namespace = pipeline.namespace.name.clone();
    wait::until("the bad image to be taken back", LIMIT, || {
        let pool = cluster.get(&namespace, "gatewaypool", NAME)?;
        let rollout = &pool["status"]["rollout"];
        ensure!(rollout["stage"] == "RolledBack", "{rollout}");
        Ok(())
    })
    .unwrap();
    let patch = json!({"spec": {"signals": {"traces": {"table": {"ttl": "1d"}}}}}).to_string();
    let name = format!("telemetrypipeline/{NAME}");
    cluster.kubectl(&["-n", &namespace, "patch", &name, "--type=merge", "-p", &patch]).unwrap();
    wait::until("a plan that waits", LIMIT, || {
        let schemas = cluster.list(&namespace, "telemetryschema", "")?;
        let waits = schemas.iter().any(|it| it["status"]["planPending"][0].is_string());
        ensure!(waits, "{schemas:?}");
        Ok(())
    })
    .unwrap();
}

/// Where pictures go.
fn pictures() -> PathBuf {
    let writes = std::env::var_os("PICTURES").is_some_and(|word| word == "write");
    let folder = match writes {
        true => binaries::root().join("docs/console"),
        false => binaries::target().join("console"),
    };
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// From the list to the pipeline without a mouse: the filter is written, the link is followed.
fn by_keyboard(browser: &mut Browser, list: &str, namespace: &str) -> Result<()> {
    browser.open(list)?;
    browser.key("Tab")?;
    let skip = browser.text("document.activeElement.textContent")?;
    ensure!(skip == "To the content", "the first Tab leads to {skip:?}");
    browser.tab_to("it.name === 'namespace'", 5)?;
    browser.write(namespace)?;
    browser.key("Enter")?;
    browser.arrived(&format!("?namespace={namespace}"))?;
    browser.tab_to(&format!("it.matches('a[href*=\"pipelines/{namespace}/\"]')"), 10)?;
    let outline = browser.text("getComputedStyle(document.activeElement).outlineStyle")?;
    ensure!(outline == "solid", "the focus is not seen: {outline}");
    browser.key("Enter")?;
    browser.arrived(&format!("/pipelines/{namespace}/{NAME}"))
}

/// All that scrolls by itself takes the keyboard.
fn reaches_all(browser: &mut Browser) -> Result<()> {
    browser.tab_to("it.textContent === 'Auto-refresh'", TABS_MAX)?;
    for region in ["Rejected, dead-lettered, lost", "Pods"] {
        let wanted = format!("it.getAttribute('aria-label') === {}", json!(region));
        browser.tab_to(&wanted, TABS_MAX).with_context(|| region.to_owned())?;
    }
    Ok(())
}

/// Nothing of the page is beyond its window, and letters are seen on its ground.
fn fits(browser: &mut Browser, width: u32, is_dark: bool) -> Result<()> {
    let wide = browser.value("document.documentElement.scrollWidth")?;
    ensure!(wide.as_u64().is_some_and(|wide| wide <= width.into()), "{wide} in {width}");
    let sum = "(color => color.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b, 0))";
    let of = |what: &str| format!("{sum}(getComputedStyle(document.body).{what})");
    let (ground, ink) = (browser.value(&of("backgroundColor"))?, browser.value(&of("color"))?);
    let (ground, ink) = (ground.as_u64().unwrap_or(0), ink.as_u64().unwrap_or(0));
    ensure!((ground < ink) == is_dark && ground.abs_diff(ink) > 400, "{ink} on {ground}");
    Ok(())
}

/// The words of what happened, each in its section.
const HAPPENED: [&str; 11] = [
    "RolledBack",
    "ImagePullFailed",
    "dead letter",
    "refused_by_clickhouse",
    "Pending steps",
    "Planned statements",
    "MODIFY TTL",
    "lag, in seconds",
    "nodes that read logs",
    "samples per second",
    "MiB",
];

/// Opens the page until it has every section, in order, and what happened.
fn tells_all(browser: &mut Browser, page: &str) {
    wait::until("the page to have all of it", LIMIT, || {
        browser.open(page)?;
        let text = browser.text("document.body.innerText")?;
        let places = SECTIONS.map(|section| text.find(&format!("\n{section}\n")));
        for (section, place) in SECTIONS.iter().zip(&places) {
            ensure!(place.is_some(), "no {section}: {text}");
        }
        ensure!(places.is_sorted(), "sections stand in another order: {text}");
        for words in HAPPENED {
            ensure!(text.contains(words), "no {words}: {text}");
        }
        Ok(())
    })
    .unwrap();
}

/// The pipeline's page and the list in the dark and in a narrow window, with pictures.
fn seen_otherwise(browser: &mut Browser, page: &str, list: &str, pictures: &Path) {
    for (width, is_dark, picture) in [
        (WIDE, true, Some("running-dark")),
        (NARROW, false, None),
        (NARROW, true, Some("running-narrow-dark")),
    ] {
        browser.window(width, 900, is_dark).unwrap();
        browser.open(page).unwrap();
        fits(browser, width, is_dark).unwrap();
        if let Some(name) = picture {
            take(browser, pictures, name);
        }
    }
    browser.open(&format!("{list}?still=1")).unwrap();
    fits(browser, NARROW, true).unwrap();
}

fn take(browser: &mut Browser, pictures: &Path, name: &str) {
    browser.picture(&pictures.join(format!("{name}.png")), PICTURE_HEIGHT_MAX).unwrap();
}

/// Scenario: the console of a real operator, in Chromium, with a pipeline under load that has a dead
/// letter, a change that was taken back and statements that wait. From the list to the pipeline and
/// back with mouse and keyboard, in the light and the dark, at 1280 and at 400 pixels. Guarantee: each
/// section has what happened; links lead on; the keyboard reaches what scrolls, and its place is seen;
/// nothing is wider than the window; reloading can be stopped.
#[test]
#[ignore = "needs Chromium: cargo test -p millrace-e2e cluster_nightly::console -- --ignored"]
fn the_console_is_clicked_through() {
    let mut browser = Browser::start().unwrap();
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let wish = Wish {
        also: &["logs", "metrics"],
        level: "privileged",
        edges: Some(edges()),
        canary_seconds: Some(10),
        ..Wish::usual(&stack)
    };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "console", wish).unwrap();
    pipeline.ready().unwrap();
    let namespace = pipeline.namespace.name.clone();
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 93, SPANS, Some(RATE)).unwrap().start(folder.path()).unwrap();
    set_one_aside(&stack, &cluster, &pipeline);
    ask_for_trouble(&cluster, &mut pipeline);

    let (_kubectl, address) = console::forwarded(&stack, folder.path()).unwrap();
    let list = format!("http://localhost:{}/", address.port());
    let page = format!("{list}pipelines/{namespace}/{NAME}?still=1");
    let pictures = pictures();

    browser.window(WIDE, 900, false).unwrap();
    browser.open(&format!("{list}?namespace={namespace}&still=1")).unwrap();
    take(&mut browser, &pictures, "running-list");
    // By mouse: in, and out again by the page's head.
    browser.click(&format!("a[href*='pipelines/{namespace}/']")).unwrap();
    browser.arrived(&format!("/pipelines/{namespace}/{NAME}")).unwrap();
    browser.click("header a").unwrap();
    browser.arrived("Millrace pipelines").unwrap();
    // A page that reloads meanwhile takes the focus away: then from the start.
    wait::until("the way by keyboard", LIMIT, || by_keyboard(&mut browser, &list, &namespace))
        .unwrap();
    browser.tab_to("it.textContent === 'Stop auto-refresh'", 10).unwrap();
    browser.key("Enter").unwrap();
    browser.arrived("still=1").unwrap();

    tells_all(&mut browser, &page);
    fits(&mut browser, WIDE, false).unwrap();
    take(&mut browser, &pictures, "running-pipeline");
    reaches_all(&mut browser).unwrap();
    seen_otherwise(&mut browser, &page, &list, &pictures);

    load.stop_sending().unwrap();
    let verdict = load.verdict(LIMIT).unwrap();
    assert_eq!((verdict.missing, verdict.altered, verdict.duplicated), (0, 0, 0));
}
