//! Targets that come and go, by lists in files and over HTTP.

use std::fs;
use std::path::PathBuf;

use millrace_config::{HttpTargets, ScrapeJob};
use millrace_source_prometheus::{ListView, TargetState, TargetView};

use crate::prometheus::rig::{Answer, Rig, Target, job};

const BUDGET_BYTES: u64 = 64 << 20;

/// A folder with lists.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a list, as a careful writer does.
    fn write(&self, name: &str, list: &str) {
        let part = self.path("part");
        fs::write(&part, list).unwrap();
        fs::rename(part, self.path(name)).unwrap();
    }

    /// A job with the files that a pattern names.
    fn job(&self, pattern: &str) -> ScrapeJob {
        let files = vec![self.path(pattern).to_str().unwrap().to_owned()];
        ScrapeJob { files, ..job("lists", &[]) }
    }
}

fn list(targets: &[&Target], labels: &str) -> String {
    let names: Vec<_> = targets.iter().map(|target| format!("\"{}\"", target.name())).collect();
    format!(r#"[{{"targets": [{}], "labels": {{{labels}}}}}]"#, names.join(","))
}

impl Rig {
    /// Whether a target's metric was said to be gone.
    fn is_gone(&self, target: &Target, name: &str) -> bool {
        let instance = target.name();
        let came = self.came();
        let mut own = came.iter().filter(|it| it.instance == instance && it.name == name);
        own.any(|point| point.is_gone)
    }

    fn shown(&self, target: &Target) -> Option<TargetView> {
        let url = format!("http://{}/metrics", target.name());
        self.board.targets_view(0, 100).targets.into_iter().find(|shown| shown.url == url)
    }

    fn state(&self, target: &Target) -> Option<TargetState> {
        self.shown(target).map(|shown| shown.last.state)
    }

    fn list(&self) -> ListView {
        self.board.targets_view(0, 100).lists.pop().unwrap_or_default()
    }
}

/// Scenario: a list in a file gains a target and loses another. Guarantee: the new one is scraped;
/// all series of the one that went are said to be gone, the scrape's own too, and it is asked no
/// more; one that stays keeps what is remembered of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_of_a_file_come_and_go() {
    let [one, two, three] = [
        Target::new(Answer::text("m 1\n")).await,
        Target::new(Answer::text("m 2\n")).await,
        Target::new(Answer::text("m 3\n")).await,
    ];
    let folder = Folder::new();
    folder.write("a.json", &list(&[&one, &two], ""));
    let rig = Rig::start(vec![folder.job("*.json")], BUDGET_BYTES);
    rig.until(|rig| [&one, &two].iter().all(|it| rig.state(it) == Some(TargetState::Up))).await;
    assert!(rig.state(&three).is_none());
    folder.write("a.json", &list(&[&two, &three], ""));
    rig.until(|rig| rig.is_gone(&one, "m") && !rig.values(&three, "m").is_empty()).await;
    rig.until(|rig| rig.is_gone(&one, "up") && rig.is_gone(&one, "scrape_series_added")).await;
    assert!(rig.shown(&one).is_none());
    assert_eq!(rig.metric("millrace_scrape_targets"), 2);
    let (asked, scraped) = (one.asked().len(), rig.values(&two, "m").len());
    rig.until(|rig| rig.values(&two, "m").len() >= scraped + 2).await;
    assert_eq!(one.asked().len(), asked, "it is asked no more");
    assert!(!rig.is_gone(&two, "m"));
    let added = rig.values(&two, "scrape_series_added");
    assert!(added[0] == 1.0 && added[1..].iter().all(|added| *added == 0.0), "{added:?}");
    folder.write("a.json", "[]");
    rig.until(|rig| rig.is_gone(&two, "up") && rig.is_gone(&three, "up")).await;
    rig.until(|rig| rig.metric("millrace_scrape_series") == 0).await;
    rig.stop().await;
}

