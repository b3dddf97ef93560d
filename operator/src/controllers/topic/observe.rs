//! Asks Kafka what there is.

use kube::ResourceExt;
use millrace_crds::v1alpha1::TelemetryTopic;

use super::validate::Wanted;
use crate::context::Context;
use crate::error::{Step, StepError};
use crate::kafka::{Settings, TopicSeen};

/// The declared and the observed topic.
pub(super) struct Observed {
    pub(super) wanted: Wanted,
    pub(super) seen: TopicSeen,
    /// The connection, for the changes that follow.
    pub(super) settings: Settings,
}

/// Reads the Secrets the connection needs, and the topic.
///
/// # Errors
/// When a Secret is missing, or Kafka or the API server refuse or can't be reached.
pub(super) async fn observe(
    context: &Context,
    topic: &TelemetryTopic,
    wanted: Wanted,
) -> Result<Observed, StepError> {
    let settings = connection(context, topic).await?;
    let seen = look(context, &settings, &wanted).await?;
    Ok(Observed { wanted, seen, settings })
}

/// The connection with its secrets.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or can't be reached.
pub(super) async fn connection(
    context: &Context,
    topic: &TelemetryTopic,
) -> Result<Settings, StepError> {
    let namespace = topic.namespace().unwrap_or_default();
    Settings::resolve(&context.client, &namespace, &topic.spec.kafka).await
}

/// The topic as it is now.
///
/// # Errors
/// When Kafka refuses or can't be reached.
pub(super) async fn look(
    context: &Context,
    settings: &Settings,
    wanted: &Wanted,
) -> Result<TopicSeen, StepError> {
    let observed = context.brokers.observe(settings.clone(), wanted.name.to_string()).await;
    observed.map_err(|failure| failure.at(Step::Observe))
}
