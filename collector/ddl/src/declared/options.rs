//! The options of a signal's tables: attributes, engine, retention, storage, layout. Values are
//! checked on construction; [`TableOptions::check_table`] checks their combination.

use millrace_schema::{AttributeStorage, Layout, LayoutError, Presence, TableKind};

use crate::declared::deduplication_window::DeduplicationWindow;
use crate::declared::names::{KeeperPath, ReplicaName, StorageName};
use crate::declared::ttl::Ttl;

/// Options of one signal's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// How attributes are stored.
    pub attributes: AttributeStorage,
    /// Table engine.
    pub engine: Engine,
    /// How long the table retains rows after their own timestamp; `None`: for ever.
    pub ttl: Option<Ttl>,
    /// The disks.
    pub storage: Storage,
    /// Partitions, order, compression, indexes, the user's columns.
    pub layout: Layout,
    /// How many inserts the table remembers, to drop a repeated token.
    pub window: DeduplicationWindow,
}

/// Where the server stores parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Storage {
    /// A storage policy of the server's configuration; `None`: the server's default.
    pub policy: Option<StorageName>,
    /// When rows move to another volume of the policy, before they expire.
    pub move_after: Option<Move>,
}

/// A move to another volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// Age of a row by its own timestamp.
    pub age: Ttl,
    /// The volume it moves to, such as `cold`.
    pub volume: StorageName,
}

/// The signals of a set of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Spans.
    pub traces: bool,
    /// Log records.
    pub logs: bool,
    /// Metric points.
    pub metrics: bool,
}

impl Signals {
    /// All three.
    pub const ALL: Self = Self { traces: true, logs: true, metrics: true };
}

/// A table engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Sorted parts on one server's disk.
    #[default]
    MergeTree,
    /// The same, replicated on several servers through Keeper.
    ReplicatedMergeTree(Replication),
    /// Retains one of several rows with the same key when parts are merged, for spans that clients
    /// send twice. Only spans may use it: their trace and span id join the key. Logs and metrics
    /// have no identity, so distinct rows with equal values would be lost.
    ReplacingMergeTree,
    /// The same, replicated on several servers.
    ReplicatedReplacingMergeTree(Replication),
    /// Accepts rows and stores none, to measure the path up to the table.
    Null,
}

impl Engine {
    /// Returns the engine's name in ClickHouse's spelling.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::MergeTree => "MergeTree",
            Self::ReplicatedMergeTree(_) => "ReplicatedMergeTree",
            Self::ReplacingMergeTree => "ReplacingMergeTree",
            Self::ReplicatedReplacingMergeTree(_) => "ReplicatedReplacingMergeTree",
            Self::Null => "Null",
        }
    }

    /// Returns where replicas find each other, for replicated engines.
    #[must_use]
    pub const fn replication(&self) -> Option<&Replication> {
        match self {
            Self::ReplicatedMergeTree(replication)
            | Self::ReplicatedReplacingMergeTree(replication) => Some(replication),
            Self::MergeTree | Self::ReplacingMergeTree | Self::Null => None,
        }
    }

    /// Returns the same to be changed.
    pub(crate) const fn replication_mut(&mut self) -> Option<&mut Replication> {
        match self {
            Self::ReplicatedMergeTree(replication)
            | Self::ReplicatedReplacingMergeTree(replication) => Some(replication),
            Self::MergeTree | Self::ReplacingMergeTree | Self::Null => None,
        }
    }

    /// Returns whether the engine merges rows of equal key into one.
    #[must_use]
    pub const fn is_replacing(&self) -> bool {
        matches!(self, Self::ReplacingMergeTree | Self::ReplicatedReplacingMergeTree(_))
    }

    /// Returns whether the engine stores rows.
    #[must_use]
    pub const fn stores_rows(&self) -> bool {
        !matches!(self, Self::Null)
    }
}

/// Where replicas of a table find each other in Keeper.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Replication {
    /// Where the declaration names.
    Explicit {
        /// Keeper path **above** the table: the names of the database and the table are appended
        /// to it.
        path: KeeperPath,
        /// The replica's name, different on each server; normally the macro `{replica}`.
        replica: ReplicaName,
    },
    /// Where the server's settings `default_replica_path` and `default_replica_name` name. The
    /// usual path holds the table's UUID, which is the same on all servers only in a database that
    /// replicates itself, or if one `ON CLUSTER` statement created the tables.
    ServerDefault,
}

impl Default for Replication {
    /// `/clickhouse/tables/{shard}` and `{replica}`, macros that every replicated installation
    /// sets: this path works whoever creates the tables. In a database that replicates itself the
    /// server's default is used instead.
    fn default() -> Self {
        Self::Explicit {
            path: KeeperPath::from_static("/clickhouse/tables/{shard}"),
            replica: ReplicaName::from_static("{replica}"),
        }
    }
}

/// Options that do not fit together, by the field to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A replacing engine for rows without an identity.
    #[error(
        "engine: {engine} would lose rows of {kind} that merely have equal values; use it for traces only"
    )]
    RowsWithoutIdentity {
        /// The engine.
        engine: &'static str,
        /// The first such table.
        kind: TableKind,
    },
    /// Rows would move after they are deleted.
    #[error(
        "storage.moveAfter: rows move after {age} but are deleted after {ttl}; write less, or a longer ttl"
    )]
    MoveAfterDelete {
        /// The age at which they move.
        age: Ttl,
        /// The age at which they are deleted.
        ttl: Ttl,
    },
    /// A Null table stores no rows to move, sum up or look up.
    #[error("{field}: a Null table stores no rows; omit it, or choose another engine")]
    NullEngine {
        /// The field to change.
        field: &'static str,
    },
    /// The layout does not fit.
    #[error("layout.{0}")]
    Layout(#[from] LayoutError),
}

impl TableOptions {
    /// Checks the options against one of their tables.
    ///
    /// # Errors
    /// The options that do not fit together.
    pub fn check_table(&self, kind: TableKind) -> Result<(), OptionsError> {
        let Self { attributes, engine, ttl, storage, layout, window: _ } = self;
        let has_identity = matches!(kind, TableKind::Traces | TableKind::TraceIdTs);
        if engine.is_replacing() && !has_identity {
            return Err(OptionsError::RowsWithoutIdentity { engine: engine.as_str(), kind });
        }
        if let (Some(Move { age, volume: _ }), Some(ttl)) = (&storage.move_after, ttl)
            && age >= ttl
        {
            return Err(OptionsError::MoveAfterDelete { age: *age, ttl: *ttl });
        }
        if !engine.stores_rows() {
            let row_options = [
                ("storage.policy", storage.policy.is_some()),
                ("storage.moveAfter", storage.move_after.is_some()),
                ("layout.rollup", layout.rollup == Presence::Included),
            ];
            if let Some((field, _)) = row_options.into_iter().find(|(_, is_set)| *is_set) {
                return Err(OptionsError::NullEngine { field });
            }
        }
        Ok(layout.check_table(kind, *attributes)?)
    }
}

#[cfg(test)]
mod tests;
