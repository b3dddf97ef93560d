//! A rollout from stage to stage, case by case: a pool of four pods, observed every five seconds.

use millrace_rollout::{
    Canary, CanaryVerdict, Cause, FaultKind, FilesLoad, LoadFigures, Member, PodFigures,
    Precondition, RolloutObservation, RolloutPlan, RolloutPolicy, RolloutProgress, RolloutState,
    RolloutStep, Stage, Unit, UnitFault, Wish, step_rollout,
};

const CANARY: RolloutPolicy =
    RolloutPolicy { canary: Some(Canary { pods: 1, analysis_seconds: 60 }), rolls_back: true };
const ALL_AT_ONCE: RolloutPolicy = RolloutPolicy { canary: None, rolls_back: true };

fn unit(image: &str) -> Unit {
    Unit { image: image.into(), config: "c".into(), ..Unit::default() }
}

fn load(records: u64, cpu_seconds: f64) -> LoadFigures {
    LoadFigures {
        seconds: 60.0,
        records_in: records,
        records_out: records,
        cpu_seconds,
        resident_bytes: 200 << 20,
        ..LoadFigures::default()
    }
}

/// A pool whose StatefulSet applies each plan at once.
struct Pool {
    now: i64,
    size: u32,
    wanted: Unit,
    key: String,
    wish: Wish,
    first: Precondition,
    policy: RolloutPolicy,
    state: Option<RolloutState>,
    plan: RolloutPlan,
    new: LoadFigures,
    old: LoadFigures,
    /// Sets the faults of pods of the new unit.
    spoil: fn(&mut Member),
    /// Old pods are ready.
    old_ready: bool,
    stays: Option<UnitFault>,
    broker_away: bool,
    /// No pod of the new unit exists yet.
    hidden: bool,
    /// All pods can reach their target state.
    complete: bool,
    /// How many pods the workload's controller has replaced at most.
    replaced_max: u32,
    /// The workload's controller has acted on the last plan.
    is_spec_observed: bool,
}

impl Pool {
    fn stable() -> Self {
        let mut pool = Self {
            now: 0,
            size: 4,
            wanted: unit("old"),
            key: "old".into(),
            wish: Wish::Continue,
            first: Precondition::Done,
            policy: CANARY,
            state: None,
            plan: RolloutPlan::All,
            new: load(1_000_000, 10.0),
            old: load(1_000_000, 10.0),
            spoil: |_| {},
            old_ready: true,
            stays: None,
            broker_away: false,
            hidden: false,
            complete: true,
            replaced_max: u32::MAX,
            is_spec_observed: true,
        };
        assert_eq!(pool.look().plan, RolloutPlan::All);
        pool
    }

    fn wants(mut self, image: &str) -> Self {
        self.ask(image);
        self
    }

    fn ask(&mut self, image: &str) {
        self.wanted = unit(image);
        self.key = image.into();
    }

    fn updated(&self) -> u32 {
        match self.plan {
            RolloutPlan::All | RolloutPlan::Previous => 0,
            RolloutPlan::Split { pods } => pods,
        }
    }

    fn look(&mut self) -> RolloutStep {
        let updated = self.updated().min(self.replaced_max);
        let member = |at: u32| {
            let mut member = Member {
                figures: PodFigures { name: format!("p-{at}"), ..PodFigures::default() },
                updated: at >= self.size - updated && !self.hidden,
                ready: self.old_ready,
                ..Member::default()
            };
            member.ready |= member.updated;
            if member.updated && updated > 0 {
                (self.spoil)(&mut member);
            }
            member
        };
        let members: Vec<Member> = (0..self.size).map(member).collect();
        let all_new = !matches!(self.plan, RolloutPlan::Split { pods } if pods < self.size);
        let seen = RolloutObservation {
            now: self.now,
            declared: self.wanted.clone(),
            key: self.key.clone(),
            running: Some(unit("old")),
            wish: self.wish,
            first: self.first.clone(),
            size: self.size,
            is_spec_observed: self.is_spec_observed,
            allowed: match self.plan {
                RolloutPlan::All | RolloutPlan::Previous => self.size,
                RolloutPlan::Split { pods } => pods,
            },
            complete: self.complete && all_new && members.iter().all(|member| member.ready),
            members,
            stays: self.stays.clone(),
            broker_away: self.broker_away,
            new_loads: vec![self.new.clone()],
            old_loads: vec![self.old.clone()],
        };
        let step = step_rollout(self.state.as_ref(), &seen, &self.policy);
        self.state = Some(step.state.clone());
        self.plan = step.plan;
        step
    }

