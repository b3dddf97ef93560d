//! Simulates hand-overs with pods that follow their documents, late watches and reports, deaths,
//! and operators that end between any two writes.

use std::collections::{BTreeMap, BTreeSet};

use millrace_share_documents::{
    PodName, Share, TargetEntry, TargetId, Weight, join_parts, split_share,
};
use millrace_shares::{
    CandidatePod, DecisionInput, Delays, DesiredTarget, HandoverInput, PodObservation,
    SILENT_SECONDS, SharingPolicy, Target, Write, assign_targets, current_assignment, plan_writes,
    pod_state,
};
use proptest::prelude::*;
use serde_json::json;

/// The interval of a pod's reports, in seconds.
const REPORT_EVERY: i64 = 5;
/// From SIGTERM to the kill, in seconds: longer than a hand-over with the longest delays.
const GRACE_SECONDS: i64 = 120;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

/// A pod's process, with the messages in flight to it and from it.
#[derive(Default)]
struct Process {
    alive: bool,
    deleted: bool,
    /// Its reports don't arrive, though it lives and Kubernetes counts it as ready.
    unreachable: bool,
    ends_at: Option<i64>,
    back_at: Option<i64>,
    share: Share,
    coming: Vec<(i64, Share)>,
    reports: Vec<(i64, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Join,
    /// The process ends and its object stays: the operator receives no more reports.
    Die(u8),
    /// Process and object are gone at once.
    Delete(u8),
    Leave(u8),
    /// The container restarts within some seconds.
    Restart(u8),
    /// The network between the operator and a pod closes, or opens again.
    Network(u8),
    /// The operator ends between two writes and starts again later.
    NewOperator {
        writes: u8,
        away: u8,
    },
    Heavier(u8),
    AddTarget,
    RemoveTarget(u8),
}

/// Delays: up to these or, if `always`, exactly these.
#[derive(Clone, Copy)]
struct Late {
    delays: Delays,
    always: bool,
}

struct World {
    now: i64,
    rng: Rng,
    late: Late,
    stored: BTreeMap<PodName, Vec<String>>,
    processes: BTreeMap<PodName, Process>,
    targets: BTreeMap<TargetId, Target>,
    /// The operator's state in memory.
    seen: BTreeMap<PodName, PodObservation>,
    away_until: i64,
    writes_left: Option<u8>,
    made: u128,
    /// Since when a target has had no process.
    alone_since: BTreeMap<TargetId, i64>,
    longest_alone: i64,
}

impl World {
    fn new(seed: u64, pods: u32, targets: u32, late: Late) -> Self {
        let mut world = Self {
            now: 0,
            rng: Rng(seed),
            late,
            stored: BTreeMap::new(),
            processes: BTreeMap::new(),
            targets: BTreeMap::new(),
            seen: BTreeMap::new(),
            away_until: 0,
            writes_left: None,
            made: 0,
            alone_since: BTreeMap::new(),
            longest_alone: 0,
        };
        (0..pods).for_each(|_| world.happens(Event::Join));
        (0..targets).for_each(|_| world.happens(Event::AddTarget));
        world
    }

    fn delay(&mut self, longest: i64) -> i64 {
        if self.late.always { longest } else { self.rng.below(longest as u64 + 1) as i64 }
    }

    fn alive(&self, nth: u8) -> Option<PodName> {
        let alive: Vec<_> = self.processes.iter().filter(|(_, it)| it.alive).collect();
        alive.get(usize::from(nth) % alive.len().max(1)).map(|(name, _)| (*name).clone())
    }

