//! A signal that was removed from a pipeline and added again in another shape before the next
//! reconcile.
//!
//! Its children still have the old shape, which is immutable: the API server refuses each change.
//! They become what a reconcile in between would have made of them: the topic's object is recreated
//! (topics stay in Kafka), and the schema drops the signal before it adds it again (tables stay in
//! ClickHouse, and a difference is reported).

use kube::ResourceExt;
use millrace_crds::v1alpha1::{PerSignal, TableSettings, TelemetrySchema, TelemetryTopic};

use super::child::Held;
use crate::cluster::{Applicable, ApplyError, Change, Children};

/// The API server's status for an object that its schema refuses.
const UNPROCESSABLE: u16 = 422;

/// Writes a child; returns whether a pause held it back.
pub(super) async fn ensure<K: Applicable>(
    children: &Children<'_>,
    wanted: K,
    paused: bool,
) -> Result<(K, Option<Held>), ApplyError> {
    let ensured = children.ensure(wanted).await?;
    let held = (paused && ensured.change == Change::Withheld).then_some(Held::Paused);
    Ok((ensured.object, held))
}

/// Writes a signal's topic; `names` are all of the pipeline's, which carry `labels`.
pub(super) async fn ensure_topic(
    children: &Children<'_>,
    wanted: TelemetryTopic,
    paused: bool,
    (labels, names): (&str, &[String]),
) -> Result<(TelemetryTopic, Option<Held>), ApplyError> {
    let refused = match ensure(children, wanted.clone(), paused).await {
        Err(error) if is_refused(&error) => error,
        done => return done,
    };
    let name = wanted.name_any();
    let live = children.live::<TelemetryTopic>(&name).await?;
    if !live.is_some_and(|live| is_another(&live, &wanted)) {
        return Err(refused);
    }
    let others: Vec<&str> = names.iter().map(String::as_str).filter(|it| *it != name).collect();
    children.prune::<TelemetryTopic>(labels, &others).await?;
    ensure(children, wanted, paused).await
}

/// Writes the schema.
pub(super) async fn ensure_schema(
    children: &Children<'_>,
    wanted: TelemetrySchema,
    paused: bool,
) -> Result<(TelemetrySchema, Option<Held>), ApplyError> {
    let refused = match ensure(children, wanted.clone(), paused).await {
        Err(error) if is_refused(&error) => error,
        done => return done,
    };
    let live = children.live::<TelemetrySchema>(&wanted.name_any()).await?;
    let Some(signals) = live.and_then(|live| staying(&live.spec.signals, &wanted.spec.signals))
    else {
        return Err(refused);
    };
    let mut between = wanted.clone();
    between.spec.signals = signals;
    ensure(children, between, paused).await?;
    ensure(children, wanted, paused).await
}

fn is_refused(error: &ApplyError) -> bool {
    let ApplyError::Api(error) = error else { return false };
    matches!(&error.source, kube::Error::Api(status) if status.code == UNPROCESSABLE)
}

/// Whether the object is of a topic that it can't be changed to.
fn is_another(live: &TelemetryTopic, wanted: &TelemetryTopic) -> bool {
    let (has, asked) = (&live.spec, &wanted.spec);
    has.topic_name != asked.topic_name || has.settings.partitions > asked.settings.partitions
}

/// The signals to which `live` can be changed at once, if there are some and not all.
fn staying(
    live: &PerSignal<TableSettings>,
    wanted: &PerSignal<TableSettings>,
) -> Option<PerSignal<TableSettings>> {
    let stays = |signal| {
        let (has, asked) = (live.get(signal), wanted.get(signal)?);
        has.is_none_or(|has| shape(has) == shape(asked)).then(|| asked.clone())
    };
    use millrace_crds::v1alpha1::Signal::{Logs, Metrics, Traces};
    let staying = PerSignal { traces: stays(Traces), logs: stays(Logs), metrics: stays(Metrics) };
    let count = staying.iter().count();
    (count > 0 && count < wanted.iter().count()).then_some(staying)
}

/// What existing tables can't be changed in.
fn shape(of: &TableSettings) -> impl PartialEq {
    let layout = &of.layout;
    (of.engine, of.attributes, layout.partition_by, layout.order_by)
}
