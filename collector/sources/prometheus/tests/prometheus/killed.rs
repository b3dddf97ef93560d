//! One of ten pods is killed under load: the operator's rule gives its targets to the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use millrace_share_documents::{PodName, Share, TargetEntry, TargetId, Weight};
use millrace_shares::{
    DecisionInput, Delays, DesiredTarget, HandoverInput, PodObservation, SILENT_SECONDS,
    SharingPolicy, Write, assign_targets, current_assignment, pod_state,
};
use serde_json::{Value, json};

use crate::prometheus::chaos::latest;
use crate::prometheus::rig::{Answer, PATIENCE, Target};
use crate::prometheus::share::{Pod, entry};

/// How much faster time goes here than for an operator.
const SPEED: u32 = 4;
const PODS: usize = 10;
/// 100 scrapes a second in all.
const TARGETS: usize = 200;
const INTERVAL: Duration = Duration::from_secs(2);
/// The operator's own time.
const DELAYS: Delays = Delays { propagation_seconds: 5, report_seconds: 5, step_seconds: 5 };

fn here(seconds: i64) -> Duration {
    Duration::from_secs(seconds as u64) / SPEED
}

/// The operator's loop, but for its requests: pods are asked directly, and documents reach them as
/// late as they may.
struct Operator {
    began: Instant,
    entries: BTreeMap<TargetId, TargetEntry>,
    jobs: BTreeMap<String, Value>,
    shares: BTreeMap<PodName, Share>,
    seen: BTreeMap<PodName, PodObservation>,
    weights: BTreeMap<TargetId, Weight>,
}

impl Operator {
    fn now(&self) -> i64 {
        (self.began.elapsed() * SPEED).as_secs() as i64
    }

    /// One round. A pod that was killed is still listed and doesn't answer.
    fn round(&mut self, pods: &BTreeMap<PodName, Option<Pod>>) {
        let now = self.now();
        for (name, pod) in pods {
            let seen = self
                .seen
                .entry(name.clone())
                .or_insert(PodObservation { heard_at: now, ..PodObservation::default() });
            let Some(pod) = pod else { continue };
            let report = pod.report();
            (seen.heard_at, seen.reported) = (now, Some(report.version.unwrap_or(0)));
            for (id, entry) in report.targets {
                if let Some(samples) = entry.samples {
                    let seconds = INTERVAL.as_secs() as u32;
                    self.weights.insert(id, Weight::of_scrape(samples, seconds));
                }
            }
        }
        let targets = self.entries.iter().map(|(id, entry)| {
            let weight = self.weights.get(id).copied();
            (
                *id,
                millrace_shares::Target {
                    job: entry.job.clone(),
                    weight,
                    zone: None,
                    awaits_scrape: false,
                },
            )
        });
        let judged = self.seen.iter().map(|(name, seen)| {
            let state = pod_state(seen, now, SILENT_SECONDS);
            (name.clone(), millrace_shares::CandidatePod { state, zone: None })
        });
        let (targets, judged): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (targets.collect(), judged.collect());
        let before = current_assignment(&self.shares);
        let policy = SharingPolicy::default();
        let input =
            DecisionInput { targets: &targets, pods: &judged, assigned: &before, policy: &policy };
        let wanted = assign_targets(&input).placements.into_iter().filter_map(|(id, placed)| {
            let entry = TargetEntry { weight: placed.weight, ..self.entries[&id].clone() };
            Some((id, DesiredTarget { pod: placed.pod?, entry }))
        });
        let wanted: BTreeMap<_, _> = wanted.collect();
        let writes = millrace_shares::plan_writes(&HandoverInput {
            shares: &self.shares,
            pods: &self.seen,
            desired: &wanted,
            jobs: &self.jobs,
            now,
            silent_seconds: SILENT_SECONDS,
        });
        for write in writes {
            let Write::Put(name, share) = write else { panic!("no pod's object is deleted") };
            if let Some(pod) = &pods[&name] {
                pod.give_after(share.clone(), here(DELAYS.propagation_seconds));
            }
            self.shares.insert(name, share);
        }
    }

    fn has(&self, pod: &PodName) -> BTreeSet<TargetId> {
        self.shares.get(pod).map(|it| it.targets.keys().copied().collect()).unwrap_or_default()
    }
}

/// Goes on with rounds until something holds.
async fn rounds(
    operator: &mut Operator,
    pods: &BTreeMap<PodName, Option<Pod>>,
    holds: impl Fn() -> bool,
) {
    let mut next = tokio::time::interval(here(DELAYS.step_seconds));
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "some targets are not asked");
        next.tick().await;
        operator.round(pods);
    }
}

