//! One run of one case by one collector, from its start to the last record stored.

mod edge;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::case::{Case, Side, Size, Target};
use crate::collector::{Collector, GatewayPlace};
use crate::dataset::Dataset;
use crate::process::profile::Profile;
use crate::process::{Subject, Usage, usage};
use crate::sink::Sink;
use crate::world::World;
use crate::world::account::Account;
use crate::world::broker::Group;

/// Between two looks at a run.
const POLL: Duration = Duration::from_millis(50);
/// The slowest peer takes under two minutes on a busy machine.
const RUN_LIMIT: Duration = Duration::from_secs(300);
/// Collectors' shutdown deadlines are 25 s.
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// Records carried.
    pub(crate) records: u64,
    /// User plus system time of the collector, from its start to the last record, in seconds.
    pub(crate) cpu_seconds: f64,
    /// The same span of time on the clock, in seconds.
    pub(crate) wall_seconds: f64,
    /// The collector's resident memory at its highest, in bytes.
    pub(crate) peak_bytes: u64,
    /// Its resident memory over time, in bytes.
    pub(crate) rss_series: Vec<u64>,
    /// Bytes sent on: insert bodies, or what the topic takes on the broker's disk.
    pub(crate) bytes_out: Option<u64>,
    /// CPU time of the engine's process, its HTTP front included, in seconds.
    pub(crate) engine_seconds: Option<f64>,
    /// CPU time of the engine's queries alone, in seconds.
    pub(crate) engine_query_seconds: Option<f64>,
    /// How long answers to clients took, from when each request was due: the median and the 99th
    /// percentile, in milliseconds.
    pub(crate) answer_ms: Option<[f64; 2]>,
}

/// What a run is done with.
pub(crate) struct Bench<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) collector: &'a Collector,
    pub(crate) case: &'a Case,
    pub(crate) size: Size,
    /// Where to draw the profile.
    pub(crate) profile: Option<&'a Path>,
}

/// What a gateway drains, and where to.
#[derive(Clone, Copy)]
struct Drain<'a> {
    topic: &'a str,
    dataset: Dataset,
    endpoint: &'a str,
    attributes: &'a str,
    delivery: &'a str,
}

/// Looks at the process and keeps what it saw.
struct Watch {
    subject: Subject,
    series: Vec<u64>,
    last: Usage,
}

impl Watch {
    fn look(&mut self) -> Result<()> {
        self.last = self.subject.usage()?;
        self.series.push(self.last.rss_bytes);
        Ok(())
    }

    /// Looks until `done`, with its own words when that takes too long.
    fn until(&mut self, what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        loop {
            let is_done = done()?;
            self.look()?;
            if is_done {
                return Ok(());
            }
            if began.elapsed() > RUN_LIMIT {
                bail!("{what} takes too long; its last words:\n{}", self.subject.last_words());
            }
            thread::sleep(POLL);
        }
    }
}