    /// Runs a step every five seconds; returns the sequence of stages and plans.
    fn play(&mut self, seconds: i64) -> Vec<(String, RolloutPlan)> {
        let mut told: Vec<(String, RolloutPlan)> = Vec::new();
        let end = self.now + seconds;
        while self.now < end {
            let step = self.look();
            let line = (stage(&step.state.stage), step.plan);
            if told.last() != Some(&line) {
                told.push(line);
            }
            self.now += 5;
        }
        told
    }

    fn stage(&self) -> &Stage {
        &self.state.as_ref().unwrap().stage
    }
}

fn stage(stage: &Stage) -> String {
    match stage {
        Stage::Stable => "Stable".into(),
        Stage::Moving(point) => format!("{point:?}").split(' ').next().unwrap().into(),
        Stage::Paused(_) => "Paused".into(),
        Stage::RollingBack(_) => "Returning".into(),
        Stage::RolledBack(_) => "Returned".into(),
    }
}

fn stages(told: &[(String, RolloutPlan)]) -> Vec<&str> {
    let mut names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    names
}

fn fault(stage: &Stage) -> FaultKind {
    match stage {
        Stage::RollingBack(Cause::Failed(fault)) | Stage::RolledBack(Cause::Failed(fault)) => {
            fault.kind
        }
        other => panic!("not taken back: {other:?}"),
    }
}

/// Scenario: a unit as good as the one before. Guarantee: one pod first, watched for its time, then
/// two, then all; stable in the new unit with the old one on record.
#[test]
fn a_good_unit_goes_from_one_pod_to_all() {
    let mut pool = Pool::stable().wants("new");
    let told = pool.play(300);
    assert_eq!(stages(&told), ["Canary", "Analyzing", "Promoting", "Stable"]);
    let plans: Vec<RolloutPlan> = told.iter().map(|(_, plan)| *plan).collect();
    let split = |pods| RolloutPlan::Split { pods };
    assert_eq!(plans, [split(1), split(1), split(2), split(4), RolloutPlan::All]);
    let state = pool.state.unwrap();
    assert_eq!((state.before.unwrap().image, state.after.image), ("old".into(), "new".into()));
}

/// Scenario: nothing differs, for an hour. Guarantee: the same state and plan at every step.
#[test]
fn nothing_happens_while_nothing_differs() {
    let mut pool = Pool::stable();
    let before = pool.state.clone();
    assert_eq!(pool.play(3600), [("Stable".into(), RolloutPlan::All)]);
    assert_eq!(pool.state, before);
}

/// Scenario: each fault that a pod alone can show, with and without a canary. Guarantee: the plan
/// returns to the old unit within three minutes, with the fault's own kind, and stays there.
#[test]
fn a_unit_whose_pods_fail_is_taken_back_within_three_minutes() {
    type Spoil = fn(&mut Member);
    let cases: [(FaultKind, Spoil); 6] = [
        (FaultKind::ImagePullFailed, |member| {
            member.figures.waiting = Some("ErrImagePull".into());
            (member.ready, member.not_ready_seconds) = (false, 50);
        }),
        (FaultKind::PodCreationFailed, |member| {
            member.figures.waiting = Some("CreateContainerConfigError".into());
            (member.ready, member.not_ready_seconds) = (false, 50);
        }),
        (FaultKind::PodCrashing, |member| (member.ready, member.restarts) = (true, 2)),
        (FaultKind::PodOutOfMemory, |member| {
            member.figures.last_ended = Some("OOMKilled".into());
            member.restarts = 1;
        }),
        (FaultKind::ConfigurationRejected, |member| member.exit_code = Some(64)),
        (FaultKind::PodsNotReady, |member| {
            (member.ready, member.not_ready_seconds) = (false, 150);
        }),
    ];
    for (kind, spoil) in cases {
        for policy in [CANARY, ALL_AT_ONCE] {
            let mut pool = Pool { spoil, policy, ..Pool::stable().wants("new") };
            let told = pool.play(20);
            assert_eq!(
                told.last().unwrap(),
                &("Returned".into(), RolloutPlan::Previous),
                "{kind}: {told:?}"
            );
            assert_eq!(fault(pool.stage()), kind);
            assert_eq!(pool.play(3600), [("Returned".into(), RolloutPlan::Previous)]);
        }
    }
}

