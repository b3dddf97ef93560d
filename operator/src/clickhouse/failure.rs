//! Maps ClickHouse errors to failures of a reconcile: category and reason. Pure.

use millrace_crds::Reason;
use millrace_ddl as ddl;

use crate::error::{Category, ReconcileStep, StepError};

/// Converts an error of the ddl client into the failure of a reconcile.
pub(crate) fn clickhouse_failure(error: ddl::ClientError) -> StepError {
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
        ddl::Category::LocalAddress => Reason::HostNotAllowed,
        _ => Reason::ClickHouseStatementRejected,
    };
    StepError::new(
        ReconcileStep::Observe,
        Category::External,
        reason,
        strip_variable_parts(&error.to_string()),
    )
}

/// Converts a stopped migration into the failure of a reconcile.
pub(crate) fn migration_failure(error: ddl::MigrateError) -> StepError {
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
        MigrateError::Journal(_) => Reason::MigrationJournalNewer,
        MigrateError::Busy { .. } | MigrateError::LeaseLost { .. } => Reason::MigrationLocked,
    };
    // The seconds of silence vary between attempts; each would cause a status write.
    let message = match error {
        MigrateError::Busy { author, .. } => {
            format!("another migration, by {author}, is in progress")
        }
        other => strip_variable_parts(&other.to_string()),
    };
    StepError::new(ReconcileStep::Apply, Category::External, reason, message)
}

fn stopped_by_server(error: ddl::MigrateError) -> StepError {
    use ddl::{MigrateError, PreflightError};
    tracing::warn!(error = strip_variable_parts(&error.to_string()), "a migration stopped");
    match error {
        MigrateError::Preflight(PreflightError::Client(cause))
        | MigrateError::Read(cause)
        | MigrateError::Record(cause) => clickhouse_failure(cause),
        MigrateError::Apply(cause) => clickhouse_failure(cause.into()),
        other => {
            let reason = Reason::ClickHouseStatementRejected;
            StepError::new(ReconcileStep::Apply, Category::External, reason, other.to_string())
        }
    }
}

/// Removes the parts of a server's message that vary between attempts: version and query ids.
fn strip_variable_parts(text: &str) -> String {
    let text = text.split(" (version ").next().unwrap_or(text);
    text.split(", query_id").next().unwrap_or(text).trim_end().to_owned()
}
