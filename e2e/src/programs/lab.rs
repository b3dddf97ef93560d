//! A laboratory: one broker, one engine, an edge and a gateway on loopback, with topics and tables
//! made, and a load generator that remembers. Everything in it ends with it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use millrace_stack::clickhouse::{Engine, EngineOptions, TlsListener};
use millrace_stack::kafka::{Broker, BrokerOptions};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::types::RDKafkaErrorCode;
use tempfile::TempDir;

use crate::programs::binaries;
use crate::programs::collector::{Collector, Launch, Ports};
use crate::programs::loadgen::Load;
use crate::{topics, wait};

/// The traces topic and its dead letters, as the operator names them.
pub const TOPIC: &str = "otlp_traces";
/// Where records go that can't be stored.
pub const DEAD_LETTERS: &str = "otlp_traces_dead_letter";
/// The gateway's consumer group.
pub const GROUP: &str = "lab-gateway";
/// Partitions of each signal's topic.
pub const PARTITIONS: i32 = 4;
/// The signals, as topics and settings name them.
pub const SIGNALS: [&str; 3] = ["traces", "logs", "metrics"];
/// The collectors' shutdown deadline plus time to see it.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(40);

/// Below a receiver: records of any time, as tests send them whose times are fixed.
const ANY_TIMES: &str = "    recordTimes: {pastDays: 36500, futureHours: 876000}\n";

/// How tables hold attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// As JSON, types kept.
    Json,
    /// As maps of text.
    Map,
}

impl Variant {
    /// The name in settings of collectors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Map => "Map",
        }
    }

    /// The database that the lab makes with this variant's tables.
    pub fn database(self) -> &'static str {
        match self {
            Self::Json => "otel",
            Self::Map => "otel_map",
        }
    }
}

/// What differs from lab to lab.
#[derive(Debug)]
pub struct LabOptions {
    /// What kind of broker.
    pub broker: BrokerOptions,
    /// How many of them, in one cluster.
    pub brokers: usize,
    /// Partitions of each signal's topic.
    pub partitions: i32,
    /// Where the engine keeps its data, instead of a folder that ends with it.
    pub engine_dir: Option<PathBuf>,
    /// ZooKeepers of the tables, which are replicated then.
    pub zookeeper: Vec<SocketAddr>,
    /// A listener of the engine over TLS.
    pub engine_tls: Option<TlsListener>,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            broker: BrokerOptions::default(),
            brokers: 1,
            partitions: PARTITIONS,
            engine_dir: None,
            zookeeper: Vec::new(),
            engine_tls: None,
        }
    }
}

/// A broker, an engine, and a folder for everything else.
#[derive(Debug)]
pub struct Lab {
    /// The Kafka broker, the first one of a cluster.
    pub broker: Broker,
    /// The others of the cluster, by node id.
    pub peers: Vec<Broker>,
    /// The ClickHouse engine.
    pub engine: Engine,
    table_engine: &'static str,
    folder: TempDir,
}

impl Lab {
    /// Start a broker and an engine, make the topics and the tables.
    ///
    /// # Errors
    /// When any of them doesn't come up.
    pub fn start() -> Result<Self> {
        Self::with(LabOptions::default())
    }

    /// The same, with another broker or other topics.
    ///
    /// # Errors
    /// When any of them doesn't come up.
    pub fn with(options: LabOptions) -> Result<Self> {
        let LabOptions { broker, brokers, partitions, engine_dir, zookeeper, engine_tls } = options;
        let folder = TempDir::new().context("no temporary folder")?;
        let dir = broker.dir.clone().unwrap_or_else(|| folder.path().join("broker"));
        let table_engine = if zookeeper.is_empty() { "MergeTree" } else { "ReplicatedMergeTree" };
        let options = EngineOptions {
            dir: engine_dir,
            test_faults: true,
            zookeeper,
            tls: engine_tls,
            ..EngineOptions::default()
        };
        // Each takes seconds to start.
        let (kafka, engine) = thread::scope(|scope| {
            let kafka = scope.spawn(|| start_brokers(brokers, dir, broker));
            let engine = Engine::start(options).context("no engine");
            let kafka = kafka.join().map_err(|_| anyhow!("the brokers' start panicked"));
            (kafka.and_then(|kafka| kafka.context("no broker")), engine)
        });
        let ((broker, peers), engine) = (kafka?, engine?);
        let lab = Self { broker, peers, engine, table_engine, folder };
        lab.make_topics(partitions)?;
        fs::write(lab.password_file(), lab.engine.password())?;
        fs::write(lab.user_file(), lab.engine.user())?;
        lab.make_tables(Variant::Json.database(), Variant::Json)?;
        Ok(lab)
    }

    /// The folder of configurations and logs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves the folder where it is when the lab ends.
    pub fn keep_folder(&mut self) {
        self.folder.disable_cleanup(true);
    }

