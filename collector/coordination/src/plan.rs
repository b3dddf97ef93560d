//! What a load asks of coordination: requests a second, nodes and bytes, and when more is due.
//!
//! The model: each server of a shard's replicas makes [`REQUESTS_PER_PART`] requests for each part
//! inserted (its insert or fetch, and its share of the merges), and [`REQUESTS_PER_LOAD`] more over
//! a whole load. Both are fitted to figures that ClickHouse published; `published` in the tests has
//! them, with how far the model is off.
//!
//! Limits: counted on one other table and version, by others; requests of one's own tables are in
//! `system.events`. Reads of users, `ON CLUSTER` statements and Kafka tables of ClickHouse come on
//! top.

/// Requests of one server for each part. Of the published loads of 4.64 billion rows on three
/// servers, that with parts of 1 M rows (4,640 parts, 147,540 requests) and that with parts of 25 M
/// (185.6 parts, 17,705 requests) differ by 43,278 requests a server and 4,454 parts.
pub const REQUESTS_PER_PART: f64 = 9.72;

/// Requests of one server over such a load, whatever its parts: what the smaller one of these two
/// makes beyond its parts, 5,902 − 185.6 × 9.72.
pub const REQUESTS_PER_LOAD: f64 = 4_098.0;

/// Part of the requests that hold several operations, as in the published suite's workload.
pub const MULTI_SHARE: f64 = 0.7;

/// Requests a second that one core of a server bore in the published runs, with three clients: 1.28
/// million in 160 s by Keeper, in 134 s by ZooKeeper. The lower one.
pub const REQUESTS_PER_CORE_SECOND: f64 = 8_000.0;

/// Bytes of a node as servers estimate them: a ClickHouse documentation's example has 426,062 bytes
/// in 1,087 nodes.
const BYTES_PER_ZNODE: f64 = 392.0;

/// Nodes of one part of one replica: one in `parts`, one in the log, one in its queue, and one
/// block number.
const ZNODES_PER_PART: f64 = 4.0;

/// Active parts of a table that merges keep up with: ClickHouse delays inserts from 1,000 in a
/// partition on.
const ACTIVE_PARTS: f64 = 1_000.0;

/// From this part of a server's bound on, more is due: an election, a snapshot or a client that
/// comes back takes the rest for seconds.
const BUSY_SHARE: f64 = 0.5;

/// Cores that one server uses: writes are ordered one after another.
const CORES_MAX: f64 = 4.0;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Rows a second, into all tables.
    pub rows_per_second: f64,
    /// Rows of an inserted part.
    pub rows_per_part: f64,
    /// Replicas of each shard: servers that make requests for each part.
    pub replicas: u32,
    /// Tables that get rows.
    pub tables: u32,
    /// Shards: they share the rows, and each has its own nodes.
    pub shards: u32,
    /// Inserts that each table remembers (`replicated_deduplication_window`).
    pub window: u64,
}

/// What it asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Parts a second, of all shards.
    pub parts_per_second: f64,
    /// Requests a second.
    pub requests_per_second: f64,
    /// Those of them that hold several operations.
    pub multi_requests_per_second: f64,
    /// Requests for a million rows.
    pub requests_per_million_rows: f64,
    /// Nodes in the tree.
    pub znodes: f64,
    /// Bytes of them, as `zk_approximate_data_size` has them; each server holds all.
    pub data_bytes: f64,
    /// What to change, if anything.
    pub advice: Advice,
}

/// What a load needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Three servers of one core each.
    Enough,
    /// More cores for each of the three servers.
    MoreCores {
        /// So many.
        cores: u32,
    },
    /// Larger parts, or an ensemble for each part of the shards.
    MoreEnsembles {
        /// So many ensembles.
        ensembles: u32,
    },
}

impl Load {
    /// What the load asks.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let parts_per_second = self.rows_per_second / self.rows_per_part.max(1.0);
        let replicas = f64::from(self.replicas.max(1));
        let requests_per_second = parts_per_second * replicas * REQUESTS_PER_PART;
        let (tables, shards) = (f64::from(self.tables.max(1)), f64::from(self.shards.max(1)));
        let parts = ACTIVE_PARTS * replicas * ZNODES_PER_PART;
        let znodes = tables * shards * (self.window as f64 + parts);
        let millions = self.rows_per_second / 1e6;
        Plan {
            parts_per_second,
            requests_per_second,
            multi_requests_per_second: requests_per_second * MULTI_SHARE,
            requests_per_million_rows: if millions > 0.0 {
                requests_per_second / millions
            } else {
                0.0
            },
            znodes,
            data_bytes: znodes * BYTES_PER_ZNODE,
            advice: advice(requests_per_second),
        }
    }
}

/// Requests of a whole load of so many rows.
#[must_use]
pub fn requests_of_load(rows: f64, rows_per_part: f64, servers: u32) -> f64 {
    f64::from(servers) * (rows / rows_per_part.max(1.0) * REQUESTS_PER_PART + REQUESTS_PER_LOAD)
}

fn advice(requests_per_second: f64) -> Advice {
    let cores = requests_per_second / (REQUESTS_PER_CORE_SECOND * BUSY_SHARE);
    if cores <= 1.0 {
        Advice::Enough
    } else if cores <= CORES_MAX {
        Advice::MoreCores { cores: cores.ceil() as u32 }
    } else {
        Advice::MoreEnsembles { ensembles: (cores / CORES_MAX).ceil() as u32 }
    }
}

#[cfg(test)]
#[path = "../tests/unit/plan.rs"]
mod tests;
