//! Targets that come from a share: taking versions up, handing targets over, ending.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_pipeline::share::ShareUpdate;
use millrace_share_documents::{PodName, Released, Share, TargetEntry, TargetId, Weight};
use millrace_shares::{DesiredTarget, HandoverInput, PodObservation, Write};
use millrace_source_prometheus::{EntryReport, ShareReport, TargetState};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::prometheus::rig::{Answer, PATIENCE, Rig, Target};

/// A pod: its receiver, and where its document is told.
pub(crate) struct Pod {
    rig: Rig,
    told: watch::Sender<ShareUpdate>,
}

impl Pod {
    pub(crate) fn new() -> Self {
        Self::draining_for(PATIENCE)
    }

    fn draining_for(time: Duration) -> Self {
        let (told, shares) = watch::channel(ShareUpdate::default());
        Self { rig: Rig::of_share(shares, time), told }
    }

    fn give(&self, share: Share) {
        self.told.send_modify(|told| told.share = Some(Arc::new(share)));
    }

    /// Gives it while the test goes on.
    pub(crate) fn give_after(&self, share: Share, time: Duration) {
        let told = self.told.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            told.send_modify(|told| told.share = Some(Arc::new(share)));
        });
    }

    /// Ends it as a kill does: in the middle of whatever it does.
    pub(crate) async fn kill(self) {
        self.rig.kill().await;
    }

    pub(crate) fn report(&self) -> ShareReport {
        self.rig.board.share_report().unwrap_or_default()
    }

    /// When its targets are due next, in milliseconds since 1970, by URL.
    pub(crate) fn due(&self) -> BTreeMap<String, u64> {
        let shown = self.rig.board.targets_view(0, 1000).targets;
        shown.into_iter().map(|it| (it.url, it.last.next_unix_millis)).collect()
    }

    fn entry(&self, id: u128) -> EntryReport {
        let report = self.report();
        let mut targets = report.targets.into_iter();
        targets.find(|(one, _)| one.0 == id).map(|(_, entry)| entry).unwrap_or_default()
    }

    async fn until_version(&self, version: u64) {
        self.rig
            .until(|rig| rig.board.share_report().and_then(|it| it.version) == Some(version))
            .await;
    }

    async fn until_up(&self, targets: &[&Target]) {
        let is_up = |rig: &Rig, target: &&Target| {
            let url = format!("http://{}/metrics", target.name());
            let shown = rig.board.targets_view(0, 100).targets;
            shown.iter().any(|it| it.url == url && it.last.state == TargetState::Up)
        };
        self.rig.until(|rig| targets.iter().all(|target| is_up(rig, target))).await;
    }

    fn has_marked(&self, target: &Target, name: &str) -> bool {
        let instance = target.name();
        let came = self.rig.came();
        let mut own = came.iter().filter(|it| it.instance == instance && it.name == name);
        own.any(|point| point.is_gone)
    }

    /// Takes all targets away, then drains in order.
    pub(crate) async fn stop(self) {
        let version = self.told.borrow().share.as_ref().map_or(0, |share| share.version) + 1;
        self.give(Share { version, ..Share::default() });
        self.until_version(version).await;
        self.rig.stop().await;
    }
}

async fn target() -> Target {
    Target::new(Answer::text("m 1\n")).await
}

pub(crate) fn entry(target: &Target) -> TargetEntry {
    TargetEntry {
        job: "shop".into(),
        address: target.name(),
        labels: BTreeMap::new(),
        weight: Weight::UNKNOWN,
    }
}

fn settings() -> Value {
    json!({"intervalSeconds": 1, "timeoutSeconds": 1})
}

fn share(version: u64, targets: Vec<(u128, TargetEntry)>) -> Share {
    let jobs = [("shop".to_owned(), settings())].into();
    let targets = targets.into_iter().map(|(id, entry)| (TargetId(id), entry)).collect();
    Share { version, jobs, targets, ..Share::default() }
}

