//! A rollout from stage to stage, case by case: a pool of four pods, looked at every five seconds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use millrace_rollout::{
    Canary, Cause, Fault, FaultKind, FilesLoad, First, Judgement, Load, Member, Plan, PodFigures,
    Point, Policy, Seen, Stage, State, Step, Unit, Wish, step,
};

const CANARY: Policy =
    Policy { canary: Some(Canary { pods: 1, judge_seconds: 60 }), rolls_back: true };
const ALL_AT_ONCE: Policy = Policy { canary: None, rolls_back: true };

fn unit(image: &str) -> Unit {
    Unit { image: image.into(), config: "c".into(), ..Unit::default() }
}

fn load(records: u64, cpu_seconds: f64) -> Load {
    Load {
        seconds: 60.0,
        records_in: records,
        records_out: records,
        cpu_seconds,
        resident_bytes: 200 << 20,
        ..Load::default()
    }
}

/// A pool whose StatefulSet does at once what is written.
struct Pool {
    now: i64,
    size: u32,
    wanted: Unit,
    key: String,
    wish: Wish,
    first: First,
    policy: Policy,
    state: Option<State>,
    plan: Plan,
    new: Load,
    old: Load,
    /// What is wrong with pods of the new unit.
    spoil: fn(&mut Member),
    /// Old pods are ready.
    old_ready: bool,
    stays: Option<Fault>,
    broker_away: bool,
    /// No pod of the new unit was made yet.
    hidden: bool,
    /// All pods can be what they are to be.
    complete: bool,
}

impl Pool {
    fn stable() -> Self {
        let mut pool = Self {
            now: 0,
            size: 4,
            wanted: unit("old"),
            key: "old".into(),
            wish: Wish::Go,
            first: First::Done,
            policy: CANARY,
            state: None,
            plan: Plan::Whole,
            new: load(1_000_000, 10.0),
            old: load(1_000_000, 10.0),
            spoil: |_| {},
            old_ready: true,
            stays: None,
            broker_away: false,
            hidden: false,
            complete: true,
        };
        assert_eq!(pool.look().plan, Plan::Whole);
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
            Plan::Whole | Plan::Old => 0,
            Plan::Split { pods } => pods,
        }
    }

    fn look(&mut self) -> Step {
        let updated = self.updated();
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
        let all_new = !matches!(self.plan, Plan::Split { pods } if pods < self.size);
        let seen = Seen {
            now: self.now,
            wanted: self.wanted.clone(),
            key: self.key.clone(),
            running: Some(unit("old")),
            wish: self.wish,
            first: self.first.clone(),
            size: self.size,
            taken_up: true,
            complete: self.complete && all_new && members.iter().all(|member| member.ready),
            members,
            stays: self.stays.clone(),
            broker_away: self.broker_away,
            new_loads: vec![self.new.clone()],
            old_loads: vec![self.old.clone()],
        };
        let step = step(self.state.as_ref(), &seen, &self.policy);
        self.state = Some(step.state.clone());
        self.plan = step.plan;
        step
    }

    /// Looks every five seconds; gives the stages and plans that followed each other.
    fn play(&mut self, seconds: i64) -> Vec<(String, Plan)> {
        let mut told: Vec<(String, Plan)> = Vec::new();
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
        Stage::Returning(_) => "Returning".into(),
        Stage::Returned(_) => "Returned".into(),
    }
}

fn stages(told: &[(String, Plan)]) -> Vec<&str> {
    let mut names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    names
}

