//! Plans coordination for a load: requests per second, nodes and bytes, and when it needs a larger
//! ensemble.
//!
//! The model: each replica's server makes [`REQUESTS_PER_PART`] requests per inserted part and
//! [`REQUESTS_PER_MERGE`] per merge. Both are fitted to two loads that ClickHouse published
//! ("ClickHouse Keeper: A ZooKeeper alternative written in C++", 27 September 2023, section
//! "Observing Keeper"); `PUBLISHED` in the tests has all four, with the model's error. These loads
//! used `SharedMergeTree` tables of ClickHouse Cloud 23.x, whose servers share parts.
//! `ReplicatedMergeTree` makes [`REPLICATED`] times as many requests, as measured here.
//!
//! Limits: the measurement covers one replica, which inserts and merges. The model assumes as many
//! requests of each other replica, which reads the log and fetches parts.
//! [`crate::observation::TableLoad`] measures a user's own tables. Users' reads, `ON CLUSTER`
//! statements and ClickHouse's Kafka tables come on top.

/// Requests of one server per part. Of the published loads of 4.64 billion rows on three servers
/// one had 240 parts, 1,706 merges and 17,705 requests, the other 4,240, 9,094 and 147,540: two
/// equations, whose solution is 17.96 per part and 7.85 per merge for the three servers.
pub const REQUESTS_PER_PART: f64 = 5.985;

/// Requests of one server per merge: the other unknown of the same equations.
pub const REQUESTS_PER_MERGE: f64 = 2.617;

/// Merges per inserted part: 28,959 for 23,750 in the longest published load. Shorter loads had
/// more (2.1 and 7.1), since their merges have few parts to choose from.
pub const MERGES_PER_PART: f64 = 1.22;

/// The factor of `ReplicatedMergeTree` over these requests. Counted with our own inserts
/// (ClickHouse 26.9, ZooKeeper 3.9): 5,938 requests for 365 parts without merges, where the model
/// has 2,185; 12,575 for 714 and 130 merges, where it has 4,614; 5,594 for 351 and 63 in a third of
/// the time, where it has 2,266; 3,476 for 233 and 39 as fast as a gateway accepts them, where it
/// has 1,497. These are factors of 2.72, 2.73, 2.47 and 2.32: the faster parts come, the more of
/// them one read of the log finds. The value is the largest, rounded.
pub const REPLICATED: f64 = 2.7;

/// The share of these requests that hold several operations: 25.5 to 26.5 % in the same runs. In
/// the published loads of `SharedMergeTree` it was 66 to 72 %.
pub const MULTI_SHARE: f64 = 0.26;

/// Requests per second that an ensemble of three servers with one core and 1 GiB each handled with
/// three clients: 1.28 million in 160 s by Keeper 23.5, in 134 s by ZooKeeper 3.8 (99th percentile
/// of ten runs, the post's table of results). The value is the lower one.
pub const REQUESTS_PER_CORE_SECOND: f64 = 8_000.0;

/// The gain from a second core of one ZooKeeper 3.9 here: 40,421 operations per second instead of
/// 25,146 (`docs/internals/keeper-bench.md`). The gain from a third is unknown: in the published
/// runs with three clients three cores took as long as one (Keeper 84 s for 640,000 requests with
/// both).
pub const SECOND_CORE: f64 = 1.6;

/// Bytes of a node as Keeper estimates them, below replicated tables: 900 MB in 2 million nodes, a
/// user's figures (ClickHouse#70668). The ZooKeeper next to it had 150 MB in one million.
const BYTES_PER_ZNODE: f64 = 450.0;

/// Nodes per remembered insert: with `compatible_double_hashes` ClickHouse writes its hash in the
/// old and in the new form (`ReplicatedMergeTreeSink.cpp`).
const ZNODES_PER_INSERT: f64 = 2.0;

/// Active parts of a table whose merges keep up: ClickHouse delays inserts from 1,000 in a
/// partition on (`parts_to_delay_insert`). Each has one node per replica
/// (`use_minimalistic_part_header_in_zookeeper`, on by default).
const ACTIVE_PARTS: f64 = 1_000.0;

/// The most entries of a table's log (`max_replicated_logs_to_keep`): each has one node there, and
/// one in each replica's queue.
const LOG_ENTRIES: f64 = 1_000.0;

/// The share of a server's limit above which it needs more capacity: an election, a snapshot or a
/// returning client takes the remainder for seconds.
const BUSY_SHARE: f64 = 0.5;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InsertLoad {
    /// Rows per second, into all tables.
    pub rows_per_second: f64,
    /// Rows per inserted part.
    pub rows_per_part: f64,
    /// Replicas of each shard: servers that make requests for each part.
    pub replicas: u32,
    /// Tables that receive rows.
    pub tables: u32,
    /// Shards: they share the rows, and each has its own nodes.
    pub shards: u32,
    /// Inserts that each table remembers (`replicated_deduplication_window`).
    pub window: u64,
}

/// The requirements of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoordinationPlan {
    /// Parts per second, of all shards.
    pub parts_per_second: f64,
    /// Requests per second.
    pub requests_per_second: f64,
    /// Requests per second that hold several operations.
    pub multi_requests_per_second: f64,
    /// Requests per million rows.
    pub requests_per_million_rows: f64,
    /// Nodes in the tree.
    pub znodes: f64,
    /// Bytes of the nodes, as `zk_approximate_data_size` counts them; each server holds all.
    pub data_bytes: f64,
    /// The ensemble that the load needs.
    pub advice: Advice,
}

/// The ensemble that a load needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Three servers of one core each.
    Enough,
    /// Three servers of two cores each.
    TwoCores,
    /// Larger parts, or an ensemble for each part of the shards.
    MoreEnsembles {
        /// The number of ensembles.
        ensembles: u32,
    },
}

impl InsertLoad {
    /// Returns the requirements of the load.
    #[must_use]
    pub fn plan(&self) -> CoordinationPlan {
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
        CoordinationPlan {
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
            advice: advice_for(requests_per_second),
        }
    }
}

/// Returns the requests for this many inserted parts and merges of `SharedMergeTree`, by this many
/// servers.
#[must_use]
pub fn requests_of(parts: f64, merges: f64, servers: f64) -> f64 {
    servers * (parts * REQUESTS_PER_PART + merges * REQUESTS_PER_MERGE)
}

fn advice_for(requests_per_second: f64) -> Advice {
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
mod tests;
