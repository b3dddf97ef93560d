//! What the API server has told of the pools, by one watch: which are ready, and when each status
//! caught up with its spec.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;

/// The newest of one pool.
#[derive(Clone, Copy, Debug)]
struct Pool {
    observed: i64,
    observed_at: Instant,
    ready: bool,
}

/// The pools as the watch last told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    pools: Arc<Mutex<HashMap<String, Pool>>>,
}

impl Board {
    /// Starts the watch; it runs until the process ends.
    pub(crate) fn watch(api: Api<DynamicObject>) -> Self {
        let board = Self::default();
        let told = board.clone();
        tokio::spawn(async move {
            let config = watcher::Config::default().page_size(500);
            let events = watcher(api, config).default_backoff().applied_objects();
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                if let Ok(pool) = event {
                    told.note(&pool);
                }
            }
        });
        board
    }

    fn note(&self, object: &DynamicObject) {
        let generation = object.metadata.generation.unwrap_or(0);
        let status = &object.data["status"];
        let observed = status["observedGeneration"].as_i64().unwrap_or(0);
        let ready = observed == generation && is_ready(status, generation);
        let name = object.metadata.name.clone().unwrap_or_default();
        let now = Instant::now();
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools.entry(name).or_insert(Pool { observed, observed_at: now, ready });
        if pool.observed != observed {
            pool.observed_at = now;
        }
        (pool.observed, pool.ready) = (observed, ready);
    }

    /// How many pools are ready for their newest spec.
    pub(crate) fn ready(&self) -> usize {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.values().filter(|pool| pool.ready).count()
    }

    /// When the pool's status was first seen to be about `generation` or a later one.
    pub(crate) fn caught_up(&self, name: &str, generation: i64) -> Option<Instant> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools.get(name)?;
        (pool.observed >= generation).then_some(pool.observed_at)
    }

    /// Waits until `count` pools are ready.
    ///
    /// # Errors
    /// When they are not in time.
    pub(crate) async fn all_ready(&self, count: usize, patience: Duration) -> Result<()> {
        let began = Instant::now();
        let mut told = began;
        while self.ready() < count {
            if began.elapsed() > patience {
                bail!("{} of {count} pools are ready after {patience:?}", self.ready());
            }
            if told.elapsed() > Duration::from_secs(10) {
                told = Instant::now();
                crate::say::progress(&format!("{} of {count} ready", self.ready()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// A gateway pool whose lag is unknown is not ready: its pods count.
fn is_ready(status: &Value, generation: i64) -> bool {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|it| {
        (it["type"] == "Ready" || it["type"] == "PodsReady" && status["sizing"].is_object())
            && it["status"] == "True"
            && it["observedGeneration"] == generation
    })
}
