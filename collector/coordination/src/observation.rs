//! What was seen of coordination at one look: by its own servers, and by ClickHouse's.

use std::collections::BTreeMap;

/// One look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Keeper or ZooKeeper servers that were asked; none if no address is known.
    pub servers: Vec<Server>,
    /// ClickHouse servers, shard by shard.
    pub engines: Vec<Engine>,
    /// Shards that they belong to, as many of them to each. 0 counts as 1.
    pub shards: usize,
}

impl Observation {
    /// The ClickHouse servers of each shard.
    pub fn by_shard(&self) -> impl Iterator<Item = &[Engine]> {
        let each = self.engines.len().div_ceil(self.shards.max(1)).max(1);
        self.engines.chunks(each)
    }
}

/// One Keeper or ZooKeeper server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Its address, as it was given.
    pub address: String,
    /// What it said.
    pub said: Result<Report, Silence>,
}

/// What a server says of itself. What it leaves out is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Its part in the ensemble.
    pub role: Role,
    /// Followers that the leader has; only a leader says it.
    pub followers: Option<u64>,
    /// Those of them that are synced.
    pub synced_followers: Option<u64>,
    /// Servers that vote, the leader included; ZooKeeper says it from 3.6 on.
    pub voters: Option<u64>,
    /// Requests that wait.
    pub outstanding_requests: Option<u64>,
    /// Mean latency since it started or its counters were reset, in milliseconds.
    pub latency_milliseconds: Option<f64>,
    /// Nodes in its tree.
    pub znodes: Option<u64>,
    /// Bytes of these nodes, as it estimates them.
    pub data_bytes: Option<u64>,
    /// Watches.
    pub watches: Option<u64>,
    /// Bytes of snapshots and logs on its disk, if it was asked.
    pub disk_bytes: Option<u64>,
}

/// A server's part in its ensemble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It follows a leader.
    #[default]
    Follower,
    /// It follows, and has no vote.
    Observer,
    /// It is alone.
    Standalone,
    /// It has no leader, and answers reads alone.
    ReadOnly,
}

impl Role {
    /// Whether it answers writes, by itself or through a leader.
    #[must_use]
    pub const fn serves(self) -> bool {
        !matches!(self, Self::ReadOnly)
    }

    /// Whether it is the one that orders writes.
    #[must_use]
    pub const fn leads(self) -> bool {
        matches!(self, Self::Leader | Self::Standalone)
    }
}

/// Why nothing is known of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// It runs, and has no leader.
    #[error("it runs and serves no requests: it has no leader")]
    NotServing,
    /// The command isn't allowed there.
    #[error(
        "it doesn't answer {0}: allow it (4lw.commands.whitelist of ZooKeeper, \
         four_letter_word_allow_list of Keeper)"
    )]
    NotAllowed(&'static str),
    /// What answers there isn't Keeper or ZooKeeper.
    #[error("what it says is neither Keeper's nor ZooKeeper's")]
    Foreign,
    /// Nothing answered.
    #[error("{0}")]
    Unreachable(String),
}

impl Silence {
    /// Whether it shows that the server doesn't serve; the others only say that it can't be asked.
    #[must_use]
    pub const fn is_down(&self) -> bool {
        matches!(self, Self::NotServing | Self::Unreachable(_))
    }
}

/// One ClickHouse server.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// Its endpoint.
    pub endpoint: String,
    /// What it said.
    pub said: Result<Sight, Blindness>,
}

/// Coordination as a ClickHouse server sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sight {
    /// Its sessions.
    pub sessions: Vec<Session>,
    /// Its replicas of our tables that exist.
    pub replicas: Vec<Replica>,
    /// Its counters; `None` if they could not be read.
    pub counters: Option<Counters>,
    /// What parts of our tables asked lately; empty if it keeps no record of parts.
    pub tables: Vec<TableLoad>,
    /// What an administrator must run so that all of this can be read.
    pub grant: Option<String>,
}

/// A ClickHouse server's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The ensemble's name in ClickHouse's configuration; `default` is that of replicated tables.
    pub name: String,
    /// The server that it is connected to, `host:port`.
    pub server: String,
    /// Whether it has expired.
    pub is_expired: bool,
    /// For how long it has been connected, in seconds.
    pub age_seconds: u64,
}

