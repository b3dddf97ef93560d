//! A run from its set-up to its figures: the tree, threads with their sessions, the window that is
//! measured, a line each second, the tree's removal.

pub(crate) mod own;
mod tree;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, LocalSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::random::Random;
use crate::run::tree::{Planned, TreeError};
use crate::say;
use crate::session::{Session, Thread};
use crate::shared::Shared;
use crate::source::Source;
use crate::source::pace::Schedule;
use crate::source::replay::{Log, Recorded};
use crate::tally::{Tally, Window};
use crate::wire::{Access, DialError, WatchMode};
use crate::workload::{Data, Generator, Pace, Paths, Plan, Terms, each_node};

/// Streams of schedules lie apart from those of choices.
const SCHEDULE_STREAMS: u64 = 1 << 32;

/// A run came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    #[error("a thread of the load ended early; this is a fault of the program")]
    Broken,
}

/// What a run does, ready to begin.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) terms: Terms,
    pub(crate) nodes: Vec<Planned>,
    data: Data,
    sessions: Vec<Spec>,
}

/// One session of it.
#[derive(Debug)]
struct Spec {
    nth: usize,
    source: Source,
    watches: Vec<(String, WatchMode)>,
    quota: u64,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) terms: Terms,
    pub(crate) tally: Tally,
    pub(crate) window_seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) resident_start: u64,
    pub(crate) resident_middle: u64,
    pub(crate) resident_end: u64,
}

impl Load {
    /// Requests made from a seed.
    pub(crate) fn generated(plan: Plan) -> Self {
        let plan = Arc::new(plan);
        let terms = plan.terms.clone();
        let data = Data::new(terms.seed);
        let paths = Paths::new(&plan);
        let mut nodes = Vec::new();
        each_node(&plan.setup, &terms.root, &mut |path, node| {
            let data_bytes = node.data_bytes as usize;
            nodes.push(Planned { path: path.to_owned(), data_bytes });
        });
        let sessions = (0..terms.sessions).map(|nth| Spec {
            nth: nth as usize,
            source: Source::Generated {
                generator: Box::new(Generator::new(&plan, &paths, &data, nth)),
                schedule: schedule(&plan, nth),
            },
            watches: watches(&plan, &paths, nth),
            quota: quota(&terms, nth),
        });
        let sessions = sessions.collect();
        Self { terms, nodes, data, sessions }
    }

    /// A recorded log: at so many times its own speed, or as fast as replies allow.
    pub(crate) fn recorded(log: Log, terms: Terms, speed: Option<f64>) -> Self {
        let data = Data::new(terms.seed);
        let spec = |(nth, entries)| Spec {
            nth,
            source: Source::Recorded(Recorded::new(entries, data.bytes().clone(), speed)),
            watches: Vec::new(),
            quota: u64::MAX,
        };
        let nodes = log.needed.into_iter().map(|path| Planned { path, data_bytes: 0 }).collect();
        let sessions = log.sessions.into_iter().enumerate().map(spec).collect();
        Self { terms, nodes, data, sessions }
    }
}

fn schedule(plan: &Plan, nth: u32) -> Option<Schedule> {
    let Pace::Open { per_second, arrivals } = plan.pace else { return None };
    let random = Random::of(plan.terms.seed, SCHEDULE_STREAMS + u64::from(nth));
    Some(Schedule::new(per_second, arrivals, (nth, plan.terms.sessions), random))
}

fn watches(plan: &Plan, paths: &Paths, nth: u32) -> Vec<(String, WatchMode)> {
    let of = |watch: &crate::workload::WatchPlan| {
        let paths = if nth < watch.sessions { paths.of(watch.of) } else { &[] };
        let mode = watch.mode;
        paths.iter().map(move |path| (path.to_string(), mode)).collect::<Vec<_>>()
    };
    plan.watches.iter().flat_map(of).collect()
}

/// A session's part of the operations to measure.
fn quota(terms: &Terms, nth: u32) -> u64 {
    let Some(operations) = terms.bounds.operations else { return u64::MAX };
    let sessions = u64::from(terms.sessions);
    operations / sessions + u64::from(u64::from(nth) < operations % sessions)
}

/// Makes the tree, the load and, whatever came of it, removes the tree.
pub(crate) async fn run(access: Access, load: Load, keep: bool) -> Result<Figures, RunError> {
    let terms = load.terms.clone();
    say::progress(&format!("making {} nodes below {}", load.nodes.len() + 1, terms.root));
    let made = tree::make(&access, &terms.root, &load.nodes, load.data.bytes()).await;
    if let Err(error) = made {
        return Err(error.into());
    }
    let figures =
        measure(Arc::new(Shared::new(access.clone(), terms.clone())), load.sessions).await;
    if !keep {
        say::progress(&format!("removing {}", terms.root));
        tree::remove(&access, &terms.root).await?;
    }
    figures
}

