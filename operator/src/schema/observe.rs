//! Reads what each ClickHouse server has.

use kube::ResourceExt;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{CaRef, ClickHouseTarget, ClickHouseTls, TelemetrySchema};
use millrace_ddl as ddl;

use super::plan::stable;
use crate::context::Context;
use crate::credentials::Secrets;
use crate::error::{Category, Step, StepError};

/// What is declared, and what each server has.
pub(super) struct Observed {
    pub(super) declared: ddl::Declared,
    pub(super) servers: Vec<Server>,
}

/// One server: its tables, or why they can't be read.
pub(super) struct Server {
    /// Asks this server alone.
    pub(super) client: ddl::Client,
    pub(super) tables: Result<ddl::Observed, StepError>,
}

/// Reads the Secrets the connection needs, and the tables of every server. A server that is away
/// does not hold up the others.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or is away.
pub(super) async fn observe(
    context: &Context,
    schema: &TelemetrySchema,
    declared: ddl::Declared,
) -> Result<Observed, StepError> {
    let mut servers = Vec::new();
    for client in connection(context, schema).await?.each() {
        let tables = context.tables.observe(&client, &declared).await.map_err(failed);
        servers.push(Server { client, tables });
    }
    Ok(Observed { declared, servers })
}

/// A client of all servers, with its secrets.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or is away.
pub(super) async fn connection(
    context: &Context,
    schema: &TelemetrySchema,
) -> Result<ddl::Client, StepError> {
    let ClickHouseTarget {
        endpoints,
        // Every server has the tables, whichever shard it is of.
        shards: _,
        database: _,
        table_prefix: _,
        cluster: _,
        distributed: _,
        credentials_secret_ref,
        tls,
    } = &schema.spec.clickhouse;
    let endpoints = endpoints
        .iter()
        .map(|endpoint| endpoint.as_str().parse())
        .collect::<Result<Vec<ddl::Endpoint>, _>>()
        .map_err(|error| {
            StepError::new(Step::Validate, Category::Invalid, Reason::SpecInvalid, error)
        })?;
    let secrets = Secrets::of(&context.client, &schema.namespace().unwrap_or_default());
    let mut options = ddl::ClientOptions::new(endpoints);
    if let Some(reference) = credentials_secret_ref {
        let login = secrets.login(reference).await?;
        options.credentials =
            ddl::Credentials { user: login.username, password: ddl::Secret::new(login.password) };
    }
    if let Some(ClickHouseTls { ca_secret_ref: Some(ca) }) = tls {
        options.tls.ca_pem = Some(authority(&secrets, ca).await?);
    }
    ddl::Client::new(options).map_err(failed)
}

async fn authority(secrets: &Secrets, reference: &CaRef) -> Result<Vec<u8>, StepError> {
    Ok(secrets.authority(reference).await?.into_bytes())
}

/// An error of the ddl client as the failure of a reconcile.
pub(super) fn failed(error: ddl::ClientError) -> StepError {
    let reason = match error.category() {
        ddl::Category::Unreachable
        | ddl::Category::Timeout
        | ddl::Category::Overloaded
        | ddl::Category::Protocol => Reason::ClickHouseUnreachable,
        ddl::Category::UnknownHost => Reason::ClickHouseHostUnknown,
        ddl::Category::Tls => Reason::ClickHouseTlsFailed,
        ddl::Category::Authentication => Reason::ClickHouseAuthenticationFailed,
        ddl::Category::Privilege => Reason::ClickHouseNotAuthorized,
        ddl::Category::ReadOnly => Reason::ClickHouseReadOnly,
        ddl::Category::KeeperLost => Reason::ClickHouseKeeperLost,
        ddl::Category::DiskFull => Reason::ClickHouseDiskFull,
        ddl::Category::Quota => Reason::ClickHouseQuotaExceeded,
        ddl::Category::UnknownDatabase | ddl::Category::UnknownTable => Reason::TableMissing,
        ddl::Category::Setup => Reason::SpecInvalid,
        _ => Reason::ClickHouseRefused,
    };
    StepError::new(Step::Observe, Category::External, reason, stable(&error.to_string()))
}

/// A run that stopped, as the failure of a reconcile.
pub(super) fn stopped(error: ddl::MigrateError) -> StepError {
    use ddl::{MigrateError, PreflightError};
    let reason = match &error {
        MigrateError::Preflight(PreflightError::Client(_))
        | MigrateError::Read(_)
        | MigrateError::Record(_)
        | MigrateError::Apply(_) => return stopped_by_server(error),
        MigrateError::Preflight(
            PreflightError::UnknownVersion(_) | PreflightError::TooOld { .. },
        ) => Reason::ClickHouseVersionUnsupported,
        MigrateError::Preflight(PreflightError::Privileges(_)) => Reason::ClickHouseNotAuthorized,
        MigrateError::Preflight(PreflightError::NoKeeper) => Reason::ClickHouseKeeperMissing,
        MigrateError::Preflight(PreflightError::KeeperLost(_)) => Reason::ClickHouseKeeperLost,
        MigrateError::Preflight(PreflightError::ReadOnlyReplica { .. }) => Reason::ReplicaReadOnly,
        MigrateError::Journal(_) => Reason::MigrationJournalBroken,
        MigrateError::Busy { .. } | MigrateError::LeaseLost { .. } => Reason::MigrationBusy,
    };
    // Seconds of silence differ from attempt to attempt, and would write a status each time.
    let message = match error {
        MigrateError::Busy { author, .. } => format!("another run, by {author}, is at work"),
        other => stable(&other.to_string()),
    };
    StepError::new(Step::Apply, Category::External, reason, message)
}

fn stopped_by_server(error: ddl::MigrateError) -> StepError {
    use ddl::{MigrateError, PreflightError};
    tracing::warn!(error = stable(&error.to_string()), "a migration stopped");
    match error {
        MigrateError::Preflight(PreflightError::Client(cause))
        | MigrateError::Read(cause)
        | MigrateError::Record(cause) => failed(cause),
        MigrateError::Apply(cause) => failed(cause.into()),
        other => {
            let reason = Reason::ClickHouseRefused;
            StepError::new(Step::Apply, Category::External, reason, other.to_string())
        }
    }
}
