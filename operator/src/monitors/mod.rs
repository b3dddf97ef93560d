//! What a pool scrapes of what is found in its cluster: monitors joined with the cluster, secrets
//! gathered, faults told.
//!
//! It is worked out again when something that targets depend on has changed, and once a minute for
//! Secrets. Until everything is read, nothing is said: a pool whose targets are not known keeps
//! those that it has. Who decides which pod scrapes what is not here.

mod secrets;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use millrace_crds::v1alpha1::EdgePool;
use millrace_crds::{EventReason, Reason};
use millrace_monitors::{Effect, Fault, Input, MonitorKind, Scraped, SecretUse, scrape};

use crate::context::Context;
use crate::discovery::{Found, NotFound, Wants};
use crate::error::{Category, Step, StepError};
use crate::pool::discover;
use crate::pool::names::{PoolNames, Role};
use crate::report::events::Notice;

/// Secrets are read again so often: a changed value is in the pool's Secret after that, and in its
/// pods' files once the kubelet has written them (a minute more).
const READ_EVERY_SECONDS: i64 = 60;

/// Most events of one round: a broken template may have made a thousand monitors.
const EVENTS_MAX: usize = 16;

/// Most faults that are remembered as told.
const TOLD_MAX: usize = 10_000;

/// What is kept of a pool between rounds. Losing it costs one round's work, and repeats events.
#[derive(Debug, Default)]
pub struct Memory {
    last: Option<Last>,
    told: BTreeSet<Fault>,
}

#[derive(Debug)]
struct Last {
    version: u64,
    generation: Option<i64>,
    read_at: i64,
    scraped: Arc<Scraped>,
}

/// What there is to scrape for a pool, as it is found in the cluster. None if it asks for nothing.
/// The same value comes as long as nothing changes.
///
/// # Errors
/// Something isn't read yet, can't be, or the pool asks for what it may not: its targets stay as
/// they are.
pub async fn scraped(
    context: &Context,
    pool: &EdgePool,
    memory: &mut Memory,
) -> Result<Option<Arc<Scraped>>, StepError> {
    let Some(wants) = discover::wants(pool) else {
        *memory = Memory::default();
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
    let names = PoolNames::of(pool, Role::Edge)?;
    let found = context.discovery.find(&names.namespace, &names.pool, &wants).map_err(refused)?;
    let monitors = found.monitors.iter();
    let uses: BTreeSet<SecretUse> =
        monitors.flat_map(|monitor| monitor.secrets().cloned()).collect();
    let missing = secrets::gather(context, pool, &names, &uses).await?;
    let version = found.version;
    let (found, scraped) = joined(found, wants, missing).await?;
    let scraped = match memory.last.take() {
        Some(last) if *last.scraped == scraped => last.scraped,
        _ => {
            tell(context, pool, &found, &scraped, memory).await;
            Arc::new(scraped)
        }
    };
    memory.last = Some(Last { version, generation, read_at: now, scraped: scraped.clone() });
    Ok(Some(scraped))
}

/// Works out the targets, which may take a second: beside the other reconciles.
async fn joined(
    found: Found,
    wants: Wants,
    missing: std::collections::BTreeMap<SecretUse, String>,
) -> Result<(Found, Scraped), StepError> {
    let work = tokio::task::spawn_blocking(move || {
        let scraped = scrape(&Input {
            cluster: &found.cluster,
            reach: &found.reach,
            monitors: &found.monitors,
            annotated: found.annotated.as_ref(),
            interval_seconds: wants.interval_seconds,
            missing: &missing,
        });
        (found, scraped)
    });
    work.await.map_err(|ended| {
        let said = format!("finding targets did not end by itself, which is a bug: {ended}");
        StepError::new(Step::Build, Category::Temporary, Reason::Waiting, said)
    })
}

fn refused(error: NotFound) -> StepError {
    let (category, reason) = match &error {
        NotFound::Waiting { .. } => (Category::Temporary, Reason::NotObserved),
        NotFound::Across(..) | NotFound::Rule(_) => (Category::Invalid, Reason::SpecInvalid),
    };
    StepError::new(Step::Observe, category, reason, error)
}

/// An event on each monitor that something new of is left out, by field.
async fn tell(
    context: &Context,
    pool: &EdgePool,
    found: &Found,
    scraped: &Scraped,
    memory: &mut Memory,
) {
    let now: BTreeSet<Fault> = scraped.faults.iter().take(TOLD_MAX).cloned().collect();
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    let news = now.difference(&memory.told).take(EVENTS_MAX);
    for fault in news {
        let Fault { monitor, field, why, effect } = fault;
        let reason = match effect {
            Effect::LeftOut => EventReason::MonitorBroken,
            Effect::Ignored => EventReason::FieldIgnored,
        };
        let note = format!("{field}: {why} (EdgePool {namespace}/{name})");
        let notice = Notice::warning(reason, "Discover", note);
        let regarding = match monitor.kind {
            // Of annotated objects the pool is told.
            MonitorKind::Pod | MonitorKind::Service => pool.object_ref(&()),
            kind => ObjectReference {
                api_version: Some(api_version(kind).to_owned()),
                kind: Some(kind.as_str().to_owned()),
                namespace: Some(monitor.namespace.clone()),
                name: Some(monitor.name.clone()),
                uid: found.uids.get(monitor).cloned(),
                ..ObjectReference::default()
            },
        };
        context.events.publish(&regarding, notice).await;
    }
    memory.told = now;
}

const fn api_version(kind: MonitorKind) -> &'static str {
    match kind {
        MonitorKind::ScrapeConfig => "monitoring.coreos.com/v1alpha1",
        _ => "monitoring.coreos.com/v1",
    }
}