impl Bench<'_> {
    /// Runs it.
    pub(crate) fn run(&mut self) -> Result<Outcome> {
        match self.case.side {
            Side::Gateway { dataset, target, delivery, attributes, is_backlog: _ } => {
                self.gateway(dataset, target, delivery, attributes)
            }
            Side::Edge(way) => self.edge(way, Dataset::Lean, None),
            Side::Rules(rules, way) => self.edge(way, rules.dataset(), Some(rules)),
            Side::Stages
            | Side::Lines
            | Side::Scrape(_)
            | Side::Files(_)
            | Side::Bill(_)
            | Side::Once(_) => {
                bail!("{} has a harness of its own", self.case.name)
            }
        }
    }

    /// Starts the collector, with an account at an API server if it needs one.
    fn start(&self, name: &str, settings: &str, account: Option<&Account>) -> Result<Watch> {
        let config = self.world.file(&format!("{name}.yaml"));
        fs::write(&config, settings)?;
        let (mut program, mut arguments) = self.collector.command(&config);
        let mut variables = Vec::new();
        if let Some(account) = account {
            (program, arguments) = account.around(&program, arguments);
            variables = account.variables();
        }
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let log = self.world.file(&format!("{name}.log"));
        let subject = Subject::start(&self.collector.name, &program, &arguments, &variables, &log)?;
        Ok(Watch { subject, series: Vec::new(), last: Usage::default() })
    }

    fn profile(&self, watch: &Watch, name: &str) -> Result<Option<Profile>> {
        let data = self.world.file(&format!("{name}.perf"));
        self.profile.map(|drawing| Profile::start(watch.subject.pid(), &data, drawing)).transpose()
    }

    fn gateway(
        &mut self,
        dataset: Dataset,
        target: Target,
        delivery: &str,
        attributes: &str,
    ) -> Result<Outcome> {
        let filled = self.world.filled(dataset, self.case.records(self.size))?;
        let name = self.world.fresh_name(self.case.name);
        let sink = Sink::start()?;
        let engine = match target {
            Target::NullSink => None,
            Target::Engine => {
                let engine = self.world.engine()?;
                Some((engine.url(), engine.pid()))
            }
        };
        let endpoint = engine.as_ref().map_or_else(|| sink.url(), |(url, _)| url.clone());
        let login = engine.is_some().then(|| self.world.login());
        let engine_now = |world: &World| -> Result<Option<[f64; 2]>> {
            let Some((_, pid)) = &engine else { return Ok(None) };
            Ok(Some([usage(*pid)?.cpu_seconds, world.engine_query_seconds()?]))
        };
        let engine_before = engine_now(self.world)?;
        let drain =
            Drain { topic: &filled.topic, dataset, endpoint: &endpoint, attributes, delivery };
        let is_sunk = || engine.is_some() || sink.counts().rows >= filled.records;
        let (watch, profile) = self.drained(&name, &drain, login, is_sunk)?;
        let wall = match sink.last_insert() {
            Some(last) => last.duration_since(watch.subject.started()),
            None => watch.subject.started().elapsed(),
        };
        let engine_after = engine_now(self.world)?;
        if let Some(profile) = profile {
            profile.finish()?;
        }
        let Watch { subject, series, last } = watch;
        subject.stop(STOP_LIMIT)?;
        self.world.topics.no_dead_letters(&filled.topic)?;
        let counts = sink.counts();
        if engine.is_none() && (counts.rows != filled.records || counts.unknown > 0) {
            bail!("{} records became {counts:?}", filled.records);
        }
        let spent = engine_before
            .zip(engine_after)
            .map(|(before, after)| [after[0] - before[0], after[1] - before[1]]);
        Ok(Outcome {
            records: filled.records,
            cpu_seconds: last.cpu_seconds,
            wall_seconds: wall.as_secs_f64(),
            peak_bytes: last.peak_bytes,
            rss_series: series,
            bytes_out: engine.is_none().then_some(counts.bytes),
            engine_seconds: spent.map(|[process, _]| process),
            engine_query_seconds: spent.map(|[_, queries]| queries),
            answer_ms: None,
        })
    }

    /// Drains a topic through a gateway into the tables of an engine.
    pub(crate) fn drain(
        &mut self,
        topic: &str,
        records: u64,
        dataset: Dataset,
        endpoint: &str,
        attributes: &str,
    ) -> Result<Outcome> {
        let name = self.world.fresh_name(self.case.name);
        let drain = Drain { topic, dataset, endpoint, attributes, delivery: "AtLeastOnce" };
        let login = Some(self.world.login());
        let (Watch { subject, series, last }, _) = self.drained(&name, &drain, login, || true)?;
        let wall_seconds = subject.started().elapsed().as_secs_f64();
        subject.stop(STOP_LIMIT)?;
        self.world.topics.no_dead_letters(topic)?;
        Ok(Outcome {
            records,
            cpu_seconds: last.cpu_seconds,
            wall_seconds,
            peak_bytes: last.peak_bytes,
            rss_series: series,
            ..Outcome::default()
        })
    }

    /// Starts a gateway and waits until it has read all, and `is_sunk`.
    fn drained(
        &self,
        name: &str,
        drain: &Drain<'_>,
        login: Option<(PathBuf, PathBuf)>,
        is_sunk: impl Fn() -> bool,
    ) -> Result<(Watch, Option<Profile>)> {
        let Drain { topic, dataset, endpoint, attributes, delivery } = *drain;
        let settings = self.collector.gateway(&GatewayPlace {
            broker: self.world.topics.bootstrap(),
            topic,
            group: name,
            endpoint,
            signal: dataset.signal_name(),
            attributes,
            delivery,
            login,
        });
        let group = Group::watch(&self.world.topics, name, topic)?;
        let mut watch = self.start(name, &settings, None)?;
        let profile = self.profile(&watch, name)?;
        watch.until("the drain", || Ok(is_sunk() && group.behind()? == 0))?;
        Ok((watch, profile))
    }
}