/// When the load begins, and what of it is measured.
type Go = (u64, Window);

async fn measure(shared: Arc<Shared>, specs: Vec<Spec>) -> Result<Figures, RunError> {
    let terms = &shared.terms;
    say::progress(&format!("opening {} sessions", terms.sessions));
    let threads = terms.threads.max(1) as usize;
    let mut shares: Vec<Vec<Spec>> = (0..threads).map(|_| Vec::new()).collect();
    for (nth, spec) in specs.into_iter().enumerate() {
        shares[nth % threads].push(spec);
    }
    let (go, _) = watch::channel(None);
    let (opened, mut all_opened) = mpsc::channel(threads);
    let running: Vec<_> = shares
        .into_iter()
        .map(|share| {
            let (shared, opened, go) = (shared.clone(), opened.clone(), go.subscribe());
            spawn_blocking(move || thread(shared, share, &opened, go))
        })
        .collect();
    drop(opened);
    for _ in 0..threads {
        all_opened.recv().await.ok_or(RunError::Broken)??;
    }
    let begun = shared.now();
    let start = begun + terms.warmup.as_nanos() as u64;
    let end = terms.bounds.time.map(|time| start + time.as_nanos() as u64);
    let window = Window { start, end };
    let start_instant = Instant::now() + terms.warmup;
    go.send_replace(Some((begun, window)));
    sleep_until(start_instant).await;
    let (cpu, resident_start) = (own::cpu_seconds(), own::resident_bytes());
    let (tally, resident) = watched(&shared, running, window).await?;
    let cpu_seconds = own::cpu_seconds() - cpu;
    let stopped_early = end.is_none_or(|end| shared.now() < end);
    let (bytes_sent, bytes_received) = shared.bytes();
    Ok(Figures {
        window_seconds: tally.window_seconds(stopped_early),
        terms: shared.terms.clone(),
        tally,
        cpu_seconds,
        bytes_sent,
        bytes_received,
        resident_start,
        resident_middle: resident.get(resident.len() / 2).copied().unwrap_or(resident_start),
        resident_end: own::resident_bytes(),
    })
}

/// Says each second how far it is, until every thread is done; the memory at each of them.
async fn watched(
    shared: &Arc<Shared>,
    running: Vec<JoinHandle<io::Result<Tally>>>,
    window: Window,
) -> Result<(Tally, Vec<u64>), RunError> {
    let mut tick = interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick.tick().await;
    let mut resident = Vec::new();
    let mut last = (shared.now(), shared.progress.read().0);
    let joined = async {
        let mut sum = Tally::new(window);
        for thread in running {
            sum.add(&thread.await.map_err(|_| RunError::Broken)??);
        }
        Ok::<_, RunError>(sum)
    };
    tokio::pin!(joined);
    loop {
        tokio::select! {
            sum = &mut joined => return Ok((sum?, resident)),
            _ = tokio::signal::ctrl_c() => {
                say::progress("stopping: waiting for what is under way");
                shared.stop();
            }
            _ = tick.tick() => {
                let (now, (ended, failed, fired)) = (shared.now(), shared.progress.read());
                let rate = crate::tally::per_second(ended - last.1, (now - last.0) as f64 / 1e9);
                let seconds = (now - window.start.min(now)) as f64 / 1e9;
                resident.push(own::resident_bytes());
                let mib = resident.last().copied().unwrap_or_default() >> 20;
                say::progress(&format!(
                    "[{seconds:4.0} s] {ended} done, {rate:.0}/s, {failed} errors, \
                     {fired} watches fired, {mib} MiB"
                ));
                last = (now, ended);
            }
        }
    }
}

/// One thread: opens its sessions, waits for the start, and runs them to their end.
fn thread(
    shared: Arc<Shared>,
    share: Vec<Spec>,
    opened: &mpsc::Sender<Result<(), DialError>>,
    mut go: watch::Receiver<Option<Go>>,
) -> io::Result<Tally> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async move {
        let mut sessions = Vec::with_capacity(share.len());
        let mut failure = None;
        for Spec { nth, source, watches, quota } in share {
            match Session::open(&shared, nth, source, watches, quota).await {
                Ok(session) => sessions.push(session),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let empty = || Tally::new(Window { start: 0, end: None });
        // Whoever waits for it is there, or has given up on another thread's failure.
        let _ = opened.send(failure.map_or(Ok(()), Err)).await;
        let Some((begun, window)) = go.wait_for(Option::is_some).await.ok().and_then(|go| *go)
        else {
            return Ok(empty());
        };
        let tally = Tally::new(window).into();
        let thread = Rc::new(Thread { shared, tally, window });
        let running: Vec<_> = sessions
            .into_iter()
            .map(|session| tokio::task::spawn_local(session.run(thread.clone(), begun)))
            .collect();
        for session in running {
            session.await.map_err(io::Error::other)?;
        }
        Ok(thread.tally.borrow().clone())
    })
}
