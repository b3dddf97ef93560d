//! The trait through which reconcilers reach tables, so that tests can replace ClickHouse; its real
//! implementation; and which tables are being migrated ([`migrations`]). Decides nothing.

mod failure;
pub mod migrations;

use futures::future::{BoxFuture, FutureExt};
use millrace_coordination::observation::{Blindness, Sight};
use millrace_ddl as ddl;
use millrace_observe::otlp::asking;
use tracing::Instrument;

pub(crate) use failure::{failed, stopped};

/// Tables of ClickHouse servers.
pub trait Tables: Send + Sync {
    /// Reads what exists of `declared` on the server the client asks.
    fn observe<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>>;

    /// Migrates the server to its declaration, as far as the permit allows.
    fn migrate<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
        options: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::Migrated, ddl::MigrateError>>;

    /// Drops the tables with all their rows; the database is kept.
    fn drop_all<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>>;

    /// How the server sees its Keeper. A test stand-in can't say.
    fn coordination<'a>(
        &'a self,
        _server: &'a ddl::Client,
        _declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Sight, Blindness>> {
        async { Err(Blindness::Unreachable("it wasn't asked".to_owned())) }.boxed()
    }

    /// Records of who holds the tables. A test stand-in has none.
    fn holders<'a>(
        &'a self,
        _server: &'a ddl::Client,
        _declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Vec<ddl::Held>, ddl::ClientError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    /// Puts on record who holds the tables of the declared signals.
    fn hold<'a>(
        &'a self,
        _server: &'a ddl::Client,
        _declared: &'a ddl::Declared,
        _holder: &'a str,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        async { Ok(()) }.boxed()
    }
}

/// The real ClickHouse servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outside;

impl Tables for Outside {
    fn observe<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>> {
        ddl::observe(server, declared).instrument(asking("clickhouse observe")).boxed()
    }

    fn migrate<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
        options: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::Migrated, ddl::MigrateError>> {
        ddl::migrate(server, declared, options).instrument(asking("clickhouse migrate")).boxed()
    }

    fn drop_all<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        async move {
            for statement in ddl::render::drop_all(declared) {
                match server.execute(&statement).await {
                    Ok(()) => {}
                    // Without the database there are no tables either.
                    Err(error) if error.category() == ddl::Category::UnknownDatabase => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }
        .instrument(asking("clickhouse drop tables"))
        .boxed()
    }

    fn coordination<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Sight, Blindness>> {
        ddl::coordination(server, declared).instrument(asking("clickhouse coordination")).boxed()
    }

    fn holders<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Vec<ddl::Held>, ddl::ClientError>> {
        ddl::holders(server, declared).instrument(asking("clickhouse holders")).boxed()
    }

    fn hold<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        ddl::hold(server, declared, holder).instrument(asking("clickhouse hold")).boxed()
    }
}
