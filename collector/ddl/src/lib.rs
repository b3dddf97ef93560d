//! ClickHouse tables as code: render, observe, plan, apply, verify.
//!
//! A [`Declared`] is the desired state. [`observe`] reads the live state; [`plan`] compares the two
//! and lists the statements between them, each classified by its cost; [`migrate`] runs them as
//! numbered migrations with a journal; [`verify_tables`] reports the remaining differences.
//! [`converge_servers`] does all of it on every server.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use millrace_ddl::{
//!     ClientOptions, DdlClient, Declared, MigrateOptions, Signals, TableOptions, converge_servers,
//! };
//!
//! let client = DdlClient::new(ClientOptions::new(vec!["http://127.0.0.1:8123".parse()?]))?;
//! let declared = Declared::uniform(
//!     "otel".parse()?, "otel".parse()?, Signals::ALL, &TableOptions::default(),
//! );
//! let done = converge_servers(&client, &declared, &MigrateOptions::new("me")).await?;
//! println!("{} statements, {} differences left", done.applied.len(), done.drift.len());
//! # Ok(()) }
//! ```
//!
//! All SQL text is in [`render`]; the [`DdlClient`] accepts no other. Planning and comparing are
//! pure. No plan drops a table, and drops a column or an index only if [`Declared::consent`] names
//! it. The crate reports what it cannot repair without loss. Only [`render::drop_all`] drops
//! tables, for a user who requested deletion.

mod client;
mod declared;
#[cfg(any(test, feature = "testing"))]
#[path = "render/exactly.rs"]
pub mod exactly;
mod live;
mod migrate;
mod privileges;
pub mod render;
mod test_run;

pub use client::{
    AddressRule, Budget, CERTIFICATE_HEADER, CONNECT_TIMEOUT, Category, ClientError,
    ClientIdentity, ClientLimits, ClientOptions, DdlClient, EndpointError, RefusedAddresses,
    ResponseStream, STATEMENT_TIMEOUT, Secret, ServerEndpoint, TlsCertificates, UserCredentials,
    describe_transport_error, error_chain,
};
pub use declared::deduplication_window::DeduplicationWindow;
pub use declared::explain::{Explanation, explain_tables};
pub use declared::names::{
    ClusterName, KeeperPath, NameError, ReplicaName, StorageName, TableName,
};
pub use declared::options::{
    Engine, Move, OptionsError, Replication, Signals, Storage, TableOptions,
};
pub use declared::ttl::{TTL_SECONDS_MAX, Ttl, TtlError};
pub use declared::{
    Declared, DeclaredDistributed, DeclaredError, DeclaredRollup, DeclaredTable, DeclaredView,
};
pub use live::coordination::{needs_coordination, observe_coordination};
pub use live::drift::{Drift, DriftKind, Severity, find_drift};
pub use live::fit::{DedupFault, Fit, LiveDeduplicationWindow, TypeMismatch, assess_fit};
pub use live::holders::{RecordedHolder, fetch_holders, record_holder};
pub use live::observe::{
    Observed, ObservedColumn, ObservedIndex, ObservedTable, observe_all, observe_declared,
};
pub use live::origin::{TableOrigin, detect_origin};
pub use migrate::apply::{ConvergeReport, converge_servers, drop_tables, verify_tables};
pub use migrate::journal::{Claim, History, JournalError, Migration, MigrationState};
pub use migrate::plan::{
    Blocked, Loss, MigrationPlan, Permit, Phase, PlanStep, StepClass, needed_privileges,
    plan_migration,
};
pub use migrate::preflight::{PreflightError, ServerFacts, ServerVersion, run_preflight};
pub use migrate::{
    ApplyError, ApplyReport, LEASE, MigrateError, MigrateOptions, MigrationReport, migrate_server,
    read_history,
};
pub use millrace_schema::{
    AttributeColumn, AttributeIndex, AttributePath, AttributeStorage, BodyIndex, ColumnCompression,
    ComputedType, Identifier, IdentifierError, Layout, Materialized, PartitionInterval, Presence,
    Reader, TableKind, TypedPath,
};
pub use privileges::privilege::{Privilege, PrivilegeScope};
pub use privileges::{Missing, missing_privileges};
pub use test_run::{RunId, RunIdError, TEST_RECORDS_MAX, TEST_SERVICE, TestRun, TestTable};
