//! Queries Kafka for the live topic.

use kube::ResourceExt;
use millrace_crds::v1alpha1::TelemetryTopic;

use super::validate::DesiredTopic;
use crate::context::Context;
use crate::error::{ReconcileStep, StepError};
use crate::kafka::{ConnectionSettings, TopicObservation};

/// The declared and the observed topic.
pub(super) struct Observed {
    pub(super) declared: DesiredTopic,
    pub(super) observation: TopicObservation,
    /// The connection, for the changes that follow.
    pub(super) settings: ConnectionSettings,
}

/// Reads the Secrets that the connection needs, and the topic.
///
/// # Errors
/// When a Secret is missing, or Kafka or the API server refuse or can't be reached.
pub(super) async fn observe_topic(
    context: &Context,
    topic: &TelemetryTopic,
    desired: DesiredTopic,
) -> Result<Observed, StepError> {
    let settings = read_connection(context, topic).await?;
    let observation = describe_topic(context, &settings, &desired).await?;
    Ok(Observed { declared: desired, observation, settings })
}

/// Returns the connection with its secrets.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or can't be reached.
pub(super) async fn read_connection(
    context: &Context,
    topic: &TelemetryTopic,
) -> Result<ConnectionSettings, StepError> {
    let namespace = topic.namespace().unwrap_or_default();
    ConnectionSettings::resolve(&context.client, &namespace, &topic.spec.kafka).await
}

/// Returns the live topic.
///
/// # Errors
/// When Kafka refuses or can't be reached.
pub(super) async fn describe_topic(
    context: &Context,
    settings: &ConnectionSettings,
    desired: &DesiredTopic,
) -> Result<TopicObservation, StepError> {
    let observed = context.brokers.observe_topic(settings.clone(), desired.name.as_str()).await;
    observed.map_err(|failure| failure.at_step(ReconcileStep::Observe))
}
