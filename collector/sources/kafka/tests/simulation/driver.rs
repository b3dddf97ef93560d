//! One seed, from its first message to its last commit: what is produced, what fails when, and what
//! must hold in the end.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use millrace_config::{GroupProtocol, MessageTimes};
use millrace_pipeline::batch::BatchLimits;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::Signal;

use super::cluster::{Group, MemberId};
use super::member::SimMember;
use super::sink::SimSink;
use super::world::{Events, Log, Row, Shape, Stored, TOPIC, World};
use crate::group::finish::WorkerDrain;
use crate::group::member::Member;
use crate::group::partition::AssignedPartition;
use crate::group::session::GroupSession;
use crate::group::status::SourceStatus;
use crate::lag::LagTracker;
use crate::settings::{DeliveryMode, SourceSettings, SourceTopic};
use crate::topics::query_client::QueryClient;
use crate::{SourceParts, WorkerContext};
use millrace_seeds::Random;

/// Once nothing fails any more, everything is committed within this (P4: 180 s to serve, 120 s to
/// have no lag).
const RECOVERY: Duration = Duration::from_secs(300);
/// How long a drain may take: less than the group waits for a member that is gone.
pub(super) const DRAIN: Duration = Duration::from_secs(15);
/// How long a budget is short: less than the 30 s after which a batch isn't repeated completely.
const MAX_SHORT_MILLIS: u64 = 8_000;
/// The turns in which every drain has ended.
const DRAIN_TURNS: u64 = 100_000;

/// The events of one seed, or of many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) rows: u64,
    pub(super) kills: u64,
    pub(super) freezes: u64,
    pub(super) drains: u64,
    /// Drains after which everything was safe.
    pub(super) safe: u64,
    pub(super) evictions: u64,
    pub(super) repeats: u64,
    pub(super) divided: u64,
    pub(super) letters: u64,
    pub(super) commits: u64,
    pub(super) parked: u64,
    /// The rows stored more than once, with at-least-once delivery.
    pub(super) copies: u64,
    pub(super) stale: u64,
    pub(super) remade: u64,
    pub(super) deleted: u64,
    pub(super) given_back: u64,
    pub(super) turns: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        let Self { rows, kills, freezes, drains, evictions, repeats, divided, letters, .. } = other;
        self.rows += rows;
        self.kills += kills;
        self.freezes += freezes;
        self.drains += drains;
        self.safe += other.safe;
        self.evictions += evictions;
        self.repeats += repeats;
        self.divided += divided;
        self.letters += letters;
        self.commits += other.commits;
        self.parked += other.parked;
        self.copies += other.copies;
        self.stale += other.stale;
        self.remade += other.remade;
        self.deleted += other.deleted;
        self.given_back += other.given_back;
        self.turns += other.turns;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// Stopped by a signal: it continues at this time as if nothing had happened.
    Frozen(Duration),
    /// Ended, and restarted at this time.
    Down(Duration),
}

pub(super) struct Worker {
    pub(super) id: MemberId,
    /// `None` once it has drained.
    pub(super) session: Option<GroupSession<SimMember>>,
}

/// A gateway.
pub(super) struct Process {
    pub(super) state: State,
    pub(super) shared: Arc<WorkerContext>,
    pub(super) workers: Vec<Worker>,
    /// Until when its budget is smaller than usual.
    short_until: Duration,
}

pub(super) struct Driver {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) processes: Vec<Process>,
    tally: Tally,
    pub(super) to_produce: u64,
    /// Nothing is started any more.
    pub(super) ending: bool,
}

/// Runs one seed.
pub(super) fn run(seed: u64) -> Result<Tally, String> {
    let mut driver = Driver::new(seed);
    let turns = driver.world().random.between(200, 1500);
    for _ in 0..turns {
        driver.tick();
        driver.fault();
        driver.holds()?;
    }
    driver.recover()?;
    driver.end()?;
    driver.judge()
}

fn shape(seed: u64, random: &mut Random) -> Shape {
    let mut shape = Shape {
        partitions: random.between(1, 6) as i32,
        processes: random.between(1, 3) as usize,
        workers: random.between(1, 2) as u16,
        eager: random.once_in(4),
        parks: random.once_in(2),
        effectively_once: !random.once_in(4),
        budget_bytes: random.between(24, 96) << 20,
        max_rows: random.between(1, 40) as usize,
        max_age: Duration::from_millis(random.between(20, 3000)),
        window: random.between(1, 8) as usize,
        has_bad_rows: true,
        has_same_times: false,
    };
    shape.has_same_times = shape.effectively_once && seed % 5 == 3;
    shape
}

