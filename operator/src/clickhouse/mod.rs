//! The trait through which reconcilers access tables, so that tests can replace ClickHouse; its
//! real implementation; and which tables are being migrated ([`migrations`]). Decides nothing.

mod failure;
pub mod migrations;

use futures::future::{BoxFuture, FutureExt};
use millrace_coordination::observation::{CoordinationView, ViewError};
use millrace_ddl as ddl;
use millrace_observe::otlp::request_span;
use tracing::Instrument;

pub(crate) use failure::{clickhouse_failure, migration_failure};

/// Tables of ClickHouse servers.
pub trait TableAccess: Send + Sync {
    /// Reads the existing part of `declared` on the client's server.
    fn observe_tables<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>>;

    /// Migrates the server to its declaration, as far as the permit allows.
    fn migrate_tables<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
        options: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::MigrationReport, ddl::MigrateError>>;

    /// Returns the statements of the last migration, unless all of them are done. A test double has
    /// none.
    fn read_unfinished<'a>(
        &'a self,
        _server: &'a ddl::DdlClient,
        _declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Vec<String>, ddl::MigrateError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    /// Drops the tables with all their rows, but not the database.
    fn drop_all<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>>;

    /// Returns the server's view of its Keeper. A test double doesn't know it.
    fn observe_coordination<'a>(
        &'a self,
        _server: &'a ddl::DdlClient,
        _declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<CoordinationView, ViewError>> {
        async { Err(ViewError::Unreachable("it wasn't queried".to_owned())) }.boxed()
    }

    /// Returns the records of the tables' holders. A test double has none.
    fn read_holders<'a>(
        &'a self,
        _server: &'a ddl::DdlClient,
        _declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Vec<ddl::RecordedHolder>, ddl::ClientError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    /// Records the holder of the tables of the declared signals.
    fn record_holder<'a>(
        &'a self,
        _server: &'a ddl::DdlClient,
        _declared: &'a ddl::Declared,
        _holder: &'a str,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        async { Ok(()) }.boxed()
    }
}

/// The real ClickHouse servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClickHouseServers;

impl TableAccess for ClickHouseServers {
    fn observe_tables<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>> {
        ddl::observe_declared(server, declared)
            .instrument(request_span("clickhouse observe"))
            .boxed()
    }

    fn migrate_tables<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
        options: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::MigrationReport, ddl::MigrateError>> {
        ddl::migrate_server(server, declared, options)
            .instrument(request_span("clickhouse migrate"))
            .boxed()
    }

    fn read_unfinished<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Vec<String>, ddl::MigrateError>> {
        let read = async {
            let history = ddl::read_history(server, declared).await?;
            Ok(history.map_or_else(Vec::new, |it| it.unfinished_statements().to_vec()))
        };
        read.instrument(request_span("clickhouse journal")).boxed()
    }

    fn drop_all<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        ddl::drop_tables(server, declared)
            .instrument(request_span("clickhouse drop tables"))
            .boxed()
    }

    fn observe_coordination<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<CoordinationView, ViewError>> {
        ddl::observe_coordination(server, declared)
            .instrument(request_span("clickhouse coordination"))
            .boxed()
    }

    fn read_holders<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Vec<ddl::RecordedHolder>, ddl::ClientError>> {
        ddl::fetch_holders(server, declared).instrument(request_span("clickhouse holders")).boxed()
    }

    fn record_holder<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        ddl::record_holder(server, declared, holder)
            .instrument(request_span("clickhouse hold"))
            .boxed()
    }
}