/// Scenario: pods that start slowly, or whose node is busy. Guarantee: no rollback.
#[test]
fn a_slow_start_is_no_fault() {
    let spoil = |member: &mut Member| {
        member.figures.waiting = Some("ErrImagePull".into());
        (member.ready, member.not_ready_seconds, member.restarts) = (false, 40, 1);
    };
    let mut pool = Pool { spoil, ..Pool::stable().wants("new") };
    assert_eq!(stages(&pool.play(40)), ["Canary"]);
    pool.spoil = |_| {};
    assert_eq!(*stages(&pool.play(300)).last().unwrap(), "Stable");
}

/// Scenario: new pods whose nodes don't answer or that find none, that aren't ready like the old
/// ones or, where all are new, while the broker is away; an old pod that doesn't end. Guarantee:
/// for an hour no rollback, no further pod, and a report of what blocks it; it completes when that
/// is over.
#[test]
fn trouble_of_the_cluster_takes_nothing_back() {
    type Spoil = fn(&mut Member);
    let not_ready: Spoil = |member| (member.ready, member.not_ready_seconds) = (false, 900);
    let lost: Spoil = |member| {
        (member.ready, member.not_ready_seconds) = (false, 900);
        member.figures.node_lost = true;
    };
    let no_node: Spoil = |member| {
        (member.ready, member.not_ready_seconds) = (false, 900);
        member.figures.unschedulable_seconds = Some(900);
    };
    let nothing: Spoil = |_| {};
    let stays = Some(UnitFault::new(FaultKind::PodsNotReady, "it doesn't end"));
    let cases = [
        (lost, true, 4, false, None),
        (no_node, true, 4, false, None),
        (not_ready, false, 4, false, None),
        (not_ready, true, 1, true, None),
        (nothing, true, 4, false, stays),
    ];
    for (at, (spoil, old_ready, size, broker_away, stays)) in cases.into_iter().enumerate() {
        let hidden = stays.is_some();
        let mut pool = Pool::stable().wants("new");
        (pool.spoil, pool.old_ready, pool.size) = (spoil, old_ready, size);
        (pool.broker_away, pool.stays, pool.hidden) = (broker_away, stays, hidden);
        assert_eq!(
            pool.play(3600),
            [("Canary".into(), RolloutPlan::Split { pods: 1 })],
            "case {at}"
        );
        assert!(pool.look().waits.is_some(), "case {at}");
        (pool.spoil, pool.old_ready) = (nothing, true);
        (pool.stays, pool.hidden) = (None, false);
        assert_eq!(*stages(&pool.play(400)).last().unwrap(), "Stable", "case {at}");
    }
}

/// Scenario: an old pod does not end during a rollback. Guarantee: this is reported and nothing
/// else changes; once the pod has ended, the rollback completes.
#[test]
fn a_way_back_that_waits_is_told() {
    let spoil = |member: &mut Member| member.exit_code = Some(64);
    let mut pool = Pool { spoil, complete: false, ..Pool::stable().wants("new") };
    while !matches!(pool.state.as_ref().unwrap().stage, Stage::RollingBack(_)) {
        assert_eq!(pool.look().waits, None);
        pool.now += 5;
    }
    pool.stays = Some(UnitFault::new(FaultKind::PodsNotReady, "it doesn't end"));
    for _ in 0..100 {
        let step = pool.look();
        assert_eq!((step.plan, step.waits), (RolloutPlan::Previous, pool.stays.clone()));
    }
    (pool.stays, pool.complete) = (None, true);
    assert_eq!(*stages(&pool.play(20)).last().unwrap(), "Returned");
}

/// Scenario: a new unit is worse in each figure that is compared. Guarantee: rolled back after its
/// analysis, with the reason; never beyond its first pod.
#[test]
fn a_worse_canary_is_taken_back_with_the_reason() {
    let good = load(1_000_000, 10.0);
    let cases = [
        (FaultKind::CanarySlower, LoadFigures { cpu_seconds: 20.0, ..good.clone() }),
        (FaultKind::CanaryMemoryHigher, LoadFigures { resident_bytes: 500 << 20, ..good.clone() }),
        (FaultKind::CanaryInsertsFail, LoadFigures { insert_failures: 6, ..good.clone() }),
        (FaultKind::CanaryLagGrows, LoadFigures { lag_change: Some(500), ..good.clone() }),
        (FaultKind::CanaryRecordsUnaccounted, LoadFigures { records_out: 800_000, ..good.clone() }),
        (FaultKind::CanaryDropsAll, drops(990_000)),
    ];
    for (kind, new) in cases {
        let mut pool = Pool { new, ..Pool::stable().wants("new") };
        let told = pool.play(120);
        assert_eq!(stages(&told), ["Canary", "Analyzing", "Returning", "Returned"], "{kind}");
        assert!(told.iter().all(|(_, plan)| *plan != RolloutPlan::Split { pods: 2 }));
        assert_eq!(fault(pool.stage()), kind);
    }
}

