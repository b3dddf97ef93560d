//! Conditions: what a status says, in one list of types and one list of reasons.
//!
//! Reasons are an interface: alerts, scripts and docs name them, so one is never renamed. Must not
//! decide anything; controllers do. Must not read a clock: the time of a change is handed in.
//!
//! Limits: messages are cut to 1,024 bytes (the API convention allows 32,768; a status that is
//! watched by many stays small).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// Longest message of a condition, in bytes.
const MESSAGE_BYTES: usize = 1_024;

/// One fact about an object, observed at one generation of its spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The fact: one of the types listed in the reference, for example Ready.
    #[serde(rename = "type")]
    #[schemars(length(max = 63))]
    pub type_: String,
    /// True, False, or Unknown while it has not been observed.
    pub status: ConditionStatus,
    /// Why, as one stable word: scripts and alerts may rely on it.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// What was seen and what to do about it, for people.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// When the status last changed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Time,
    /// The generation of the spec this was observed for; older than metadata.generation means
    /// out of date.
    pub observed_generation: i64,
}

impl Condition {
    /// A condition as observed at `generation`; `now` counts only if the status changed.
    pub fn new(
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
        generation: i64,
        now: Time,
    ) -> Self {
        let mut message = message.into();
        cut(&mut message, MESSAGE_BYTES);
        Self {
            type_: type_.as_str().to_owned(),
            status,
            reason: reason.as_str().to_owned(),
            message,
            last_transition_time: now,
            observed_generation: generation,
        }
    }

    /// Whether the fact holds for this very generation of the spec.
    pub fn holds_for(&self, generation: i64) -> bool {
        self.status == ConditionStatus::True && self.observed_generation == generation
    }
}

/// Cuts a text to so many bytes at most, at a character boundary.
pub fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
}

/// Whether a fact holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It has not been observed, or the observation is too old.
    Unknown,
}

/// Puts a condition in its place in the list: the time of the last transition is kept while the
/// status stays the same. Returns whether anything but the time differs from before.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
    match conditions.iter_mut().find(|old| old.type_ == new.type_) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            let changed = *old != new;
            *old = new;
            changed
        }
        None => {
            conditions.push(new);
            true
        }
    }
}

/// The condition of this type, if it was ever set.
pub fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

/// Whether a condition is true for this very generation.
pub fn is_true(conditions: &[Condition], type_: ConditionType, generation: i64) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.holds_for(generation))
}

words!(
    /// The facts a status states. `Stalled`, `Drifted`, `Blocked`, `DataLost`, `LogsLost`,
    /// `ScrapeCapReached`, `DeadLettersKept`, `DeduplicationAtRisk`, `PasswordExposed` and
    /// `RowsSpread` are bad when true; all others are good when true, `Progressing` is neither.
    ConditionType {
        /// Everything declared at this generation exists and works.
        Ready,
        /// A change is in progress; it ends in Ready or Stalled.
        Progressing,
        /// The operator can't continue without a change by a person.
        Stalled,
        /// The topic exists with at least the declared partitions, and the declared settings.
        TopicReady,
        /// All topics of a pipeline are ready.
        TopicsReady,
        /// The tables have the declared revision, without drift.
        SchemaReady,
        /// The statements that lead to the declared tables are known; the status has them.
        Planned,
        /// No statement is left to run.
        Applied,
        /// Live tables differ from the declared ones in a way that matters.
        Drifted,
        /// A difference that no statement removes without loss; the message says what a person can
        /// do.
        Blocked,
        /// All edge pods run the declared configuration and image, and are available.
        EdgeReady,
        /// All gateway pods run the declared configuration and image, and are available.
        GatewayReady,
        /// A pool's own pods are updated and available.
        PodsReady,
        /// The gateway's lag is inside its bound.
        LagWithinBound,
        /// Kafka deleted messages before a gateway read them, and nobody has acknowledged it. Ready
        /// does not wait for it.
        DataLost,
        /// Within the last hour, log files of nodes were deleted or truncated, or records of their
        /// kernels' logs overwritten, before a pod read them. Absent where no node's logs are read.
        /// Ready does not wait for it.
        LogsLost,
        /// The API server lets pods watch what they ask for: pods for their labels, namespaces for
        /// `namespaceSelector`. Absent where nothing is asked. Ready does not wait for it.
        WatchesAllowed,
        /// Each scrape target was given to a pod, or is being handed over. Absent where none are
        /// scraped. Ready does not wait for it.
        TargetsShared,
        /// The samples of scrape targets need more pods than there are, by the cap of the spec.
        /// Absent without a cap. Ready does not wait for it.
        ScrapeCapReached,
        /// Records were kept as dead letters, and nobody has acknowledged it. Ready does not wait
        /// for it.
        DeadLettersKept,
        /// A table forgets inserts so early that a repeated one may be stored twice. Ready does not
        /// wait for it.
        DeduplicationAtRisk,
        /// Every Secret that the spec names exists and has its keys.
        SecretsFound,
        /// A password or token is sent over an unencrypted connection. Absent while none is. Ready
        /// does not wait for it.
        PasswordExposed,
        /// Rows of a table that isn't replicated may go to any of several servers: each has a part
        /// of them, and some may be stored twice. Absent otherwise. Ready does not wait for it.
        RowsSpread,
        /// The Keeper or ZooKeeper of replicated tables works, with a margin. Absent where no table
        /// needs one. Ready does not wait for it; rollouts and statements wait while inserts stop.
        CoordinationHealthy,
        /// Reconciling is paused by annotation; the status is still updated.
        Paused,
    }
);

