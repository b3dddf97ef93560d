//! Reads what a gateway pool depends on: Secrets, the live StatefulSet, its pods and their metrics,
//! the consumer lag.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use millrace_crds::v1alpha1::GatewayPool;

use super::retention_loss::Losses;
use super::rollout::{self, Watch, Watched};
use super::validate::{self, Observed};
use crate::cache::baseline;
use crate::cache::sizing::{SCALER_FRESH, Sizing};
use crate::clickhouse::migrations::Place;
use crate::cluster::api;
use crate::context::Context;
use crate::controllers::schema::tables;
use crate::error::{Step, StepError};
use crate::pods::{Look, MeteredPods, PodRates, PodState};
use crate::pool::draft::Draft;
use crate::pool::names::PoolNames;
use crate::pool::secrets::SecretUses;
use crate::pool::{observe, preflight, scale, template};

/// Silent pods are looked up in the metrics API this often: its figures are 15 to 60 s old in most
/// installations, and count for a minute.
const METERED_FRESH: SignedDuration = SignedDuration::from_secs(30);

/// Reads all of it. An unknown lag is part of the observation, not a failure: pods are reconciled
/// even while the broker is down.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn observe(
    context: &Context,
    pool: &GatewayPool,
    draft: Draft,
) -> Result<Observed, StepError> {
    let (namespace, name) = (&draft.names.namespace, &draft.names.base);
    let salt = pool.metadata.uid.as_deref().unwrap_or_default();
    let found = observe::secrets(context, namespace, salt, &draft.secrets).await?;
    let live =
        api::<StatefulSet>(&context.client, namespace).get_opt(name).await.map_err(|error| {
            StepError::api(Step::Observe, format!("get StatefulSet {namespace}/{name}"), error)
        })?;
    let known = (draft.secrets.clone(), found.digest().ok().flatten());
    let kept = live.as_ref().and_then(template::kept).map(|(_, kept)| kept);
    let holds = live.as_ref().and_then(|live| live.spec.as_ref()).map(|spec| &spec.template);
    let templates = holds.into_iter().chain(&kept).map(SecretUses::of).collect();
    let current = observe::current_secrets(context, namespace, salt, known, templates).await?;
    let lag_query = validate::lag_query(pool, &draft.names);
    let lag = context.lag.observe(&lag_query).await;
    let now = context.clock.now();
    let pods = match &live {
        Some(_) => observe::pods(context, namespace, &draft.names.selector()).await?,
        None => Vec::new(),
    };
    let (facts, look) = observe::figures(context, &draft.names, &pods, now).await;
    let mut losses = Losses::told(pool.status.as_ref());
    losses.note(&look, now);
    let watched = watched(context, pool, &draft, live.as_ref(), pods, &look).await?;
    let mut kept = context.sizings.get(salt);
    if let Ok(lag) = &lag {
        kept.note(lag);
    }
    kept.replays.note(&look, now.as_second());
    let (to, rates) = (&pool.spec.clickhouse, kept.replays.rates());
    let others = context.inserts.exchange(salt, to, rates, now.as_second());
    losses.replays = kept.replays.judge(pool, &others);
    match pool.spec.settings.replicas.is_none() && live.is_some() {
        true => signals(context, &draft.names, &facts, &look, &mut kept, now).await?,
        false => (kept.pods, kept.scaler) = (PodRates::default(), None),
    }
    let migrates = context.migrations.is_under_way(&Place::of(pool, &pool.spec.clickhouse), now);
    Ok(Observed {
        draft,
        found,
        current,
        live,
        lag_query,
        lag,
        losses,
        watched,
        migrates,
        kept,
        now,
    })
}

/// Reads what the pool's rollout needs at its stage.
async fn watched(
    context: &Context,
    pool: &GatewayPool,
    draft: &Draft,
    live: Option<&StatefulSet>,
    pods: Vec<Pod>,
    look: &Look,
) -> Result<Watched, StepError> {
    let (tables, tries) = match rollout::is_near_its_beginning(pool, draft, live) {
        true => {
            let (namespace, selector) = (&draft.names.namespace, preflight::selector(&draft.names));
            let tries = observe::pods(context, namespace, &selector).await?;
            (Some(tables(context, pool).await?), tries)
        }
        false => (None, Vec::new()),
    };
    let mut baseline = context.baselines.get(pool.metadata.uid.as_deref().unwrap_or_default());
    let counters = baseline::answered(look);
    match rollout::watch(pool) {
        Watch::Rest => baseline.rest(counters),
        Watch::Nothing => {}
        Watch::Try(name) => baseline.watch(&name, counters),
    }
    Ok(Watched { pods, tables, tries, baseline })
}

/// Keeps what sizing asks besides the lag.
async fn signals(
    context: &Context,
    names: &PoolNames,
    facts: &[PodState],
    look: &Look,
    kept: &mut Sizing,
    now: Timestamp,
) -> Result<(), StepError> {
    let metered = metered(context, names, look, kept, now).await;
    kept.pods.note(facts, look, &metered);
    let fresh = |(at, _): &(Timestamp, _)| now.duration_since(*at) < SCALER_FRESH;
    if !kept.scaler.as_ref().is_some_and(fresh) {
        let targets = [("StatefulSet", names.base.as_str())];
        let found = scale::scaler(context, &names.namespace, &targets).await?;
        kept.scaler = Some((now, found));
    }
    Ok(())
}

/// The metrics API's figures of silent pods.
async fn metered(
    context: &Context,
    names: &PoolNames,
    look: &Look,
    kept: &mut Sizing,
    now: Timestamp,
) -> MeteredPods {
    let due = |at: &Timestamp| now.duration_since(*at) >= METERED_FRESH;
    if look.values().all(Result::is_ok) || !kept.metered_at.as_ref().is_none_or(due) {
        return MeteredPods::new();
    }
    kept.metered_at = Some(now);
    let selector = names.selector_text();
    context.metered.pods(&context.client, &names.namespace, &selector, now).await
}