/// A pod whose rules drop so many of a million records.
fn drops(records_dropped: u64) -> LoadFigures {
    let records_out = 1_000_000 - records_dropped;
    LoadFigures { records_out, records_dropped, ..load(1_000_000, 10.0) }
}

/// Scenario: new rules drop much, but not nearly all; rules drop nearly all before and after; too
/// few records came to either side. Guarantee: dropped records are accounted for, and no rollout is
/// blamed for them.
#[test]
fn records_that_rules_drop_are_an_expected_loss() {
    let few = LoadFigures { records_in: 9_999, records_dropped: 9_999, ..load(0, 1.0) };
    let cases = [
        (drops(0), drops(989_999)),
        (drops(995_000), drops(1_000_000)),
        (drops(0), few.clone()),
        (few, drops(1_000_000)),
    ];
    for (old, new) in cases {
        let mut pool = Pool { new, old, ..Pool::stable().wants("new") };
        assert_eq!(*stages(&pool.play(600)).last().unwrap(), "Stable");
    }
}

/// A pod that reads its node's files, with their figures.
fn reads(files: FilesLoad) -> LoadFigures {
    LoadFigures { files: Some(files), ..load(1_000_000, 10.0) }
}

/// Scenario: a new unit reads nodes' files worse in each figure. Guarantee: rolled back with the
/// reason, never beyond its first pod; the same in the old pods is no fault.
#[test]
fn a_canary_that_reads_files_worse_is_taken_back_with_the_reason() {
    const MIB: u64 = 1 << 20;
    let good = FilesLoad::default();
    let silent = |records| LoadFigures { records_in: records, records_out: records, ..reads(good) };
    let cases = [
        // Bytes that were read are neither confirmed nor behind.
        (
            FaultKind::CanaryRecordsUnaccounted,
            reads(FilesLoad { unaccounted_bytes: 10 * MIB, ..good }),
            120,
        ),
        (FaultKind::CanaryFallsBehind, reads(FilesLoad { behind_change: 19 << 20, ..good }), 120),
        (FaultKind::CanaryLosesLogs, reads(FilesLoad { lost_bytes: MIB, ..good }), 120),
        (FaultKind::CanaryReadsNothing, silent(0), 240),
    ];
    for (kind, new, seconds) in cases {
        let old = reads(good);
        let mut pool = Pool { new: new.clone(), old, ..Pool::stable().wants("new") };
        let told = pool.play(seconds);
        assert_eq!(stages(&told), ["Canary", "Analyzing", "Returning", "Returned"], "{kind}");
        assert!(told.iter().all(|(_, plan)| *plan != RolloutPlan::Split { pods: 2 }));
        assert_eq!(fault(pool.stage()), kind);
        if kind != FaultKind::CanaryRecordsUnaccounted {
            let mut pool = Pool { new: new.clone(), old: new, ..Pool::stable().wants("new") };
            assert_eq!(*stages(&pool.play(600)).last().unwrap(), "Stable", "{kind}");
        }
    }
}

/// Scenario: the in-flight bytes of a busy node; a backlog below a canary's bound; a file that a
/// program truncated itself; hardly a record on a quiet node. Guarantee: none rolls a unit back.
#[test]
fn a_canary_is_not_blamed_for_what_any_reader_of_files_does() {
    const MIB: u64 = 1 << 20;
    let fine = FilesLoad {
        unaccounted_bytes: FilesLoad::count_unaccounted(50 * MIB, 41 * MIB, 9 * MIB) + 8 * MIB,
        behind_change: 17 << 20,
        lost_bytes: MIB - 1,
    };
    let quiet = LoadFigures { records_in: 1, records_out: 1, ..reads(fine) };
    for new in [reads(fine), quiet] {
        let old = reads(FilesLoad::default());
        let mut pool = Pool { new, old, ..Pool::stable().wants("new") };
        assert_eq!(*stages(&pool.play(600)).last().unwrap(), "Stable");
    }
}

