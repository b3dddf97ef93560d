//! What a load asks of coordination: requests a second, nodes and bytes, and when more is due.
//!
//! The model: each server of a shard's replicas makes [`REQUESTS_PER_PART`] requests for each part
//! inserted and [`REQUESTS_PER_MERGE`] for each merge. Both are fitted to two loads that ClickHouse
//! published ("ClickHouse Keeper: A ZooKeeper alternative written in C++", 27 September 2023,
//! section "Observing Keeper"); `PUBLISHED` in the tests has all four, with how far the model is
//! off. These loads went into `SharedMergeTree` tables of ClickHouse Cloud 23.x, whose servers
//! share parts. `ReplicatedMergeTree` asks [`REPLICATED`] times as much, which is measured here.
//!
//! Limits: measured is one replica, which inserts and merges. That each of the others, which read
//! the log and fetch parts, asks the same is assumed. One's own tables are measured by
//! [`crate::observation::TableLoad`]. Reads of users, `ON CLUSTER` statements and Kafka tables of
//! ClickHouse come on top.

/// Requests of one server for each part. Of the published loads of 4.64 billion rows on three
/// servers one had 240 parts, 1,706 merges and 17,705 requests, the other 4,240, 9,094 and 147,540:
/// two equations, whose solution is 17.96 a part and 7.85 a merge for the three servers.
pub const REQUESTS_PER_PART: f64 = 5.985;

/// Requests of one server for each merge: the other unknown of the same equations.
pub const REQUESTS_PER_MERGE: f64 = 2.617;

/// Merges for each inserted part: 28,959 for 23,750 in the longest published load. Shorter ones
/// had more (2.1 and 7.1), since merges of small loads have few parts to choose from.
pub const MERGES_PER_PART: f64 = 1.22;

/// What a replica of `ReplicatedMergeTree` asks, for one of these requests. Counted with our own
/// inserts (ClickHouse 26.9, ZooKeeper 3.9): 5,938 requests for 365 parts without merges, where the
/// model has 2,185; 12,575 for 714 and 130 merges, where it has 4,614; 5,594 for 351 and 63 in a
/// third of the time, where it has 2,266; 3,476 for 233 and 39 as fast as a gateway takes them,
/// where it has 1,497. 2.72, 2.73, 2.47 and 2.32 times: the faster parts come, the more of them one
/// reading of the log finds. The largest, rounded.
pub const REPLICATED: f64 = 2.7;

/// Part of these that hold several operations: 25.5 to 26.5 % in the same runs. In the published
/// loads of `SharedMergeTree` it was 66 to 72 %.
pub const MULTI_SHARE: f64 = 0.26;

/// Requests a second that an ensemble of three servers with one core and 1 GiB each bore with three
/// clients: 1.28 million in 160 s by Keeper 23.5, in 134 s by ZooKeeper 3.8 (99th percentile of ten
/// runs, the post's table of results). The lower one.
pub const REQUESTS_PER_CORE_SECOND: f64 = 8_000.0;

/// What a second core gave one ZooKeeper 3.9 here: 40,421 operations a second instead of 25,146
/// (`docs/keeper-bench.md`). Of a third nothing is known: in the published runs with three clients
/// three cores took as long as one (Keeper 84 s for 640,000 requests with both).
pub const SECOND_CORE: f64 = 1.6;

/// Bytes of a node as Keeper estimates them, below replicated tables: 900 MB in 2 million nodes, a
/// user's figures (ClickHouse#70668). The ZooKeeper beside it had 150 MB in one million.
const BYTES_PER_ZNODE: f64 = 450.0;

/// Nodes of a remembered insert: with `compatible_double_hashes` ClickHouse writes its hash in the
/// old and in the new form (`ReplicatedMergeTreeSink.cpp`).
const ZNODES_PER_INSERT: f64 = 2.0;

/// Active parts of a table that merges keep up with: ClickHouse delays inserts from 1,000 in a
/// partition on (`parts_to_delay_insert`). A node each and replica
/// (`use_minimalistic_part_header_in_zookeeper`, on by default).
const ACTIVE_PARTS: f64 = 1_000.0;

/// Entries of a table's log, at most (`max_replicated_logs_to_keep`): a node each there, and one in
/// each replica's queue.
const LOG_ENTRIES: f64 = 1_000.0;

/// From this part of a server's bound on, more is due: an election, a snapshot or a client that
/// comes back takes the rest for seconds.
const BUSY_SHARE: f64 = 0.5;

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
    /// Three servers of two cores each.
    TwoCores,
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
        let merges_per_second = parts_per_second * MERGES_PER_PART;
        let shared = requests_of(parts_per_second, merges_per_second, replicas);
        let requests_per_second = REPLICATED * shared;
        let (tables, shards) = (f64::from(self.tables.max(1)), f64::from(self.shards.max(1)));
        let remembered = self.window as f64 * ZNODES_PER_INSERT;
        let of_replicas = replicas * (ACTIVE_PARTS + LOG_ENTRIES);
        let znodes = tables * shards * (remembered + LOG_ENTRIES + of_replicas);
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

/// Requests of so many inserted parts and merges of `SharedMergeTree`, by so many servers.
#[must_use]
pub fn requests_of(parts: f64, merges: f64, servers: f64) -> f64 {
    servers * (parts * REQUESTS_PER_PART + merges * REQUESTS_PER_MERGE)
}

fn advice(requests_per_second: f64) -> Advice {
    let one_core = REQUESTS_PER_CORE_SECOND * BUSY_SHARE;
    let two_cores = one_core * SECOND_CORE;
    if requests_per_second <= one_core {
        Advice::Enough
    } else if requests_per_second <= two_cores {
        Advice::TwoCores
    } else {
        Advice::MoreEnsembles { ensembles: (requests_per_second / two_cores).ceil() as u32 }
    }
}

#[cfg(test)]
#[path = "../tests/unit/plan.rs"]
mod tests;
