//! What can be said on the command line, and the checked values it becomes.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use millrace_ddl::{
    AttributeStorage, ClientOptions, DdlClient, Identifier, Secret, ServerEndpoint,
    TlsCertificates, UserCredentials,
};
use millrace_loadgen::{
    CheckOptions, LoadPlan, LoadShape, LoadTarget, OtlpProtocol, RequestCompression, SendOptions,
};
use millrace_wire::Signal;

/// Sends seeded OpenTelemetry load, records what was acknowledged, and checks it in ClickHouse.
#[derive(Debug, Parser)]
#[command(name = "millrace-loadgen", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send records and record what was acknowledged.
    Send(SendArgs),
    /// Compare the records acknowledged in an earlier `send` with the rows in ClickHouse.
    Check(CheckArgs),
    /// Send, then check.
    Run {
        #[command(flatten)]
        send: SendFlags,
        #[command(flatten)]
        check: CheckFlags,
    },
    /// Generate the load without sending it, and print the cost of generating.
    Generate(PlanFlags),
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// File to which the acknowledged records are written, for `check --state`.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) send: SendFlags,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// File that `send --state` wrote.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: PathBuf,
    #[command(flatten)]
    pub(crate) check: CheckFlags,
}

#[derive(Debug, Args)]
pub(crate) struct PlanFlags {
    /// Seed of all content; drawn at random and printed when absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Total number of records, 1 to 1,000,000,000.
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// Signal to send: traces, logs or metrics.
    #[arg(long, default_value = "traces")]
    signal: Signal,
    /// Shape of each span: lean (about 120 bytes), rich (about 660 bytes), or ruled (lean, for an
    /// edge with the rules of collector/loadgen/src/rules.json).
    #[arg(long, default_value = "lean")]
    shape: SpanShape,
    /// Records of one resource in a request; also the spans of one trace.
    #[arg(long, default_value_t = 100)]
    records_per_resource: u32,
    /// Resources in a request.
    #[arg(long, default_value_t = 10)]
    resources_per_request: u32,
    /// Time of the first record in nanoseconds since 1970; now when absent.
    #[arg(long)]
    start_unix_nanos: Option<u64>,
    /// Compression of requests.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) compression: RequestCompression,
}

#[derive(Debug, Args)]
pub(crate) struct SendFlags {
    #[command(flatten)]
    pub(crate) plan: PlanFlags,
    /// OTLP endpoint, such as http://127.0.0.1:4317.
    #[arg(long, value_name = "URL")]
    endpoint: String,
    /// Protocol of OTLP.
    #[arg(long, value_enum, default_value_t)]
    protocol: OtlpProtocol,
    /// Connections, 1 to 1,024.
    #[arg(long, default_value_t = 2)]
    connections: u16,
    /// Calls in flight on each connection, 1 to 1,024.
    #[arg(long, default_value_t = 4)]
    in_flight: u16,
    /// Records per second; unlimited when absent.
    #[arg(long)]
    rate: Option<u64>,
    /// Timeout of one answer in seconds.
    #[arg(long, default_value_t = 30)]
    timeout_seconds: u64,
    /// Seconds after which a request is no longer retried.
    #[arg(long, default_value_t = 300)]
    give_up_seconds: u64,
    /// PEM file with the certificates to trust for an https endpoint.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckFlags {
    /// ClickHouse HTTP endpoint, such as http://127.0.0.1:8123; repeat for more.
    #[arg(long = "clickhouse", value_name = "URL", required = true)]
    clickhouse: Vec<ServerEndpoint>,
    /// ClickHouse user.
    #[arg(long, default_value = "default")]
    user: String,
    /// File with the user's password; without it, CLICKHOUSE_PASSWORD is used, or no password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// PEM file with the certificates to trust for an https ClickHouse.
    #[arg(long, value_name = "FILE")]
    clickhouse_ca_file: Option<PathBuf>,
    /// Database of the tables.
    #[arg(long, default_value = "otel")]
    database: Identifier,
    /// Prefix of the tables.
    #[arg(long, default_value = "otel")]
    table_prefix: Identifier,
    /// How the tables store attributes: json or map.
    #[arg(long, default_value = "map", value_parser = parse_attributes)]
    attributes: AttributeStorage,
    /// Seconds within which all records must arrive.
    #[arg(long, default_value_t = 120)]
    deadline_seconds: u64,
}

