//! Computes what a pool scrapes in its cluster: joins monitors with the cluster, gathers secrets,
//! and reports faults.
//!
//! The result is computed again when something that targets depend on has changed, and once a
//! minute for Secrets. Until everything is read, there is no result: a pool whose targets are
//! unknown retains those that it has. This module doesn't decide which pod scrapes what.

mod secrets;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use millrace_crds::v1alpha1::EdgePool;
use millrace_crds::{EventReason, Reason};
use millrace_monitors::{
    DiscoveryInput, DiscoveryResult, FaultEffect, MonitorFault, MonitorKind, SecretUse,
    discover_targets,
};

use crate::context::Context;
use crate::discovery::{DiscoveryError, DiscoveryRequest, PoolDiscovery};
use crate::error::{Category, ReconcileStep, StepError};
use crate::pool::discover;
use crate::pool::names::{PoolNames, Role};
use crate::report::events::Notice;

/// Secrets are read again this often: a changed value is in the pool's Secret after that, and in
/// its pods' files once the kubelet has written them (a minute more).
const READ_EVERY_SECONDS: i64 = 60;

/// Maximum number of events of one round: a broken template may have created a thousand monitors.
const EVENTS_MAX: usize = 16;

/// Maximum number of faults remembered as reported.
const REPORTED_MAX: usize = 10_000;

/// The state of a pool between rounds. Losing it costs one round's work, and repeats events.
#[derive(Debug, Default)]
pub struct MonitorMemory {
    last: Option<Last>,
    reported: BTreeSet<MonitorFault>,
}

#[derive(Debug)]
struct Last {
    version: u64,
    generation: Option<i64>,
    read_at: i64,
    scraped: Arc<DiscoveryResult>,
}

/// Returns a pool's targets as discovered in the cluster; `None` if it selects nothing. The same
/// value is returned as long as nothing changes.
///
/// # Errors
/// Something isn't read yet, can't be, or the pool selects what it may not: its targets are
/// unchanged.
pub async fn discover_pool_targets(
    context: &Context,
    pool: &EdgePool,
    memory: &mut MonitorMemory,
) -> Result<Option<Arc<DiscoveryResult>>, StepError> {
    let Some(request) = discover::discovery_request(pool) else {
        *memory = MonitorMemory::default();
        return Ok(None);
    };
    let now = context.clock.now().as_second();
    let generation = pool.metadata.generation;
    let version = context.discovery.version();
    if let Some(last) = &memory.last
        && last.version == version
        && last.generation == generation
        && now < last.read_at + READ_EVERY_SECONDS
    {
        return Ok(Some(last.scraped.clone()));
    }
    let names = PoolNames::of_pool(pool, Role::Edge)?;
    let found = context
        .discovery
        .find_targets(&names.namespace, &names.pool, &request)
        .map_err(to_step_error)?;
    let monitors = found.monitors.iter();
    let uses: BTreeSet<SecretUse> =
        monitors.flat_map(|monitor| monitor.secret_uses().cloned()).collect();
    let missing = secrets::gather_secrets(context, pool, &names, &uses).await?;
    let version = found.version;
    let (found, scraped) = compute_targets(found, request, missing).await?;
    let scraped = match memory.last.take() {
        Some(last) if *last.scraped == scraped => last.scraped,
        _ => {
            report_faults(context, pool, &found, &scraped, memory).await;
            Arc::new(scraped)
        }
    };
    memory.last = Some(Last { version, generation, read_at: now, scraped: scraped.clone() });
    Ok(Some(scraped))
}

/// Computes the targets, which may take a second, on a separate thread from the reconciles.
async fn compute_targets(
    discovery: PoolDiscovery,
    request: DiscoveryRequest,
    missing: std::collections::BTreeMap<SecretUse, String>,
) -> Result<(PoolDiscovery, DiscoveryResult), StepError> {
    let work = tokio::task::spawn_blocking(move || {
        let scraped = discover_targets(&DiscoveryInput {
            cluster: &discovery.cluster,
            reach: &discovery.reach,
            monitors: &discovery.monitors,
            annotated: discovery.annotated.as_ref(),
            interval_seconds: request.interval_seconds,
            missing: &missing,
        });
        (discovery, scraped)
    });
    work.await.map_err(|ended| {
        let cause = format!("finding targets did not end normally, which is a bug: {ended}");
        StepError::new(ReconcileStep::Build, Category::Temporary, Reason::Waiting, cause)
    })
}

fn to_step_error(error: DiscoveryError) -> StepError {
    let (category, reason) = match &error {
        DiscoveryError::Waiting { .. } => (Category::Temporary, Reason::NotObserved),
        DiscoveryError::Across(..) | DiscoveryError::Rule(_) => {
            (Category::Invalid, Reason::SpecInvalid)
        }
    };
    StepError::new(ReconcileStep::Observe, category, reason, error)
}

/// Publishes an event on each monitor with a new fault, by field.
async fn report_faults(
    context: &Context,
    pool: &EdgePool,
    discovery: &PoolDiscovery,
    scraped: &DiscoveryResult,
    memory: &mut MonitorMemory,
) {
    let now: BTreeSet<MonitorFault> = scraped.faults.iter().take(REPORTED_MAX).cloned().collect();
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    let news = now.difference(&memory.reported).take(EVENTS_MAX);
    for fault in news {
        let MonitorFault { monitor, field, why, effect } = fault;
        let reason = match effect {
            FaultEffect::NotScraped => EventReason::MonitorInvalid,
            FaultEffect::Ignored => EventReason::FieldIgnored,
        };
        let note = format!("{field}: {why} (EdgePool {namespace}/{name})");
        let notice = Notice::warning(reason, "Discover", note);
        let regarding = match monitor.kind {
            // Faults of annotated objects are reported on the pool.
            MonitorKind::Pod | MonitorKind::Service => pool.object_ref(&()),
            kind => ObjectReference {
                api_version: Some(api_version(kind).to_owned()),
                kind: Some(kind.as_str().to_owned()),
                namespace: Some(monitor.namespace.clone()),
                name: Some(monitor.name.clone()),
                uid: discovery.uids.get(monitor).cloned(),
                ..ObjectReference::default()
            },
        };
        context.events.publish(&regarding, notice).await;
    }
    memory.reported = now;
}

const fn api_version(kind: MonitorKind) -> &'static str {
    match kind {
        MonitorKind::ScrapeConfig => "monitoring.coreos.com/v1alpha1",
        _ => "monitoring.coreos.com/v1",
    }
}
