//! What faults happen to: a real broker and a real engine behind proxies, an edge, gateways, and a
//! load that flows. One world serves many faults; each ends with everything well again.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_e2e::collector::{Collector, Launch, Ports};
use millrace_e2e::lab::{GROUP, Lab, LabOptions, TOPIC};
use millrace_e2e::loadgen::{Load, Running, Verdict};
use millrace_e2e::{http, wait};
use millrace_stack::disk::Disk;
use millrace_stack::kafka::{BrokerOptions, Listener};
use millrace_stack::service;
use tokio::runtime::Runtime;

use crate::disk::Disks;
use crate::proxy::http::HttpProxy;
use crate::proxy::{Mode, Proxy};
use crate::watch::Watch;

/// The topic of logs, as the operator names it.
pub const LOGS_TOPIC: &str = "otlp_logs";
/// Partitions of each topic: four for each gateway.
pub const PARTITIONS: i32 = 12;
/// Gateways, as in a small installation.
pub const GATEWAYS: usize = 3;
/// Spans a second: enough for a score of inserts a second, and little work for two cores.
pub const RATE: u64 = 3_000;
/// Spans of a request: small ones, so that every partition gets several messages a second.
const REQUEST: (u32, u32) = (10, 5);
/// Rows of a batch at most. A backlog is worked off in batches of this size.
pub const BATCH_ROWS: u64 = 2_000;
/// A batch is this old at most: an insert for each partition every half second.
const BATCH_AGE_MILLIS: u64 = 500;
/// Inserts of one gateway at once: the collector's own default.
pub const INSERTS_IN_FLIGHT: u64 = 4;
/// What a collector may take in all: half of it is its budget, more than the least an edge runs
/// with (two requests of 20 MiB). Its resident memory is held against it.
pub const MEMORY_LIMIT_MIB: u64 = 128;
/// The broker's least.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// Everything serves again this long after a fault.
pub const READY_LIMIT: Duration = Duration::from_secs(180);
/// And has caught up this long after that.
pub const LAG_LIMIT: Duration = Duration::from_secs(120);
/// From the end of a load to its verdict: rows arrive within two minutes, and are read back, on a
/// machine that may have other work.
const VERDICT_LIMIT: Duration = Duration::from_secs(420);
/// A load is made for this long and stopped when its faults are over.
const LOAD_SECONDS: u64 = 3_600;

/// A crowd's connections and calls on each, and what is in a request: 512 calls of 130 kB are more
/// than an edge's budget of 64 MiB.
const CROWD_CALLS: (u16, u16) = (8, 64);
const CROWD_REQUEST: (u32, u32) = (100, 2);

/// The rules of every edge: the loads are checked against what these make of them.
const RULES: &str = include_str!("../../../collector/loadgen/src/rules.json");

/// What librdkafka logs when its session in the group has timed out.
const SESSION_LOST: &str = "\"SESSTMOUT\"";

/// What inserts and commits have to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Nothing is lost.
    AtLeastOnce,
    /// Nothing is doubled either.
    EffectivelyOnce,
}

impl Delivery {
    /// As settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AtLeastOnce => "AtLeastOnce",
            Self::EffectivelyOnce => "EffectivelyOnce",
        }
    }
}

/// All of it.
#[derive(Debug)]
pub struct World {
    /// Before what the proxies lead to: they are let go of first.
    pub edge: Collector,
    /// The members of the group.
    pub gateways: Vec<Collector>,
    /// What the group does.
    pub watch: Watch,
    /// Between every collector and the broker.
    pub kafka: Proxy,
    /// Between the gateways and the engine.
    pub sink: Proxy,
    /// Behind `sink`: knows inserts from other requests.
    pub answers: HttpProxy,
    /// Broker, engine, topics, tables.
    pub lab: Lab,
    /// What broker and engine keep their data on, if these may be filled.
    pub disks: Option<Disks>,
    /// The most resident memory of any collector since the last fault, in MiB, and whose.
    rss_mib_max: (u64, String),
    _runtime: Runtime,
}

/// A load under way.
#[derive(Debug)]
pub struct Flow {
    running: Running,
    is_stopped: bool,
    /// What it goes through, if that ends with it.
    through: Option<Collector>,
}

