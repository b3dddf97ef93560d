//! Reads what a gateway pool depends on: Secrets, the live StatefulSet, its pods and their metrics,
//! the consumer lag.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use millrace_crds::v1alpha1::GatewayPool;
use millrace_rollout::WorkloadObservation;

use super::observed::{Observed, RolloutInputs};
use super::retention_loss::Losses;
use super::rollout::{self, SamplePurpose};
use super::settled::PoolReader;
use super::validate;
use crate::cache::baseline;
use crate::cache::sizing::{SCALER_FRESH, SETTLED_SCALER_FRESH, Sizing};
use crate::clickhouse::migrations::TableLocation;
use crate::context::Context;
use crate::controllers::schema::tables_of_pool;
use crate::error::StepError;
use crate::kafka::lag_cache::LagObservation;
use crate::pods::{PodRates, PodState, ScrapeResults, UsageByPod};
use crate::pool::draft::PoolDraft;
use crate::pool::names::{PoolNames, Role};
use crate::pool::secrets::SecretUses;
use crate::pool::{observe, preflight, scale, template, workload};
use crate::telemetry::metrics::Seconds;

const LAG_AGE: Seconds<0> = Seconds::new(
    "millrace_operator_lag_age_seconds",
    "Age of a gateway pool's lag when the operator sized the pool by it.",
    [],
);

/// The interval at which silent pods are queried in the metrics API: its figures are 15 to 60 s old
/// in most installations, and count for a minute.
const METERED_FRESH: SignedDuration = SignedDuration::from_secs(30);

/// Reads the complete observation, and adds to `losses` what pods report. An unknown lag is part of
/// it, not a failure: pods are reconciled even while the broker is down.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn observe_pool(
    context: &Context,
    pool: &GatewayPool,
    draft: PoolDraft,
    losses: &mut Losses,
) -> Result<Observed, StepError> {
    let namespace = &draft.names.namespace;
    let salt = pool.metadata.uid.as_deref().unwrap_or_default();
    let reader = PoolReader::new(context, pool, &draft.names);
    reader.check_copy(pool).await?;
    let found = reader.read_secrets(&draft).await?;
    let live = reader.read_set().await?;
    let known = (draft.secrets.clone(), found.combined_digest().ok().flatten());
    let baseline = live.as_ref().and_then(template::baseline_template).map(|it| it.template);
    let holds = live.as_ref().and_then(|live| live.spec.as_ref()).map(|spec| &spec.template);
    let templates = holds.into_iter().chain(&baseline).map(SecretUses::from_template).collect();
    let current = observe::current_secrets(context, namespace, salt, known, templates).await?;
    let lag_query = validate::lag_query(pool, &draft.names);
    let lag = context.lag.observe_lag(&lag_query).await;
    let now = context.clock.now();
    let pods = match &live {
        Some(_) => reader.read_pods().await?,
        None => Vec::new(),
    };
    let (facts, scrapes) = observe::scrape_pods(context, &draft.names, &pods, now).await;
    losses.record_scrapes(&scrapes, now);
    let watched =
        observe_rollout(context, pool, &draft, live.as_ref(), (pods, &scrapes), now).await?;
    let mut memory = context.sizings.get(salt);
    if let Ok(lag) = &lag {
        let age = Duration::try_from(now.duration_since(lag.observed_at)).unwrap_or_default();
        context.metrics.observe(&LAG_AGE, [], age, None);
        memory.record_lag(lag);
    }
    memory.replays.record_samples(&scrapes, now.as_second());
    let (to, rates) = (&pool.spec.clickhouse, memory.replays.peak_rates());
    let others = context.inserts.exchange_rates(salt, to, rates, now.as_second());
    losses.replays = memory.replays.assess_risk(pool, &others);
    match pool.spec.settings.replicas.is_none() && live.is_some() {
        true => {
            let pods = (facts.as_slice(), &scrapes);
            let fresh = match is_size_settled(pool, live.as_ref(), &lag, &memory) {
                true => SETTLED_SCALER_FRESH,
                false => SCALER_FRESH,
            };
            observe_signals(context, &draft.names, fresh, pods, &mut memory, now).await?;
        }
        false => (memory.pods, memory.scaler) = (PodRates::default(), None),
    }
    let migrates = context
        .migrations
        .is_migrating(&TableLocation::of_object(pool, &pool.spec.clickhouse), now);
    Ok(Observed {
        draft,
        secrets: found,
        current,
        live,
        lag_query,
        lag,
        watched,
        migrates,
        memory,
        now,
    })
}

