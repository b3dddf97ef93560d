//! Tracks whether the servers can be reached: by answers to inserts, and by pings while there are
//! none.

use std::ops::Range;
use std::time::Duration;

use crate::insert::deliver::InsertDelivery;
use crate::insert::response::{Class, InsertResponse};

impl InsertDelivery {
    /// Records an answer: any answer with a code came from a server.
    pub(crate) fn record_reachability(&self, verdict: &InsertResponse, endpoint: usize) {
        if self.client.replica_count() < self.client.endpoint_count() {
            // One shard's answer doesn't show the state of the others: `watch` pings all.
        } else if verdict.code.is_some() || verdict.class == Class::Done {
            self.state.set_reachable();
        } else if verdict.class == Class::RetrySame && self.client.endpoint_count() == 1 {
            let name = self.client.endpoint_name(endpoint);
            self.state.set_unreachable(format!("{name}: {}", verdict.message));
        }
    }

    /// Pings the servers while no insert shows their state: one of each shard must answer.
    pub(crate) async fn watch_endpoints(&self, interval: Duration) {
        let (endpoints, replicas) = (self.client.endpoint_count(), self.client.replica_count());
        loop {
            let mut reasons = Vec::new();
            for shard in (0..endpoints).step_by(replicas) {
                reasons.extend(self.ping_shard(shard..shard + replicas).await);
            }
            if reasons.is_empty() {
                self.state.set_reachable();
            } else {
                self.state.set_unreachable(reasons.join("; "));
            }
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = self.drain.wait_for_begin() => return,
            }
        }
    }

    /// Returns why none of these endpoints answers; nothing if one does.
    async fn ping_shard(&self, endpoints: Range<usize>) -> Vec<String> {
        let mut reasons = Vec::new();
        for endpoint in endpoints {
            match self.client.ping(endpoint).await {
                Ok(()) => return Vec::new(),
                Err(reason) => reasons.push(reason),
            }
        }
        reasons
    }
}
