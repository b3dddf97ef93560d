//! One run of one case by one collector: from its start until it was scraped by for a while.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_e2e::http;
use millrace_stack::service::free_port;
use millrace_wire::Signal;
use tempfile::TempDir;

use super::agent::{Agent, Setting};
use super::arrivals;
use super::outcome::{Outcome, Remembered};
use super::stand_in::{Body, StandIn};
use crate::dataset;
use crate::process::profile::Profile;
use crate::process::{Subject, Usage};
use crate::report::Latency;
use crate::world::World;

/// Between two looks at a run.
const POLL: Duration = Duration::from_millis(100);
/// What a collector may still have to do with answers it has.
const SETTLE: Duration = Duration::from_secs(3);
/// From a program's start, or a change of the bodies, until all targets were asked, besides the
/// intervals.
const PATIENCE: Duration = Duration::from_secs(60);
/// Less than the shortest time-out of a scrape: one that fails has points of its own.
const QUIET_LIMIT: Duration = Duration::from_secs(10);
/// Collectors' shutdown deadlines are 25 s.
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// What is scraped in a case.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) targets: usize,
    pub(super) interval_seconds: u64,
    /// What is counted: so many scrapes of each target.
    pub(super) rounds: u64,
    /// Bodies at first, where memory counts from a collector that has scraped only little.
    pub(super) before: Option<Arc<[Body]>>,
    pub(super) bodies: Arc<[Body]>,
}

/// What a run is done with.
pub(super) struct Bench<'a> {
    pub(super) world: &'a mut World,
    pub(super) agent: &'a Agent,
    /// The case's name.
    pub(super) name: &'a str,
    pub(super) load: &'a Load,
    /// Where to draw the profile.
    pub(super) drawing: Option<std::path::PathBuf>,
}

/// What starts with a run and ends with it.
struct Session {
    subject: Subject,
    stand_in: StandIn,
    topic: String,
    admin: SocketAddr,
    profile: Option<Profile>,
    // Keep the order: the program ends before what it keeps on disk.
    _state: TempDir,
}

impl Bench<'_> {
    /// Runs it.
    pub(super) fn run(&mut self) -> Result<Outcome> {
        let Load { interval_seconds, rounds, before, bodies, .. } = self.load;
        let interval = Duration::from_secs(*interval_seconds);
        let mut session = self.start()?;
        session.asked(1, PATIENCE + interval)?;
        let idle = if before.is_some() {
            thread::sleep(SETTLE);
            let idle = session.subject.usage()?;
            session.subject.forget_peak()?;
            session.stand_in.serve(Arc::clone(bodies));
            Some(idle)
        } else {
            // Until each has been compared with what was remembered.
            thread::sleep(interval);
            None
        };
        session.stand_in.forget();
        let (began, first) = (Instant::now(), session.subject.usage()?);
        if before.is_some() {
            let limit = PATIENCE + interval * u32::try_from(*rounds)?;
            session.asked(usize::try_from(*rounds)?, limit)?;
            // What is under way is answered; nothing more is.
            session.stand_in.fall_silent();
            session.quiet()?;
        } else {
            thread::sleep(interval * u32::try_from(*rounds)?);
        }
        let (seconds, usage) = (began.elapsed().as_secs_f64(), session.subject.usage()?);
        let mut late = Vec::new();
        let times = session.stand_in.times();
        let punctuality = arrivals::judge(&times, interval, &mut late);
        let outcome = Outcome {
            targets: self.load.targets as u64,
            body_bytes: bodies.iter().map(Body::bytes).max().unwrap_or_default() as u64,
            cores: (usage.cpu_seconds - first.cpu_seconds) / seconds,
            rss_bytes: usage.rss_bytes,
            peak_bytes: usage.peak_bytes,
            idle_bytes: idle.map(|it: Usage| it.rss_bytes),
            punctuality,
            late: Latency::of(late),
            remembered: if self.agent.is_ours() { Some(session.remembered()?) } else { None },
            ..Outcome::default()
        };
        session.end(self.world, self.agent, outcome)
    }

    fn start(&mut self) -> Result<Session> {
        let Load { targets, interval_seconds, before, bodies, .. } = self.load;
        let name = self.world.fresh_name(self.name);
        let topic = name.replace('-', "_");
        self.world.topics.make(&topic)?;
        let stand_in = StandIn::start(*targets, Arc::clone(before.as_ref().unwrap_or(bodies)))?;
        let state = tempfile::tempdir()?;
        let config = self.world.file(&format!("{name}.yaml"));
        let port = free_port(Ipv4Addr::LOCALHOST.into())?;
        let (program, arguments, settings) = self.agent.launch(&Setting {
            targets: &stand_in.targets(),
            interval_seconds: *interval_seconds,
            broker: self.world.topics.bootstrap(),
            topic: &topic,
            sink: &stand_in.sink(),
            port,
            state: state.path(),
            config: &config,
        });
        fs::write(&config, settings)?;
        let log = self.world.file(&format!("{name}.log"));
        let subject = Subject::start(self.agent.name(), &program, &arguments, &[], &log)?;
        let data = self.world.file(&format!("{name}.perf"));
        let drawing = self.drawing.as_deref();
        let profile = drawing.map(|it| Profile::start(subject.pid(), &data, it)).transpose()?;
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Session { subject, stand_in, topic, admin, profile, _state: state })
    }
}

