//! Tables as reconcilers reach them: a trait, so that tests stand in for ClickHouse, and what is
//! shipped; and which tables are being migrated ([`migrations`]). It decides nothing.

pub mod migrations;

use futures::future::{BoxFuture, FutureExt};
use millrace_ddl as ddl;

/// Tables of ClickHouse servers.
pub trait Tables: Send + Sync {
    /// Reads what exists of `declared` on the server the client asks.
    fn observe<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>>;

    /// Brings the server to its declaration, as far as the permit goes.
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
        ddl::observe(server, declared).boxed()
    }

    fn migrate<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
        options: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::Migrated, ddl::MigrateError>> {
        ddl::migrate(server, declared, options).boxed()
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
        .boxed()
    }
}