    fn share(&self, name: &PodName) -> Share {
        let texts = self.stored.get(name).map_or(&[][..], Vec::as_slice);
        if texts.is_empty() {
            Share::default()
        } else {
            join_parts(texts.iter().map(|it| &**it)).unwrap()
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Join => {
                self.made += 1;
                let process = Process { alive: true, ..Process::default() };
                self.processes.insert(PodName::new(&format!("pod-{:03}", self.made)), process);
            }
            Event::Die(nth) => self.end(nth, false, None),
            Event::Delete(nth) => self.end(nth, true, None),
            Event::Restart(nth) => self.end(nth, false, Some(self.now + 3)),
            Event::Network(nth) => {
                if let Some(name) = self.alive(nth) {
                    let process = self.processes.get_mut(&name).unwrap();
                    process.unreachable = !process.unreachable;
                }
            }
            Event::Leave(nth) => {
                if let Some(name) = self.alive(nth) {
                    let ends_at = Some(self.now + GRACE_SECONDS);
                    self.processes.get_mut(&name).unwrap().ends_at = ends_at;
                }
            }
            Event::NewOperator { writes, away } => {
                self.writes_left = Some(writes);
                self.away_until = self.now + i64::from(away);
            }
            Event::Heavier(nth) => {
                let at = usize::from(nth) % self.targets.len().max(1);
                if let Some(target) = self.targets.values_mut().nth(at) {
                    target.weight = Some(Weight::new(u64::from(nth) * 40 + 1));
                }
            }
            Event::AddTarget => {
                self.made += 1;
                let weight = Some(Weight::new(self.rng.below(2_000) + 1));
                let target =
                    Target { job: "job".to_owned(), weight, zone: None, awaits_scrape: false };
                self.targets.insert(TargetId(self.made), target);
            }
            Event::RemoveTarget(nth) => {
                let at = usize::from(nth) % self.targets.len().max(1);
                if let Some(id) = self.targets.keys().nth(at).copied() {
                    self.targets.remove(&id);
                    self.alone_since.remove(&id);
                }
            }
        }
    }

    fn end(&mut self, nth: u8, deleted: bool, back_at: Option<i64>) {
        if let Some(name) = self.alive(nth) {
            let process = self.processes.get_mut(&name).unwrap();
            (process.alive, process.deleted, process.back_at) = (false, deleted, back_at);
            process.share = Share::default();
            process.coming.clear();
        }
    }

    /// Advances the simulation by one second.
    fn tick(&mut self) {
        self.now += 1;
        let names: Vec<PodName> = self.processes.keys().cloned().collect();
        for name in &names {
            self.live(name);
        }
        let due = self.now % self.late.delays.step_seconds == 0;
        if due && (self.now >= self.away_until || self.writes_left.is_some()) {
            self.operate();
        }
        self.judge();
    }

    fn live(&mut self, name: &PodName) {
        let now = self.now;
        let starts = self.processes[name].back_at.is_some_and(|at| at <= now);
        let stored = if starts { self.share(name) } else { Share::default() };
        let delay = self.delay(self.late.delays.report_seconds);
        let process = self.processes.get_mut(name).unwrap();
        if process.ends_at.is_some_and(|at| at <= now) {
            (process.alive, process.deleted) = (false, true);
        }
        if !process.deleted && starts {
            // A restarted process reads its document from the API server itself.
            (process.alive, process.back_at, process.share) = (true, None, stored);
        }
        if !process.alive {
            return;
        }
        let taken_up = process.share.version;
        let (due, later) = process.coming.drain(..).partition(|(at, _)| *at <= now);
        process.coming = later;
        let due: Vec<(i64, Share)> = due;
        for (_, share) in due {
            if share.version > process.share.version {
                process.share = share;
            }
        }
        if process.share.version > taken_up || now % REPORT_EVERY == 0 {
            process.reports.push((now + delay, process.share.version));
        }
    }