impl Session {
    /// Waits until each target was asked so many times.
    fn asked(&mut self, count: usize, limit: Duration) -> Result<()> {
        let began = Instant::now();
        while self.stand_in.least() < count {
            self.subject.usage()?;
            if began.elapsed() > limit {
                let words = self.subject.last_words();
                bail!("not every target was asked {count} times; its last words:\n{words}");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits until what was asked last is answered and done with: until no processor time goes by,
    /// or for a while, where there is always something to do.
    fn quiet(&mut self) -> Result<()> {
        let began = Instant::now();
        let mut last = f64::NEG_INFINITY;
        while began.elapsed() < QUIET_LIMIT {
            thread::sleep(SETTLE);
            let used = self.subject.usage()?.cpu_seconds;
            // One percent of a core is what an idle one takes at most.
            if used - last < SETTLE.as_secs_f64() / 100.0 {
                break;
            }
            last = used;
        }
        Ok(())
    }

    /// What our collector says that it remembers.
    fn remembered(&self) -> Result<Remembered> {
        let text = http::get(self.admin, "/metrics")?.text();
        let value = |name: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.with_context(|| format!("no {name}"))?.trim().parse().context("no number")
        };
        let (series, bytes) =
            (value("millrace_scrape_series")?, value("millrace_scrape_series_bytes")?);
        Ok(Remembered { series, bytes })
    }

    /// Ends it. Of ours each point of each answer must be in Kafka, once.
    fn end(mut self, world: &World, agent: &Agent, outcome: Outcome) -> Result<Outcome> {
        self.stand_in.fall_silent();
        self.quiet()?;
        let Self { subject, stand_in, topic, profile, .. } = self;
        if let Some(profile) = profile {
            profile.finish()?;
        }
        subject.stop(STOP_LIMIT)?;
        let (mut stored, mut broken) = (0, None);
        world.topics.read_all(&topic, |payload| {
            match dataset::records(Signal::Metrics, payload) {
                Ok(points) => stored += points,
                Err(error) => broken = Some(error),
            }
        })?;
        if let Some(error) = broken {
            return Err(error);
        }
        let answered = stand_in.answered_points();
        if agent.is_ours() && stored != answered {
            bail!("targets answered with {answered} points, {stored} are in Kafka");
        }
        world.topics.remove(&topic)?;
        let sunk_bytes = stand_in.sunk_bytes();
        Ok(Outcome { points: (stored > 0).then_some(stored), sunk_bytes, ..outcome })
    }
}
