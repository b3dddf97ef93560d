//! One run of one case by one collector, from its start to the last record stored.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_e2e::loadgen::figure;
use millrace_e2e::{binaries, wait};
use millrace_stack::service::free_port;

use crate::broker::{Group, stored_bytes};
use crate::case::{Case, Side, Size, Target, Way};
use crate::collector::{Collector, EdgePlace, GatewayPlace};
use crate::dataset::{Dataset, SEED, records};
use crate::process::{Subject, Usage, usage};
use crate::profile::Profile;
use crate::rules::RulesCase;
use crate::sink::Sink;
use crate::world::World;

/// Between two looks at a run.
const POLL: Duration = Duration::from_millis(50);
/// The slowest peer takes under two minutes on a busy machine.
const RUN_LIMIT: Duration = Duration::from_secs(300);
/// From start to listening.
const LISTEN_LIMIT: Duration = Duration::from_secs(60);
/// Collectors' shutdown deadlines are 25 s.
const STOP_LIMIT: Duration = Duration::from_secs(40);
/// A topic that takes nothing for so long holds all there is.
const QUIET: Duration = Duration::from_secs(2);
/// Records that an edge takes before its answers are timed. Its Kafka client asks for the producer
/// id it numbers messages by 500 ms after its start, and the first requests wait for that. They are
/// the load's first, once more: another seed's would have times of their own.
const WARM_UP: u64 = 1_000;

/// How records come to an edge with rules.
const RULES_WAY: Way = Way { protocol: "grpc", compression: "gzip", rate: None };

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
            Side::Rules(rules) => self.edge(RULES_WAY, rules.dataset(), Some(rules)),
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

    fn start(&self, name: &str, settings: &str) -> Result<Watch> {
        let config = self.world.file(&format!("{name}.yaml"));
        fs::write(&config, settings)?;
        let (program, arguments) = self.collector.command(&config);
        let log = self.world.file(&format!("{name}.log"));
        let subject = Subject::start(&self.collector.name, &program, &arguments, &[], &log)?;
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
        let mut watch = self.start(name, &settings)?;
        let profile = self.profile(&watch, name)?;
        watch.until("the drain", || Ok(is_sunk() && group.behind()? == 0))?;
        Ok((watch, profile))
    }

    fn edge(&mut self, way: Way, dataset: Dataset, rules: Option<RulesCase>) -> Result<Outcome> {
        let (outcome, topic) = self.fill_with_rules(way, dataset, rules)?;
        self.world.topics.remove(&topic)?;
        Ok(outcome)
    }

    /// Sends a load through an edge into a topic that is kept: its name.
    pub(crate) fn fill_by_edge(&mut self, way: Way, dataset: Dataset) -> Result<(Outcome, String)> {
        self.fill_with_rules(way, dataset, None)
    }

    fn fill_with_rules(
        &mut self,
        way: Way,
        dataset: Dataset,
        rules: Option<RulesCase>,
    ) -> Result<(Outcome, String)> {
        let name = self.world.fresh_name(self.case.name);
        let topic = name.replace('-', "_");
        self.world.topics.make(&topic)?;
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let [grpc, http] = [free_port(host)?, free_port(host)?];
        let settings = self.collector.edge(&EdgePlace {
            broker: self.world.topics.bootstrap(),
            signal: dataset.signal_name(),
            topic: &topic,
            grpc: format!("127.0.0.1:{grpc}"),
            http: format!("127.0.0.1:{http}"),
            rules,
        });
        let mut watch = self.start(&name, &settings)?;
        let port = if way.protocol == "grpc" { grpc } else { http };
        let address = SocketAddr::new(host, port);
        wait::until("the edge to listen", LISTEN_LIMIT, || {
            TcpStream::connect(address).map(drop).context("not yet")
        })
        .with_context(|| watch.subject.last_words())?;
        let sent = self.case.records(self.size);
        let log = format!("{name}-first");
        self.load(&mut watch, (way, dataset), port, WARM_UP, &log)?;
        let profile = self.profile(&watch, &name)?;
        let began = Instant::now();
        let answer_ms = self.load(&mut watch, (way, dataset), port, sent - WARM_UP, &name)?;
        let wall_seconds = began.elapsed().as_secs_f64();
        if !self.collector.is_ours() {
            self.quiet(&mut watch, &topic)?;
        }
        watch.look()?;
        if let Some(profile) = profile {
            profile.finish()?;
        }
        let Watch { subject, series, last } = watch;
        subject.stop(STOP_LIMIT)?;
        let mut stored = 0;
        let signal = dataset.signal();
        let mut broken = None;
        self.world.topics.read_all(&topic, |payload| match records(signal, payload) {
            Ok(records) => stored += records,
            Err(error) => broken = Some(error),
        })?;
        if let Some(error) = broken {
            return Err(error.context("a message in the topic"));
        }
        let drops = rules.is_some_and(RulesCase::drops);
        let is_plausible = if drops { (1..sent / 4).contains(&stored) } else { stored == sent };
        if !is_plausible {
            bail!("{sent} records were acknowledged and {stored} are in the topic");
        }
        let bytes_out = Some(stored_bytes(self.world.broker.dir(), &topic)?);
        let outcome = Outcome {
            records: sent,
            cpu_seconds: last.cpu_seconds,
            wall_seconds,
            peak_bytes: last.peak_bytes,
            rss_series: series,
            bytes_out,
            answer_ms: Some(answer_ms),
            ..Outcome::default()
        };
        Ok((outcome, topic))
    }

    /// Sends with the load generator until everything is acknowledged: how long answers took.
    fn load(
        &self,
        watch: &mut Watch,
        (way, dataset): (Way, Dataset),
        port: u16,
        count: u64,
        name: &str,
    ) -> Result<[f64; 2]> {
        let arguments = [
            "send",
            "--endpoint",
            &format!("http://127.0.0.1:{port}"),
            "--protocol",
            way.protocol,
            "--compression",
            way.compression,
            "--signal",
            dataset.signal_name(),
            "--shape",
            if dataset == Dataset::Rich { "rich" } else { "lean" },
            "--seed",
            &SEED.to_string(),
            "--count",
            &count.to_string(),
        ]
        .map(str::to_owned);
        let rate = way.rate.map(|rate| ["--rate".to_owned(), rate.to_string()]);
        let arguments: Vec<String> =
            arguments.into_iter().chain(rate.into_iter().flatten()).collect();
        let log = self.world.file(&format!("{name}-load.log"));
        let program = binaries::path("millrace-loadgen")?;
        let mut load = Subject::start("millrace-loadgen", &program, &arguments, &[], &log)?;
        watch.until("the load", || load.has_ended())?;
        load.finish(STOP_LIMIT)?;
        let said = fs::read_to_string(&log).with_context(|| format!("no {}", log.display()))?;
        answer_ms(&said).with_context(|| format!("no times of answers in: {said}"))
    }

    /// Waits until a topic takes nothing more.
    fn quiet(&self, watch: &mut Watch, topic: &str) -> Result<()> {
        let (mut seen, mut since) = (Vec::new(), Instant::now());
        watch.until("the topic to be quiet", || {
            let marks = self.world.topics.watermarks(topic)?;
            if marks != seen {
                (seen, since) = (marks, Instant::now());
            }
            Ok(since.elapsed() >= QUIET)
        })
    }
}

/// The median and the 99th percentile of answers, in what the load generator printed.
fn answer_ms(said: &str) -> Option<[f64; 2]> {
    let line = said.lines().find(|line| line.starts_with("answers: "))?;
    Some([figure(line, "half-ms")?, figure(line, "p99-ms")?])
}