impl Driver {
    fn new(seed: u64) -> Self {
        Self::with(seed, |_| {})
    }

    /// Creates the driver of a seed, and changes its shape before anything begins.
    pub(super) fn with(seed: u64, change: impl FnOnce(&mut Shape)) -> Self {
        let mut random = Random::new(seed);
        let mut shape = shape(seed, &mut random);
        change(&mut shape);
        let mut group = Group::default();
        group.is_static = !random.once_in(3);
        let to_produce = random.between(20, 400);
        let mut logs = Vec::new();
        logs.resize_with(shape.partitions as usize, Log::default);
        let world = Arc::new(Mutex::new(World {
            random,
            shape,
            start: Instant::now(),
            now: Duration::ZERO,
            faults: true,
            topic: 0,
            logs,
            gone: Vec::new(),
            group,
            stale_until: None,
            stored: Stored::default(),
            flights: Vec::new(),
            sent_draining: Vec::new(),
            remade_at: None,
            blocked: [Duration::ZERO; 2],
            stall: None,
            refusing: [Duration::ZERO; 2],
            events: Events::default(),
            broken: Vec::new(),
        }));
        let processes = (0..shape.processes).map(|at| start(&world, at)).collect();
        Self { world, processes, tally: Tally::default(), to_produce, ending: false }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Advances time: messages and answers arrive, and some sessions run.
    pub(super) fn tick(&mut self) {
        {
            let mut world = self.world.lock().unwrap();
            let jump = world.fault_in(20);
            let millis = world.random.between(1, if jump { 3000 } else { 30 });
            world.now += Duration::from_millis(millis);
            if self.to_produce > 0 && world.random.once_in(3) {
                let count = world.random.between(1, 4).min(self.to_produce);
                self.to_produce -= count;
                (0..count).for_each(|_| self.tally.rows += produce(&mut world));
            }
            for process in self.processes.iter().filter(|p| p.state == State::Running) {
                let there = process.workers.iter().filter(|worker| worker.session.is_some());
                there.for_each(|worker| world.hear(worker.id));
            }
            world.step();
        }
        self.tell_lag();
        let turns = self.world().random.between(1, 8);
        for _ in 0..turns {
            let at = self.world().random.below(self.processes.len() as u64) as usize;
            self.take_turn(at);
        }
        (0..self.processes.len()).for_each(|at| self.go_on(at));
    }

    /// Occasionally lets a process request where the partitions begin and end.
    fn tell_lag(&self) {
        let mut world = self.world.lock().unwrap();
        if !world.random.once_in(50) {
            return;
        }
        for process in self.processes.iter().filter(|p| p.state == State::Running) {
            let WorkerContext { lag, telemetry, .. } = &*process.shared;
            for (partition, log) in (0..).zip(&world.logs) {
                lag.publish_watermarks(&(TOPIC.into(), partition), log.low, log.end, telemetry);
            }
        }
    }

    fn take_turn(&mut self, at: usize) {
        let world = Arc::clone(&self.world);
        let Some(process) = self.processes.get_mut(at) else { return };
        if process.state != State::Running {
            return;
        }
        let pick = world.lock().unwrap().random.below(process.workers.len() as u64) as usize;
        let Some(worker) = process.workers.get_mut(pick) else { return };
        let Some(mut session) = worker.session.take() else { return };
        self.tally.turns += 1;
        let _turn = tracing::info_span!("turn", process = at, member = worker.id).entered();
        match session.run_once() {
            None => worker.session = Some(session),
            Some(ended) => {
                session.close_session(&ended);
                let number = u16::try_from(pick).unwrap_or(0);
                if process.shared.drain.is_begun() {
                    process.shared.finish.mark_done(number);
                    return;
                }
                // As a worker's thread does: it creates another consumer.
                *worker = member(&world, &process.shared, at, number);
            }
        }
    }

    /// Wakes and restarts processes.
    fn go_on(&mut self, at: usize) {
        let now = self.world().now;
        let Some(process) = self.processes.get_mut(at) else { return };
        match process.state {
            State::Frozen(until) if until <= now => process.state = State::Running,
            State::Down(until) if until <= now && !self.ending => {
                *process = start(&self.world, at);
            }
            State::Frozen(_) | State::Down(_) => return,
            State::Running => {}
        }
        if process.short_until <= now {
            let usual = self.world.lock().unwrap().shape.budget_bytes;
            process.shared.budget.set_limit(usual);
        }
        let drained = process.workers.iter().all(|worker| worker.session.is_none());
        if drained && !self.ending {
            let mut world = self.world.lock().unwrap();
            let is_safe = process.shared.finish.list_uncommitted().is_empty();
            self.tally.safe += u64::from(is_safe);
            world.hold_to_its_word(at, is_safe);
            let away = world.random.between(100, 40_000);
            process.state = State::Down(now + Duration::from_millis(away));
        }
    }

    /// Causes a random fault, or none.
    fn fault(&mut self) {
        let mut world = self.world.lock().unwrap();
        let now = world.now;
        if world.fault_in(150) {
            let (table, millis) = (world.random.below(2) as usize, world.random.between(1, 9000));
            world.blocked[table] = now + Duration::from_millis(millis);
        }
        if world.fault_in(200) {
            let (table, millis) = (world.random.below(2) as usize, world.random.between(1, 9000));
            world.refusing[table] = now + Duration::from_millis(millis);
        }
        if world.fault_in(400) {
            world.delete_some();
        }
        if world.fault_in(500) {
            world.make_topic_again();
        }
        let at = world.random.below(self.processes.len() as u64) as usize;
        let Some(process) = self.processes.get_mut(at) else { return };
        if process.state != State::Running {
            return;
        }
        if world.fault_in(60) {
            let limit = world.random.between(0, 20) << 20;
            process.shared.budget.set_limit(limit);
            process.short_until =
                now + Duration::from_millis(world.random.between(1, MAX_SHORT_MILLIS));
            tracing::info!(process = at, ?now, limit, "is short of memory");
        }
        if world.fault_in(120) {
            // It returns before the group has noticed, or long after.
            let away = world.random.between(10, 45_000);
            process.workers.iter().for_each(|worker| world.vanish(worker.id));
            world.forget_process(at);
            drop(world);
            process.workers.clear();
            process.state = State::Down(now + Duration::from_millis(away));
            self.tally.kills += 1;
            tracing::info!(process = at, ?now, away, "killed");
        } else if world.fault_in(200) {
            let long = world.random.between(100, 60_000);
            process.state = State::Frozen(now + Duration::from_millis(long));
            self.tally.freezes += 1;
            tracing::info!(process = at, ?now, long, "frozen");
        } else if world.fault_in(250) && !process.shared.drain.is_begun() {
            process.shared.drain.begin_by(world.instant() + DRAIN);
            self.tally.drains += 1;
            tracing::info!(process = at, ?now, "drains");
        }
    }

    pub(super) fn holds(&self) -> Result<(), String> {
        match self.world().broken.first() {
            Some(broken) => Err(format!("{broken}; {}", self.describe())),
            None => Ok(()),
        }
    }

    pub(super) fn describe(&self) -> String {
        let Ok(world) = self.world.try_lock() else { return String::new() };
        let mut text =
            format!("{:?} at {:?}, {} in flight", world.shape, world.now, world.flights.len());
        drop(world);
        for (at, process) in self.processes.iter().enumerate() {
            for worker in &process.workers {
                let group = self.world().group.describe(worker.id);
                let session = worker.session.as_ref().map(describe);
                text += &format!("; process {at}: {group}, {session:?}");
            }
        }
        text
    }

    /// Ends all faults: then everything is committed within bounded time.
    pub(super) fn recover(&mut self) -> Result<(), String> {
        let limit = {
            let mut world = self.world();
            world.faults = false;
            world.blocked = [Duration::ZERO; 2];
            world.refusing = [Duration::ZERO; 2];
            world.now + RECOVERY
        };
        let now = self.world().now;
        for process in &mut self.processes {
            process.short_until = Duration::ZERO;
            process.state = match process.state {
                State::Down(_) => State::Down(now),
                State::Running | State::Frozen(_) => State::Running,
            };
        }
        loop {
            self.tick();
            self.holds()?;
            let world = self.world();
            let own = |log: &Log| log.committed.as_ref().filter(|_| !log.is_stale).map(|c| c.0);
            let at = |log: &Log| own(log).unwrap_or(0);
            // Deleted messages aren't awaited.
            let behind = world.logs.iter().position(|log| at(log).max(log.low) < log.end);
            let Some(behind) = behind.or((self.to_produce > 0).then_some(0)) else {
                return Ok(());
            };
            if world.now > limit {
                let log = &world.logs[behind];
                let stuck = format!("{behind} stands at {} of {}", at(log), log.end);
                drop(world);
                return Err(format!("no progress: partition {stuck}; {}", self.describe()));
            }
        }
    }

    /// Drains every process, and checks that none holds memory afterwards.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.ending = true;
        let deadline = self.world().instant() + DRAIN;
        for process in &self.processes {
            process.shared.drain.begin_by(deadline);
        }
        for _ in 0..DRAIN_TURNS {
            self.tick();
            let ended = |p: &Process| p.workers.iter().all(|worker| worker.session.is_none());
            // Inserts of an earlier session of a process may still be in flight.
            if self.processes.iter().all(ended) && self.world().flights.is_empty() {
                self.holds()?;
                let held = |p: &Process| p.shared.budget.used_bytes();
                return match self.processes.iter().map(held).find(|bytes| *bytes > 0) {
                    Some(bytes) => Err(format!("{bytes} bytes of the budget are never given back")),
                    None => Ok(()),
                };
            }
        }
        Err(format!("a drain doesn't end; {}", self.describe()))
    }