/// Reads the figures of the StatefulSet of a pool whose spec can't be applied; `None` if there is
/// none.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn observe_workload(
    context: &Context,
    pool: &GatewayPool,
) -> Result<Option<WorkloadObservation>, StepError> {
    let Ok(names) = PoolNames::of_pool(pool, Role::Gateway) else { return Ok(None) };
    let live = PoolReader::new(context, pool, &names).read_set().await?;
    Ok(live.as_ref().map(workload::observe_stateful_set))
}

/// Reads what the pool's rollout needs at its stage.
async fn observe_rollout(
    context: &Context,
    pool: &GatewayPool,
    draft: &PoolDraft,
    live: Option<&StatefulSet>,
    (pods, scrapes): (Vec<Pod>, &ScrapeResults),
    now: Timestamp,
) -> Result<RolloutInputs, StepError> {
    let (tables, tries) = match rollout::is_near_its_beginning(pool, draft, live) {
        true => {
            let (namespace, selector) =
                (&draft.names.namespace, preflight::trial_selector(&draft.names));
            let tries = observe::list_pods(context, namespace, &selector).await?;
            (Some(tables_of_pool(context, pool).await?), tries)
        }
        false => (None, Vec::new()),
    };
    let mut baseline = context.baselines.get(pool.metadata.uid.as_deref().unwrap_or_default());
    let desired = live.map(|live| rollout::desired_pods(live, &pods)).unwrap_or_default();
    baseline.absent.record_pods(desired, rollout::has_begun(pool), now.as_second());
    let counters = baseline::successful_samples(scrapes);
    match rollout::sample_purpose(pool) {
        SamplePurpose::Past => baseline.record_past(counters),
        SamplePurpose::Nothing => {}
        SamplePurpose::Try(name) => baseline.record_watched(&name, counters),
    }
    Ok(RolloutInputs { pods, tables, tries, baseline })
}

/// Returns whether the operator alone sizes the pool, as far as it knows, and wants no other size:
/// another autoscaler would own the StatefulSet's number as soon as it changes that.
fn is_size_settled(
    pool: &GatewayPool,
    live: Option<&StatefulSet>,
    lag: &Result<LagObservation, StepError>,
    memory: &Sizing,
) -> bool {
    let sizing = pool.status.as_ref().and_then(|status| status.sizing.as_ref());
    memory.sized_by().is_none()
        && live.is_some_and(|live| !scale::is_others(&live.metadata))
        && lag.as_ref().map_or(true, |lag| lag.within_bound)
        && sizing.is_some_and(|sizing| sizing.replicas == sizing.proposed_replicas)
}

/// Stores the inputs of sizing other than the lag.
async fn observe_signals(
    context: &Context,
    names: &PoolNames,
    scaler_fresh: SignedDuration,
    (facts, scrapes): (&[PodState], &ScrapeResults),
    memory: &mut Sizing,
    now: Timestamp,
) -> Result<(), StepError> {
    let metered = query_metrics_api(context, names, scrapes, memory, now).await;
    memory.pods.record_pods(facts, scrapes, &metered);
    let fresh = |(at, _): &(Timestamp, _)| now.duration_since(*at) < scaler_fresh;
    if !memory.scaler.as_ref().is_some_and(fresh) {
        let targets = [("StatefulSet", names.base.as_str())];
        let found = scale::find_autoscaler(context, &names.namespace, &targets).await?;
        memory.scaler = Some((now, found));
    }
    Ok(())
}

/// Returns the metrics API's figures of silent pods.
async fn query_metrics_api(
    context: &Context,
    names: &PoolNames,
    scrapes: &ScrapeResults,
    memory: &mut Sizing,
    now: Timestamp,
) -> UsageByPod {
    let due = |at: &Timestamp| now.duration_since(*at) >= METERED_FRESH;
    if scrapes.values().all(Result::is_ok) || !memory.metered_at.as_ref().is_none_or(due) {
        return UsageByPod::new();
    }
    memory.metered_at = Some(now);
    let selector = names.selector_text();
    context.metered.query_pods(&context.client, &names.namespace, &selector, now).await
}