/// Scenario: a target's labels change, and then its path. Guarantee: series with the old labels are
/// gone, those with the new ones begin; the path of a list is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_labels_are_another_target() {
    let target = Target::new(Answer::text("m 1\n")).await;
    let folder = Folder::new();
    folder.write("a.json", &list(&[&target], r#""env": "old""#));
    let rig = Rig::start(vec![folder.job("a.json")], BUDGET_BYTES);
    let has = |rig: &Rig, labels: &str, is_gone: bool| {
        let came = rig.came();
        let mut own = came.iter().filter(|point| point.name == "m");
        own.any(|point| point.labels == labels && point.is_gone == is_gone)
    };
    rig.until(|rig| has(rig, "env=old", false)).await;
    let labels = r#""env": "new", "__metrics_path__": "/other?k=v", "__meta_x": "y""#;
    folder.write("a.json", &list(&[&target], labels));
    rig.until(|rig| has(rig, "env=old", true) && has(rig, "env=new", false)).await;
    assert!(!has(&rig, "env=new", true));
    let asked = target.asked();
    assert!(asked.last().unwrap().starts_with("GET /other?k=v HTTP/1.1"), "{asked:?}");
    let shown = rig.board.targets_view(0, 10).targets;
    assert_eq!(shown[0].url, format!("http://{}/other?k=\u{2026}", target.name()));
    assert_eq!(shown[0].labels, [("env".to_owned(), "new".to_owned())]);
    rig.stop().await;
}

/// Scenario: the same target in two lists, twice in one, and in the settings; an entry that is no
/// target. Guarantee: it is scraped once, and the others are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_there_twice_is_scraped_once() {
    let target = Target::new(Answer::text("m 1\n")).await;
    let folder = Folder::new();
    folder.write("a.json", &list(&[&target, &target], ""));
    folder.write(
        "b.json",
        &format!("{},{}", &list(&[&target], "").trim_end_matches(']'), r#"{"targets": ["?"]}]"#),
    );
    let job = ScrapeJob { files: folder.job("*.json").files, ..job("lists", &[&target]) };
    let rig = Rig::start(vec![job], BUDGET_BYTES);
    rig.until(|rig| rig.metric("millrace_scrape_targets_dropped") == 4).await;
    rig.until(|rig| rig.values(&target, "m").len() >= 2).await;
    assert_eq!(rig.metric("millrace_scrape_targets"), 1);
    let view = rig.board.targets_view(0, 10);
    assert_eq!((view.total, view.lists.len()), (1, 2));
    let dropped = &view.jobs[0].dropped;
    assert_eq!((dropped.duplicate, dropped.invalid), (3, 1));
    assert!(dropped.example.contains("`?` is not an address"), "{}", dropped.example);
    let scrapes = rig.metric("millrace_scrapes_total") as usize;
    assert!(target.asked().len() <= scrapes + 1, "one scrape at a time");
    rig.stop().await;
}

/// Scenario: a file is broken while its target is scraped, then good again without it. Guarantee:
/// the target goes on being scraped until then; the fault is shown and counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_file_changes_nothing() {
    let target = Target::new(Answer::text("m 1\n")).await;
    let folder = Folder::new();
    folder.write("a.yml", &format!("- targets: ['{}']\n", target.name()));
    let rig = Rig::start(vec![folder.job("a.yml")], BUDGET_BYTES);
    rig.until(|rig| rig.state(&target) == Some(TargetState::Up)).await;
    folder.write("a.yml", "- targets: []\n- target: []\n");
    rig.until(|rig| rig.metric("millrace_scrape_lists_failing") == 1).await;
    let list = rig.list();
    assert!(list.error.starts_with("line 2: ") && list.targets == 1, "{list:?}");
    let scraped = rig.values(&target, "m").len();
    rig.until(|rig| rig.values(&target, "m").len() >= scraped + 2).await;
    assert!(!rig.is_gone(&target, "m"));
    folder.write("a.yml", "[]\n");
    rig.until(|rig| rig.is_gone(&target, "m")).await;
    assert_eq!(rig.metric("millrace_scrape_lists_failing"), 0);
    rig.stop().await;
}

