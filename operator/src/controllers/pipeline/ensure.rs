//! Handles a signal that was removed from a pipeline and added again in another shape before the
//! next reconcile.
//!
//! Its children still have the old shape, which is immutable: the API server refuses each change.
//! This module does what a reconcile in between would have done: the topic's object is recreated
//! unless that is paused (topics remain in Kafka), and the schema drops the signal before it adds
//! it again (tables remain in ClickHouse, and a difference is reported).

use kube::ResourceExt;
use millrace_crds::v1alpha1::{
    PerSignal, TableSettings, TelemetrySchema, TelemetryTopic, TopicManagement,
};

use super::child::HoldReason;
use crate::cluster::{Applicable, ApplyError, ChildChange, Children, is_paused};

/// The HTTP status for an object that violates its schema.
const UNPROCESSABLE: u16 = 422;

/// Writes a child; returns whether a pause prevented that.
pub(super) async fn ensure_child<K: Applicable>(
    children: &Children<'_>,
    desired: K,
    paused: bool,
) -> Result<(K, Option<HoldReason>), ApplyError> {
    let ensured = Box::pin(children.ensure_child(desired)).await?;
    let held = (paused && ensured.change == ChildChange::Withheld).then_some(HoldReason::Paused);
    Ok((ensured.object, held))
}

/// Writes a signal's topic; `names` are all of the pipeline's topics, which carry `labels`.
pub(super) async fn ensure_topic(
    children: &Children<'_>,
    desired: TelemetryTopic,
    paused: bool,
    (labels, names): (&str, &[String]),
) -> Result<(TelemetryTopic, Option<HoldReason>), ApplyError> {
    let refused = match ensure_child(children, desired.clone(), paused).await {
        Err(error) if is_refused(&error) => error,
        done => return done,
    };
    let name = desired.name_any();
    let live = Box::pin(children.read_live(&desired)).await?;
    let Some(live) = live.filter(|live| is_another(live, &desired)) else { return Err(refused) };
    if is_paused(&live) {
        // A new object would not be paused, and the operator would change its topic.
        let end = "the end of this pipeline's pause (spec.paused)".to_owned();
        return Ok((live, Some(HoldReason::WaitsFor(end))));
    }
    let others: Vec<&str> = names.iter().map(String::as_str).filter(|it| *it != name).collect();
    children.prune_children::<TelemetryTopic>(labels, &others).await?;
    ensure_child(children, desired, paused).await
}

pub(super) async fn ensure_schema(
    children: &Children<'_>,
    desired: TelemetrySchema,
    paused: bool,
) -> Result<(TelemetrySchema, Option<HoldReason>), ApplyError> {
    let refused = match ensure_child(children, desired.clone(), paused).await {
        Err(error) if is_refused(&error) => error,
        done => return done,
    };
    let live = Box::pin(children.read_live(&desired)).await?;
    let Some(signals) =
        live.and_then(|live| retained_signals(&live.spec.signals, &desired.spec.signals))
    else {
        return Err(refused);
    };
    let mut between = desired.clone();
    between.spec.signals = signals;
    ensure_child(children, between, paused).await?;
    ensure_child(children, desired, paused).await
}

fn is_refused(error: &ApplyError) -> bool {
    let ApplyError::Api(error) = error else { return false };
    matches!(&error.source, kube::Error::Api(status) if status.code == UNPROCESSABLE)
}

/// Returns whether the live object can't be changed to the desired topic.
fn is_another(live: &TelemetryTopic, desired_topic: &TelemetryTopic) -> bool {
    let (has, desired) = (&live.spec, &desired_topic.spec);
    let shrinks = desired.settings.management() == TopicManagement::Managed
        && has.settings.partitions() > desired.settings.partitions();
    has.topic_name != desired.topic_name || shrinks
}

/// Returns the signals to which `live` can be changed at once, if there are some and not all.
fn retained_signals(
    live: &PerSignal<TableSettings>,
    desired_signals: &PerSignal<TableSettings>,
) -> Option<PerSignal<TableSettings>> {
    let stays = |signal| {
        let (has, desired) = (live.get(signal), desired_signals.get(signal)?);
        has.is_none_or(|has| immutable_settings(has) == immutable_settings(desired))
            .then(|| desired.clone())
    };
    use millrace_crds::v1alpha1::Signal::{Logs, Metrics, Traces};
    let staying = PerSignal { traces: stays(Traces), logs: stays(Logs), metrics: stays(Metrics) };
    let count = staying.iter().count();
    (count > 0 && count < desired_signals.iter().count()).then_some(staying)
}

/// Returns the settings that existing tables can't change.
fn immutable_settings(of: &TableSettings) -> impl PartialEq {
    let partition_by = of.layout.partition_by.unwrap_or_default();
    (of.engine(), of.attributes.unwrap_or_default(), partition_by)
}