    /// Runs the operator for one step, with nothing but documents, pods and reports.
    fn operate(&mut self) {
        for (name, process) in &mut self.processes {
            let first = PodObservation { heard_at: self.now, ..PodObservation::default() };
            let seen = self.seen.entry(name.clone()).or_insert(first);
            (seen.deleted, seen.terminating) = (process.deleted, process.ends_at.is_some());
            seen.is_ready = process.alive;
            if process.unreachable {
                process.reports.clear();
            }
            let (due, later) = process.reports.drain(..).partition(|(at, _)| *at <= self.now);
            process.reports = later;
            let due: Vec<(i64, u64)> = due;
            for (at, version) in due {
                seen.heard_at = seen.heard_at.max(at);
                seen.reported = Some(seen.reported.unwrap_or(0).max(version));
            }
        }
        let shares: BTreeMap<PodName, Share> =
            self.stored.keys().map(|name| (name.clone(), self.share(name))).collect();
        let pods = self.seen.iter().map(|(name, seen)| {
            let state = pod_state(seen, self.now, SILENT_SECONDS);
            (name.clone(), CandidatePod { state, zone: None })
        });
        let (pods, before) = (pods.collect(), current_assignment(&shares));
        let policy = SharingPolicy { moves_max: 5, ..SharingPolicy::default() };
        let input = DecisionInput {
            targets: &self.targets,
            pods: &pods,
            assigned: &before,
            policy: &policy,
        };
        let placed = assign_targets(&input).placements.into_iter().filter_map(|(id, placed)| {
            let address = format!("{id}:9100");
            let entry = TargetEntry {
                job: "job".to_owned(),
                address,
                labels: BTreeMap::new(),
                weight: placed.weight,
            };
            Some((id, DesiredTarget { pod: placed.pod?, entry }))
        });
        let wanted = placed.collect();
        let (now, silent_seconds) = (self.now, SILENT_SECONDS);
        let jobs = BTreeMap::new();
        let (shares, pods, wanted, jobs) = (&shares, &self.seen, &wanted, &jobs);
        let next = HandoverInput { shares, pods, desired: wanted, jobs, now, silent_seconds };
        let writes = plan_writes(&next);
        for write in writes {
            match &mut self.writes_left {
                Some(0) => break,
                Some(left) => *left -= 1,
                None => {}
            }
            self.write(write);
        }
        if self.writes_left.take().is_some() {
            self.seen.clear();
        }
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Delete(name) => {
                self.stored.remove(&name);
            }
            Write::Put(name, share) => {
                assert_eq!(share.version, self.share(&name).version + 1, "{name}");
                let at = self.now + self.delay(self.late.delays.propagation_seconds);
                self.stored.insert(name.clone(), split_share(&share).unwrap());
                let process = self.processes.get_mut(&name).unwrap();
                if process.alive {
                    process.coming.push((at, share));
                }
            }
        }
    }

    /// Asserts that no target has two processes, and records how long one had none.
    fn judge(&mut self) {
        let mut scraped: BTreeMap<TargetId, &PodName> = BTreeMap::new();
        for (name, process) in self.processes.iter().filter(|(_, it)| it.alive) {
            for id in process.share.targets.keys() {
                let other = scraped.insert(*id, name);
                assert_eq!(other, None, "{id} is scraped by {name} too, at {}", self.now);
            }
        }
        for id in self.targets.keys() {
            if scraped.contains_key(id) {
                if let Some(since) = self.alone_since.remove(id) {
                    self.longest_alone = self.longest_alone.max(self.now - since);
                }
            } else {
                self.alone_since.entry(*id).or_insert(self.now);
            }
        }
    }

    fn run(&mut self, seconds: i64) {
        (0..seconds).for_each(|_| self.tick());
    }

    /// Runs enough quiet seconds for everything to settle; gaps from before don't count.
    fn settle(&mut self) {
        self.run(300);
        assert_eq!(self.alone_since, BTreeMap::new(), "each target is scraped");
        self.longest_alone = 0;
    }

    fn reach_all(&mut self) {
        self.processes.values_mut().for_each(|process| process.unreachable = false);
    }

