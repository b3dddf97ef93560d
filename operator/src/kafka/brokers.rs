//! Topics as reconcilers reach them: a trait, so that tests stand in for Kafka. It decides nothing.

use futures::future::{BoxFuture, FutureExt};

use super::{Failure, Sessions, Settings, TopicChange, TopicSeen};

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
}