    /// Checks that everything produced is where it belongs, as often as promised.
    pub(super) fn judge(mut self) -> Result<Tally, String> {
        let copies = copies(&self.world())?;
        let Events { evictions, repeats, letters, commits, parked, stale, .. } =
            self.world().events;
        let Events { remade, deleted, given_back, divided, .. } = self.world().events;
        (self.tally.remade, self.tally.deleted) = (remade, deleted);
        (self.tally.given_back, self.tally.divided) = (given_back, divided);
        self.tally.copies = copies;
        (self.tally.evictions, self.tally.repeats) = (evictions, repeats);
        (self.tally.letters, self.tally.commits, self.tally.stale) = (letters, commits, stale);
        self.tally.parked = parked;
        Ok(self.tally)
    }
}

/// Returns the rows stored more than once. Fails for missing, invented or duplicate rows.
fn copies(world: &World) -> Result<u64, String> {
    let (mut copies, mut good) = (0, 0);
    for (partition, log) in world.logs.iter().enumerate() {
        for (offset, payload) in &log.messages {
            let what = format!("message {offset} of partition {partition}");
            let place = (world.topic, partition as i32, *offset);
            let lettered = world.stored.letters.contains(&place);
            let Some(rows) = Row::read(payload) else {
                if !lettered {
                    return Err(format!("{what} can't be read and is no dead letter"));
                }
                continue;
            };
            // Good rows become dead letters while their table refuses all.
            if !lettered && rows.iter().any(|row| row.bad) {
                return Err(format!("{what}: dead letter {lettered}, rows {rows:?}"));
            }
            for row in rows {
                let times = world.stored.rows.get(&row.id).copied().unwrap_or(0);
                good += u64::from(times > 0);
                if times == 0 && !lettered {
                    return Err(format!("row {} of {what} is missing", row.id));
                }
                if times > 1 && world.shape.effectively_once {
                    return Err(format!("row {} of {what} is stored {times} times", row.id));
                }
                copies += times.saturating_sub(1);
            }
        }
    }
    // Messages deleted with their topic may be stored, under the same rules.
    for row in world.gone.iter().filter_map(|payload| Row::read(payload)).flatten() {
        let times = world.stored.rows.get(&row.id).copied().unwrap_or(0);
        good += u64::from(times > 0);
        if times > 1 && world.shape.effectively_once {
            return Err(format!("row {} of a deleted topic is stored {times} times", row.id));
        }
        copies += times.saturating_sub(1);
    }
    match world.stored.rows.len() as u64 == good {
        true => Ok(copies),
        false => Err("a row is stored that nobody produced".to_owned()),
    }
}

