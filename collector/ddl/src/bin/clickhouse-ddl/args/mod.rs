//! What can be said on the command line, and the checked values it becomes. The flags that Rotel's
//! tool of the same name has mean the same here.

mod layout;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use millrace_ddl::{
    AttributeStorage, ClientIdentity, ClientOptions, ClusterName, DdlClient, Declared,
    DeduplicationWindow, Engine, Identifier, KeeperPath, MigrateOptions, Permit, ReplicaName,
    Replication, Secret, ServerEndpoint, Signals, StepClass, TableOptions, TlsCertificates, Ttl,
    UserCredentials,
};

use layout::LayoutFlags;

/// Creates, checks and repairs ClickHouse tables for OpenTelemetry data.
///
/// Exit code: 0 done or equal; 1 something differs or was not done; 2 invalid arguments; 3 no
/// usable answer from a server.
#[derive(Debug, Parser)]
#[command(name = "clickhouse-ddl", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Tables(Box<TableCommand>),
    /// Plan Keeper or ZooKeeper for a load, and state when to add capacity; contacts no server.
    Coordination(LoadFlags),
}

/// The load to plan for.
#[derive(Debug, Args)]
pub(crate) struct LoadFlags {
    /// Rows per second, into all tables and shards.
    #[arg(long)]
    pub(crate) rows_per_second: u32,
    /// Rows of one insert, which makes one part: a gateway's batch of one table and day.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) rows_per_part: u32,
    /// Replicas of each shard.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) replicas: u32,
    /// Shards.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) shards: u32,
    /// Replicated tables; a pipeline with all signals has seven.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) tables: u32,
    /// Maximum number of gateways that insert at once, which sizes the deduplication window.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) gateways: u32,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is done about tables.
#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Create what is missing: database, tables, view, columns, indexes. Changes nothing else.
    Create(ChangeFlags),
    /// Print the statements that create the tables; contacts no server.
    Render(TableFlags),
    /// Print the reason for each column, codec, index and key; contacts no server.
    Explain {
        #[command(flatten)]
        tables: TableFlags,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the statements that lead to the declared tables, each with its class, and the
    /// privileges that are missing for them.
    Plan(ReportFlags),
    /// Run the plan as numbered migrations, up to a class.
    Apply {
        #[command(flatten)]
        change: ChangeFlags,
        /// Heaviest class of statements that may run; destructive ones also need --destroy.
        #[arg(long, value_enum, default_value_t = Allow::Metadata)]
        allow: Allow,
    },
    /// Compare the live tables with the declared ones: exit code 1 if inserts, reads or promises
    /// are broken.
    Verify(Live),
    /// Show every difference, harmless ones too.
    Diff(ReportFlags),
    /// Show each server, whose tables it has, and its journal of migrations: exit code 1 if one is
    /// open or failed last.
    Status(ReportFlags),
}

/// Tables, and the servers they are on.
#[derive(Debug, Args)]
pub(crate) struct Live {
    #[command(flatten)]
    pub(crate) tables: TableFlags,
    #[command(flatten)]
    pub(crate) server: ServerFlags,
}

/// What is reported of live tables.
#[derive(Debug, Args)]
pub(crate) struct ReportFlags {
    #[command(flatten)]
    pub(crate) live: Live,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What changes live tables.
#[derive(Debug, Args)]
pub(crate) struct ChangeFlags {
    #[command(flatten)]
    pub(crate) live: Live,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

impl TableCommand {
    /// The tables it is about.
    pub(crate) fn table_flags(&self) -> &TableFlags {
        match self {
            Self::Render(tables) | Self::Explain { tables, .. } => tables,
            Self::Verify(live) => &live.tables,
            Self::Plan(report) | Self::Diff(report) | Self::Status(report) => &report.live.tables,
            Self::Create(change) | Self::Apply { change, .. } => &change.live.tables,
        }
    }
}

/// How to run what changes something.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// Show the plan and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Seconds to wait for another run to end.
    #[arg(long, default_value_t = 30)]
    wait_seconds: u64,
    /// How often a statement is retried after a temporary failure.
    #[arg(long, default_value_t = 3)]
    retries: u32,
}

impl RunFlags {
    pub(crate) fn migrate_options(&self, permit: Permit) -> MigrateOptions {
        let mut options = MigrateOptions::new(local_author());
        options.tool = concat!("clickhouse-ddl ", env!("CARGO_PKG_VERSION")).to_owned();
        options.permit = permit;
        options.patience = Duration::from_secs(self.wait_seconds);
        options.retries = self.retries;
        options
    }
}

/// Returns `user@host`, as far as the environment has them.
fn local_author() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}@{}", user.as_deref().unwrap_or("unknown"), host.trim())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Allow {
    /// Statements that neither rewrite nor delete rows.
    Metadata,
    /// Also statements that write a table's data again.
    Rewrite,
    /// Also statements that delete rows, such as for a shorter time to live.
    Destructive,
}