/// Scenario: bytes in records, confirmed and behind of one moment. Guarantee: the count has the
/// missing bytes, on either side, and no others.
#[test]
fn bytes_read_are_acknowledged_or_behind() {
    let cases = [((100, 60, 40), 0), ((100, 60, 400), 0), ((100, 60, 30), 10), ((60, 100, 0), 40)];
    for ((taken, confirmed, behind), missing) in cases {
        assert_eq!(FilesLoad::count_unaccounted(taken, confirmed, behind), missing);
    }
}

/// Scenario: the old pods are as bad. Guarantee: the new unit does not fail.
#[test]
fn what_the_old_pods_do_too_is_no_fault() {
    let busy = LoadFigures {
        insert_failures: 20,
        lag_change: Some(5_000),
        resident_bytes: 500 << 20,
        ..load(1_000_000, 30.0)
    };
    let mut pool = Pool { new: busy.clone(), old: busy, ..Pool::stable().wants("new") };
    assert_eq!(*stages(&pool.play(300)).last().unwrap(), "Stable");
}

/// Scenario: hardly any records. Guarantee: the analysis takes three times its time, then continues
/// and reports too few records.
#[test]
fn too_few_records_extend_the_judging_up_to_a_bound() {
    let mut pool = Pool { new: load(10, 0.1), ..Pool::stable().wants("new") };
    assert_eq!(stages(&pool.play(170)), ["Canary", "Analyzing"]);
    let mut verdict = None;
    while !matches!(pool.stage(), Stage::Moving(RolloutProgress::Promoting { .. })) {
        verdict = pool.look().judgement;
        pool.now += 5;
        assert!(pool.now < 400);
    }
    assert_eq!(verdict, Some(CanaryVerdict::TooFew { records: 10 }));
}

/// Scenario: paused before it begins, while analyzed and while promoted; resumed each time.
/// Guarantee: not one more pod while it is paused, and it completes.
#[test]
fn a_paused_rollout_moves_no_pod_and_goes_on_when_resumed() {
    for seconds in [0, 10, 90] {
        let mut pool = Pool::stable().wants("new");
        pool.play(seconds);
        let plan = if seconds == 0 { RolloutPlan::Previous } else { pool.plan };
        pool.wish = Wish::Pause;
        assert_eq!(pool.play(3600), [("Paused".into(), plan)]);
        pool.wish = Wish::Continue;
        assert_eq!(*stages(&pool.play(400)).last().unwrap(), "Stable");
        assert_eq!(pool.state.unwrap().after.image, "new");
    }
}

/// Scenario: a change may reach all four pods, or two canaries, and is paused when one has it.
/// Guarantee: the workload's controller may replace no further pod, at any observation of the pause;
/// the change completes when it is resumed.
#[test]
fn a_pause_stops_the_workloads_controller() {
    let two = RolloutPolicy { canary: Some(Canary { pods: 2, analysis_seconds: 60 }), ..CANARY };
    for policy in [ALL_AT_ONCE, two] {
        let pool = Pool { policy, replaced_max: 1, complete: false, ..Pool::stable() };
        let mut pool = pool.wants("new");
        pool.play(10);
        assert!(pool.updated() > 1);
        pool.wish = Wish::Pause;
        let one = [("Paused".to_owned(), RolloutPlan::Split { pods: 1 })];
        assert_eq!(pool.play(60), one);
        (pool.replaced_max, pool.complete) = (u32::MAX, true);
        for is_spec_observed in [true, false] {
            pool.is_spec_observed = is_spec_observed;
            assert_eq!(pool.play(60), one);
        }
        pool.is_spec_observed = true;
        pool.wish = Wish::Continue;
        assert_eq!(*stages(&pool.play(400)).last().unwrap(), "Stable");
    }
}

/// Scenario: a pause begins before the first pod has the change. Guarantee: none gets it.
#[test]
fn a_pause_before_the_first_pod_lets_none_change() {
    let pool = Pool { policy: ALL_AT_ONCE, replaced_max: 0, complete: false, ..Pool::stable() };
    let mut pool = pool.wants("new");
    pool.play(10);
    pool.wish = Wish::Pause;
    assert_eq!(pool.play(60), [("Paused".into(), RolloutPlan::Split { pods: 0 })]);
}