impl World {
    /// Starts everything, broker and engine on disks of their own if there are any.
    ///
    /// # Errors
    /// When a part doesn't come up.
    pub fn start(disks: Option<Disks>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("proxy")
            .enable_all()
            .build()?;
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let broker = Listener { host, port: service::free_port(host)? };
        let kafka = Proxy::start(runtime.handle(), SocketAddr::new(host, broker.port))?;
        let broker = BrokerOptions {
            plaintext: Some(broker),
            advertised: Some(kafka.address()),
            dir: disks.as_ref().map(|disks| folder_on(&disks.broker)),
            ..BrokerOptions::default()
        };
        let lab = Lab::with(LabOptions {
            broker,
            partitions: PARTITIONS,
            engine_dir: disks.as_ref().map(|disks| folder_on(&disks.engine)),
            ..LabOptions::default()
        })?;
        let engine = lab.engine.url();
        let engine = engine.trim_start_matches("http://").parse().context("the engine's URL")?;
        let answers = HttpProxy::start(runtime.handle(), engine)?;
        let sink = Proxy::start(runtime.handle(), answers.address())?;
        let internal = lab.broker.internal_bootstrap();
        let watch = Watch::start(&internal, GROUP, TOPIC, PARTITIONS)?;
        let ports = Ports::free()?;
        let settings = edge_settings(&ports, &kafka, "");
        let edge = Collector::launch(lab.folder(), "edge", ports, &settings, Launch::default())?;
        let mut world = Self {
            edge,
            gateways: Vec::new(),
            watch,
            kafka,
            sink,
            answers,
            lab,
            disks,
            rss_mib_max: (0, String::new()),
            _runtime: runtime,
        };
        world.set_delivery(Delivery::EffectivelyOnce)?;
        world.ready()?;
        Ok(world)
    }

    /// Starts the gateways anew with another delivery.
    ///
    /// # Errors
    /// When one can't be started.
    pub fn set_delivery(&mut self, delivery: Delivery) -> Result<()> {
        for mut gateway in std::mem::take(&mut self.gateways) {
            gateway.process().terminate(millrace_e2e::lab::DRAIN_LIMIT)?;
        }
        for index in 0..GATEWAYS {
            let gateway = self.gateway(&format!("gateway-{index}"), delivery, true)?;
            self.gateways.push(gateway);
        }
        Ok(())
    }