    fn scraped(&self) -> BTreeSet<TargetId> {
        let alive = self.processes.values().filter(|it| it.alive);
        alive.flat_map(|it| it.share.targets.keys().copied()).collect()
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Join),
        2 => any::<u8>().prop_map(Event::Die),
        2 => any::<u8>().prop_map(Event::Delete),
        2 => any::<u8>().prop_map(Event::Leave),
        2 => any::<u8>().prop_map(Event::Restart),
        2 => any::<u8>().prop_map(Event::Network),
        3 => (0..8u8, 0..60u8).prop_map(|(writes, away)| Event::NewOperator { writes, away }),
        3 => any::<u8>().prop_map(Event::Heavier),
        2 => Just(Event::AddTarget),
        1 => any::<u8>().prop_map(Event::RemoveTarget),
    ]
}

/// 100 cases take seconds; `PROPTEST_CASES` requests more.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig { cases: if asked { usual.cases } else { 100 }, ..usual }
}

proptest! {
    #![proptest_config(config())]

    /// Scenario: pods die, join, leave and restart, and live without being heard; documents come up
    /// to 30 s late, reports up to 9 s, so that a living pod is heard every 19 s (with a report
    /// missed in a restart) and never taken for dead; operators end between any two writes and know
    /// nothing afterwards. Guarantee: no two pods ever scrape the same target.
    #[test]
    fn no_target_is_ever_scraped_twice(
        seed in any::<u64>(), pods in 1..6u32, targets in 0..40u32,
        events in prop::collection::vec((0..40i64, event()), 0..40),
    ) {
        let delays = Delays { propagation_seconds: 30, report_seconds: 9, step_seconds: 5 };
        let late = Late { delays, always: false };
        let mut world = World::new(seed, pods, targets, late);
        for (wait, event) in events {
            world.run(wait);
            world.happens(event);
        }
        world.run(300);
    }

    /// Scenario: the same, then a pod joins and nothing else happens. Guarantee: each target is
    /// scraped, and no other.
    #[test]
    fn each_target_is_scraped_when_all_is_quiet(
        seed in any::<u64>(), pods in 1..6u32, targets in 0..40u32,
        events in prop::collection::vec((0..40i64, event()), 0..40),
    ) {
        let delays = Delays { propagation_seconds: 30, report_seconds: 9, step_seconds: 5 };
        let mut world = World::new(seed, pods, targets, Late { delays, always: false });
        for (wait, event) in events {
            world.run(wait);
            world.happens(event);
        }
        world.reach_all();
        world.happens(Event::Join);
        world.settle();
        prop_assert_eq!(world.scraped(), world.targets.keys().copied().collect());
    }
}

fn punctual() -> Late {
    Late { delays: Delays::default(), always: true }
}

/// Scenario: a pod leaves, another joins, weights drift; every delay is at its bound. Guarantee: no
/// target is without a pod for longer than the arithmetic allows, so it misses at most one scrape
/// of 15 s.
#[test]
fn a_planned_move_misses_one_scrape_at_most() {
    let events =
        [Event::Leave(0), Event::Join, Event::Heavier(200), Event::Leave(1), Event::Heavier(90)];
    let mut moved = 0;
    for seed in 0..20 {
        let mut world = World::new(seed, 4, 60, punctual());
        world.settle();
        for event in events {
            world.happens(event);
            world.run(60);
        }
        world.run(300);
        assert!(world.longest_alone <= Delays::default().handover_seconds(), "{seed}");
        moved += i64::from(world.longest_alone > 0);
    }
    assert_eq!(moved, 20, "each run moves targets");
    assert_eq!(Delays::default().scrapes_missed(15), 1);
    assert_eq!(Delays::default().scrapes_missed(5), 3);
}

/// Scenario: a pod's process ends and nobody reports it; a pod is deleted. Guarantee: its targets
/// move within 30 s, also when a pod was given away and one joins at the same moment.
#[test]
fn a_dead_pods_targets_are_elsewhere_within_30_seconds() {
    for seed in 0..20 {
        for offset in 0..5 {
            let mut world = World::new(seed, 4, 60, punctual());
            world.settle();
            world.run(offset);
            world.happens(Event::Die(seed as u8));
            world.happens(Event::Join);
            world.run(100);
            assert!((1..=30).contains(&world.longest_alone), "{}", world.longest_alone);
            world.settle();
            world.happens(Event::Delete(seed as u8));
            world.run(100);
            assert!((1..=10).contains(&world.longest_alone), "{}", world.longest_alone);
        }
    }
    assert_eq!(Delays::default().dead_pod_seconds(SILENT_SECONDS), 30);
}

