//! The trait through which reconcilers reach topics, so that tests can replace Kafka. Decides
//! nothing.

use futures::future::{BoxFuture, FutureExt};
use millrace_observe::otlp::asking;
use tracing::Instrument;

use super::{Entry, Failure, Place, Sessions, Settings, TopicChange, TopicSeen};

/// Topics of Kafka clusters.
pub trait Brokers: Send + Sync {
    /// Observes a topic.
    fn observe(&self, to: Settings, topic: String) -> BoxFuture<'_, Result<TopicSeen, Failure>>;

    /// Makes one change of a topic; repeatable.
    fn change(
        &self,
        to: Settings,
        topic: String,
        change: TopicChange,
    ) -> BoxFuture<'_, Result<(), Failure>>;

    /// Deletes a topic with all its records. A missing topic is a success.
    fn delete(&self, to: Settings, topic: String) -> BoxFuture<'_, Result<(), Failure>>;

    /// Records of who holds a topic or group. A test stand-in has none.
    fn recorded(&self, _: Settings, _: Place) -> BoxFuture<'_, Result<Vec<Entry>, Failure>> {
        async { Ok(Vec::new()) }.boxed()
    }

    /// Puts on record who holds a topic or group.
    fn record(&self, _: Settings, _: Place, _: Entry) -> BoxFuture<'_, Result<(), Failure>> {
        async { Ok(()) }.boxed()
    }
}

impl Brokers for Sessions {
    fn observe(&self, to: Settings, topic: String) -> BoxFuture<'_, Result<TopicSeen, Failure>> {
        async move { self.observe_topic(to, &topic).await }
            .instrument(asking("kafka observe topic"))
            .boxed()
    }

    fn change(
        &self,
        to: Settings,
        topic: String,
        change: TopicChange,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        async move { self.change_topic(to, &topic, change).await }
            .instrument(asking("kafka change topic"))
            .boxed()
    }

    fn delete(&self, to: Settings, topic: String) -> BoxFuture<'_, Result<(), Failure>> {
        async move { self.delete_topic(to, &topic).await }
            .instrument(asking("kafka delete topic"))
            .boxed()
    }

    fn recorded(&self, to: Settings, place: Place) -> BoxFuture<'_, Result<Vec<Entry>, Failure>> {
        async move { Sessions::recorded(self, to, place).await }
            .instrument(asking("kafka holders"))
            .boxed()
    }

    fn record(
        &self,
        to: Settings,
        place: Place,
        entry: Entry,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        async move { Sessions::record(self, to, place, entry).await }
            .instrument(asking("kafka hold"))
            .boxed()
    }
}