    /// Starts a gateway. A static member keeps its partitions over a restart.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn gateway(&self, name: &str, delivery: Delivery, is_static: bool) -> Result<Collector> {
        let instance = if is_static { "    groupInstanceIdEnv: POD_NAME\n" } else { "" };
        let receiver = format!(
            "    groupId: {GROUP}\n{instance}    topics: {{traces: {TOPIC}}}\n    \
             delivery: {}\n",
            delivery.name(),
        );
        self.member(name, &receiver)
    }

    /// Starts a gateway for logs, alone in a group of its own, that stores nothing twice.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn logs_gateway(&self) -> Result<Collector> {
        let receiver = format!(
            "    groupId: {GROUP}-logs\n    topics: {{logs: {LOGS_TOPIC}}}\n    delivery: {}\n",
            Delivery::EffectivelyOnce.name(),
        );
        self.member("gateway-logs", &receiver)
    }

    fn member(&self, name: &str, receiver: &str) -> Result<Collector> {
        let settings = format!(
            "memory: {{limitBytes: {MEMORY_LIMIT_MIB}Mi}}\nreceivers:\n  kafka:\n    \
             connection: {{bootstrapServers: [\"{broker}\"]}}\n{receiver}    \
             workers: 1\n    sessionTimeoutSeconds: {session}\nexporters:\n  clickhouse:\n    \
             endpoints: [\"http://{sink}\"]\n    \
             database: otel\n    attributes: JSON\n    maxInsertsInFlight: {INSERTS_IN_FLIGHT}\n    \
             insertTimeoutSeconds: 10\n    \
             batch: {{maxRows: {BATCH_ROWS}, maxAgeMillis: {BATCH_AGE_MILLIS}}}\n    \
             credentials: {{usernameFile: \"{user}\", passwordFile: \"{password}\"}}\n",
            broker = self.kafka.address(),
            session = SESSION_TIMEOUT.as_secs(),
            sink = self.sink.address(),
            user = self.lab.user_file().display(),
            password = self.lab.password_file().display(),
        );
        let variables = vec![("POD_NAME".to_owned(), name.to_owned())];
        self.lab.launch(name, &settings, Launch { variables })
    }

    /// Starts another edge, which keeps what Kafka doesn't take in `folder`.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn buffering_edge(&self, folder: &Path) -> Result<Collector> {
        let ports = Ports::free()?;
        let buffer = format!(
            "    deliveryTimeoutSeconds: 5\n    buffer: {{path: \"{}\", maxBytes: 256Mi}}\n",
            folder.display()
        );
        let settings = edge_settings(&ports, &self.kafka, &buffer);
        let (folder, launch) = (self.lab.folder(), Launch::default());
        Collector::launch(folder, "edge-buffering", ports, &settings, launch)
    }

    /// Begins a load and returns when it flows.
    ///
    /// # Errors
    /// When it doesn't.
    pub fn flow(&self, seed: u64) -> Result<Flow> {
        self.flow_into(&self.edge, seed)
    }

    /// The same, into an edge of one's own.
    ///
    /// # Errors
    /// When it doesn't flow.
    pub fn flow_into(&self, edge: &Collector, seed: u64) -> Result<Flow> {
        let load = Load {
            rate: Some(RATE),
            request: Some(REQUEST),
            shape: "ruled",
            ..self.lab.load(edge, seed, RATE * LOAD_SECONDS)
        };
        let mut running = load.start(self.lab.folder())?;
        running.reached(RATE / 2, READY_LIMIT)?;
        Ok(Flow { running, is_stopped: false, through: None })
    }

    /// Begins a second load, of clients that send as much as is taken.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn crowd(&self, seed: u64) -> Result<Flow> {
        let count = RATE * LOAD_SECONDS;
        let load = Load {
            calls: Some(CROWD_CALLS),
            request: Some(CROWD_REQUEST),
            shape: "rich",
            compression: "none",
            ..self.lab.load(&self.edge, seed, count)
        };
        Ok(Flow { running: load.start(self.lab.folder())?, is_stopped: false, through: None })
    }

    /// Waits until everything is well: every collector ready, and what was in the topic by then
    /// committed. Gives the seconds that took.
    ///
    /// # Errors
    /// When a collector has ended, isn't ready or hasn't caught up in time.
    pub fn recovered(&mut self) -> Result<f64> {
        let since = Instant::now();
        self.ready()?;
        let ends = wait::until("the ends of the partitions", LAG_LIMIT, || self.watch.ends())?;
        self.watch.committed_up_to(&ends, LAG_LIMIT)?;
        self.note_memory();
        Ok(since.elapsed().as_secs_f64())
    }

    /// Waits until every collector says it is ready.
    ///
    /// # Errors
    /// When one has ended or isn't within its limit.
    pub fn ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_LIMIT;
        for collector in self.gateways.iter_mut().chain([&mut self.edge]) {
            let what = format!("{} to be ready", collector.name());
            let limit = deadline.saturating_duration_since(Instant::now());
            let mut ended = None;
            wait::until(&what, limit, || {
                if let Err(error) = collector.process().still_runs() {
                    ended = Some(error);
                    return Ok(());
                }
                let answer = http::get(collector.ports.admin, "/readyz")?;
                if answer.status != 200 {
                    bail!("{} {}", answer.status, answer.text());
                }
                Ok(())
            })?;
            ended.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Takes note of how much memory the collectors have taken at most. To be called before one is
    /// killed, which takes the figure with it.
    pub fn note_memory(&mut self) {
        for collector in self.gateways.iter_mut().chain([&mut self.edge]) {
            note_peak(&mut self.rss_mib_max, collector);
        }
    }

    /// The same of a collector that a fault has of its own.
    pub fn note_memory_of(&mut self, collector: &mut Collector) {
        note_peak(&mut self.rss_mib_max, collector);
    }

    /// The most memory noted since the last call, in MiB, and whose. Counting begins anew.
    pub fn take_memory(&mut self) -> (u64, String) {
        self.note_memory();
        for collector in self.gateways.iter_mut().chain([&mut self.edge]) {
            // The kernel's way to set a process's peak back to what it has now.
            let _ = fs::write(format!("/proc/{}/clear_refs", collector.process().pid()), "5");
        }
        std::mem::take(&mut self.rss_mib_max)
    }

    /// How often a gateway's session in the group has ended for want of answers, by librdkafka's log.
    ///
    /// # Errors
    /// When a log can't be read.
    pub fn lost_sessions(&self) -> Result<usize> {
        let lost = (0..GATEWAYS).map(|index| {
            let log = self.lab.folder().join(format!("gateway-{index}.log"));
            let text =
                fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))?;
            Ok(text.matches(SESSION_LOST).count())
        });
        lost.sum()
    }

    /// Leaves configurations and logs where they are when all of this ends, and says where.
    pub fn keep_logs(&mut self) -> String {
        self.lab.keep_folder();
        self.lab.folder().display().to_string()
    }

    /// Whether the broker answers, asked past every proxy.
    pub fn broker_serves(&self) -> bool {
        let address = self.lab.broker.internal_bootstrap().parse();
        address.is_ok_and(|address| millrace_stack::kafka::answers(address).is_ok())
    }

    /// Whatever a fault left behind is undone: proxies pass, ended processes run again.
    ///
    /// # Errors
    /// When something doesn't come back.
    pub fn mend(&mut self) -> Result<()> {
        self.kafka.set(Mode::Pass);
        self.sink.set(Mode::Pass);
        self.answers.set(None);
        if let Some(Disks { broker, engine, buffer, positions, .. }) = &self.disks {
            [broker, engine, buffer, positions].into_iter().try_for_each(Disk::free)?;
        }
        if !self.broker_serves() {
            self.lab.broker.restart()?;
        }
        if self.lab.engine.query("SELECT 1").is_err() {
            self.lab.engine.restart()?;
        }
        for collector in self.gateways.iter_mut().chain([&mut self.edge]) {
            if collector.process().ended()?.is_some() {
                let launch = collector.launched().clone();
                collector.relaunch(launch)?;
            } else {
                millrace_e2e::process::signal(collector.process().pid(), "CONT")?;
            }
        }
        self.ready()
    }
}

