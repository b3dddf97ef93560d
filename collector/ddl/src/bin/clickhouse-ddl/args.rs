//! What can be said on the command line, and the checked values it becomes. The flags that Rotel's
//! tool of the same name has mean the same here.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use millrace_ddl::{
    Attributes, Client, ClientOptions, ClusterName, Credentials, Declared, Endpoint, Engine,
    Identifier, Identity, KeeperPath, Permit, ReplicaName, Replication, Secret, Signals, StepClass,
    TableOptions, Tls, Ttl,
};

/// Makes, checks and mends ClickHouse tables for OpenTelemetry data.
///
/// Exit code: 0 done or equal; 1 something differs or was left undone; 2 wrong arguments; 3 no
/// answer that could be used.
#[derive(Debug, Parser)]
#[command(name = "clickhouse-ddl", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make what is missing: database, tables, view, columns, indexes. Changes nothing else.
    Create {
        #[command(flatten)]
        tables: TableFlags,
        #[command(flatten)]
        server: ServerFlags,
    },
    /// Print the statements that make the tables; asks no server.
    Render {
        #[command(flatten)]
        tables: TableFlags,
    },
    /// Show what would be run to reach the declared tables, each statement with its class.
    Plan {
        #[command(flatten)]
        tables: TableFlags,
        #[command(flatten)]
        server: ServerFlags,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run the plan, up to a class.
    Apply {
        #[command(flatten)]
        tables: TableFlags,
        #[command(flatten)]
        server: ServerFlags,
        /// The heaviest class that may run.
        #[arg(long, value_enum, default_value_t = Allow::Metadata)]
        allow: Allow,
    },
    /// Compare the live tables with the declared ones: exit code 1 if inserts, reads or promises
    /// are broken.
    Verify {
        #[command(flatten)]
        tables: TableFlags,
        #[command(flatten)]
        server: ServerFlags,
    },
    /// Show every difference, harmless ones too.
    Diff {
        #[command(flatten)]
        tables: TableFlags,
        #[command(flatten)]
        server: ServerFlags,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    /// The tables it is about.
    pub(crate) fn tables(&self) -> &TableFlags {
        match self {
            Self::Create { tables, .. }
            | Self::Render { tables }
            | Self::Plan { tables, .. }
            | Self::Apply { tables, .. }
            | Self::Verify { tables, .. }
            | Self::Diff { tables, .. } => tables,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Allow {
    /// Only what adds: milliseconds, whatever the table holds.
    Metadata,
    /// Also what touches existing parts in the background and loses nothing.
    Mutation,
    /// Also what writes a table's data again.
    Rewrite,
    /// Also what deletes rows, such as a shorter time to live.
    Destructive,
}

impl From<Allow> for Permit {
    fn from(allow: Allow) -> Self {
        Self::up_to(match allow {
            Allow::Metadata => StepClass::MetadataOnly,
            Allow::Mutation => StepClass::Mutation,
            Allow::Rewrite => StepClass::Rewrite,
            Allow::Destructive => StepClass::Destructive,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct TableFlags {
    /// Database of the tables; made if it is not there.
    #[arg(long, default_value = "otel")]
    database: Identifier,
    /// Prefix of the tables.
    #[arg(long, default_value = "otel")]
    table_prefix: Identifier,
    /// MergeTree, ReplicatedMergeTree or Null.
    #[arg(long, default_value = "MergeTree")]
    engine: String,
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
    /// How long rows are kept, such as 30d or 12h; 0s keeps them for ever.
    #[arg(long, default_value = "0s")]
    ttl: String,
    /// Store attributes as JSON; as Map otherwise.
    #[arg(long)]
    enable_json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// ClickHouse HTTP endpoint, such as http://127.0.0.1:8123; repeat for each server.
    #[arg(long, value_name = "URL", required = true)]
    endpoint: Vec<Endpoint>,
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
    /// Ask for the password on the terminal, without showing it.
    #[arg(long)]
    ask_password: bool,
    /// PEM file with the certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// PEM file with our own certificate chain.
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
    pub(crate) fn declared(&self) -> Result<Declared> {
        let signals = Signals { traces: self.traces, logs: self.logs, metrics: self.metrics };
        if signals == Signals::default() {
            bail!("no tables are asked for: give at least one of --traces, --logs, --metrics");
        }
        let attributes = if self.enable_json { Attributes::Json } else { Attributes::Map };
        let ttl = Ttl::parse_optional(&self.ttl).context("--ttl")?;
        let options = TableOptions { attributes, engine: self.engine()?, ttl };
        let mut declared =
            Declared::uniform(self.database.clone(), self.table_prefix.clone(), signals, &options);
        declared.cluster.clone_from(&self.cluster);
        Ok(declared)
    }

    fn engine(&self) -> Result<Engine> {
        let default = Replication::default();
        let replication = Replication {
            path: self.replica_path.clone().unwrap_or(default.path),
            replica: self.replica_name.clone().unwrap_or(default.replica),
        };
        let is_replication_given = self.replica_path.is_some() || self.replica_name.is_some();
        match self.engine.as_str() {
            "ReplicatedMergeTree" => Ok(Engine::ReplicatedMergeTree(replication)),
            "MergeTree" | "Null" if is_replication_given => {
                bail!("--replica-path and --replica-name need --engine ReplicatedMergeTree")
            }
            "MergeTree" => Ok(Engine::MergeTree),
            "Null" => Ok(Engine::Null),
            other => bail!(
                "--engine {other:?} is not known: write MergeTree, ReplicatedMergeTree or Null"
            ),
        }
    }
}

impl ServerFlags {
    /// Whether the password was typed where others can see it.
    pub(crate) fn is_password_exposed(&self) -> bool {
        self.password.is_some()
    }

    pub(crate) fn client(&self) -> Result<Client> {
        let mut options = ClientOptions::new(self.endpoint.clone());
        options.credentials =
            Credentials { user: self.user.clone(), password: Secret::new(self.password()?) };
        options.tls = self.tls()?;
        options.statement_timeout = Duration::from_secs(self.timeout_seconds.max(1));
        Ok(Client::new(options)?)
    }

    fn password(&self) -> Result<String> {
        if let Some(password) = &self.password {
            return Ok(password.clone());
        }
        if let Some(path) = &self.password_file {
            return std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the password file {}", path.display()));
        }
        if self.ask_password {
            let prompt = format!("Password of {}: ", self.user);
            return rpassword::prompt_password(prompt)
                .context("cannot ask for the password: there is no terminal");
        }
        Ok(std::env::var("CLICKHOUSE_PASSWORD").unwrap_or_default())
    }

    fn tls(&self) -> Result<Tls> {
        let read = |path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let identity = match (&self.certificate_file, &self.key_file) {
            (Some(certificate), Some(key)) => Some(Identity {
                certificate_pem: read(certificate)?,
                key_pem: Secret::new(
                    std::fs::read_to_string(key)
                        .with_context(|| format!("cannot read {}", key.display()))?,
                ),
            }),
            _ => None,
        };
        Ok(Tls { ca_pem: self.ca_file.as_ref().map(read).transpose()?, identity })
    }
}
