//! ClickHouse errors as failures of a reconcile: category and reason. Pure.

use millrace_crds::Reason;
use millrace_ddl as ddl;

use crate::error::{Category, Step, StepError};

/// An error of the ddl client as the failure of a reconcile.
pub(crate) fn failed(error: ddl::ClientError) -> StepError {
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
        ddl::Category::LinkLocal => Reason::HostNotAllowed,
        _ => Reason::ClickHouseRefused,
    };
    StepError::new(Step::Observe, Category::External, reason, stable(&error.to_string()))
}

/// A run that stopped, as the failure of a reconcile.
pub(crate) fn stopped(error: ddl::MigrateError) -> StepError {
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
    // Seconds of silence vary between attempts; each would cause a status write.
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

/// Removes the parts of a server's message that vary between attempts: version and query ids.
fn stable(text: &str) -> String {
    let text = text.split(" (version ").next().unwrap_or(text);
    text.split(", query_id").next().unwrap_or(text).trim_end().to_owned()
}
