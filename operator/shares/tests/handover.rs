//! Hand-overs played with pods that obey, late watches and reports, deaths, and operators that end
//! between any two writes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use millrace_shares::{
    Delays, Entry, Input, Pod, PodName, Policy, SILENT_SECONDS, Seen, Share, Step, Target,
    TargetId, Wanted, Weight, Write, assigned, decide, join, split, state, step,
};
use proptest::prelude::*;
use serde_json::json;

/// Pods report so often, in seconds.
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

/// A pod's process, and what is on its way to it and from it.
#[derive(Default)]
struct Process {
    alive: bool,
    deleted: bool,
    ends_at: Option<i64>,
    back_at: Option<i64>,
    share: Share,
    coming: Vec<(i64, Share)>,
    reports: Vec<(i64, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Join,
    /// The process ends and its object stays: to the operator it falls silent.
    Die(u8),
    /// Process and object are gone at once.
    Delete(u8),
    Leave(u8),
    /// The container is restarted within some seconds.
    Restart(u8),
    /// The operator ends between two writes and starts again later.
    NewOperator {
        writes: u8,
        away: u8,
    },
    Heavier(u8),
    AddTarget,
    RemoveTarget(u8),
}

/// How late things are: at most, or always.
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
    /// What the operator has in memory.
    seen: BTreeMap<PodName, Seen>,
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
            join(texts.iter().map(|it| &**it)).unwrap()
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
                let target = Target { job: "job".to_owned(), weight, zone: None };
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

    /// One second.
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
            // It reads from the API server itself.
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

    /// What the operator does at each step, from nothing but documents, pods and reports.
    fn operate(&mut self) {
        for (name, process) in &mut self.processes {
            let first = Seen { heard_at: self.now, ..Seen::default() };
            let seen = self.seen.entry(name.clone()).or_insert(first);
            (seen.deleted, seen.terminating) = (process.deleted, process.ends_at.is_some());
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
            let state = state(seen, self.now, SILENT_SECONDS);
            (name.clone(), Pod { state, zone: None })
        });
        let (pods, before) = (pods.collect(), assigned(&shares));
        let policy = Policy { moves_max: 5, ..Policy::default() };
        let input =
            Input { targets: &self.targets, pods: &pods, assigned: &before, policy: &policy };
        let placed = decide(&input).placements.into_iter().filter_map(|(id, placed)| {
            let address = format!("{id}:9100");
            let entry = Entry {
                job: "job".to_owned(),
                address,
                labels: BTreeMap::new(),
                weight: placed.weight,
            };
            Some((id, Wanted { pod: placed.pod?, entry }))
        });
        let wanted = placed.collect();
        let (now, silent_seconds) = (self.now, SILENT_SECONDS);
        let jobs = BTreeMap::new();
        let (shares, pods, wanted, jobs) = (&shares, &self.seen, &wanted, &jobs);
        let next = Step { shares, pods, wanted, jobs, now, silent_seconds };
        let writes = step(&next);
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
                self.stored.insert(name.clone(), split(&share).unwrap());
                let process = self.processes.get_mut(&name).unwrap();
                if process.alive {
                    process.coming.push((at, share));
                }
            }
        }
    }

    /// No target has two processes; how long one had none is kept.
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

    /// As many seconds in which nothing happens that all is in place, and what was there before
    /// isn't counted.
    fn settle(&mut self) {
        self.run(300);
        assert_eq!(self.alone_since, BTreeMap::new(), "each target is scraped");
        self.longest_alone = 0;
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
        3 => (0..8u8, 0..60u8).prop_map(|(writes, away)| Event::NewOperator { writes, away }),
        3 => any::<u8>().prop_map(Event::Heavier),
        2 => Just(Event::AddTarget),
        1 => any::<u8>().prop_map(Event::RemoveTarget),
    ]
}

/// 100 cases take seconds; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig { cases: if asked { usual.cases } else { 100 }, ..usual }
}

proptest! {
    #![proptest_config(config())]

    /// Scenario: pods die, join, leave and restart; documents come up to 30 s late, reports up to
    /// 9 s, so that a living pod is heard every 19 s (with a report missed in a restart) and never
    /// taken for dead; operators end between any two writes and know nothing afterwards. Guarantee:
    /// no target is ever scraped by two pods.
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

    /// Scenario: the same, then a pod joins and all is quiet. Guarantee: each target is scraped, and
    /// no other is.
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
        world.happens(Event::Join);
        world.settle();
        prop_assert_eq!(world.scraped(), world.targets.keys().copied().collect());
    }
}

