//! One observation of coordination, through its own servers and through ClickHouse's.

use std::collections::BTreeMap;

/// The reports of all servers at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Queried Keeper or ZooKeeper servers; empty if no address is known.
    pub servers: Vec<KeeperServer>,
    /// ClickHouse servers, shard by shard.
    pub engines: Vec<ClickHouseServer>,
    /// The number of shards, each with as many ClickHouse servers. 0 counts as 1.
    pub shards: usize,
}

impl Observation {
    /// Iterates over the ClickHouse servers of each shard.
    pub fn by_shard(&self) -> impl Iterator<Item = &[ClickHouseServer]> {
        let each = self.engines.len().div_ceil(self.shards.max(1)).max(1);
        self.engines.chunks(each)
    }
}

/// One Keeper or ZooKeeper server.
#[derive(Clone, Debug, PartialEq)]
pub struct KeeperServer {
    /// Its address, as given.
    pub address: String,
    /// Its report.
    pub report: Result<ServerReport, ProbeError>,
}

/// A server's report on itself. A figure that it omits is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerReport {
    /// Its role in the ensemble.
    pub role: ServerRole,
    /// Followers of the leader; only a leader reports it.
    pub followers: Option<u64>,
    /// Followers that are synced.
    pub synced_followers: Option<u64>,
    /// Servers that vote, including the leader; ZooKeeper reports it from 3.6 on.
    pub voters: Option<u64>,
    /// Waiting requests.
    pub outstanding_requests: Option<u64>,
    /// Mean latency since it started or its counters were reset, in milliseconds.
    pub latency_milliseconds: Option<f64>,
    /// Nodes in its tree.
    pub znodes: Option<u64>,
    /// Bytes of these nodes, as the server estimates them.
    pub data_bytes: Option<u64>,
    /// Watches.
    pub watches: Option<u64>,
    /// Bytes of snapshots and logs on its disk, if they were queried.
    pub disk_bytes: Option<u64>,
}

/// A server's role in its ensemble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerRole {
    /// The leader.
    Leader,
    /// A follower of a leader.
    #[default]
    Follower,
    /// A follower without a vote.
    Observer,
    /// A server without an ensemble.
    Standalone,
    /// A server without a leader, which answers only reads.
    ReadOnly,
}

impl ServerRole {
    /// Whether it answers writes, itself or through a leader.
    #[must_use]
    pub const fn is_serving(self) -> bool {
        !matches!(self, Self::ReadOnly)
    }

    /// Whether it orders writes.
    #[must_use]
    pub const fn is_leading(self) -> bool {
        matches!(self, Self::Leader | Self::Standalone)
    }
}

/// The reason why a server's figures are unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The server runs and has no leader.
    #[error("it has no leader and serves no requests")]
    NotServing,
    /// The server doesn't allow the command.
    #[error(
        "it doesn't answer {0}: allow the command (4lw.commands.whitelist of ZooKeeper, \
         four_letter_word_allow_list of Keeper)"
    )]
    NotAllowed(&'static str),
    /// The answer isn't from Keeper or ZooKeeper.
    #[error("its answer is neither Keeper's nor ZooKeeper's")]
    Foreign,
    /// The server didn't answer.
    #[error("{0}")]
    Unreachable(String),
}

impl ProbeError {
    /// Whether this shows that the server doesn't serve; other reasons only show that it can't be
    /// queried.
    #[must_use]
    pub const fn is_down(&self) -> bool {
        matches!(self, Self::NotServing | Self::Unreachable(_))
    }
}

/// One ClickHouse server.
#[derive(Clone, Debug, PartialEq)]
pub struct ClickHouseServer {
    /// Its endpoint.
    pub endpoint: String,
    /// Its report.
    pub view: Result<CoordinationView, ViewError>,
}

/// Coordination as a ClickHouse server observes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoordinationView {
    /// Its sessions.
    pub sessions: Vec<KeeperSession>,
    /// Its replicas of our existing tables.
    pub replicas: Vec<Replica>,
    /// Its counters; `None` if they could not be read.
    pub counters: Option<Counters>,
    /// Recent requests of our tables' parts; empty if it has no log of parts.
    pub tables: Vec<TableLoad>,
    /// The statement that an administrator must run so that all of this can be read.
    pub grant: Option<String>,
}

/// A ClickHouse server's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperSession {
    /// The ensemble's name in ClickHouse's configuration; replicated tables use `default`.
    pub name: String,
    /// The connected server, `host:port`.
    pub server: String,
    /// Whether it has expired.
    pub is_expired: bool,
    /// The duration of the connection, in seconds.
    pub age_seconds: u64,
}