impl From<Allow> for Permit {
    fn from(allow: Allow) -> Self {
        Self::up_to(match allow {
            Allow::Metadata => StepClass::MetadataOnly,
            Allow::Rewrite => StepClass::Rewrite,
            Allow::Destructive => StepClass::Destructive,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct TableFlags {
    /// Database of the tables; created if it does not exist.
    #[arg(long, default_value = "otel")]
    database: Identifier,
    /// Prefix of the tables.
    #[arg(long, default_value = "otel")]
    table_prefix: Identifier,
    /// MergeTree, ReplicatedMergeTree, ReplacingMergeTree or ReplicatedReplacingMergeTree (traces
    /// only), or Null.
    #[arg(long, default_value = "MergeTree")]
    engine: String,
    /// Leave Keeper path and replica name of ReplicatedMergeTree to the server. In a database with
    /// engine Replicated this is done anyway, unless --replica-path or --replica-name is given.
    #[arg(long, conflicts_with_all = ["replica_path", "replica_name"])]
    server_replica_path: bool,
    /// Keeper path above the table, for ReplicatedMergeTree.
    #[arg(long, value_name = "PATH")]
    replica_path: Option<KeeperPath>,
    /// Replica name, for ReplicatedMergeTree.
    #[arg(long, value_name = "NAME")]
    replica_name: Option<ReplicaName>,
    /// Run every statement on all servers of this cluster.
    #[arg(long, value_name = "NAME")]
    cluster: Option<ClusterName>,
    /// Span tables.
    #[arg(long)]
    traces: bool,
    /// Log table.
    #[arg(long)]
    logs: bool,
    /// The five metric tables.
    #[arg(long)]
    metrics: bool,
    /// Retention of rows, such as 30d or 12h; 0s retains them forever.
    #[arg(long, default_value = "0s")]
    ttl: String,
    /// Store attributes as JSON; as Map otherwise.
    #[arg(long)]
    enable_json: bool,
    /// Add a Distributed table over this cluster's shards to each table.
    #[arg(long, value_name = "NAME")]
    distributed: Option<ClusterName>,
    /// Maximum number of gateways that insert at once: the deduplication window holds the inserts
    /// that they make in five minutes.
    #[arg(long, value_name = "COUNT", default_value_t = 6)]
    max_gateways: u32,
    /// An object that may be destroyed, as plans name it: database.table.column,
    /// database.table.index, database.table.ttl; repeat for more.
    #[arg(long, value_name = "OBJECT")]
    destroy: Vec<String>,
    #[command(flatten)]
    layout: LayoutFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// ClickHouse HTTP endpoint, such as http://127.0.0.1:8123; repeat for each server.
    #[arg(long, value_name = "URL", required = true)]
    endpoint: Vec<ServerEndpoint>,
    /// ClickHouse user.
    #[arg(long, default_value = "default")]
    user: String,
    /// The user's password. Anyone on this machine can read it here: use --password-file,
    /// CLICKHOUSE_PASSWORD or --ask-password instead.
    #[arg(long, conflicts_with_all = ["password_file", "ask_password"])]
    password: Option<String>,
    /// File holding the user's password.
    #[arg(long, value_name = "FILE", conflicts_with = "ask_password")]
    password_file: Option<PathBuf>,
    /// Prompt for the password on the terminal, without showing it.
    #[arg(long)]
    ask_password: bool,
    /// PEM file with the certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate chain.
    #[arg(long, value_name = "FILE", requires = "key_file")]
    certificate_file: Option<PathBuf>,
    /// PEM file with the key of --certificate-file.
    #[arg(long, value_name = "FILE", requires = "certificate_file")]
    key_file: Option<PathBuf>,
    /// Seconds one statement may take.
    #[arg(long, default_value_t = 60)]
    timeout_seconds: u64,
}

impl TableFlags {
    pub(crate) fn to_declared(&self) -> Result<Declared> {
        let signals = Signals { traces: self.traces, logs: self.logs, metrics: self.metrics };
        if signals == Signals::default() {
            bail!("no tables are selected: give at least one of --traces, --logs, --metrics");
        }
        let attributes =
            if self.enable_json { AttributeStorage::Json } else { AttributeStorage::Map };
        let ttl = Ttl::parse_optional(&self.ttl).context("--ttl")?;
        let options = TableOptions {
            attributes,
            engine: self.parse_engine()?,
            ttl,
            storage: self.layout.to_storage(),
            layout: self.layout.to_layout()?,
            window: DeduplicationWindow::for_gateways(self.max_gateways),
        };
        let mut declared =
            Declared::uniform(self.database.clone(), self.table_prefix.clone(), signals, &options);
        declared.cluster.clone_from(&self.cluster);
        declared.distributed.clone_from(&self.distributed);
        declared.consent = self.destroy.iter().cloned().collect();
        declared.check_options()?;
        Ok(declared)
    }

    fn parse_engine(&self) -> Result<Engine> {
        let has_replication_options =
            self.replica_path.is_some() || self.replica_name.is_some() || self.server_replica_path;
        let replication = match Replication::default() {
            _ if self.server_replica_path => Replication::ServerDefault,
            Replication::Explicit { path, replica } => Replication::Explicit {
                path: self.replica_path.clone().unwrap_or(path),
                replica: self.replica_name.clone().unwrap_or(replica),
            },
            server_default @ Replication::ServerDefault => server_default,
        };
        let engine = match self.engine.as_str() {
            "MergeTree" => Engine::MergeTree,
            "ReplicatedMergeTree" => Engine::ReplicatedMergeTree(replication),
            "ReplacingMergeTree" => Engine::ReplacingMergeTree,
            "ReplicatedReplacingMergeTree" => Engine::ReplicatedReplacingMergeTree(replication),
            "Null" => Engine::Null,
            other => bail!(
                "--engine {other:?} is not known: write MergeTree, ReplicatedMergeTree or Null, \
                 for traces also ReplacingMergeTree or ReplicatedReplacingMergeTree"
            ),
        };
        if has_replication_options && engine.replication().is_none() {
            bail!(
                "--replica-path, --replica-name and --server-replica-path need --engine \
                 ReplicatedMergeTree"
            );
        }
        Ok(engine)
    }
}

impl ServerFlags {
    /// Whether the password was typed where others can see it.
    pub(crate) fn is_password_exposed(&self) -> bool {
        self.password.is_some()
    }

    pub(crate) fn build_client(&self) -> Result<DdlClient> {
        let mut options = ClientOptions::new(self.endpoint.clone());
        options.credentials = UserCredentials::Password {
            user: self.user.clone(),
            password: Secret::new(self.read_password()?),
        };
        options.tls = self.read_tls()?;
        options.statement_timeout = Duration::from_secs(self.timeout_seconds.max(1));
        Ok(DdlClient::new(options)?)
    }

    fn read_password(&self) -> Result<String> {
        if let Some(password) = &self.password {
            return Ok(password.clone());
        }
        if let Some(path) = &self.password_file {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the password file {}", path.display()))?;
            // An editor ends the file with a line end that is no part of the password.
            return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
        }
        if self.ask_password {
            let prompt = format!("Password of {}: ", self.user);
            return rpassword::prompt_password(prompt)
                .context("cannot prompt for the password: there is no terminal");
        }
        Ok(std::env::var("CLICKHOUSE_PASSWORD").unwrap_or_default())
    }

    fn read_tls(&self) -> Result<TlsCertificates> {
        let read = |path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let identity = match (&self.certificate_file, &self.key_file) {
            (Some(certificate), Some(key)) => Some(ClientIdentity {
                certificate_pem: read(certificate)?,
                key_pem: Secret::new(
                    std::fs::read_to_string(key)
                        .with_context(|| format!("cannot read {}", key.display()))?,
                ),
            }),
            _ => None,
        };
        Ok(TlsCertificates { ca_pem: self.ca_file.as_ref().map(read).transpose()?, identity })
    }
}