/// A ClickHouse server's replica of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// The table.
    pub table: String,
    /// Whether it takes no inserts.
    pub is_readonly: bool,
    /// Whether its session has expired.
    pub is_session_expired: bool,
    /// What its last question to Keeper failed with; empty if it didn't.
    pub exception: String,
    /// Entries that it has still to do.
    pub queue_entries: u64,
    /// How far it is behind, in seconds.
    pub delay_seconds: u64,
    /// Replicas of the table.
    pub total: u64,
    /// Those with a session.
    pub active: u64,
}

/// What the parts of one table asked of coordination lately, at one ClickHouse server or at
/// several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableLoad {
    /// The table.
    pub table: String,
    /// Parts that were inserted.
    pub parts: u64,
    /// Their rows.
    pub rows: u64,
    /// Requests of its inserts (repeated ones that were dropped among them), fetches and merges.
    pub requests: u64,
}

impl TableLoad {
    /// Each table's loads at all of these servers as one, by the table's name.
    #[must_use]
    pub fn summed<'a>(loads: impl IntoIterator<Item = &'a Self>) -> Vec<Self> {
        let mut by_table = BTreeMap::<&str, Self>::new();
        for load in loads {
            let sum = by_table.entry(&load.table).or_default();
            sum.parts = sum.parts.saturating_add(load.parts);
            sum.rows = sum.rows.saturating_add(load.rows);
            sum.requests = sum.requests.saturating_add(load.requests);
        }
        by_table.into_iter().map(|(table, sum)| Self { table: table.to_owned(), ..sum }).collect()
    }

    /// Requests for a million inserted rows; `None` without rows.
    #[must_use]
    pub fn requests_per_million_rows(&self) -> Option<u64> {
        self.requests.saturating_mul(1_000_000).checked_div(self.rows)
    }

    /// Rows of an inserted part in the mean; `None` without parts.
    #[must_use]
    pub fn rows_per_part(&self) -> Option<u64> {
        self.rows.checked_div(self.parts)
    }

    /// Requests for an inserted part, rounded; `None` without parts.
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
    /// Those that hold several operations (`ZooKeeperMulti`).
    pub multi_requests: u64,
    /// Time that they took, in microseconds (`ZooKeeperWaitMicroseconds`).
    pub wait_microseconds: u64,
    /// Sessions and connections that broke (`ZooKeeperHardwareExceptions`).
    pub broken: u64,
    /// Rows inserted, into any table (`InsertedRows`).
    pub rows: u64,
}

impl Counters {
    /// What came since an earlier look; all of it, if the server has started again.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
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

    /// Both servers' together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            multi_requests: self.multi_requests.saturating_add(other.multi_requests),
            wait_microseconds: self.wait_microseconds.saturating_add(other.wait_microseconds),
            broken: self.broken.saturating_add(other.broken),
            rows: self.rows.saturating_add(other.rows),
        }
    }

    /// Requests for a million rows; `None` without rows.
    #[must_use]
    pub fn requests_per_million_rows(self) -> Option<u64> {
        self.requests.saturating_mul(1_000_000).checked_div(self.rows)
    }

    /// The mean time of a request, in microseconds; `None` without requests.
    #[must_use]
    pub fn mean_wait_microseconds(self) -> Option<u64> {
        self.wait_microseconds.checked_div(self.requests)
    }
}

/// Why a ClickHouse server doesn't say how coordination is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blindness {
    /// It has none in its configuration.
    #[error("it has no Keeper configured")]
    NoKeeper,
    /// It has lost its session, or can't open one.
    #[error("it has no session: {0}")]
    SessionLost(String),
    /// The user lacks a right.
    #[error("have an administrator run: {grant}")]
    NotAllowed {
        /// What gives it.
        grant: String,
    },
    /// It could not be asked.
    #[error("{0}")]
    Unreachable(String),
}

#[cfg(test)]
#[path = "../tests/unit/observation.rs"]
mod tests;
