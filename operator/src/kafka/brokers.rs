//! The trait through which reconcilers access topics, so that tests can replace Kafka; and its
//! implementation by sessions. Decides nothing.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use kube::Client;
use millrace_crds::v1alpha1::KafkaConnection;
use millrace_observe::otlp::request_span;
use tracing::Instrument;

use super::topics::job::{JobKind, JobOutput, TopicJob};
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
    fn observe_topic<'a>(
        &'a self,
        to: ConnectionSettings,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<TopicObservation, Failure>>;

    /// Applies one change to a topic; repeatable.
    fn change_topic<'a>(
        &'a self,
        to: ConnectionSettings,
        topic: &'a str,
        change: TopicChange,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Deletes a topic with all its records. A missing topic is a success.
    fn delete_topic<'a>(
        &'a self,
        to: ConnectionSettings,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>>;

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

    fn observe_topic<'a>(
        &'a self,
        to: ConnectionSettings,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<TopicObservation, Failure>> {
        let job = run_job(self, to, topic, JobKind::Observe);
        async move {
            match job.await? {
                JobOutput::Observed(observation) => Ok(observation),
                JobOutput::Made | JobOutput::Records(_) => Err(Failure::interrupted()),
            }
        }
        .instrument(request_span("kafka observe topic"))
        .boxed()
    }

    fn change_topic<'a>(
        &'a self,
        to: ConnectionSettings,
        topic: &'a str,
        change: TopicChange,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let job = run_job(self, to, topic, JobKind::Change(change));
        async { job.await.map(|_| ()) }.instrument(request_span("kafka change topic")).boxed()
    }

    fn delete_topic<'a>(
        &'a self,
        to: ConnectionSettings,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let job = run_job(self, to, topic, JobKind::Delete);
        async { job.await.map(|_| ()) }.instrument(request_span("kafka delete topic")).boxed()
    }

    fn read_records(
        &self,
        to: ConnectionSettings,
        resource: KafkaResource,
    ) -> BoxFuture<'_, Result<Vec<HolderRecord>, Failure>> {
        async move {
            // Group records are queried by group only; the name is only needed to reach a broker.
            let (KafkaResource::Topic(topic) | KafkaResource::Group(topic)) = resource.clone();
            match run_job(self, to, &topic, JobKind::ReadRecords(resource)).await? {
                JobOutput::Records(entries) => Ok(entries),
                JobOutput::Made | JobOutput::Observed(_) => Err(Failure::interrupted()),
            }
        }
        .instrument(request_span("kafka holders"))
        .boxed()
    }

    fn write_record(
        &self,
        to: ConnectionSettings,
        resource: KafkaResource,
        entry: HolderRecord,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        async move {
            let HolderRecord { topic, text, at_millis } = entry;
            let kind = JobKind::Record { resource, text, at_millis };
            run_job(self, to, &topic, kind).await.map(|_| ())
        }
        .instrument(request_span("kafka hold"))
        .boxed()
    }
}

async fn run_job(
    sessions: &Sessions,
    to: ConnectionSettings,
    topic: &str,
    kind: JobKind,
) -> Result<JobOutput, Failure> {
    sessions.open_session(to).await?.run_job(TopicJob { topic: Arc::from(topic), kind }).await
}