/// Scenario: nothing is told, then a version with two targets, then one in which one is another
/// pod's and one is nobody's. Guarantee: nothing is scraped and reported before; each entry is
/// reported with its samples; what moved isn't marked as gone, what ended is; a version is reported
/// once nothing else is scraped; a lower one changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_is_taken_up_and_given_back() {
    let (one, two) = (target().await, Target::new(Answer::text("m 1\nn 2\n")).await);
    let pod = Pod::new();
    assert_eq!(pod.report(), ShareReport::default());
    assert!(pod.rig.board.targets_view(0, 10).share.is_some_and(|share| share.read.is_none()));
    pod.give(share(3, vec![(1, entry(&one)), (2, entry(&two))]));
    pod.until_version(3).await;
    pod.until_up(&[&one, &two]).await;
    let report = pod.report();
    assert_eq!((report.up, report.down, report.targets.len()), (2, 0, 2));
    assert_eq!(pod.entry(2), EntryReport { samples: Some(2), up: Some(true), error: "".into() });
    let to = Some(PodName::new("other"));
    let mut next = share(4, Vec::new());
    next.released.insert(TargetId(1), Released { version: 4, turn: 1, to });
    next.released.insert(TargetId(2), Released { version: 4, turn: 1, to: None });
    pod.give(next);
    pod.until_version(4).await;
    let asked = (one.asked().len(), two.asked().len());
    pod.rig.until(|_| pod.has_marked(&two, "m") && pod.has_marked(&two, "up")).await;
    assert!(!pod.has_marked(&one, "m") && !pod.has_marked(&one, "up"));
    pod.rig.until(|rig| rig.metric("millrace_scrape_series") == 0).await;
    assert_eq!((one.asked().len(), two.asked().len()), asked, "nothing is asked any more");
    assert_eq!((pod.report().targets.len(), pod.report().version), (0, Some(4)));
    let lower = share(2, vec![(1, entry(&one))]);
    pod.told.send_replace(ShareUpdate { share: Some(Arc::new(lower)), fault: "look".into() });
    let is_seen =
        |rig: &Rig| rig.board.targets_view(0, 1).share.is_some_and(|it| it.fault == "look");
    pod.rig.until(is_seen).await;
    pod.give(share(5, vec![(2, entry(&two))]));
    pod.until_version(5).await;
    pod.until_up(&[&two]).await;
    assert_eq!(one.asked().len(), asked.0, "a lower version is never gone back to");
    pod.stop().await;
}

/// Scenario: a job's settings change; then they can't be read; an entry's labels change; entries
/// that can't be used or that rules drop. Guarantee: the target goes on with the new settings, its
/// series unmarked and never scraped twice at once; faults are told of the entries and hurt no other
/// job; other labels end the old series.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_share_change_with_its_targets() {
    let slow = Duration::from_millis(100);
    let Answer::Bytes(body) = Answer::text("m 1\ndropped 1\n") else { panic!() };
    let one = Target::new(Answer::Slow(body, slow)).await;
    let two = target().await;
    let pod = Pod::new();
    let other = |mut entry: TargetEntry| {
        entry.job = "other".into();
        entry
    };
    let entries = || vec![(1, entry(&one)), (2, other(entry(&two)))];
    let with = |version, shop: Value, entries| {
        let mut share = share(version, entries);
        share.jobs = [("shop".to_owned(), shop), ("other".to_owned(), settings())].into();
        share
    };
    pod.give(with(1, settings(), entries()));
    pod.until_up(&[&one, &two]).await;
    let mut ruled = settings();
    ruled["metricRelabel"] =
        json!([{"action": "drop", "sourceLabels": ["__name__"], "regex": "dropped"}]);
    pod.give(with(2, ruled.clone(), entries()));
    pod.until_version(2).await;
    let before = pod.rig.values(&one, "m").len();
    let dropped = pod.rig.values(&one, "dropped").len();
    pod.rig.until(|rig| rig.values(&one, "m").len() >= before + 2).await;
    assert_eq!(pod.rig.values(&one, "dropped").len(), dropped, "the new rules hold");
    assert!(!pod.has_marked(&one, "m"), "the series go on");
    let mut labeled = entry(&one);
    labeled.labels = [("env".to_owned(), "new".to_owned())].into();
    let labeled = || vec![(1, labeled.clone()), (2, other(entry(&two)))];
    pod.give(with(3, ruled.clone(), labeled()));
    pod.rig.until(|_| pod.has_marked(&one, "m")).await;
    pod.until_up(&[&one]).await;
    assert_eq!(one.scrapes().most, 1, "never twice at once");
    ruled["intervalSeconds"] = json!(0);
    let mut odd = labeled();
    odd.extend([(3, other(TargetEntry { address: "?".into(), ..entry(&two) }))]);
    pod.give(with(4, ruled, odd));
    pod.until_version(4).await;
    let broken = pod.entry(1);
    assert_eq!(broken.up, Some(false));
    assert!(broken.error.contains("intervalSeconds: 0 is out of range"), "{}", broken.error);
    assert!(pod.entry(3).error.contains("`?` is not an address"), "{}", pod.entry(3).error);
    assert_eq!((pod.report().up, pod.report().down), (1, 2));
    let shown = pod.rig.board.targets_view(0, 10);
    let job = shown.jobs.iter().find(|job| job.name == "shop").unwrap();
    assert!(job.dropped.example.contains("out of range"), "{job:?}");
    assert!(!pod.has_marked(&two, "m"), "another job goes on");
    pod.stop().await;
}