fn punctual() -> Late {
    Late { delays: Delays::default(), always: true }
}

/// Scenario: a pod leaves, another joins, weights drift; everything as late as the bounds allow.
/// Guarantee: no target is without a pod for longer than the arithmetic says, so one scrape of 15 s
/// is missed at most.
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

/// Scenario: a pod's process ends and nobody says so; a pod is deleted. Guarantee: its targets are
/// elsewhere within 30 s, also when a pod was given away and one joins in the same moment.
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

/// Scenario: the operator is away for an hour, then a new one comes. Guarantee: pods go on with what
/// they have, and the new one writes nothing that isn't needed.
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
    let entry = |weight, zone: &str| Entry {
        job: "job".to_owned(),
        address: "h:1".to_owned(),
        labels: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
        weight: Weight::new(weight),
    };
    let share =
        Share { version: 4, targets: BTreeMap::from([(id, entry(5, "x"))]), ..Share::default() };
    let shares = BTreeMap::from([(pod.clone(), share)]);
    let seen = Seen { reported: Some(4), ..Seen::default() };
    let pods = BTreeMap::from([(pod.clone(), seen)]);
    let writes = |entry: Entry| {
        let wanted = BTreeMap::from([(id, Wanted { pod: pod.clone(), entry })]);
        let (shares, pods, wanted, jobs) = (&shares, &pods, &wanted, &BTreeMap::new());
        step(&Step { shares, pods, wanted, jobs, now: 1, silent_seconds: 20 })
    };
    assert_eq!(writes(entry(6, "x")), Vec::new());
    let written = writes(entry(6, "y"));
    let [Write::Put(_, share)] = &written[..] else { panic!("{written:?}") };
    assert_eq!((share.version, &share.targets[&id]), (5, &entry(6, "y")));
}

/// Scenario: a job's settings change, then no more; one of them is a job that no target has.
/// Guarantee: a new version of the documents that have the job, with its settings and no others;
/// then nothing. A silent pod's document is left alone.
#[test]
fn other_settings_of_a_job_are_a_new_version() {
    let (pod, id) = (PodName::new("a"), TargetId(1));
    let (address, labels, weight) = ("h:1".to_owned(), BTreeMap::new(), Weight::new(5));
    let entry = Entry { job: "job".to_owned(), address, labels, weight };
    let targets = BTreeMap::from([(id, entry.clone())]);
    let jobs = |seconds: u32| BTreeMap::from([("job".to_owned(), json!({"i": seconds}))]);
    let share = Share { version: 4, jobs: jobs(15), targets, ..Share::default() };
    let wanted = BTreeMap::from([(id, Wanted { pod: pod.clone(), entry })]);
    let writes = |share: &Share, now, seconds| {
        let mut jobs = jobs(seconds);
        jobs.insert("unused".to_owned(), json!({}));
        let shares = BTreeMap::from([(pod.clone(), share.clone())]);
        let pods = BTreeMap::from([(pod.clone(), Seen { reported: Some(4), ..Seen::default() })]);
        let (shares, pods, wanted, jobs) = (&shares, &pods, &wanted, &jobs);
        step(&Step { shares, pods, wanted, jobs, now, silent_seconds: 20 })
    };
    assert_eq!(writes(&share, 1, 15), Vec::new());
    let next = Share { version: 5, jobs: jobs(30), ..share.clone() };
    assert_eq!(writes(&share, 1, 30), vec![Write::Put(pod.clone(), next.clone())]);
    assert_eq!(writes(&next, 1, 30), Vec::new());
    assert_eq!(writes(&share, 20, 30), Vec::new());
}

/// Scenario: somebody deletes a pod's document. Guarantee: the next one has a version that the pod
/// takes up.
#[test]
fn a_deleted_document_goes_on_behind_what_its_pod_has() {
    let (pod, id) = (PodName::new("a"), TargetId(1));
    let (address, labels, weight) = ("h:1".to_owned(), BTreeMap::new(), Weight::new(5));
    let entry = Entry { job: "job".to_owned(), address, labels, weight };
    let pods = BTreeMap::from([(pod.clone(), Seen { reported: Some(7), ..Seen::default() })]);
    let wanted = BTreeMap::from([(id, Wanted { pod, entry })]);
    let (shares, pods, wanted, jobs) = (&BTreeMap::new(), &pods, &wanted, &BTreeMap::new());
    let writes = step(&Step { shares, pods, wanted, jobs, now: 1, silent_seconds: 20 });
    assert!(matches!(&writes[..], [Write::Put(_, Share { version: 8, .. })]), "{writes:?}");
}
