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

mod apply;
mod client;
mod coordination;
mod declared;
mod drift;
#[cfg(any(test, feature = "testing"))]
#[path = "render/exactly.rs"]
pub mod exactly;
mod explain;
mod fit;
mod holders;
mod journal;
mod migrate;
mod names;
mod needs;
mod observe;
mod options;
mod origin;
mod plan;
mod preflight;
mod privilege;
mod privileges;
pub mod render;
mod revision;
mod test_run;
mod ttl;

pub use apply::{ConvergeReport, converge_servers, drop_tables, verify_tables};
pub use client::{
    AddressRule, Budget, CERTIFICATE_HEADER, CONNECT_TIMEOUT, Category, ClientError,
    ClientIdentity, ClientLimits, ClientOptions, DdlClient, EndpointError, RefusedAddresses,
    ResponseStream, STATEMENT_TIMEOUT, Secret, ServerEndpoint, TlsCertificates, UserCredentials,
    describe_transport_error, error_chain,
};
pub use coordination::{needs_coordination, observe_coordination};
pub use declared::{
    Declared, DeclaredDistributed, DeclaredError, DeclaredRollup, DeclaredTable, DeclaredView,
};
pub use drift::{Drift, DriftKind, Severity, find_drift};
pub use explain::{Explanation, explain_tables};
pub use fit::{DedupFault, DedupWindow, Fit, TypeMismatch, assess_fit};
pub use holders::{RecordedHolder, fetch_holders, record_holder};
pub use journal::{Claim, History, JournalError, Migration, MigrationState};
pub use migrate::{
    ApplyError, ApplyReport, LEASE, MigrateError, MigrateOptions, MigrationReport, migrate_server,
    read_history,
};
pub use millrace_schema::{
    AttributeColumn, AttributeIndex, AttributePath, AttributeStorage, BodyIndex, ColumnCompression,
    ComputedType, Identifier, IdentifierError, Layout, Materialized, PartitionInterval, Presence,
    Reader, TableKind, TypedPath,
};
pub use names::{ClusterName, KeeperPath, NameError, ReplicaName, StorageName, TableName};
pub use observe::{
    Observed, ObservedColumn, ObservedIndex, ObservedTable, observe_all, observe_declared,
};
pub use options::{
    DeduplicationWindow, Engine, Move, OptionsError, Replication, Signals, Storage, TableOptions,
};
pub use origin::{TableOrigin, detect_origin};
pub use plan::{
    Blocked, Loss, MigrationPlan, Permit, Phase, PlanStep, StepClass, needed_privileges,
    plan_migration,
};
pub use preflight::{PreflightError, ServerFacts, ServerVersion, run_preflight};
pub use privilege::{Privilege, PrivilegeScope};
pub use privileges::{Missing, missing_privileges};
pub use test_run::{RunId, RunIdError, TEST_RECORDS_MAX, TEST_SERVICE, TestRun, TestTable};
pub use ttl::{TTL_SECONDS_MAX, Ttl, TtlError};