/// Scenario: a target moves while it is scraped. Guarantee: the version without it is reported once
/// that scrape has ended, not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_waits_for_scrapes_under_way() {
    let Answer::Bytes(body) = Answer::text("m 1\n") else { panic!() };
    let slow = Target::new(Answer::Slow(body, Duration::from_millis(700))).await;
    let pod = Pod::new();
    pod.give(share(1, vec![(1, entry(&slow))]));
    pod.rig.until(|_| slow.scrapes().open == 1).await;
    pod.give(share(2, Vec::new()));
    pod.rig
        .until(|_| {
            // In this order: what is open now was begun before it is looked at the version.
            let (version, open) = (pod.report().version, slow.scrapes().open);
            assert!(version != Some(2) || open == 0, "reported while it is scraped");
            version == Some(2)
        })
        .await;
    pod.stop().await;
}

/// Two pods and the operator's part, by the rule itself.
struct Pool {
    pods: BTreeMap<PodName, Pod>,
    shares: BTreeMap<PodName, Share>,
    jobs: BTreeMap<String, Value>,
}

impl Pool {
    /// One step of the operator: it asks pods, then writes documents.
    fn step(&mut self, wanted: &BTreeMap<TargetId, DesiredTarget>) {
        let seen = |pod: &Pod| PodObservation {
            reported: pod.report().version,
            ..PodObservation::default()
        };
        let pods = self.pods.iter().map(|(name, pod)| (name.clone(), seen(pod))).collect();
        let step = HandoverInput {
            shares: &self.shares,
            pods: &pods,
            desired: wanted,
            jobs: &self.jobs,
            now: 0,
            silent_seconds: millrace_shares::SILENT_SECONDS,
        };
        for write in millrace_shares::plan_writes(&step) {
            let Write::Put(name, share) = write else { continue };
            self.pods[&name].give(share.clone());
            self.shares.insert(name, share);
        }
    }
}

/// Scenario: twelve targets, slow to answer, move from one pod to another by the operator's rule,
/// and back. Guarantee: none is ever scraped twice at once; each keeps its places in time, and
/// misses one of them at most for each move; no series is marked as gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_are_handed_over_without_overlap() {
    let Answer::Bytes(body) = Answer::text("m 1\n") else { panic!() };
    let mut targets = Vec::new();
    for _ in 0..12 {
        targets.push(Target::new(Answer::Slow(body.clone(), Duration::from_millis(50))).await);
    }
    let [a, b] = ["a", "b"].map(PodName::new);
    let pods: BTreeMap<_, _> = [a.clone(), b.clone()].map(|name| (name, Pod::new())).into();
    // Both have reported an empty version: they are ready.
    let shares: BTreeMap<_, _> =
        pods.keys().map(|name| (name.clone(), share(1, Vec::new()))).collect();
    for (name, pod) in &pods {
        pod.give(shares[name].clone());
        pod.until_version(1).await;
    }
    let jobs = [("shop".to_owned(), settings())].into();
    let mut pool = Pool { pods, shares, jobs };
    let all = |pod: &PodName| {
        let wanted = targets.iter().zip(0..).map(|(target, id)| {
            (TargetId(id), DesiredTarget { pod: pod.clone(), entry: entry(target) })
        });
        wanted.collect::<BTreeMap<_, _>>()
    };
    let everyone: Vec<&Target> = targets.iter().collect();
    let mut places = Vec::new();
    for pod in [&a, &b, &a] {
        let wanted = all(pod);
        while pool.shares[pod].targets.len() < targets.len() {
            pool.step(&wanted);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        pool.pods[pod].until_up(&everyone).await;
        let shown = pool.pods[pod].rig.board.targets_view(0, 100).targets;
        let place = |url: String| {
            let target = shown.iter().find(|it| it.url == url).unwrap();
            target.last.next_unix_millis % 1000
        };
        let urls = targets.iter().map(|it| format!("http://{}/metrics", it.name()));
        places.push(urls.map(place).collect::<Vec<_>>());
    }
    assert!(places[0] == places[1] && places[1] == places[2], "{places:?}");
    let skipped: u64 =
        pool.pods.values().map(|pod| pod.rig.metric("millrace_scrapes_skipped_total")).sum();
    for target in &targets {
        let scrapes = target.scrapes();
        assert_eq!(scrapes.most, 1, "never twice at once");
        let gaps = scrapes.began.windows(2).map(|two| two[1].duration_since(two[0]));
        let missed: u64 = gaps.map(|gap| (gap.as_secs_f64().round() as u64).max(1) - 1).sum();
        assert!(missed <= 2 + skipped, "{missed} missed, {skipped} skipped");
    }
    for pod in pool.pods.values() {
        assert!(targets.iter().all(|target| !pod.has_marked(target, "m")));
    }
    for (_, pod) in pool.pods {
        pod.stop().await;
    }
}