/// Scenario: a server's list, then answers that are no list in every way: another status, another
/// type, a broken list, one that is too long, none at all. Guarantee: the last good list stands,
/// with the reason shown; a good one is taken again. The server is told how often it is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_list_changes_nothing() {
    let target = Target::new(Answer::text("m 1\n")).await;
    let ok = Answer::ok("application/json; charset=utf-8", list(&[&target], ""));
    let server = Target::new(ok.clone()).await;
    let url = format!("http://{}/list?token=s3cret", server.name());
    let http = vec![HttpTargets { url, refresh_seconds: 1 }];
    let rig = Rig::start(vec![ScrapeJob { http, ..job("lists", &[]) }], BUDGET_BYTES);
    rig.until(|rig| rig.state(&target) == Some(TargetState::Up)).await;
    let asked = server.asked().remove(0).to_ascii_lowercase();
    assert!(asked.contains("x-prometheus-refresh-interval-seconds: 1\r\n"), "{asked}");
    assert!(asked.starts_with("get /list?token=s3cret "), "{asked}");
    let json = |body: &str| Answer::ok("application/json", body);
    let long = " ".repeat(3 << 20);
    for (answer, said) in [
        (Answer::head("HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n"), "500"),
        (Answer::ok("text/html", "<p>"), "unsupported content type `text/html`"),
        (json("[{\"targets\": [\"a:1\"]},\n5]"), "line 2: "),
        (json(&long), "it is longer than 2097152 bytes"),
        (Answer::Hang(b"HTTP/1.1 200 OK\r\n".to_vec()), "no complete answer within 1 s"),
        (Answer::Bytes(Vec::new()), "cannot read the answer"),
    ] {
        server.answer(answer);
        rig.until(|rig| rig.list().error.contains(said)).await;
        assert_eq!(rig.metric("millrace_scrape_lists_failing"), 1);
    }
    let list = rig.list();
    assert_eq!(list.source, format!("http://{}/list?token=\u{2026}", server.name()));
    assert!(list.targets == 1 && list.read_unix_millis > 0, "{list:?}");
    assert!(rig.metric("millrace_scrape_list_failures_total") >= 6);
    let scraped = rig.values(&target, "m").len();
    rig.until(|rig| rig.values(&target, "m").len() > scraped).await;
    assert!(!rig.is_gone(&target, "m"));
    server.answer(ok);
    rig.until(|rig| rig.list().error.is_empty()).await;
    server.answer(json("[]"));
    rig.until(|rig| rig.is_gone(&target, "up")).await;
    rig.stop().await;
}

/// Scenario: a target is up, then down; another refuses connections from the start; the process
/// ends. Guarantee: the board says so, with the reason; nothing is said to be gone because the
/// process ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_board_says_how_targets_are() {
    let target = Target::new(Answer::text("m 1\nn 2\n")).await;
    let closed = Target::new(Answer::text("m 1\n")).await;
    let jobs = vec![job("one", &[&target]), job("two", &[&closed])];
    closed.close();
    let rig = Rig::start(jobs, BUDGET_BYTES);
    rig.until(|rig| rig.state(&target) == Some(TargetState::Up)).await;
    rig.until(|rig| rig.state(&closed) == Some(TargetState::Down)).await;
    let shown = rig.shown(&target).unwrap();
    assert_eq!((shown.job.as_str(), shown.last.samples, shown.last.series), ("one", 2, 2));
    assert!(shown.last.began_unix_millis > 0 && shown.last.error.is_empty(), "{shown:?}");
    assert!(shown.last.next_unix_millis > shown.last.began_unix_millis, "{shown:?}");
    let view = rig.board.targets_view(0, 1);
    assert_eq!((view.total, view.targets.len()), (2, 1));
    assert_eq!((view.jobs[0].up, view.jobs[1].down), (1, 1));
    assert!(!rig.shown(&closed).unwrap().last.error.is_empty());
    target.answer(Answer::text("m{\n"));
    rig.until(|rig| rig.state(&target) == Some(TargetState::Down)).await;
    assert!(rig.shown(&target).unwrap().last.error.starts_with("line 1: "));
    target.answer(Answer::text("m 1\n"));
    rig.until(|rig| rig.state(&target) == Some(TargetState::Up)).await;
    let before = rig.came().len();
    let came = rig.stop_and_see().await;
    assert!(came[before..].iter().all(|point| !point.is_gone), "{:?}", &came[before..]);
}
