//! ClickHouse tables as code: render, observe, plan, apply, verify.
//!
//! A [`Declared`] says what should be. [`observe`] reads what is; [`plan`] compares the two and
//! lists the statements that lead from one to the other, each classed by what it costs; [`apply`]
//! runs them; [`verify`] says what still differs. [`converge`] does all of it on every server.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use millrace_ddl::{Client, ClientOptions, Declared, Permit, Signals, TableOptions, converge};
//!
//! let client = Client::new(ClientOptions::new(vec!["http://127.0.0.1:8123".parse()?]))?;
//! let declared = Declared::uniform(
//!     "otel".parse()?, "otel".parse()?, Signals::ALL, &TableOptions::default(),
//! );
//! let done = converge(&client, &declared, Permit::ADDITIVE).await?;
//! println!("{} statements, {} differences left", done.applied.len(), done.drift.len());
//! # Ok(()) }
//! ```
//!
//! All SQL text is in [`render`]; the [`Client`] takes nothing else. Planning and comparing are
//! pure. No plan drops a table or a column: what this crate cannot mend without loss it reports.
//! Only
//! [`render::drop_all`] makes a `DROP`, for a user who asked for deletion.

mod apply;
mod client;
mod declared;
mod drift;
mod observe;
mod plan;
pub mod render;
mod ttl;

pub use apply::{Applied, ApplyError, ConvergeError, Converged, apply, converge, verify};
pub use client::{
    CONNECT_TIMEOUT, Category, Client, ClientError, ClientOptions, Credentials, Endpoint,
    EndpointError, Identity, STATEMENT_TIMEOUT, Secret, Stream, Tls,
};
pub use declared::{
    ClusterName, Declared, DeclaredTable, DeclaredView, Engine, KeeperPath, NameError, ReplicaName,
    Replication, Signals, TableName, TableOptions,
};
pub use drift::{Drift, DriftKind, Severity, diff};
pub use millrace_schema::{Attributes, Identifier, IdentifierError, TableKind};
pub use observe::{Observed, ObservedColumn, ObservedTable, observe};
pub use plan::{Blocked, Permit, Plan, Step, StepClass, plan};
pub use ttl::{TTL_SECONDS_MAX, Ttl, TtlError};
