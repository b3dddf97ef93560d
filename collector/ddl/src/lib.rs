//! ClickHouse tables as code: render, observe, plan, apply, verify.
//!
//! A [`Declared`] says what should be. [`observe`] reads what is; [`plan`] compares the two and
//! lists the statements that lead from one to the other, each classed by what it costs; [`migrate`]
//! runs them as numbered migrations with a journal; [`verify`] says what still differs.
//! [`converge`] does all of it on every server.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use millrace_ddl::{
//!     Client, ClientOptions, Declared, MigrateOptions, Signals, TableOptions, converge,
//! };
//!
//! let client = Client::new(ClientOptions::new(vec!["http://127.0.0.1:8123".parse()?]))?;
//! let declared = Declared::uniform(
//!     "otel".parse()?, "otel".parse()?, Signals::ALL, &TableOptions::default(),
//! );
//! let done = converge(&client, &declared, &MigrateOptions::new("me")).await?;
//! println!("{} statements, {} differences left", done.applied.len(), done.drift.len());
//! # Ok(()) }
//! ```
//!
//! All SQL text is in [`render`]; the [`Client`] takes nothing else. Planning and comparing are
//! pure. No plan drops a table; a column or an index only if [`Declared::consent`] names it. What
//! this crate cannot mend without loss it reports. Only [`render::drop_all`] drops tables, for a
//! user who asked for deletion.

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

pub use apply::{Converged, converge, verify};
pub use client::{
    Budget, CONNECT_TIMEOUT, Category, Client, ClientError, ClientOptions, Credentials, Endpoint,
    EndpointError, Identity, Limits, STATEMENT_TIMEOUT, Secret, Stream, Tls, chain, is_link_local,
};
pub use coordination::{coordination, needs_coordination};
pub use declared::{
    Declared, DeclaredDistributed, DeclaredError, DeclaredRollup, DeclaredTable, DeclaredView,
};
pub use drift::{Drift, DriftKind, Severity, diff};
pub use explain::{Reason, explain};
pub use fit::{Differing, Fit, Remembers, Undeduplicated, fit};
pub use holders::{Held, hold, holders};
pub use journal::{Claim, History, JournalError, Migration, Standing};
pub use migrate::{
    Applied, ApplyError, LEASE, MigrateError, MigrateOptions, Migrated, history, migrate,
};
pub use millrace_schema::{
    AttributeColumn, AttributeIndex, AttributePath, Attributes, BodyIndex, Compression, Identifier,
    IdentifierError, Layout, Materialized, Order, OwnType, Partition, Presence, Reader, TableKind,
    TypedPath,
};
pub use names::{ClusterName, KeeperPath, NameError, ReplicaName, StorageName, TableName};
pub use observe::{Observed, ObservedColumn, ObservedTable, observe, observe_all};
pub use options::{
    Engine, Move, OptionsError, Replication, Signals, Storage, TableOptions, Window,
};
pub use origin::{Origin, origin};
pub use plan::{Blocked, Loss, Permit, Phase, Plan, Step, StepClass, needed, plan};
pub use preflight::{PreflightError, ServerFacts, ServerVersion, preflight};
pub use privilege::{Privilege, Scope};
pub use privileges::{Missing, missing};
pub use test_run::{RunId, RunIdError, TEST_RECORDS_MAX, TEST_SERVICE, TestRun, TestTable};
pub use ttl::{TTL_SECONDS_MAX, Ttl, TtlError};