impl Flow {
    /// Records acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.running.acknowledged()
    }

    /// Waits for this many more.
    ///
    /// # Errors
    /// When they aren't within `limit`.
    pub fn goes_on(&mut self, records: u64, limit: Duration) -> Result<()> {
        let target = self.acknowledged() + records;
        self.running.reached(target, limit)
    }

    /// Asks the load to begin no further request.
    ///
    /// # Errors
    /// When it has ended by itself.
    pub fn stop(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_stopped, true) {
            self.running.stop_sending()?;
        }
        Ok(())
    }

    /// A load through an edge that drains once there is a verdict.
    pub fn through(self, edge: Collector) -> Self {
        Self { through: Some(edge), ..self }
    }

    /// Ends the load and has everything it sent compared.
    ///
    /// # Errors
    /// When there is no verdict in time, or what it went through doesn't drain.
    pub fn verdict(mut self) -> Result<Verdict> {
        self.stop()?;
        let verdict = self.running.verdict(VERDICT_LIMIT)?;
        if let Some(mut edge) = self.through {
            let status = edge.process().terminate(millrace_e2e::lab::DRAIN_LIMIT)?;
            anyhow::ensure!(status.success(), "{} drained with {status}", edge.name());
        }
        Ok(verdict)
    }
}

/// Servers want a folder that is theirs alone.
fn folder_on(disk: &Disk) -> PathBuf {
    disk.path().join("server")
}

fn edge_settings(ports: &Ports, kafka: &Proxy, more: &str) -> String {
    format!(
        "memory: {{limitBytes: {MEMORY_LIMIT_MIB}Mi}}\nreceivers:\n  otlp:\n    \
         grpc: {{address: \"{}\"}}\n    http: {{address: \"{}\"}}\n\
         exporters:\n  kafka:\n    connection: {{bootstrapServers: [\"{}\"]}}\n    \
         topics: {{traces: {TOPIC}}}\n{more}processing: {RULES}",
        ports.grpc,
        ports.http,
        kafka.address(),
    )
}

fn note_peak(max: &mut (u64, String), collector: &mut Collector) {
    let peak = peak_mib(collector.process().pid()).unwrap_or(0);
    if peak > max.0 {
        *max = (peak, collector.name().to_owned());
    }
}

/// Resident memory at its highest, in MiB.
fn peak_mib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}
