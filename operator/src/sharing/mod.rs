//! Shares out the scrape targets of edge pools among their pods, every [`ROUND`].
//!
//! `millrace_shares` decides and hands over; here pods are asked, and documents read and written
//! (docs/sharing.md). Pools don't wait for each other: a pool whose round lasts skips one. It runs
//! under the operator's lease alone, since two at once would break the rule that no target has two
//! pods. It must not change a pool's status: the pool's own reconcile does, from what a round found
//! (`cache::scraping`).
//!
//! Limits: [`ROUNDS_MAX`] pools at once; a round longer than [`ROUND_MAX`] is given up.

mod asked;
mod round;
mod sources;
mod store;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use millrace_crds::v1alpha1::EdgePool;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

pub use round::{Memory, round};
pub use store::{POD_LABEL, POOL_LABEL, SHARE_KEY};

use crate::context::Context;
use crate::error::{Category, chain};

/// The time between two rounds: bounds of hand-overs are made of it (`millrace_shares::Delays`).
const ROUND: Duration = Duration::from_secs(5);
/// A round takes some requests and at most 2 s per 100 pods for their answers.
const ROUND_MAX: Duration = Duration::from_secs(60);
/// Rounds at once. Each holds a pool's documents, 14 MiB at most and usually well below one.
const ROUNDS_MAX: usize = 8;

/// Memories of pools, by uid. One that is locked has a round.
type Memories = HashMap<String, Arc<Mutex<Memory>>>;

/// Shares out from when this replica leads until `stop`. Rounds that have begun are finished.
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
    let turns = Arc::new(Semaphore::new(ROUNDS_MAX));
    let mut memories = Memories::new();
    // Dropped with this future, which ends them: after a lost lease nothing more is written.
    let mut rounds = JoinSet::new();
    let mut ticks = tokio::time::interval(ROUND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => begin(&context, &mut memories, &turns, &mut rounds),
            Some(ended) = rounds.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a round of sharing out did not end by itself: a bug");
                }
            }
            () = &mut stop => break,
        }
    }
    while rounds.join_next().await.is_some() {}
}

/// Begins a round of each pool that scrapes and has none.
fn begin(
    context: &Arc<Context>,
    memories: &mut Memories,
    turns: &Arc<Semaphore>,
    rounds: &mut JoinSet<()>,
) {
    let all = context.stores.all::<EdgePool>();
    let pools: Vec<EdgePool> = all.iter().filter_map(|it| it.unpack().0.ok()).collect();
    let scraping = pools.into_iter().filter(|pool| {
        pool.metadata.deletion_timestamp.is_none()
            && pool.spec.settings.receivers.prometheus.is_some()
    });
    let mut staying = Memories::new();
    for pool in scraping {
        let uid = pool.uid().unwrap_or_default();
        let memory = memories.remove(&uid).unwrap_or_default();
        staying.insert(uid, memory.clone());
        let Ok(mut memory) = memory.try_lock_owned() else { continue };
        let (context, turns) = (context.clone(), turns.clone());
        rounds.spawn(async move {
            let Ok(_turn) = turns.acquire_owned().await else { return };
            one(&context, &pool, &mut memory).await;
        });
    }
    for gone in memories.keys() {
        context.metrics.targets_are(gone, None);
    }
    *memories = staying;
}

/// One round, and a line in the log if it failed.
async fn one(context: &Context, pool: &EdgePool, memory: &mut Memory) {
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    match tokio::time::timeout(ROUND_MAX, round(context, pool, memory)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) if error.category == Category::Conflict => {
            tracing::info!(namespace, name, "somebody else wrote a share: {}", chain(&error));
        }
        Ok(Err(error)) => {
            tracing::warn!(namespace, name, "targets were not shared out: {}", chain(&error));
        }
        Err(_elapsed) => {
            let seconds = ROUND_MAX.as_secs();
            tracing::warn!(namespace, name, "sharing out targets took over {seconds} s");
        }
    }
}