fn fault(stage: &Stage) -> FaultKind {
    match stage {
        Stage::Returning(Cause::Failed(fault)) | Stage::Returned(Cause::Failed(fault)) => {
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
    assert_eq!(stages(&told), ["Canary", "Judging", "Promoting", "Stable"]);
    let plans: Vec<Plan> = told.iter().map(|(_, plan)| *plan).collect();
    let split = |pods| Plan::Split { pods };
    assert_eq!(plans, [split(1), split(1), split(2), split(4), Plan::Whole]);
    let state = pool.state.unwrap();
    assert_eq!((state.before.unwrap().image, state.after.image), ("old".into(), "new".into()));
}

/// Scenario: nothing differs, for an hour. Guarantee: the same state and plan at every look.
#[test]
fn nothing_happens_while_nothing_differs() {
    let mut pool = Pool::stable();
    let before = pool.state.clone();
    assert_eq!(pool.play(3600), [("Stable".into(), Plan::Whole)]);
    assert_eq!(pool.state, before);
}

/// Scenario: each way in which a pod can fail by itself, with and without a canary. Guarantee: the
/// old unit is asked for within three minutes, with the fault's own word, and stays.
#[test]
fn a_unit_whose_pods_fail_is_taken_back_within_three_minutes() {
    type Spoil = fn(&mut Member);
    let cases: [(FaultKind, Spoil); 6] = [
        (FaultKind::ImagePullFailed, |member| {
            member.figures.waiting = Some("ErrImagePull".into());
            (member.ready, member.not_ready_seconds) = (false, 50);
        }),
        (FaultKind::PodsRefused, |member| {
            member.figures.waiting = Some("CreateContainerConfigError".into());
            (member.ready, member.not_ready_seconds) = (false, 50);
        }),
        (FaultKind::PodCrashing, |member| (member.ready, member.restarts) = (true, 2)),
        (FaultKind::PodOutOfMemory, |member| {
            member.figures.last_ended = Some("OOMKilled".into());
            member.restarts = 1;
        }),
        (FaultKind::SettingsRefused, |member| member.exit_code = Some(64)),
        (FaultKind::PodsNotReady, |member| {
            (member.ready, member.not_ready_seconds) = (false, 150);
        }),
    ];
    for (kind, spoil) in cases {
        for policy in [CANARY, ALL_AT_ONCE] {
            let mut pool = Pool { spoil, policy, ..Pool::stable().wants("new") };
            let told = pool.play(15);
            assert_eq!(told.last().unwrap(), &("Returned".into(), Plan::Old), "{kind}: {told:?}");
            assert_eq!(fault(pool.stage()), kind);
            assert_eq!(pool.play(3600), [("Returned".into(), Plan::Old)]);
        }
    }
}

/// Scenario: pods that only start slowly, or whose node is busy. Guarantee: not taken back.
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

/// Scenario: new pods whose nodes don't answer or that find none, that aren't ready beside old ones
/// that aren't either or, where all are new, while the broker is away; an old pod that doesn't end.
/// Guarantee: for an hour not taken back and no pod more, and told what is waited for; it comes to
/// its end when that is over.
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
        member.figures.unschedulable = true;
    };
    let nothing: Spoil = |_| {};
    let stays = Some(Fault::new(FaultKind::PodsNotReady, "it doesn't end"));
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
        assert_eq!(pool.play(3600), [("Canary".into(), Plan::Split { pods: 1 })], "case {at}");
        assert!(pool.look().waits.is_some(), "case {at}");
        (pool.spoil, pool.old_ready) = (nothing, true);
        (pool.stays, pool.hidden) = (None, false);
        assert_eq!(*stages(&pool.play(400)).last().unwrap(), "Stable", "case {at}");
    }
}

/// Scenario: an old pod that doesn't end on the way back. Guarantee: told, and nothing else
/// changes; once it has ended, so has the way back.
#[test]
fn a_way_back_that_waits_is_told() {
    let spoil = |member: &mut Member| member.exit_code = Some(64);
    let mut pool = Pool { spoil, complete: false, ..Pool::stable().wants("new") };
    while !matches!(pool.state.as_ref().unwrap().stage, Stage::Returning(_)) {
        assert_eq!(pool.look().waits, None);
        pool.now += 5;
    }
    pool.stays = Some(Fault::new(FaultKind::PodsNotReady, "it doesn't end"));
    for _ in 0..100 {
        let step = pool.look();
        assert_eq!((step.plan, step.waits), (Plan::Old, pool.stays.clone()));
    }
    (pool.stays, pool.complete) = (None, true);
    assert_eq!(*stages(&pool.play(20)).last().unwrap(), "Returned");
}

