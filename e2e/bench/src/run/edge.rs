//! Runs of edges: a load is sent through a collector into a topic.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_e2e::loadgen::figure;
use millrace_e2e::{binaries, http, wait};
use millrace_stack::service::free_port;

use super::{Bench, Outcome, STOP_LIMIT, Watch};
use crate::case::Way;
use crate::collector::EdgePlace;
use crate::dataset::{Dataset, SEED, records};
use crate::process::Subject;
use crate::rules::RulesCase;
use crate::world::broker::stored_bytes;
use crate::world::pods::{PODS, PodsServer};

/// From start to listening.
const LISTEN_LIMIT: Duration = Duration::from_secs(60);
/// A topic that takes nothing for so long holds all there is.
const QUIET: Duration = Duration::from_secs(2);
/// Records that an edge takes before its answers are timed. Its Kafka client asks for the producer
/// id it numbers messages by 500 ms after its start, and the first requests wait for that. They are
/// the load's first, once more: another seed's would have times of their own.
const WARM_UP: u64 = 1_000;

/// An edge that listens.
struct RunningEdge {
    name: String,
    topic: String,
    port: u16,
    watch: Watch,
    /// The CPU time before the load, which doesn't count: rules are compared with each other, and
    /// one case reads the pods of a cluster first.
    idle_seconds: f64,
    _pods: Option<PodsServer>,
}

impl Bench<'_> {
    pub(super) fn edge(
        &mut self,
        way: Way,
        dataset: Dataset,
        rules: Option<RulesCase>,
    ) -> Result<Outcome> {
        let (outcome, topic) = self.fill_with_rules(way, dataset, rules)?;
        self.world.topics.remove(&topic)?;
        if let Some(other) = rules.and_then(|rules| rules.other_topic(&topic)) {
            self.world.topics.remove(&other)?;
        }
        Ok(outcome)
    }

    /// Sends a load through an edge into a topic that stays, and returns its name.
    pub(crate) fn fill_by_edge(&mut self, way: Way, dataset: Dataset) -> Result<(Outcome, String)> {
        self.fill_with_rules(way, dataset, None)
    }

    fn fill_with_rules(
        &mut self,
        way: Way,
        dataset: Dataset,
        rules: Option<RulesCase>,
    ) -> Result<(Outcome, String)> {
        let mut edge = self.start_edge(way, dataset, rules)?;
        let RunningEdge { name, topic, port, watch, idle_seconds, .. } = &mut edge;
        let sent = self.case.records(self.size);
        let log = format!("{name}-first");
        self.load(watch, (way, dataset), *port, WARM_UP, &log)?;
        if rules.is_some() {
            watch.look()?;
            *idle_seconds = watch.last.cpu_seconds;
        }
        let profile = self.profile(watch, name)?;
        let began = Instant::now();
        let answer_ms = self.load(watch, (way, dataset), *port, sent - WARM_UP, name)?;
        let wall_seconds = began.elapsed().as_secs_f64();
        if !self.collector.is_ours() {
            self.quiet(watch, topic)?;
        }
        watch.look()?;
        if let Some(profile) = profile {
            profile.finish()?;
        }
        let RunningEdge { topic, watch, idle_seconds, .. } = edge;
        let Watch { subject, series, last } = watch;
        subject.stop(STOP_LIMIT)?;
        self.check_stored(&topic, dataset, rules, sent)?;
        let bytes_out = Some(stored_bytes(self.world.broker.dir(), &topic)?);
        let outcome = Outcome {
            records: if rules.is_some() { sent - WARM_UP } else { sent },
            cpu_seconds: last.cpu_seconds - idle_seconds,
            wall_seconds,
            peak_bytes: last.peak_bytes,
            rss_series: series,
            bytes_out,
            answer_ms: Some(answer_ms),
            ..Outcome::default()
        };
        Ok((outcome, topic))
    }

    /// Starts an edge and waits until it listens, and knows the pods that its rules need.
    fn start_edge(
        &mut self,
        way: Way,
        dataset: Dataset,
        rules: Option<RulesCase>,
    ) -> Result<RunningEdge> {
        let name = self.world.fresh_name(self.case.name);
        let topic = name.replace('-', "_");
        self.world.topics.make(&topic)?;
        if let Some(other) = rules.and_then(|rules| rules.other_topic(&topic)) {
            self.world.topics.make(&other)?;
        }
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let [grpc, http, admin] = [free_port(host)?, free_port(host)?, free_port(host)?];
        let settings = self.collector.edge(&EdgePlace {
            broker: self.world.topics.bootstrap(),
            signal: dataset.signal_name(),
            topic: &topic,
            grpc: format!("127.0.0.1:{grpc}"),
            http: format!("127.0.0.1:{http}"),
            admin: format!("127.0.0.1:{admin}"),
            rules,
        });
        let needs_pods = rules == Some(RulesCase::Enrich);
        let pods = needs_pods.then(PodsServer::start).transpose()?;
        let watch = self.start(&name, &settings, pods.as_ref().map(PodsServer::account))?;
        let port = if way.protocol == "grpc" { grpc } else { http };
        wait::until("the edge to listen", LISTEN_LIMIT, || {
            TcpStream::connect(SocketAddr::new(host, port)).map(drop).context("not yet")
        })
        .with_context(|| watch.subject.last_words())?;
        if pods.is_some() {
            let known = format!("millrace_pods_known {PODS}");
            wait::until("the pods to be known", LISTEN_LIMIT, || {
                let metrics = http::get(SocketAddr::new(host, admin), "/metrics")?.text();
                metrics.lines().any(|line| line == known).then_some(()).context("not yet")
            })
            .with_context(|| watch.subject.last_words())?;
        }
        Ok(RunningEdge { name, topic, port, watch, idle_seconds: 0.0, _pods: pods })
    }

    /// Fails unless topics have the records that were sent, in the form that the rules give them.
    fn check_stored(
        &self,
        topic: &str,
        dataset: Dataset,
        rules: Option<RulesCase>,
        sent: u64,
    ) -> Result<()> {
        let (mut stored, mut unlabeled, mut broken) = (0, 0, None);
        let other = rules.and_then(|rules| rules.other_topic(topic));
        for topic in [Some(topic), other.as_deref()].into_iter().flatten() {
            let before = stored;
            self.world.topics.read_all(topic, |payload| {
                match records(dataset.signal(), payload) {
                    Ok(records) => stored += records,
                    Err(error) => broken = Some(error),
                }
                unlabeled += u64::from(memchr::memmem::find(payload, b"k8s.pod.uid").is_none());
            })?;
            if stored == before {
                bail!("nothing is in the topic {topic}");
            }
        }
        if let Some(error) = broken {
            return Err(error.context("a message in the topic"));
        }
        if rules == Some(RulesCase::Enrich) && unlabeled > 0 {
            bail!("{unlabeled} messages have no metadata of a pod");
        }
        let drops = rules.is_some_and(RulesCase::drops);
        let is_plausible = if drops { (1..sent / 4).contains(&stored) } else { stored == sent };
        if !is_plausible {
            bail!("{sent} records were acknowledged and {stored} are in the topic");
        }
        Ok(())
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
