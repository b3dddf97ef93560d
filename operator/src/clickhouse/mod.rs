//! Kafka and ClickHouse as the reconcilers of topics and schemas reach them: traits, so that tests
//! stand in for both, and the implementations that are shipped. It decides nothing.

use futures::future::{BoxFuture, FutureExt};
use millrace_ddl as ddl;

use crate::kafka::{Entry, Failure, Place, Sessions, Settings, TopicChange, TopicSeen};

/// Topics of Kafka clusters.
pub trait Brokers: Send + Sync {
    /// Observes a topic.
    fn observe(&self, to: Settings, topic: String) -> BoxFuture<'_, Result<TopicSeen, Failure>>;

    /// Makes one change of a topic. Made twice, it does no harm.
    fn change(
        &self,
        to: Settings,
        topic: String,
        change: TopicChange,
    ) -> BoxFuture<'_, Result<(), Failure>>;

    /// Deletes a topic with all its records. A topic that is gone already is fine.
    fn delete(&self, to: Settings, topic: String) -> BoxFuture<'_, Result<(), Failure>>;

    /// What is on record of who holds a topic or group. A stand-in without records has none.
    fn recorded(&self, _: Settings, _: Place) -> BoxFuture<'_, Result<Vec<Entry>, Failure>> {
        async { Ok(Vec::new()) }.boxed()
    }

    /// Puts on record who holds a topic or group.
    fn record(&self, _: Settings, _: Place, _: Entry) -> BoxFuture<'_, Result<(), Failure>> {
        async { Ok(()) }.boxed()
    }
}

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

    /// What is on record of who holds the tables. A stand-in without records has none.
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

impl Brokers for Sessions {
    fn observe(&self, to: Settings, topic: String) -> BoxFuture<'_, Result<TopicSeen, Failure>> {
        async move { self.observe_topic(to, &topic).await }.boxed()
    }

    fn change(
        &self,
        to: Settings,
        topic: String,
        change: TopicChange,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        async move { self.change_topic(to, &topic, change).await }.boxed()
    }

    fn delete(&self, to: Settings, topic: String) -> BoxFuture<'_, Result<(), Failure>> {
        async move { self.delete_topic(to, &topic).await }.boxed()
    }

    fn recorded(&self, to: Settings, place: Place) -> BoxFuture<'_, Result<Vec<Entry>, Failure>> {
        async move { Sessions::recorded(self, to, place).await }.boxed()
    }

    fn record(
        &self,
        to: Settings,
        place: Place,
        entry: Entry,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        async move { Sessions::record(self, to, place, entry).await }.boxed()
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

    fn holders<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Vec<ddl::Held>, ddl::ClientError>> {
        ddl::holders(server, declared).boxed()
    }

    fn hold<'a>(
        &'a self,
        server: &'a ddl::Client,
        declared: &'a ddl::Declared,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        ddl::hold(server, declared, holder).boxed()
    }
}