words!(
    /// Why a condition is as it is. Stable: alerts and scripts may rely on them.
    Reason {
        /// Everything is as declared.
        AsAsked,
        /// All children are ready at this generation.
        AllReady,
        /// Not observed yet.
        NotObserved,
        /// A change is being made.
        Applying,
        /// Waiting for something that must come first; the message names it.
        Waiting,
        /// No change is in progress.
        Settled,
        /// Paused by the annotation millrace.dev/paused.
        PausedByAnnotation,
        /// The spec contradicts itself in a way that the API server can't detect.
        SpecInvalid,
        /// A Secret that the spec names does not exist.
        SecretMissing,
        /// A Secret that the spec names lacks a key.
        SecretKeyMissing,
        /// No Kafka broker answered in time.
        KafkaUnreachable,
        /// No bootstrap server's name resolves.
        KafkaHostUnknown,
        /// Kafka refused user name and password, or the certificate.
        KafkaAuthenticationFailed,
        /// Kafka's user lacks a right; the message names the operation.
        KafkaNotAuthorized,
        /// The TLS handshake with Kafka failed.
        KafkaTlsFailed,
        /// Kafka refused a request for another cause; the message has its error.
        KafkaRefused,
        /// The topic does not exist.
        TopicMissing,
        /// The topic has fewer partitions than declared.
        TopicTooFewPartitions,
        /// The topic has more partitions than declared; Kafka can't remove any.
        TopicMorePartitions,
        /// Kafka has fewer brokers than the replication factor needs.
        ReplicationImpossible,
        /// The topic's replication factor differs from the declared one; it is not changed.
        ReplicationDiffers,
        /// Kafka refused a topic setting.
        TopicSettingRefused,
        /// No ClickHouse endpoint answered in time.
        ClickHouseUnreachable,
        /// No ClickHouse endpoint's name resolves.
        ClickHouseHostUnknown,
        /// ClickHouse refused user name and password.
        ClickHouseAuthenticationFailed,
        /// ClickHouse's user lacks a right; the message has the missing grant.
        ClickHouseNotAuthorized,
        /// The TLS handshake with ClickHouse failed.
        ClickHouseTlsFailed,
        /// ClickHouse refused a statement for another cause; the message has its error.
        ClickHouseRefused,
        /// ClickHouse is read-only at the moment.
        ClickHouseReadOnly,
        /// A table is missing.
        TableMissing,
        /// A table lacks a column.
        TableColumnMissing,
        /// A table differs from its declaration; the message names the difference.
        TableDrifted,
        /// Only a statement that destroys or rewrites data would help; it needs consent.
        ConsentNeeded,
        /// A plan waits for the annotation millrace.dev/approve-plan to name it.
        ApprovalNeeded,
        /// A consented drop waits until every gateway pool runs this release or newer.
        CollectorsOutdated,
        /// Another table, view or column type blocks the change.
        TableBlocked,
        /// ClickHouse is older than the tables need, or reports an unknown version.
        ClickHouseVersionUnsupported,
        /// Replicated tables are declared, and ClickHouse has no Keeper configured.
        ClickHouseKeeperMissing,
        /// ClickHouse has no live session with its Keeper, or Keeper has lost its quorum.
        ClickHouseKeeperLost,
        /// A replicated table accepts no writes.
        ReplicaReadOnly,
        /// ClickHouse's disk is full.
        ClickHouseDiskFull,
        /// ClickHouse's user has used up a quota.
        ClickHouseQuotaExceeded,
        /// The journal of migrations was changed, or lacks an entry; nothing is run.
        MigrationJournalBroken,
        /// Another run works on the same tables.
        MigrationBusy,
        /// Pods are not all updated and available yet.
        PodsNotReady,
        /// An image can't be pulled.
        ImagePullFailed,
        /// A pod keeps crashing.
        PodCrashing,
        /// A pod was killed for using more memory than its limit.
        PodOutOfMemory,
        /// A pod fits on no node.
        PodUnschedulable,
        /// Pods can't be made; the message has the API server's cause.
        PodsRefused,
        /// The rollout passed its deadline.
        RolloutDeadlineExceeded,
        /// A change was rolled back: pods run the earlier unit. It is retried when the spec
        /// changes.
        RolledBack,
        /// A rollout is paused by the annotation millrace.dev/rollout.
        RolloutPaused,
        /// A rollout was rolled back by the annotation millrace.dev/rollout.
        RolloutAborted,
        /// Event: a rollout began; status.rollout has the units before and after.
        RolloutStarted,
        /// Event: a paused rollout continues.
        RolloutResumed,
        /// Event: new pods are compared with the others.
        RolloutJudging,
        /// Event: more pods get the change.
        RolloutPromoting,
        /// Event: all pods run the change; status.rollout.report has the figures.
        RolloutCompleted,
        /// Event: new pods had too few records for a comparison; the change continues.
        RolloutTooFewRecords,
        /// The collector refuses its configuration; the message has the field.
        SettingsRefused,
        /// Records of new pods are neither stored, nor dead letters, nor held.
        CanaryUnaccounted,
        /// New pods process fewer records per CPU-second.
        CanarySlower,
        /// New pods use more memory.
        CanaryMemory,
        /// Inserts of new pods fail.
        CanaryInsertsFail,
        /// Lag of the new pods' partitions grows.
        CanaryLagGrows,
        /// New pods fall behind with the logs of their nodes.
        CanaryFallsBehind,
        /// Logs of the new pods' nodes went before they were read.
        CanaryLosesLogs,
        /// Nothing was read on the new pods' nodes, and much on others.
        CanaryReadsNothing,
        /// Lag is inside its bound.
        LagInBound,
        /// Lag is above its bound.
        LagAboveBound,
        /// Lag could not be observed; it does not count as zero.
        LagUnknown,
        /// No gateway has reported a message that was deleted before it was read.
        NothingLost,
        /// Kafka's retention deleted messages before they were read; the message has their number.
        MessagesLostToRetention,
        /// All messages lost so far are acknowledged by millrace.dev/acknowledge-data-lost.
        LossAcknowledged,
        /// No pod that answers has reported within the last hour that it lost logs of its node.
        NoLogsLost,
        /// Logs of nodes were lost before they were read; the message has node, amount and time.
        LogsGoneUnread,
        /// No pod has answered the operator on its admin port for ten minutes.
        PodsSilent,
        /// The API server refuses what pods ask, for want of a right; the message names it, and
        /// what is missing without it.
        WatchesRefused,
        /// A target or job can't be shared out; the message names it.
        TargetsRefused,
        /// The load is below the cap of the pods that there are.
        BelowCap,
        /// Pods are at their cap; the message says how many the load needs.
        CapReached,
        /// No gateway has reported a dead letter.
        NoDeadLetters,
        /// Records could not be stored and are kept as dead letters; the message has their number.
        RecordsDeadLettered,
        /// All dead letters so far are acknowledged by millrace.dev/acknowledge-dead-letters.
        DeadLettersAcknowledged,
        /// As far as is known, tables remember inserts for as long as one may be repeated.
        DeduplicationCovered,
        /// More inserts come before a repetition than a table remembers; the message says what to
        /// set.
        DeduplicationWindowShort,
        /// Delivery is AtLeastOnce: records may be stored twice.
        CopiesAllowed,
        /// A child is not ready; the message names it.
        ChildNotReady,
        /// A child's status is of an older generation.
        ChildOutOfDate,
        /// Another object, perhaps of another cluster, holds the same topic, consumer group or
        /// tables; the message names it.
        HeldByAnother,
        /// A child or owned object belongs to another owner.
        NotOurs,
        /// Another writer manages a field that the operator needs.
        FieldConflict,
        /// The pool can't be larger: the topic has no more partitions.
        AtPartitionCeiling,
        /// Deletion of something outside Kubernetes was given up; the message says what remains.
        DeletionGivenUp,
        /// The connection is not encrypted; the message says which, and what to set.
        ConnectionUnencrypted,
        /// The servers of a shard are not replicas of each other; the message says what to write.
        ServersNotReplicas,
        /// The API server refused or failed a request.
        ApiServerFailed,
        /// A reconcile took too long and was cut off: the state is unknown.
        ReconcileTimedOut,
        /// The operator may not connect to this host: it is link-local, or not in allowedHosts.
        HostNotAllowed,
        /// ClickHouse has sessions with its Keeper, and the servers that were asked serve.
        CoordinationWorks,
        /// No Keeper or ZooKeeper server leads, or too few follow: inserts stop.
        CoordinationQuorumLost,
        /// Some of a shard's ClickHouse servers have lost their Keeper, or have read-only replicas;
        /// others of it take inserts.
        CoordinationPartlyLost,
        /// A Keeper or ZooKeeper server doesn't serve, or isn't synced; the message names it.
        CoordinationServerDown,
        /// ClickHouse's sessions with its Keeper break again and again.
        CoordinationUnsteady,
        /// A figure of a Keeper or ZooKeeper server is above its limit.
        CoordinationOverLimit,
        /// None of the Keeper or ZooKeeper servers in the spec can be asked.
        CoordinationUnreachable,
    }
);

impl ConditionType {
    /// Whether the fact is bad news when it holds.
    pub const fn is_bad_when_true(self) -> bool {
        matches!(
            self,
            Self::Stalled
                | Self::Drifted
                | Self::Blocked
                | Self::DataLost
                | Self::LogsLost
                | Self::ScrapeCapReached
                | Self::DeadLettersKept
                | Self::PasswordExposed
                | Self::RowsSpread
                | Self::DeduplicationAtRisk
        )
    }
}

#[cfg(test)]
#[path = "../tests/unit/conditions.rs"]
mod tests;