/// Writes a message to some partition. Returns its number of rows.
fn produce(world: &mut World) -> u64 {
    let partition = world.random.below(world.logs.len() as u64) as usize;
    let rows = match world.random.below(60) {
        0 => 0,
        1 => 40,
        _ => world.random.between(1, 4),
    };
    let mut payload = Vec::new();
    for _ in 0..rows {
        let id = world.random.next();
        let (table, day) = (world.random.below(2) as u8, world.random.below(2) as u8);
        let bad = world.random.once_in(150) && world.shape.has_bad_rows;
        Row { id, table, day, bad }.write(&mut payload);
    }
    if world.random.once_in(60) {
        payload = vec![0xff; 5];
    }
    let gap = if world.random.once_in(10) { world.random.between(1, 3) as i64 } else { 0 };
    let log = &mut world.logs[partition];
    let offset = log.end + gap;
    log.messages.insert(offset, payload);
    log.end = offset + 1;
    rows
}

fn start(world: &Arc<Mutex<World>>, at: usize) -> Process {
    let shape = world.lock().unwrap().shape;
    let budget = Budget::new(shape.budget_bytes);
    let drain = Drain::new(DRAIN);
    let sink = SimSink { world: Arc::clone(world), process: at, drain: drain.clone() };
    let sink = Arc::new(sink);
    let parts = SourceParts {
        sink: Arc::clone(&sink) as _,
        dead_letters: sink,
        budget: budget.clone(),
        telemetry: Arc::new(Telemetry::new(budget, "simulated", "system").unwrap()),
        readiness: Readiness::default(),
        drain,
    };
    let SourceParts { sink, dead_letters, budget, telemetry, readiness, drain } = parts;
    let shared = Arc::new(WorkerContext {
        settings: settings(shape),
        sink,
        dead_letters,
        budget,
        telemetry,
        drain,
        status: SourceStatus::new(readiness.add_part("kafka source"), shape.workers),
        query_client: QueryClient::default(),
        finish: WorkerDrain::new(shape.workers),
        lag: LagTracker::default(),
    });
    let workers = (0..shape.workers).map(|number| member(world, &shared, at, number)).collect();
    Process { state: State::Running, shared, workers, short_until: Duration::ZERO }
}