/// Shape of a span.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SpanShape {
    Lean,
    Rich,
    Ruled,
}

fn parse_attributes(text: &str) -> Result<AttributeStorage, String> {
    match text.to_ascii_lowercase().as_str() {
        "json" => Ok(AttributeStorage::Json),
        "map" => Ok(AttributeStorage::Map),
        _ => Err("use json or map".to_owned()),
    }
}

impl PlanFlags {
    /// The plan; what was not given is drawn from the clock.
    pub(crate) fn to_plan(&self) -> Result<LoadPlan> {
        let shape = match (self.signal, self.shape) {
            (Signal::Traces, SpanShape::Lean) => LoadShape::Lean,
            (Signal::Traces, SpanShape::Rich) => LoadShape::Rich,
            (Signal::Traces, SpanShape::Ruled) => LoadShape::Ruled,
            (Signal::Logs, SpanShape::Lean) => LoadShape::Logs,
            (Signal::Metrics, SpanShape::Lean) => LoadShape::Metrics,
            (Signal::Logs | Signal::Metrics, SpanShape::Rich | SpanShape::Ruled) => {
                bail!("--shape rich and ruled require --signal traces")
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(0);
        let plan = LoadPlan {
            seed: self.seed.unwrap_or(nanos ^ (u64::from(std::process::id()) << 40)),
            count: self.count,
            records_per_resource: self.records_per_resource,
            resources_per_request: self.resources_per_request,
            start_unix_nanos: self.start_unix_nanos.unwrap_or(nanos),
            shape,
        };
        plan.validate()?;
        Ok(plan)
    }
}

impl SendFlags {
    pub(crate) fn to_target(&self) -> Result<LoadTarget> {
        Ok(LoadTarget::new(&self.endpoint, self.protocol)?)
    }

    pub(crate) fn send_options(&self) -> Result<SendOptions> {
        Ok(SendOptions {
            connections: self.connections,
            in_flight: self.in_flight,
            compression: self.plan.compression,
            rate: self.rate,
            timeout: Duration::from_secs(self.timeout_seconds.max(1)),
            give_up_after: Duration::from_secs(self.give_up_seconds),
            tls: TlsCertificates { ca_pem: read_ca_file(self.ca_file.as_ref())?, identity: None },
        })
    }
}

impl CheckFlags {
    pub(crate) fn clickhouse_client(&self) -> Result<DdlClient> {
        let password = match &self.password_file {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the password file {}", path.display()))?,
            None => std::env::var("CLICKHOUSE_PASSWORD").unwrap_or_default(),
        };
        if self.user.is_empty() {
            bail!("--user is empty: set a ClickHouse user");
        }
        let mut options = ClientOptions::new(self.clickhouse.clone());
        options.credentials =
            UserCredentials::Password { user: self.user.clone(), password: Secret::new(password) };
        options.tls = TlsCertificates {
            ca_pem: read_ca_file(self.clickhouse_ca_file.as_ref())?,
            identity: None,
        };
        Ok(DdlClient::new(options)?)
    }

    pub(crate) fn check_options(&self) -> CheckOptions {
        CheckOptions {
            database: self.database.clone(),
            prefix: self.table_prefix.clone(),
            attributes: self.attributes,
            deadline: Duration::from_secs(self.deadline_seconds),
        }
    }
}

fn read_ca_file(path: Option<&PathBuf>) -> Result<Option<Vec<u8>>> {
    path.map(|path| {
        std::fs::read(path).with_context(|| format!("cannot read the CA file {}", path.display()))
    })
    .transpose()
}
