//! What can be chosen for a signal's tables: attributes, engine, retention, storage, layout. Values
//! are checked when made; what only fails together is [`TableOptions::check`]'s.

use millrace_schema::{Attributes, Layout, LayoutError, Presence, TableKind};

use crate::names::{KeeperPath, ReplicaName, StorageName};
use crate::ttl::Ttl;

/// Options of one signal's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// How attributes are stored.
    pub attributes: Attributes,
    /// Table engine.
    pub engine: Engine,
    /// How long rows are kept after their own timestamp; `None`: for ever.
    pub ttl: Option<Ttl>,
    /// Disks.
    pub storage: Storage,
    /// Partitions, order, compression, indexes, own columns.
    pub layout: Layout,
    /// How many inserts are remembered, to drop one that is sent again under its token.
    pub window: Window,
}

/// How many inserts a table remembers, and a replicated one for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The last so many.
    pub inserts: u64,
    /// In seconds; only replicated tables go by time too.
    pub seconds: u64,
}

impl Window {
    /// Inserts a second of one gateway into one table: it cuts a batch of each of its partitions
    /// once a second, and has four or five of a signal's.
    const INSERTS_PER_GATEWAY: u64 = 5;
    /// How long after an insert it may be sent again, in seconds, by a third more than the 225 of
    /// default settings: a session's time-out (45), a drain (60), an insert's time-out (60) and the
    /// longest wait between two tries (60).
    const REPLAY_SECONDS: u64 = 300;
    /// The most that is set by itself, for 66 gateways. An entry is some 100 bytes on disk and in
    /// memory, and of a replicated table a node in Keeper.
    const INSERTS_MAX: u64 = 100_000;

    /// What so many gateways need.
    #[must_use]
    pub fn for_gateways(gateways: u32) -> Self {
        let least = Self::default();
        let needed = u64::from(gateways) * Self::INSERTS_PER_GATEWAY * Self::REPLAY_SECONDS;
        Self { inserts: needed.clamp(least.inserts, Self::INSERTS_MAX), ..least }
    }
}

impl Default for Window {
    /// Enough for six gateways; a week, so that the number decides.
    fn default() -> Self {
        Self { inserts: 10_000, seconds: 7 * 24 * 3600 }
    }
}

/// Where parts lie.
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

/// The signals a set of tables serves.
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
    /// The same, kept equal on several servers through Keeper.
    ReplicatedMergeTree(Replication),
    /// Keeps one of several rows with the same key, when parts are merged: for spans that clients
    /// send twice. Spans only, whose trace and span id join the key; logs and metrics have no
    /// identity, and rows that merely look alike would be lost.
    ReplacingMergeTree,
    /// The same, kept equal on several servers.
    ReplicatedReplacingMergeTree(Replication),
    /// Takes rows and keeps none; for measuring the way there.
    Null,
}

impl Engine {
    /// The engine's name as ClickHouse spells it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::MergeTree => "MergeTree",
            Self::ReplicatedMergeTree(_) => "ReplicatedMergeTree",
            Self::ReplacingMergeTree => "ReplacingMergeTree",
            Self::ReplicatedReplacingMergeTree(_) => "ReplicatedReplacingMergeTree",
            Self::Null => "Null",
        }
    }

    /// Where replicas meet, for the engines that have any.
    #[must_use]
    pub const fn replication(&self) -> Option<&Replication> {
        match self {
            Self::ReplicatedMergeTree(replication)
            | Self::ReplicatedReplacingMergeTree(replication) => Some(replication),
            Self::MergeTree | Self::ReplacingMergeTree | Self::Null => None,
        }
    }

    /// Whether rows of equal key are merged into one.
    #[must_use]
    pub const fn is_replacing(&self) -> bool {
        matches!(self, Self::ReplacingMergeTree | Self::ReplicatedReplacingMergeTree(_))
    }

    /// Whether rows are kept at all.
    #[must_use]
    pub const fn keeps_rows(&self) -> bool {
        !matches!(self, Self::Null)
    }
}

/// Where replicas of a table find each other in Keeper.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replication {
    /// Keeper path **above** the table: the database's and the table's name are added below it.
    pub path: KeeperPath,
    /// Name of a replica, different on each; normally the macro `{replica}`.
    pub replica: ReplicaName,
}

impl Default for Replication {
    /// `/clickhouse/tables/{shard}` and `{replica}`: the macros every replicated installation sets.
    /// The server's own default path holds the table's UUID, which differs between servers unless
    /// one `ON CLUSTER` statement made them all; ours works either way.
    fn default() -> Self {
        Self {
            path: KeeperPath::of("/clickhouse/tables/{shard}"),
            replica: ReplicaName::of("{replica}"),
        }
    }
}

/// Options that do not fit together, by the field to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A replacing engine for rows without identity.
    #[error(
        "engine: {engine} would lose rows of {kind} that merely look alike; use it for traces only"
    )]
    RowsWithoutIdentity {
        /// The engine.
        engine: &'static str,
        /// The first such table.
        kind: TableKind,
    },
    /// Rows would move after they are gone.
    #[error("storage.moveAfter: rows move after {age} but are deleted after {ttl}; write less")]
    MoveAfterDelete {
        /// Age at which they move.
        age: Ttl,
        /// Age at which they go.
        ttl: Ttl,
    },
    /// A Null table keeps nothing to move, sum up or look up.
    #[error("{field}: a Null table keeps no rows; leave it out, or choose another engine")]
    NothingKept {
        /// Which field.
        field: &'static str,
    },
    /// The layout does not fit.
    #[error("layout.{0}")]
    Layout(#[from] LayoutError),
}

impl TableOptions {
    /// Checks the options against one of the tables they are for.
    ///
    /// # Errors
    /// What does not fit together.
    pub fn check(&self, kind: TableKind) -> Result<(), OptionsError> {
        let Self { attributes, engine, ttl, storage, layout, window: _ } = self;
        let has_identity = matches!(kind, TableKind::Traces | TableKind::TraceIdTs);
        if engine.is_replacing() && !has_identity {
            return Err(OptionsError::RowsWithoutIdentity { engine: engine.name(), kind });
        }
        if let (Some(Move { age, volume: _ }), Some(ttl)) = (&storage.move_after, ttl)
            && age >= ttl
        {
            return Err(OptionsError::MoveAfterDelete { age: *age, ttl: *ttl });
        }
        if !engine.keeps_rows() {
            let given = [
                ("storage.policy", storage.policy.is_some()),
                ("storage.moveAfter", storage.move_after.is_some()),
                ("layout.rollup", layout.rollup == Presence::Kept),
            ];
            if let Some((field, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
                return Err(OptionsError::NothingKept { field });
            }
        }
        Ok(layout.check(kind, *attributes)?)
    }
}

#[cfg(test)]
#[path = "../tests/unit/options.rs"]
mod tests;