fn member(
    world: &Arc<Mutex<World>>,
    shared: &Arc<WorkerContext>,
    at: usize,
    number: u16,
) -> Worker {
    let id = world.lock().unwrap().join((at, number));
    let member = SimMember { world: Arc::clone(world), id };
    Worker { id, session: Some(GroupSession::with_member(Arc::clone(shared), number, member)) }
}

fn settings(shape: Shape) -> SourceSettings {
    SourceSettings {
        connection: Vec::new(),
        tokens: None,
        group: "simulated".into(),
        instance: None,
        topics: vec![SourceTopic { name: TOPIC.into(), signal: Signal::Traces }],
        workers: shape.workers,
        fetch_queue_bytes: 0,
        protocol: GroupProtocol::Classic,
        session_timeout: Duration::from_secs(20),
        batch: BatchLimits {
            max_rows: shape.max_rows,
            max_bytes: usize::MAX,
            max_age: shape.max_age,
        },
        delivery: match shape.effectively_once {
            true => DeliveryMode::EffectivelyOnce,
            false => DeliveryMode::AtLeastOnce,
        },
        record_times: MessageTimes::default(),
    }
}

/// Describes the session's state, for tests that got stuck.
fn describe<M: Member>(session: &GroupSession<M>) -> String {
    let GroupSession { flow, held, outbox, dead_letters, .. } = session;
    let queues = [held.len(), outbox.len(), dead_letters.waiting().count()];
    let partitions: Vec<_> = session
        .partitions
        .iter()
        .map(|(key, partition)| {
            let open = partition.open.as_ref().map(|open| (open.cut, open.next_offset));
            let ledger = (session.ledger.commit_point(*key), session.ledger.has_divided(*key));
            let AssignedPartition { next_offset, leaving, stalled_table, .. } = partition;
            (key.partition, ledger, *next_offset, *leaving, *stalled_table, open)
        })
        .collect();
    format!(
        "{flow:?}, held, outbox, letters {queues:?}, unanswered {}, joining {}, \
         leaving {}, commits {}, {partitions:?}",
        session.answers.open_parts(),
        session.joining.is_some(),
        session.leaving.is_some(),
        session.commits.is_in_flight(),
    )
}