/// Scenario: an entry that is the URL of a list. Guarantee: its targets are scraped and their
/// samples counted together; the list's error is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_may_be_a_list() {
    let (one, two) = (target().await, Target::new(Answer::text("m 1\nn 1\n")).await);
    let listed = json!([{"targets": [one.name(), two.name()]}]).to_string();
    let list = Target::new(Answer::ok("application/json", listed)).await;
    let pod = Pod::new();
    let address = format!("http://{}/list", list.name());
    let url = address.clone();
    let labels = [("env".to_owned(), "new".to_owned())].into();
    let whole = TargetEntry { address, labels, ..entry(&list) };
    let mut first = share(1, vec![(1, whole.clone())]);
    first.jobs.insert(
        "shop".to_owned(),
        json!({"intervalSeconds": 1, "timeoutSeconds": 1,
               "http": [{"url": url, "refreshSeconds": 5}]}),
    );
    let jobs = first.jobs.clone();
    pod.give(first);
    pod.until_up(&[&one, &two]).await;
    assert_eq!(pod.entry(1), EntryReport { samples: Some(3), up: Some(true), error: "".into() });
    assert_eq!((pod.report().up, pod.report().down), (2, 0));
    assert!(pod.rig.came().iter().filter(|it| it.name == "m").all(|it| it.labels == "env=new"));
    assert!(list.asked()[0].to_lowercase().contains("refresh-interval-seconds: 5"));
    // Another version with the same entry: the list isn't read anew, its targets go on.
    pod.give(Share { jobs, ..share(2, vec![(1, whole)]) });
    pod.until_version(2).await;
    assert_eq!(pod.entry(1).samples, Some(3));
    list.close();
    pod.rig.until(|_| pod.entry(1).up == Some(false)).await;
    assert_eq!((pod.entry(1).samples, pod.report().up), (Some(3), 2), "the last list stands");
    pod.give(share(3, Vec::new()));
    pod.until_version(3).await;
    assert_eq!(pod.rig.metric("millrace_scrape_targets"), 0);
    assert!(!pod.has_marked(&one, "m"));
    pod.stop().await;
}

/// Scenario: the process is asked to end. Guarantee: its targets are scraped until the share is
/// empty and that was told; one without a document ends at once; one whose targets nobody takes
/// ends before its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_are_scraped_until_they_are_handed_over() {
    let one = target().await;
    let pod = Pod::new();
    pod.give(share(1, vec![(1, entry(&one))]));
    pod.until_up(&[&one]).await;
    pod.rig.drain.begin();
    let before = one.asked().len();
    pod.rig.until(|_| one.asked().len() >= before + 2).await;
    assert!(!pod.rig.has_ended());
    pod.give(share(2, Vec::new()));
    let report = |rig: &Rig| rig.board.share_report().unwrap().version;
    pod.rig.until(|rig| report(rig) == Some(2)).await;
    pod.rig.until(Rig::has_ended).await;
    assert!(!pod.has_marked(&one, "m"));
    pod.rig.stop().await;

    Pod::new().rig.stop().await;

    let pod = Pod::draining_for(Duration::from_secs(5));
    pod.give(share(1, vec![(1, entry(&one))]));
    pod.until_up(&[&one]).await;
    pod.rig.drain.begin();
    pod.rig.until(Rig::has_ended).await;
    assert!(pod.rig.drain.remaining() > Duration::ZERO, "in order, before the deadline");
    pod.rig.stop().await;
}