/// Scenario: a new unit worse in each thing that is compared. Guarantee: taken back once it was
/// watched for its time, with the reason; never beyond its first pod.
#[test]
fn a_worse_canary_is_taken_back_with_the_reason() {
    let good = load(1_000_000, 10.0);
    let cases = [
        (FaultKind::CanarySlower, Load { cpu_seconds: 20.0, ..good.clone() }),
        (FaultKind::CanaryMemory, Load { resident_bytes: 500 << 20, ..good.clone() }),
        (FaultKind::CanaryInsertsFail, Load { insert_failures: 6, ..good.clone() }),
        (FaultKind::CanaryLagGrows, Load { lag_change: Some(500), ..good.clone() }),
        (FaultKind::CanaryUnaccounted, Load { records_out: 800_000, ..good.clone() }),
    ];
    for (kind, new) in cases {
        let mut pool = Pool { new, ..Pool::stable().wants("new") };
        let told = pool.play(120);
        assert_eq!(stages(&told), ["Canary", "Judging", "Returning", "Returned"], "{kind}");
        assert!(told.iter().all(|(_, plan)| *plan != Plan::Split { pods: 2 }));
        assert_eq!(fault(pool.stage()), kind);
    }
}

/// A pod that reads its node's files, with what became of them.
fn reads(files: FilesLoad) -> Load {
    Load { files: Some(files), ..load(1_000_000, 10.0) }
}

/// Scenario: a new unit that reads nodes' files and is worse at it in each way. Guarantee: taken
/// back with the reason, never beyond its first pod; the same of the old pods is no fault.
#[test]
fn a_canary_that_reads_files_worse_is_taken_back_with_the_reason() {
    const MIB: u64 = 1 << 20;
    let good = FilesLoad::default();
    let silent = |records| Load { records_in: records, records_out: records, ..reads(good) };
    let cases = [
        // Bytes that were read are neither confirmed nor behind.
        (
            FaultKind::CanaryUnaccounted,
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
        assert_eq!(stages(&told), ["Canary", "Judging", "Returning", "Returned"], "{kind}");
        assert!(told.iter().all(|(_, plan)| *plan != Plan::Split { pods: 2 }));
        assert_eq!(fault(pool.stage()), kind);
        if kind != FaultKind::CanaryUnaccounted {
            let mut pool = Pool { new: new.clone(), old: new, ..Pool::stable().wants("new") };
            assert_eq!(*stages(&pool.play(600)).last().unwrap(), "Stable", "{kind}");
        }
    }
}

/// Scenario: what a busy node has in flight; less than a canary's bound behind; a file that a
/// program truncated itself; hardly a record on a quiet node. Guarantee: none takes a unit back.
#[test]
fn a_canary_is_not_blamed_for_what_any_reader_of_files_does() {
    const MIB: u64 = 1 << 20;
    let fine = FilesLoad {
        unaccounted_bytes: FilesLoad::unaccounted(50 * MIB, 41 * MIB, 9 * MIB) + 8 * MIB,
        behind_change: 17 << 20,
        lost_bytes: MIB - 1,
    };
    let quiet = Load { records_in: 1, records_out: 1, ..reads(fine) };
    for new in [reads(fine), quiet] {
        let old = reads(FilesLoad::default());
        let mut pool = Pool { new, old, ..Pool::stable().wants("new") };
        assert_eq!(*stages(&pool.play(600)).last().unwrap(), "Stable");
    }
}

/// Scenario: bytes in records, confirmed and behind of one moment. Guarantee: what is missing, on
/// either side, and nothing else.
#[test]
fn bytes_read_are_acknowledged_or_behind() {
    let cases = [((100, 60, 40), 0), ((100, 60, 400), 0), ((100, 60, 30), 10), ((60, 100, 0), 40)];
    for ((taken, confirmed, behind), missing) in cases {
        assert_eq!(FilesLoad::unaccounted(taken, confirmed, behind), missing);
    }
}

/// Scenario: the old pods are as bad. Guarantee: the new unit is not blamed for it.
#[test]
fn what_the_old_pods_do_too_is_no_fault() {
    let busy = Load {
        insert_failures: 20,
        lag_change: Some(5_000),
        resident_bytes: 500 << 20,
        ..load(1_000_000, 30.0)
    };
    let mut pool = Pool { new: busy.clone(), old: busy, ..Pool::stable().wants("new") };
    assert_eq!(*stages(&pool.play(300)).last().unwrap(), "Stable");
}

/// Scenario: hardly any records. Guarantee: judging takes three times its time, then goes on and
/// says that it was judged on too few.
#[test]
fn too_few_records_extend_the_judging_up_to_a_bound() {
    let mut pool = Pool { new: load(10, 0.1), ..Pool::stable().wants("new") };
    assert_eq!(stages(&pool.play(170)), ["Canary", "Judging"]);
    let mut verdict = None;
    while !matches!(pool.stage(), Stage::Moving(Point::Promoting { .. })) {
        verdict = pool.look().judgement;
        pool.now += 5;
        assert!(pool.now < 400);
    }
    assert_eq!(verdict, Some(Judgement::TooFew { records: 10 }));
}

/// Scenario: paused before it begins, while judged and while promoted; resumed each time.
/// Guarantee: not one pod more while it is paused, and it gets to its end.
#[test]
fn a_paused_rollout_moves_no_pod_and_goes_on_when_resumed() {
    for seconds in [0, 10, 90] {
        let mut pool = Pool::stable().wants("new");
        pool.play(seconds);
        let plan = if seconds == 0 { Plan::Old } else { pool.plan };
        pool.wish = Wish::Pause;
        assert_eq!(pool.play(3600), [("Paused".into(), plan)]);
        pool.wish = Wish::Go;
        assert_eq!(*stages(&pool.play(400)).last().unwrap(), "Stable");
        assert_eq!(pool.state.unwrap().after.image, "new");
    }
}

/// Scenario: aborted before it begins, while judged, promoted and paused. Guarantee: back in the old
/// unit, also after the word is taken away; another unit is tried again.
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
        assert_eq!(pool.play(60).last().unwrap(), &("Returned".into(), Plan::Old));
        assert_eq!(pool.stage(), &Stage::Returned(Cause::Aborted));
        pool.wish = Wish::Go;
        assert_eq!(pool.play(600), [("Returned".into(), Plan::Old)]);
        pool.ask("newer");
        assert_eq!(*stages(&pool.play(400)).last().unwrap(), "Stable");
    }
}