/// Scenario: the canary crashes. Guarantee: the old template is planned once the rollback is stored,
/// so a decision from the older state changes nothing.
#[test]
fn a_rollback_is_stored_before_it_is_planned() {
    let mut pool = Pool::stable().wants("new");
    pool.play(10);
    pool.spoil = |member| member.restarts = 2;
    let (before, plan) = (pool.state.clone(), pool.plan);
    for _ in 0..2 {
        pool.state = before.clone();
        let step = pool.look();
        assert!(matches!(step.state.stage, Stage::RollingBack(_)), "{:?}", step.state.stage);
        assert_eq!(step.plan, plan);
    }
    assert_eq!(pool.look().plan, RolloutPlan::Previous);
}

/// Scenario: aborted before it begins, while analyzed, promoted and paused. Guarantee: back in the
/// old unit, also after the abort is removed; another unit is tried again.
#[test]
fn an_aborted_rollout_is_taken_back_and_not_tried_again() {
    for (seconds, paused) in [(0, false), (10, false), (90, false), (10, true)] {
        let mut pool = Pool::stable().wants("new");
        pool.play(seconds);
        if paused {
            pool.wish = Wish::Pause;
            pool.play(10);
        }
        pool.wish = Wish::Abort;
        assert_eq!(pool.play(60).last().unwrap(), &("Returned".into(), RolloutPlan::Previous));
        assert_eq!(pool.stage(), &Stage::RolledBack(Cause::Aborted));
        pool.wish = Wish::Continue;
        assert_eq!(pool.play(600), [("Returned".into(), RolloutPlan::Previous)]);
        pool.ask("newer");
        assert_eq!(*stages(&pool.play(400)).last().unwrap(), "Stable");
    }
}

/// Scenario: another unit is declared while one is analyzed, then the old one again. Guarantee: the
/// newest wins, from its first pod on; declaring the old one needs no analysis.
#[test]
fn the_newest_unit_wins() {
    let mut pool = Pool::stable().wants("new");
    pool.play(100);
    pool.ask("newer");
    let told = pool.play(20);
    assert_eq!(told[0], ("Canary".into(), RolloutPlan::Split { pods: 1 }));
    let state = pool.state.clone().unwrap();
    assert_eq!((state.before.unwrap().image, state.attempts), ("old".into(), 2));
    pool.ask("old");
    assert_eq!(pool.play(30), [("Stable".into(), RolloutPlan::All)]);
}

/// Scenario: a person decides about rollbacks. Guarantee: nothing more is promoted, the fault is
/// reported at every step, and the rollout continues automatically once the fault is gone.
#[test]
fn without_rolling_back_a_bad_canary_is_held() {
    let policy = RolloutPolicy { rolls_back: false, ..CANARY };
    let new = load(1_000_000, 20.0);
    let mut pool = Pool { new, policy, ..Pool::stable().wants("new") };
    assert_eq!(stages(&pool.play(3600)), ["Canary", "Analyzing"]);
    assert_eq!(pool.look().held.unwrap().kind, FaultKind::CanarySlower);
    pool.new = load(1_000_000, 10.0);
    assert_eq!(*stages(&pool.play(300)).last().unwrap(), "Stable");
}

/// Scenario: the precondition is not done. Guarantee: the old unit, until it is.
#[test]
fn a_rollout_waits_for_what_must_come_first() {
    let mut pool = Pool { first: Precondition::Waits, ..Pool::stable().wants("new") };
    assert_eq!(pool.play(600), [("Waiting".into(), RolloutPlan::Previous)]);
    pool.first = Precondition::Done;
    assert_eq!(*stages(&pool.play(300)).last().unwrap(), "Stable");
}

/// Scenario: a pool of one pod. Guarantee: its pod is the canary, compared with its own past; a
/// worse unit is rolled back.
#[test]
fn a_pool_of_one_is_judged_by_its_own_past() {
    let mut pool = Pool::stable().wants("new");
    pool.size = 1;
    assert_eq!(stages(&pool.play(200)), ["Canary", "Analyzing", "Promoting", "Stable"]);
    let mut pool = Pool { new: load(1_000_000, 20.0), ..Pool::stable().wants("new") };
    pool.size = 1;
    assert_eq!(*stages(&pool.play(200)).last().unwrap(), "Returned");
}