    /// A file with the engine's password.
    pub fn password_file(&self) -> PathBuf {
        self.folder.path().join("clickhouse-password")
    }

    /// A file with the engine's user.
    pub fn user_file(&self) -> PathBuf {
        self.folder.path().join("clickhouse-user")
    }

    /// The folder in which the broker keeps its topics.
    pub fn broker_data(&self) -> PathBuf {
        self.broker.dir().join("data")
    }

    /// `host:port` of each broker, for `bootstrap.servers`.
    pub fn bootstrap(&self) -> String {
        let brokers = [&self.broker].into_iter().chain(&self.peers);
        brokers.map(Broker::bootstrap).collect::<Vec<_>>().join(",")
    }

    /// The same, as settings list them.
    pub fn bootstrap_list(&self) -> String {
        format!("[\"{}\"]", self.bootstrap().replace(',', "\", \""))
    }

    fn make_topics(&self, partitions: i32) -> Result<()> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap());
        let admin: AdminClient<DefaultClientContext> = config.create()?;
        let topics = SIGNALS.map(|signal| format!("otlp_{signal}"));
        let letters = SIGNALS.map(|signal| format!("otlp_{signal}_dead_letter"));
        let replicas = Broker::count_replicas(1 + self.peers.len()) as i32;
        let topic = |name, count| {
            let topic = NewTopic::new(name, count, TopicReplication::Fixed(replicas));
            topic.set("message.timestamp.type", "LogAppendTime")
        };
        let topics = topics.iter().map(|name| topic(name, partitions));
        let topics: Vec<_> = topics.chain(letters.iter().map(|name| topic(name, 1))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let made = runtime.block_on(admin.create_topics(&topics, &AdminOptions::new()))?;
        for outcome in made {
            match outcome {
                // The client sends a request again whose answer was late, and the broker is new.
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((topic, error)) => bail!("topic {topic}: {error}"),
            }
        }
        Ok(())
    }

    /// Make a database with all tables.
    ///
    /// # Errors
    /// When the engine doesn't take them.
    pub fn make_tables(&self, database: &str, variant: Variant) -> Result<()> {
        let json = (variant == Variant::Json).then_some("--enable-json");
        let output = Command::new(binaries::path("clickhouse-ddl")?)
            .args(["create", "--endpoint", &self.engine.url(), "--database", database])
            .args(["--traces", "--logs", "--metrics", "--engine", self.table_engine])
            .args(json)
            .args(["--user", self.engine.user()])
            .env("CLICKHOUSE_PASSWORD", self.engine.password())
            .output()?;
        if !output.status.success() {
            bail!("clickhouse-ddl create: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// Start an edge and wait until it is ready.
    ///
    /// # Errors
    /// When it isn't ready in time.
    pub fn edge(&self) -> Result<Collector> {
        self.edge_with("")
    }

    /// The same, with more sections in its settings, such as rules.
    ///
    /// # Errors
    /// When it isn't ready in time.
    pub fn edge_with(&self, sections: &str) -> Result<Collector> {
        let ports = Ports::free()?;
        let settings = format!(
            "{sections}receivers:\n  otlp:\n    grpc: {{address: \"{}\"}}\n    http: {{address: \"{}\"}}\n\
             {ANY_TIMES}exporters:\n  kafka:\n    connection: {{bootstrapServers: {}}}\n",
            ports.grpc,
            ports.http,
            self.bootstrap_list(),
        );
        self.collector("edge", ports, &settings)
    }

    /// Start a gateway and wait until it is ready. `extra` goes below the ClickHouse exporter.
    ///
    /// # Errors
    /// When it isn't ready in time.
    pub fn gateway(&self, name: &str, extra: &str) -> Result<Collector> {
        self.gateway_into(name, GROUP, Variant::Json, extra)
    }

    /// The same, with more below the Kafka receiver, the number of workers among it.
    ///
    /// # Errors
    /// When it isn't ready in time.
    pub fn gateway_with(&self, name: &str, receiver: &str, exporter: &str) -> Result<Collector> {
        let settings = self.gateway_settings(GROUP, Variant::Json, receiver, exporter);
        self.collector(name, Ports::free()?, &settings)
    }

    /// The same, in a group of its own, into the database of a variant.
    ///
    /// # Errors
    /// When it isn't ready in time.
    pub fn gateway_into(
        &self,
        name: &str,
        group: &str,
        variant: Variant,
        extra: &str,
    ) -> Result<Collector> {
        let settings = self.gateway_settings(group, variant, "    workers: 1\n", extra);
        self.collector(name, Ports::free()?, &settings)
    }

    /// The same, with more below the Kafka receiver and the ClickHouse exporter.
    ///
    /// # Errors
    /// When it isn't ready in time.
    pub fn gateway_of(
        &self,
        name: &str,
        group: &str,
        variant: Variant,
        (receiver, exporter): (&str, &str),
    ) -> Result<Collector> {
        let settings = self.gateway_settings(group, variant, receiver, exporter);
        self.collector(name, Ports::free()?, &settings)
    }

    fn gateway_settings(
        &self,
        group: &str,
        variant: Variant,
        receiver: &str,
        exporter: &str,
    ) -> String {
        let (attributes, database) = (variant.name(), variant.database());
        format!(
            "receivers:\n  kafka:\n    connection: {{bootstrapServers: {}}}\n    \
             groupId: {group}\n    sessionTimeoutSeconds: 6\n{ANY_TIMES}{receiver}\
             exporters:\n  clickhouse:\n    endpoints: [\"{}\"]\n    database: {database}\n    \
             attributes: {attributes}\n    \
             credentials: {{usernameFile: \"{}\", passwordFile: \"{}\"}}\n{exporter}",
            self.bootstrap_list(),
            self.engine.url(),
            self.user_file().display(),
            self.password_file().display(),
        )
    }

    /// Start a collector that takes OTLP straight into ClickHouse, and wait until it is ready.
    /// `receiver` goes below the OTLP receiver, `exporter` below the ClickHouse exporter.
    ///
    /// # Errors
    /// When it isn't ready in time.
    pub fn direct(&self, receiver: &str, exporter: &str) -> Result<Collector> {
        let ports = Ports::free()?;
        let settings = format!(
            "receivers:\n  otlp:\n    grpc: {{address: \"{}\"}}\n    http: {{address: \"{}\"}}\n\
             {ANY_TIMES}{receiver}exporters:\n  clickhouse:\n    endpoints: [\"{}\"]\n    \
             database: otel\n    attributes: JSON\n    \
             credentials: {{usernameFile: \"{}\", passwordFile: \"{}\"}}\n{exporter}",
            ports.grpc,
            ports.http,
            self.engine.url(),
            self.user_file().display(),
            self.password_file().display(),
        );
        self.collector("direct", ports, &settings)
    }

    /// A load for this lab: lean spans over gRPC with gzip.
    pub fn load(&self, edge: &Collector, seed: u64, count: u64) -> Load {
        self.load_to(format!("http://{}", edge.ports.grpc), seed, count)
    }

    /// The same, to any endpoint.
    pub fn load_to(&self, endpoint: String, seed: u64, count: u64) -> Load {
        Load {
            signal: "traces",
            shape: "lean",
            seed,
            count,
            rate: None,
            request: None,
            calls: None,
            protocol: "grpc",
            compression: "gzip",
            endpoint,
            clickhouse: self.engine.url(),
            user: self.engine.user().to_owned(),
            password_file: self.password_file(),
            database: "otel".to_owned(),
            attributes: "json",
        }
    }

    /// A collector with any settings but the admin section, not waited for.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn launch(&self, name: &str, settings: &str, launch: Launch) -> Result<Collector> {
        Collector::launch(self.folder(), name, Ports::free()?, settings, launch)
    }

    /// How many messages of the traces topic are not committed by the gateway's group.
    ///
    /// # Errors
    /// When the broker doesn't answer.
    pub fn uncommitted(&self) -> Result<i64> {
        let bootstrap = self.bootstrap();
        let committed = topics::committed(&bootstrap, GROUP, TOPIC)?;
        let marks = topics::watermarks(&bootstrap, TOPIC)?;
        let behind = |((low, high), done): ((i64, i64), Option<i64>)| high - done.unwrap_or(low);
        Ok(marks.into_iter().zip(committed).map(behind).sum())
    }

    /// Wait until the gateway's group has committed everything.
    ///
    /// # Errors
    /// When it hasn't within `limit`.
    pub fn committed(&self, limit: Duration) -> Result<()> {
        wait::until("every offset to be committed", limit, || match self.uncommitted()? {
            0 => Ok(()),
            behind => bail!("{behind} messages are not committed"),
        })
    }

    fn collector(&self, name: &str, ports: Ports, settings: &str) -> Result<Collector> {
        let mut collector = Collector::start(self.folder(), name, ports, settings)?;
        collector.ready()?;
        Ok(collector)
    }
}

/// Starts one broker, or several of one cluster: the first, and the others.
fn start_brokers(
    count: usize,
    dir: PathBuf,
    options: BrokerOptions,
) -> Result<(Broker, Vec<Broker>)> {
    if count == 1 {
        let broker = Broker::start(BrokerOptions { dir: Some(dir), ..options })?;
        return Ok((broker, Vec::new()));
    }
    let mut brokers = Broker::start_cluster(count, &dir, &options)?.into_iter();
    let first = brokers.next().context("a cluster has a broker at least")?;
    Ok((first, brokers.collect()))
}