/// How much earlier than due a scrape may come, for a clock that is being corrected.
const EARLY_MILLIS: u64 = 5;

/// The place in time of each scrape of a target that is due at `due`: an interval's number. A scrape
/// may come up to an interval late; how close two come to each other says nothing.
fn places(target: &Target, due: u64) -> Vec<u64> {
    let interval = INTERVAL.as_millis() as u64;
    let came = target.scrapes().began_unix_millis;
    came.iter().map(|came| (came + EARLY_MILLIS - due % interval) / interval).collect()
}

/// Scenario: ten pods scrape 200 targets by the operator's rule, four times as fast as it goes, with
/// documents as late as they may be. One pod is killed; its object stays, so that it is only silent.
/// Guarantee: its targets are scraped by others within 30 s and their next interval, and stay where
/// they then are; all others stay where they were, and none of them comes over an interval late; no
/// target is ever scraped twice at once, nor twice in an interval. Slow: each target is scraped
/// three times before the pod is killed and three times after it, every 2 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_pods_targets_are_scraped_by_others_within_thirty_seconds() {
    let lines: String = (0..100).map(|n| format!("m{{n=\"{n}\"}} {n}\n")).collect();
    let Answer::Bytes(body) = Answer::text(&lines) else { panic!() };
    let mut targets = Vec::new();
    for _ in 0..TARGETS {
        targets.push(Target::new(Answer::Slow(body.clone(), Duration::from_millis(20))).await);
    }
    let seconds = INTERVAL.as_secs();
    let settings = json!({"intervalSeconds": seconds, "timeoutSeconds": seconds});
    let mut operator = Operator {
        began: Instant::now(),
        entries: (0..).map(TargetId).zip(targets.iter().map(entry)).collect(),
        jobs: [("shop".to_owned(), settings)].into(),
        shares: BTreeMap::new(),
        seen: BTreeMap::new(),
        weights: BTreeMap::new(),
    };
    let names = (0..PODS).map(|number| PodName::new(&format!("pod-{number}")));
    let mut pods: BTreeMap<_, _> = names.map(|name| (name, Some(Pod::new()))).collect();
    let count = |target: &Target| target.scrapes().began.len();
    rounds(&mut operator, &pods, || targets.iter().all(|it| count(it) >= 3)).await;

    let victim = PodName::new("pod-4");
    let lost = operator.has(&victim);
    assert!(lost.len().abs_diff(TARGETS / PODS) <= 2, "{} targets", lost.len());
    let before = operator.shares.clone();
    pods.insert(victim.clone(), None).flatten().unwrap().kill().await;
    let killed = Instant::now();
    let since = |target: &Target| -> Vec<Duration> {
        let began = target.scrapes().began;
        began.iter().filter_map(|began| began.checked_duration_since(killed)).collect()
    };
    rounds(&mut operator, &pods, || targets.iter().all(|it| since(it).len() >= 3)).await;

    let due: BTreeMap<_, _> = pods.values().flatten().flat_map(Pod::due).collect();
    let rescue = here(DELAYS.dead_pod_seconds(SILENT_SECONDS));
    let (mut longest, mut others) = (Duration::ZERO, Vec::new());
    for (target, id) in targets.iter().zip((0..).map(TargetId)) {
        if lost.contains(&id) {
            longest = longest.max(since(target)[0]);
        } else {
            others.push(target);
        }
        let scrapes = target.scrapes();
        assert_eq!(scrapes.most, 1, "never twice at once");
        let places = places(target, due[&format!("http://{}/metrics", target.name())]);
        let has_own = places.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(has_own, "twice in an interval: {places:?}, {:?}", scrapes.began_unix_millis);
    }
    let late = latest(others, INTERVAL);
    println!(
        "the last of {} targets was scraped again after {:.1} s of the operator's time; \
         the latest other scrape is {late:?} late",
        lost.len(),
        (longest * SPEED).as_secs_f64()
    );
    assert!(longest <= rescue + INTERVAL, "{longest:?}, of {rescue:?}");
    assert!(late < INTERVAL, "a target of another pod was asked {late:?} late");
    assert!(operator.has(&victim).is_empty());
    for (name, share) in &before {
        let has = operator.has(name);
        assert!(*name == victim || share.targets.keys().all(|id| has.contains(id)), "{name}");
    }
    for (_, pod) in pods {
        if let Some(pod) = pod {
            pod.stop().await;
        }
    }
}