/// Scenario: a network policy blocks the operator from every pod for two minutes, then from one
/// pod. Guarantee: each pod continues with its targets, and the operator writes nothing.
#[test]
fn pods_that_live_unheard_keep_what_they_have() {
    for closed in [vec![0, 1], vec![1]] {
        let mut world = World::new(3, 2, 24, punctual());
        world.settle();
        let before = world.stored.clone();
        closed.iter().for_each(|nth| world.happens(Event::Network(*nth)));
        world.run(120);
        assert_eq!((world.scraped().len(), world.longest_alone), (24, 0), "{closed:?}");
        assert_eq!(world.stored, before);
    }
}

/// Scenario: two pods are to release targets to a third, and the network to all pods closes some
/// seconds later, in any step of the hand-over; it stays closed for ten minutes. Guarantee: once
/// the pods count as unreachable each target has a pod again: the old one, or the new one if the
/// old one has confirmed the release.
#[test]
fn a_hand_over_that_a_closed_network_interrupts_leaves_no_target_alone() {
    let mut interrupted = 0;
    for seed in 0..80 {
        let mut world = World::new(seed, 2, 24, punctual());
        world.settle();
        world.happens(Event::Join);
        let has_release =
            |world: &World| world.stored.keys().any(|name| !world.share(name).released.is_empty());
        for _ in 0..60 {
            if !has_release(&world) {
                world.tick();
            }
        }
        world.run(i64::try_from(seed % 20).unwrap());
        (0..3).for_each(|nth| world.happens(Event::Network(nth)));
        world.run(600);
        assert_eq!(world.scraped().len(), 24, "{seed}");
        let Delays { step_seconds, propagation_seconds, .. } = Delays::default();
        let longest = SILENT_SECONDS + 2 * step_seconds + propagation_seconds;
        assert!(world.longest_alone <= longest, "{seed}: {} s", world.longest_alone);
        interrupted += i64::from(world.longest_alone > Delays::default().handover_seconds());
        world.reach_all();
        world.settle();
    }
    assert!(interrupted > 0, "no run interrupts a hand-over");
}

/// Scenario: the processes of all pods die, and no pod can get their targets. Guarantee: their
/// documents are not emptied: a pod that comes back scrapes them at once.
#[test]
fn what_nobody_can_take_stays_where_it_is() {
    let mut world = World::new(4, 2, 24, punctual());
    world.settle();
    let before = world.stored.clone();
    (0..2).for_each(|_| world.happens(Event::Die(0)));
    world.run(120);
    assert_eq!(world.stored, before);
}

/// Scenario: the operator is away for an hour, then a new one starts. Guarantee: pods continue, and
/// the new operator writes nothing that isn't needed.
#[test]
fn without_an_operator_pods_go_on() {
    let mut world = World::new(1, 4, 60, punctual());
    world.settle();
    let before = world.stored.clone();
    world.happens(Event::NewOperator { writes: 0, away: 0 });
    world.run(10);
    world.away_until = world.now + 3_600;
    world.run(3_700);
    assert_eq!(world.longest_alone, 0);
    assert_eq!(world.stored, before);
}

