//! Shares out the scrape targets of edge pools among their pods, every [`ROUND`].
//!
//! `millrace_shares` decides and plans hand-overs; this module queries pods, and reads and writes
//! documents (docs/internals/sharing/rule.md). Pools don't wait for each other: a pool whose round
//! takes longer skips one. It runs only under the operator's lease, since two operators at once
//! would break the rule that no target has two pods. It must not change a pool's status: the
//! pool's own reconcile does, from a round's result (`cache::scraping`).
//!
//! Limits: [`ROUNDS_MAX`] pools at once; a round longer than [`ROUND_MAX`] is abandoned.

mod declared;
mod round;
mod sources;
mod store;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use millrace_crds::v1alpha1::EdgePool;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

pub use round::{SharingMemory, run_round};
pub use store::{POD_LABEL, POOL_LABEL, SHARE_KEY};

use crate::cache::scraping::Scraping;
use crate::context::Context;
use crate::discovery;
use crate::error::{Category, error_chain};
use crate::pool::discover;
use crate::pool::status::as_i64;
use crate::telemetry::metrics::Gauge;

/// The time between two rounds: bounds of hand-overs derive from it (`millrace_shares::Delays`).
const ROUND: Duration = Duration::from_secs(5);
/// Maximum duration of a round, which takes some requests and at most 2 s per 100 pods for their
/// answers.
const ROUND_MAX: Duration = Duration::from_secs(60);
/// Maximum number of rounds at once. Each holds a pool's documents, 14 MiB at most and usually well
/// below one.
const ROUNDS_MAX: usize = 8;

const TARGETS: Gauge<1> = Gauge::new(
    "millrace_operator_scrape_targets",
    "Scrape targets of all edge pools, by state (assigned, waiting, rejected, up, down).",
    ["state"],
);

/// The memories of pools, by uid. A round locks its pool's memory.
type Memories = HashMap<String, Arc<Mutex<SharingMemory>>>;

/// Shares out targets from when this replica leads until `stop`. Rounds that have begun are
/// finished.
pub async fn run(
    context: Arc<Context>,
    mut leads: watch::Receiver<bool>,
    stop: impl Future<Output = ()> + Send,
) {
    tokio::pin!(stop);
    tokio::select! {
        led = leads.wait_for(|leads| *leads) => if led.is_err() { return },
        () = &mut stop => return,
    }
    let permits = Arc::new(Semaphore::new(ROUNDS_MAX));
    let mut memories = Memories::new();
    // Dropping this future drops and ends them: after a lost lease nothing more is written.
    let mut rounds = JoinSet::new();
    let mut ticks = tokio::time::interval(ROUND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => begin_rounds(&context, &mut memories, &permits, &mut rounds),
            Some(ended) = rounds.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "assigning targets did not end normally: a bug");
                }
            }
            () = &mut stop => break,
        }
    }
    while rounds.join_next().await.is_some() {}
}

/// Begins a round of each pool that scrapes and has none running.
fn begin_rounds(
    context: &Arc<Context>,
    memories: &mut Memories,
    permits: &Arc<Semaphore>,
    rounds: &mut JoinSet<()>,
) {
    let all = context.stores.all_objects::<EdgePool>();
    let pools: Vec<EdgePool> = all.iter().filter_map(|it| it.unpack().0.ok()).collect();
    let scraping = pools.into_iter().filter(|pool| {
        pool.metadata.deletion_timestamp.is_none()
            && pool.spec.settings.receivers.prometheus.is_some()
    });
    let scraping: Vec<EdgePool> = scraping.collect();
    let requests = scraping.iter().filter_map(discover::discovery_request);
    context
        .discovery
        .watch_needed(&requests.flat_map(|request| discovery::needed_watches(&request)).collect());
    let mut staying = Memories::new();
    for pool in scraping {
        let uid = pool.uid().unwrap_or_default();
        let memory = memories.remove(&uid).unwrap_or_default();
        staying.insert(uid, memory.clone());
        let Ok(mut memory) = memory.try_lock_owned() else { continue };
        let (context, permits) = (context.clone(), permits.clone());
        rounds.spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            run_logged_round(&context, &pool, &mut memory).await;
        });
    }
    for ended in memories.keys() {
        set_scraping(context, ended, Scraping::default(), context.clock.now());
    }
    *memories = staying;
}

/// Stores the result of a pool's round, and counts its targets in place of the last round's.
fn set_scraping(context: &Context, uid: &str, found: Scraping, now: Timestamp) {
    let before = count_targets(&context.scraping.get(uid));
    for ((state, is), (_, was)) in count_targets(&found).into_iter().zip(before) {
        context.metrics.add(&TARGETS, [state], as_i64(is) - as_i64(was));
    }
    context.scraping.insert(uid, found, now);
}

fn count_targets(found: &Scraping) -> [(&'static str, u64); 5] {
    [
        ("assigned", found.assigned),
        ("waiting", found.targets.saturating_sub(found.assigned)),
        ("rejected", found.refused),
        ("up", found.up),
        ("down", found.down),
    ]
}

/// Runs one round, and logs its failure.
async fn run_logged_round(context: &Context, pool: &EdgePool, memory: &mut SharingMemory) {
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    match tokio::time::timeout(ROUND_MAX, run_round(context, pool, memory)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) if error.category == Category::Conflict => {
            tracing::info!(
                namespace,
                name,
                "another client wrote a share: {}",
                error_chain(&error)
            );
        }
        Ok(Err(error)) => {
            tracing::warn!(namespace, name, "targets were not assigned: {}", error_chain(&error));
        }
        Err(_elapsed) => {
            let seconds = ROUND_MAX.as_secs();
            tracing::warn!(namespace, name, "assigning targets took over {seconds} s");
        }
    }
}