/// A ClickHouse server's replica of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// The table.
    pub table: String,
    /// Whether it accepts no inserts.
    pub is_readonly: bool,
    /// Whether its session has expired.
    pub is_session_expired: bool,
    /// The error of its last request to Keeper; empty without one.
    pub exception: String,
    /// Entries that it has yet to process.
    pub queue_entries: u64,
    /// Its delay, in seconds.
    pub delay_seconds: u64,
    /// Replicas of the table.
    pub total: u64,
    /// Replicas with a session.
    pub active: u64,
}

/// Recent requests to coordination by the parts of one table, at one ClickHouse server or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableLoad {
    /// The table.
    pub table: String,
    /// Inserted parts.
    pub parts: u64,
    /// Their rows.
    pub rows: u64,
    /// Requests of its inserts (including dropped duplicates), fetches and merges.
    pub requests: u64,
}

impl TableLoad {
    /// Sums each table's loads at all these servers, ordered by table name.
    #[must_use]
    pub fn sum_by_table<'a>(loads: impl IntoIterator<Item = &'a Self>) -> Vec<Self> {
        let mut by_table = BTreeMap::<&str, Self>::new();
        for load in loads {
            let sum = by_table.entry(&load.table).or_default();
            sum.parts = sum.parts.saturating_add(load.parts);
            sum.rows = sum.rows.saturating_add(load.rows);
            sum.requests = sum.requests.saturating_add(load.requests);
        }
        by_table.into_iter().map(|(table, sum)| Self { table: table.to_owned(), ..sum }).collect()
    }

    /// Returns the requests per million inserted rows; `None` without rows.
    #[must_use]
    pub fn requests_per_million_rows(&self) -> Option<u64> {
        self.requests.saturating_mul(1_000_000).checked_div(self.rows)
    }

    /// Returns the mean rows per inserted part; `None` without parts.
    #[must_use]
    pub fn rows_per_part(&self) -> Option<u64> {
        self.rows.checked_div(self.parts)
    }

    /// Returns the requests per inserted part, rounded; `None` without parts.
    #[must_use]
    pub fn requests_per_part(&self) -> Option<u64> {
        self.requests.saturating_add(self.parts / 2).checked_div(self.parts)
    }
}

/// A ClickHouse server's counters, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests to Keeper (`ZooKeeperTransactions`).
    pub requests: u64,
    /// Requests with several operations (`ZooKeeperMulti`).
    pub multi_requests: u64,
    /// The requests' total time, in microseconds (`ZooKeeperWaitMicroseconds`).
    pub wait_microseconds: u64,
    /// Sessions and connections that broke (`ZooKeeperHardwareExceptions`).
    pub broken: u64,
    /// Rows inserted, into any table (`InsertedRows`).
    pub rows: u64,
}

impl Counters {
    /// Returns the difference to an earlier observation; all of it if the server restarted in
    /// between.
    #[must_use]
    pub fn delta_since(self, before: Self) -> Self {
        if self.requests < before.requests || self.rows < before.rows {
            return self;
        }
        Self {
            requests: self.requests - before.requests,
            multi_requests: self.multi_requests.saturating_sub(before.multi_requests),
            wait_microseconds: self.wait_microseconds.saturating_sub(before.wait_microseconds),
            broken: self.broken.saturating_sub(before.broken),
            rows: self.rows - before.rows,
        }
    }

    /// Returns the sum of both servers' counters.
    #[must_use]
    pub fn merged_with(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            multi_requests: self.multi_requests.saturating_add(other.multi_requests),
            wait_microseconds: self.wait_microseconds.saturating_add(other.wait_microseconds),
            broken: self.broken.saturating_add(other.broken),
            rows: self.rows.saturating_add(other.rows),
        }
    }

    /// Returns the requests per million rows; `None` without rows.
    #[must_use]
    pub fn requests_per_million_rows(self) -> Option<u64> {
        self.requests.saturating_mul(1_000_000).checked_div(self.rows)
    }

    /// Returns the mean time of a request, in microseconds; `None` without requests.
    #[must_use]
    pub fn mean_wait_microseconds(self) -> Option<u64> {
        self.wait_microseconds.checked_div(self.requests)
    }
}

/// The reason why a ClickHouse server doesn't report the state of coordination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// Its configuration has no Keeper.
    #[error("it has no Keeper configured")]
    NoKeeper,
    /// It has lost its session, or can't open one.
    #[error("it has no session: {0}")]
    SessionLost(String),
    /// The user lacks a right.
    #[error("have an administrator run: {grant}")]
    NotAllowed {
        /// The statement that grants the right.
        grant: String,
    },
    /// It could not be queried.
    #[error("{0}")]
    Unreachable(String),
}

#[cfg(test)]
mod tests;