/// Scenario: the weight of a target changes within the tolerance, then its labels. Guarantee: only
/// the second is a write, in place.
#[test]
fn an_entry_is_written_anew_only_when_the_pod_needs_it() {
    let (pod, id) = (PodName::new("a"), TargetId(1));
    let entry = |weight, zone: &str| TargetEntry {
        job: "job".to_owned(),
        address: "h:1".to_owned(),
        labels: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
        weight: Weight::new(weight),
    };
    let share =
        Share { version: 4, targets: BTreeMap::from([(id, entry(5, "x"))]), ..Share::default() };
    let shares = BTreeMap::from([(pod.clone(), share)]);
    let seen = PodObservation { reported: Some(4), ..PodObservation::default() };
    let pods = BTreeMap::from([(pod.clone(), seen)]);
    let writes = |entry: TargetEntry| {
        let wanted = BTreeMap::from([(id, DesiredTarget { pod: pod.clone(), entry })]);
        let (shares, pods, wanted, jobs) = (&shares, &pods, &wanted, &BTreeMap::new());
        plan_writes(&HandoverInput {
            shares,
            pods,
            desired: wanted,
            jobs,
            now: 1,
            silent_seconds: 20,
        })
    };
    assert_eq!(writes(entry(6, "x")), Vec::new());
    let written = writes(entry(6, "y"));
    let [Write::Put(_, share)] = &written[..] else { panic!("{written:?}") };
    assert_eq!((share.version, &share.targets[&id]), (5, &entry(6, "y")));
}

/// Scenario: a job's settings change once; one setting belongs to a job without targets. Guarantee:
/// documents with the job get a new version with its settings and no others; then nothing changes.
/// A silent pod's document is unchanged.
#[test]
fn other_settings_of_a_job_are_a_new_version() {
    let (pod, id) = (PodName::new("a"), TargetId(1));
    let (address, labels, weight) = ("h:1".to_owned(), BTreeMap::new(), Weight::new(5));
    let entry = TargetEntry { job: "job".to_owned(), address, labels, weight };
    let targets = BTreeMap::from([(id, entry.clone())]);
    let jobs = |seconds: u32| BTreeMap::from([("job".to_owned(), json!({"i": seconds}))]);
    let share = Share { version: 4, jobs: jobs(15), targets, ..Share::default() };
    let wanted = BTreeMap::from([(id, DesiredTarget { pod: pod.clone(), entry })]);
    let writes = |share: &Share, now, seconds| {
        let mut jobs = jobs(seconds);
        jobs.insert("unused".to_owned(), json!({}));
        let shares = BTreeMap::from([(pod.clone(), share.clone())]);
        let pods = BTreeMap::from([(
            pod.clone(),
            PodObservation { reported: Some(4), ..PodObservation::default() },
        )]);
        let (shares, pods, wanted, jobs) = (&shares, &pods, &wanted, &jobs);
        plan_writes(&HandoverInput { shares, pods, desired: wanted, jobs, now, silent_seconds: 20 })
    };
    assert_eq!(writes(&share, 1, 15), Vec::new());
    let next = Share { version: 5, jobs: jobs(30), ..share.clone() };
    assert_eq!(writes(&share, 1, 30), vec![Write::Put(pod.clone(), next.clone())]);
    assert_eq!(writes(&next, 1, 30), Vec::new());
    assert_eq!(writes(&share, 20, 30), Vec::new());
}

/// Scenario: somebody deletes a pod's document. Guarantee: the next document has a version that the
/// pod accepts.
#[test]
fn a_deleted_document_goes_on_behind_what_its_pod_has() {
    let (pod, id) = (PodName::new("a"), TargetId(1));
    let (address, labels, weight) = ("h:1".to_owned(), BTreeMap::new(), Weight::new(5));
    let entry = TargetEntry { job: "job".to_owned(), address, labels, weight };
    let pods = BTreeMap::from([(
        pod.clone(),
        PodObservation { reported: Some(7), ..PodObservation::default() },
    )]);
    let wanted = BTreeMap::from([(id, DesiredTarget { pod, entry })]);
    let (shares, pods, wanted, jobs) = (&BTreeMap::new(), &pods, &wanted, &BTreeMap::new());
    let writes = plan_writes(&HandoverInput {
        shares,
        pods,
        desired: wanted,
        jobs,
        now: 1,
        silent_seconds: 20,
    });
    assert!(matches!(&writes[..], [Write::Put(_, Share { version: 8, .. })]), "{writes:?}");
}
