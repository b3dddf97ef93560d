//! The trait through which reconcilers access topics, so that tests can replace Kafka. Decides
//! nothing.

use futures::future::{BoxFuture, FutureExt};
use kube::Client;
use millrace_crds::v1alpha1::KafkaConnection;
use millrace_observe::otlp::request_span;
use tracing::Instrument;

use super::{
    ConnectionSettings, Failure, HolderRecord, KafkaResource, Sessions, TopicChange,
    TopicObservation,
};
use crate::error::StepError;

/// Topics of Kafka clusters.
pub trait Brokers: Send + Sync {
    /// Returns a connection with the values of its Secrets, which may be some minutes old.
    fn resolve_connection<'a>(
        &'a self,
        client: &'a Client,
        namespace: &'a str,
        kafka: &'a KafkaConnection,
    ) -> BoxFuture<'a, Result<ConnectionSettings, StepError>> {
        ConnectionSettings::resolve(client, namespace, kafka).boxed()
    }

    /// Observes a topic.
    fn describe_topic(
        &self,
        to: ConnectionSettings,
        topic: String,
    ) -> BoxFuture<'_, Result<TopicObservation, Failure>>;

    /// Applies one change to a topic; repeatable.
    fn alter_topic(
        &self,
        to: ConnectionSettings,
        topic: String,
        change: TopicChange,
    ) -> BoxFuture<'_, Result<(), Failure>>;

    /// Deletes a topic with all its records. A missing topic is a success.
    fn remove_topic(
        &self,
        to: ConnectionSettings,
        topic: String,
    ) -> BoxFuture<'_, Result<(), Failure>>;

    /// Returns the records of the holders of a topic or group. A test double has none.
    fn read_records(
        &self,
        _: ConnectionSettings,
        _: KafkaResource,
    ) -> BoxFuture<'_, Result<Vec<HolderRecord>, Failure>> {
        async { Ok(Vec::new()) }.boxed()
    }

    /// Records the holder of a topic or group.
    fn write_record(
        &self,
        _: ConnectionSettings,
        _: KafkaResource,
        _: HolderRecord,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        async { Ok(()) }.boxed()
    }
}

impl Brokers for Sessions {
    fn resolve_connection<'a>(
        &'a self,
        client: &'a Client,
        namespace: &'a str,
        kafka: &'a KafkaConnection,
    ) -> BoxFuture<'a, Result<ConnectionSettings, StepError>> {
        self.resolved().resolve(client, namespace, kafka).boxed()
    }

    fn describe_topic(
        &self,
        to: ConnectionSettings,
        topic: String,
    ) -> BoxFuture<'_, Result<TopicObservation, Failure>> {
        async move { self.observe_topic(to, &topic).await }
            .instrument(request_span("kafka observe topic"))
            .boxed()
    }

    fn alter_topic(
        &self,
        to: ConnectionSettings,
        topic: String,
        change: TopicChange,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        async move { self.change_topic(to, &topic, change).await }
            .instrument(request_span("kafka change topic"))
            .boxed()
    }

    fn remove_topic(
        &self,
        to: ConnectionSettings,
        topic: String,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        async move { self.delete_topic(to, &topic).await }
            .instrument(request_span("kafka delete topic"))
            .boxed()
    }

    fn read_records(
        &self,
        to: ConnectionSettings,
        resource: KafkaResource,
    ) -> BoxFuture<'_, Result<Vec<HolderRecord>, Failure>> {
        async move { Sessions::read_records(self, to, resource).await }
            .instrument(request_span("kafka holders"))
            .boxed()
    }

    fn write_record(
        &self,
        to: ConnectionSettings,
        resource: KafkaResource,
        entry: HolderRecord,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        async move { Sessions::write_record(self, to, resource, entry).await }
            .instrument(request_span("kafka hold"))
            .boxed()
    }
}
