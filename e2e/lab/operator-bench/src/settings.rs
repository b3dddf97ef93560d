//! What is asked for, by variables as `make` passes them on.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// What an answer of the stand-in takes: about that of a real server that isn't busy, with its
/// store on a disk of its own.
const LATENCY_MS: u64 = 5;

/// What to measure, and with which operator.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// What kind of pools.
    pub(crate) kind: PoolKind,
    /// Pools that are made.
    pub(crate) count: usize,
    /// Secrets for ClickHouse and Kafka that gateway pools share evenly.
    pub(crate) tenants: usize,
    /// Whether the operator watches Secrets.
    pub(crate) watch_secrets: bool,
    /// Whether a real broker knows each tenant as a user; else there is no Kafka.
    pub(crate) has_kafka: bool,
    /// Changes a second.
    pub(crate) rate: u32,
    /// How long changes come.
    pub(crate) change_for: Duration,
    /// Children deleted, and as many edited.
    pub(crate) drifts: usize,
    /// How long a converged operator is watched.
    pub(crate) quiet_for: Duration,
    /// The longest wait for all pools to be brought about.
    pub(crate) patience: Duration,
    /// The operator's binary.
    pub(crate) operator: PathBuf,
    /// `release` or `dev`: said with every figure.
    pub(crate) build: String,
    /// The lease's duration, as the operator's own option has it.
    pub(crate) lease_seconds: u32,
    /// Leave everything in the cluster.
    pub(crate) keep: bool,
    /// Which API server.
    pub(crate) api: ApiServer,
}

/// The kind of the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    /// Edge pools on nodes that don't exist.
    Edge,
    /// Gateway pools with pods that answer, on the stand-in alone.
    Gateway,
}

/// The API server the operator is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiServer {
    /// The cluster's that `KUBECONFIG` names.
    Real,
    /// The bench's own, each of whose answers takes this long.
    StandIn(Duration),
}

impl ApiServer {
    /// As it is said with every figure.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::StandIn(_) => "standin",
        }
    }
}

impl Settings {
    /// Reads `KIND`, `COUNT`, `TENANTS`, `WATCH_SECRETS`, `KAFKA`, `RATE`, `SECONDS`, `DRIFTS`,
    /// `QUIET_SECONDS`, `PATIENCE`, `LEASE_SECONDS`, `KEEP`, `API`, `LATENCY_MS`,
    /// `MILLRACE_OPERATOR_BIN` and `MILLRACE_BUILD`.
    ///
    /// # Errors
    /// A number that is none, an API server that is none, or no binary named.
    pub(crate) fn from_env() -> Result<Self> {
        let operator = std::env::var_os("MILLRACE_OPERATOR_BIN");
        let operator = operator.context("MILLRACE_OPERATOR_BIN names no operator binary")?;
        let api = match std::env::var("API").unwrap_or_default().as_str() {
            "" | "real" => ApiServer::Real,
            "standin" => {
                ApiServer::StandIn(Duration::from_millis(number("LATENCY_MS", LATENCY_MS)?))
            }
            other => bail!("API={other} is neither `real` nor `standin`"),
        };
        let kind = match std::env::var("KIND").unwrap_or_default().as_str() {
            "" | "edge" => PoolKind::Edge,
            "gateway" if api == ApiServer::Real => {
                bail!("KIND=gateway needs API=standin: its pods run nowhere")
            }
            "gateway" => PoolKind::Gateway,
            other => bail!("KIND={other} is neither `edge` nor `gateway`"),
        };
        let count = if kind == PoolKind::Edge { 10_000 } else { 2_000 };
        Ok(Self {
            kind,
            count: number("COUNT", count)?,
            tenants: number("TENANTS", 1_000)?,
            watch_secrets: std::env::var_os("WATCH_SECRETS").is_some_and(|it| !it.is_empty()),
            has_kafka: std::env::var_os("KAFKA").is_some_and(|it| !it.is_empty()),
            rate: number("RATE", 160)?,
            change_for: Duration::from_secs(number("SECONDS", 20)?),
            drifts: number("DRIFTS", 40)?,
            quiet_for: Duration::from_secs(number("QUIET_SECONDS", 40)?),
            lease_seconds: number("LEASE_SECONDS", 4)?,
            patience: Duration::from_secs(number("PATIENCE", 1800)?),
            operator: operator.into(),
            build: std::env::var("MILLRACE_BUILD").unwrap_or_else(|_| "unknown".into()),
            api,
            keep: std::env::var_os("KEEP").is_some(),
        })
    }
}

fn number<T: std::str::FromStr>(name: &str, default: T) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => {
            text.parse().with_context(|| format!("{name}={text} is no number"))
        }
        _ => Ok(default),
    }
}