/// Scenario: another unit is asked for while one is judged, then the old one again. Guarantee: the
/// newest wins, from its first pod on; asking for the old one needs no judging.
#[test]
fn the_newest_unit_wins() {
    let mut pool = Pool::stable().wants("new");
    pool.play(100);
    pool.ask("newer");
    let told = pool.play(20);
    assert_eq!(told[0], ("Canary".into(), Plan::Split { pods: 1 }));
    let state = pool.state.clone().unwrap();
    assert_eq!((state.before.unwrap().image, state.attempts), ("old".into(), 2));
    pool.ask("old");
    assert_eq!(pool.play(30), [("Stable".into(), Plan::Whole)]);
}

/// Scenario: rolling back is left to a person. Guarantee: nothing more is promoted, the fault is
/// told at every look, and it goes on by itself once nothing speaks against it.
#[test]
fn without_rolling_back_a_bad_canary_is_held() {
    let policy = Policy { rolls_back: false, ..CANARY };
    let new = load(1_000_000, 20.0);
    let mut pool = Pool { new, policy, ..Pool::stable().wants("new") };
    assert_eq!(stages(&pool.play(3600)), ["Canary", "Judging"]);
    assert_eq!(pool.look().held.unwrap().kind, FaultKind::CanarySlower);
    pool.new = load(1_000_000, 10.0);
    assert_eq!(*stages(&pool.play(300)).last().unwrap(), "Stable");
}

/// Scenario: what must come first has not come. Guarantee: the old unit, until it has.
#[test]
fn a_rollout_waits_for_what_must_come_first() {
    let mut pool = Pool { first: First::Waits, ..Pool::stable().wants("new") };
    assert_eq!(pool.play(600), [("Waiting".into(), Plan::Old)]);
    pool.first = First::Done;
    assert_eq!(*stages(&pool.play(300)).last().unwrap(), "Stable");
}

/// Scenario: a pool of one pod. Guarantee: its pod is the canary, judged by what it did before; a
/// worse unit is taken back.
#[test]
fn a_pool_of_one_is_judged_by_its_own_past() {
    let mut pool = Pool::stable().wants("new");
    pool.size = 1;
    assert_eq!(stages(&pool.play(200)), ["Canary", "Judging", "Promoting", "Stable"]);
    let mut pool = Pool { new: load(1_000_000, 20.0), ..Pool::stable().wants("new") };
    pool.size = 1;
    assert_eq!(*stages(&pool.play(200)).last().unwrap(), "Returned");
}
