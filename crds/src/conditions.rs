//! Conditions of a status: one list of types and one list of reasons.
//!
//! Reasons are an interface: alerts, scripts and docs name them, so one is never renamed. Must not
//! decide anything; controllers do. Must not read a clock: callers pass the time of a change.
//!
//! Limits: messages are cut to 1,024 bytes (the API convention allows 32,768; a status that is
//! watched by many stays small).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::word_list::words;

/// Longest message of a condition, in bytes.
const MESSAGE_BYTES: usize = 1_024;

/// One condition of an object, observed at one generation of its spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition, for example Ready; the reference lists all types.
    #[serde(rename = "type")]
    #[schemars(length(max = 63))]
    pub type_: String,
    /// True, False, or Unknown (not observed yet).
    pub status: ConditionStatus,
    /// Reason in CamelCase; stable, for scripts and alerts.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// What was observed and what to do, for people.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Time at which status last changed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Time,
    /// metadata.generation that was observed; if it is older than the current one, the condition is
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
        truncate_text(&mut message, MESSAGE_BYTES);
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
pub fn truncate_text(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
}

/// Whether a fact holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// Not observed, or the observation is too old.
    Unknown,
}

/// Adds or replaces a condition in the list; the time of the last transition is unchanged while the
/// status is the same. Returns whether anything but the time differs from before.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
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
pub fn find_condition(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

/// Whether a condition is true for this very generation.
pub fn is_true(conditions: &[Condition], type_: ConditionType, generation: i64) -> bool {
    find_condition(conditions, type_).is_some_and(|condition| condition.holds_for(generation))
}

words!(
    /// The types of conditions. `Stalled`, `Drifted`, `Blocked`, `DataLost`, `LogsLost`,
    /// `ScrapeCapacityReached`, `DeadLettersPresent`, `DeduplicationAtRisk`, `CredentialsExposed`
    /// and `TablesNotReplicated` are bad when true; all others are good when true, `Progressing` is
    /// neither.
    ConditionType {
        /// All resources of this generation exist and work.
        Ready,
        /// A change is in progress; it ends in Ready or Stalled.
        Progressing,
        /// The operator can't continue until a user changes something; the message says what.
        Stalled,
        /// The topic exists with at least the declared partitions, and the declared settings.
        TopicReady,
        /// All topics of a pipeline are ready.
        TopicsReady,
        /// The tables have the declared revision, without drift.
        SchemaReady,
        /// The statements that change the tables to the declared ones are known; the status lists
        /// them.
        Planned,
        /// No statement is pending.
        Applied,
        /// Live tables differ from the declared ones; harmless differences don't count.
        Drifted,
        /// No statement can remove a difference from the declared tables without data loss; the
        /// message says what a user can do.
        Blocked,
        /// All edge pods run the declared configuration and image, and are available.
        EdgeReady,
        /// All gateway pods run the declared configuration and image, and are available.
        GatewayReady,
        /// All pods of the pool are updated and available.
        PodsReady,
        /// The nodes have applied the memory and CPU that sizing decided to all running gateway
        /// pods. Absent if neither may change. Does not affect Ready.
        PodsResized,
        /// The gateway pool's lag is within its bound.
        LagWithinBound,
        /// Kafka deleted messages before a gateway read them, and nobody has acknowledged the loss.
        /// Does not affect Ready.
        DataLost,
        /// Within the last hour, log files of nodes were deleted or truncated, or kernel log
        /// records overwritten, before a pod read them. Absent if the pool reads no node logs. Does
        /// not affect Ready.
        LogsLost,
        /// The API server allows the pool's pods to watch pods (for metadata) and namespaces (for
        /// `namespaceSelector`). Absent if the pool needs neither. While it is false, Ready is
        /// false.
        WatchesAllowed,
        /// Each scrape target is assigned to a pod or is being handed over. Absent if the pool
        /// scrapes nothing. While it is false, Ready is false.
        TargetsAssigned,
        /// The samples of the scrape targets need more pods than exist, by the capacity in the
        /// spec. Absent without it. Does not affect Ready.
        ScrapeCapacityReached,
        /// Records became dead letters, and nobody has acknowledged them. Does not affect Ready.
        DeadLettersPresent,
        /// A table's deduplication window is so short that a late retry of an insert may be stored
        /// as a duplicate. Does not affect Ready.
        DeduplicationAtRisk,
        /// Every Secret that the spec names exists and has the required keys.
        SecretsFound,
        /// A password or token is sent over an unencrypted connection. Absent if none is. Does not
        /// affect Ready.
        CredentialsExposed,
        /// Rows of a table that isn't replicated may go to any of several servers: each server
        /// stores a part of them, and some may be duplicates. Absent otherwise. Does not affect
        /// Ready.
        TablesNotReplicated,
        /// The Keeper or ZooKeeper of replicated tables works, with a margin. Absent if no table
        /// needs one. Does not affect Ready; rollouts and statements wait while inserts stop.
        CoordinationHealthy,
        /// spec.paused is true: the operator only updates the status.
        Paused,
    }
);

words!(
    /// The reasons of conditions. Stable: alerts and scripts may rely on them.
    Reason {
        /// All resources match the spec.
        Reconciled,
        /// All child objects are ready at this generation.
        AllReady,
        /// The operator has not observed this generation yet.
        NotObserved,
        /// The operator is applying a change.
        Applying,
        /// Another step must finish first; the message names it.
        Waiting,
        /// No change is in progress.
        UpToDate,
        /// spec.paused is true.
        PausedBySpec,
        /// The spec is invalid in a way that the API server can't detect; the message names the
        /// field.
        SpecInvalid,
        /// A Secret that the spec names does not exist.
        SecretMissing,
        /// A Secret that the spec names lacks a required key.
        SecretKeyMissing,
        /// No Kafka broker answered in time.
        KafkaUnreachable,
        /// No bootstrap server's host name can be resolved.
        KafkaHostUnknown,
        /// Kafka rejected the user name and password, or the client certificate.
        KafkaAuthenticationFailed,
        /// The Kafka user lacks an ACL; the message names the operation.
        KafkaNotAuthorized,
        /// The TLS handshake with Kafka failed.
        KafkaTlsFailed,
        /// Kafka rejected a request for another reason; the message has its error.
        KafkaRequestRejected,
        /// The topic does not exist.
        TopicMissing,
        /// The topic has fewer partitions than declared.
        TopicTooFewPartitions,
        /// The topic has more partitions than declared; Kafka can't remove partitions.
        TopicTooManyPartitions,
        /// Kafka has fewer brokers than the replication factor.
        TooFewBrokers,
        /// The topic's replication factor differs from the declared one; the operator does not
        /// change it.
        ReplicationFactorDiffers,
        /// Kafka rejected a topic setting.
        TopicSettingRejected,
        /// No ClickHouse endpoint answered in time.
        ClickHouseUnreachable,
        /// No ClickHouse endpoint's host name can be resolved.
        ClickHouseHostUnknown,
        /// ClickHouse rejected the user name and password.
        ClickHouseAuthenticationFailed,
        /// The ClickHouse user lacks a privilege; the message has the missing grant.
        ClickHouseNotAuthorized,
        /// The TLS handshake with ClickHouse failed.
        ClickHouseTlsFailed,
        /// ClickHouse rejected a statement for another reason; the message has its error.
        ClickHouseStatementRejected,
        /// ClickHouse is read-only at the moment.
        ClickHouseReadOnly,
        /// A table is missing.
        TableMissing,
        /// A table lacks a column.
        TableColumnMissing,
        /// A table differs from its declaration; the message names the difference.
        TableDrifted,
        /// The change needs a statement that destroys or rewrites data, and nobody has consented to
        /// it.
        ConsentRequired,
        /// A plan waits for approval by its hash in approvedPlan.
        ApprovalRequired,
        /// A consented drop waits until every gateway pool runs this release or newer.
        CollectorsOutdated,
        /// Another table, view or column type blocks the change.
        TableChangeBlocked,
        /// ClickHouse is older than the tables require, or reports an unknown version.
        ClickHouseVersionUnsupported,
        /// The spec declares replicated tables, and ClickHouse has no Keeper configured.
        ClickHouseKeeperMissing,
        /// ClickHouse has no live session with its Keeper, or Keeper has lost its quorum.
        ClickHouseKeeperLost,
        /// A replicated table accepts no writes.
        ReplicaReadOnly,
        /// ClickHouse's disk is full.
        ClickHouseDiskFull,
        /// The ClickHouse user has exceeded a quota.
        ClickHouseQuotaExceeded,
        /// A newer release wrote to the migration journal; no statement is run.
        MigrationJournalNewer,
        /// Another migration of the same tables is running.
        MigrationLocked,
        /// Not all pods are updated and available yet.
        PodsNotReady,
        /// An image can't be pulled.
        ImagePullFailed,
        /// A pod crashes repeatedly.
        PodCrashing,
        /// A pod exceeded its memory limit and was OOM-killed.
        PodOutOfMemory,
        /// The scheduler finds no node for a pod.
        PodUnschedulable,
        /// Pods can't be created; the message has the API server's cause.
        PodCreationFailed,
        /// The rollout exceeded its deadline.
        RolloutDeadlineExceeded,
        /// A change was rolled back: all pods run the previous image and configuration. It is
        /// retried when the spec changes.
        RolledBack,
        /// spec.rolloutAction pauses the rollout.
        RolloutPaused,
        /// spec.rolloutAction rolled the change back.
        RolloutAborted,
        /// Event: a rollout began; status.rollout has image and configuration before and after.
        RolloutStarted,
        /// Event: a paused rollout continues.
        RolloutResumed,
        /// Event: new pods are compared with the others.
        RolloutAnalyzing,
        /// Event: more pods get the change.
        RolloutPromoting,
        /// Event: all pods run the change; status.rollout.report has the figures.
        RolloutCompleted,
        /// Event: new pods had too few records for a comparison; the change continues.
        RolloutTooFewRecords,
        /// The collector rejects its configuration; the message names the field.
        ConfigurationRejected,
        /// Some records of new pods are neither stored, nor dead letters, nor dropped by a rule,
        /// nor in flight.
        CanaryRecordsUnaccounted,
        /// Rules of new pods drop nearly all records, and those of the others do not.
        CanaryDropsAll,
        /// New pods process fewer records per CPU-second than the others.
        CanarySlower,
        /// New pods use more memory than the others.
        CanaryMemoryHigher,
        /// Inserts of new pods fail.
        CanaryInsertsFail,
        /// The lag of the new pods' partitions grows.
        CanaryLagGrows,
        /// New pods fall behind with their nodes' logs.
        CanaryFallsBehind,
        /// Logs of the new pods' nodes were deleted before they were read.
        CanaryLosesLogs,
        /// New pods read nothing on their nodes, while pods on other nodes read much.
        CanaryReadsNothing,
        /// Another writer, such as another object that shares the topic, changed the topic's
        /// settings; the message lists them. The operator writes nothing until the spec changes.
        TopicSettingsConflict,
        /// A pod's node has not applied its new resources yet.
        ResizePending,
        /// The API server or a pod's node rejects a resize; the message has the cause. The pods are
        /// unchanged.
        ResizeRejected,
        /// The lag is within its bound.
        LagWithinBound,
        /// The lag is above its bound.
        LagAboveBound,
        /// The lag could not be observed; it does not count as zero.
        LagUnknown,
        /// No gateway has reported retention loss.
        NoDataLost,
        /// Kafka's retention deleted messages before a gateway read them; the message has their
        /// number.
        MessagesLostToRetention,
        /// spec.acknowledged.dataLost acknowledges all messages lost so far.
        LossAcknowledged,
        /// No pod that answers has reported lost node logs within the last hour.
        NoLogsLost,
        /// Node logs were deleted before they were read; the message has node, amount and time.
        LogsDeletedUnread,
        /// No pod has answered the operator on its admin port for ten minutes.
        PodsUnreachable,
        /// The API server denies the pods a watch; the message names the missing right and its
        /// effect.
        WatchForbidden,
        /// A target or job can't be assigned to a pod; the message names it.
        TargetsRejected,
        /// The load is below the capacity of the existing pods.
        WithinCapacity,
        /// The pods are at their capacity; the message has the number of pods that the load needs.
        CapacityReached,
        /// No gateway has reported a dead letter.
        NoDeadLetters,
        /// Records could not be stored and became dead letters; the message has their number.
        RecordsDeadLettered,
        /// spec.acknowledged.deadLetters acknowledges all dead letters so far.
        DeadLettersAcknowledged,
        /// As far as is known, each table's deduplication window covers the time in which an insert
        /// may be retried.
        DeduplicationWindowSufficient,
        /// A table's deduplication window holds fewer inserts than may precede a retry; the message
        /// has the setting to raise.
        DeduplicationWindowShort,
        /// delivery is AtLeastOnce: duplicates are possible.
        DuplicatesAllowed,
        /// A child object is not ready; the message names it.
        ChildNotReady,
        /// A child object's status is of an older generation.
        ChildOutOfDate,
        /// Another object, possibly in another cluster, holds the same topic, consumer group or
        /// tables; the message names it.
        HeldByAnother,
        /// A child object belongs to another owner.
        OwnedByAnother,
        /// Another field manager owns a field that the operator must write.
        FieldConflict,
        /// The pool can't grow: it has as many pods as the topic has partitions.
        PartitionLimitReached,
        /// The operator gave up deleting an object outside Kubernetes; the message names what
        /// remains.
        DeletionFailed,
        /// A connection is not encrypted; the message names it and the setting to change.
        ConnectionUnencrypted,
        /// The servers of a shard are not replicas of each other; the message has the fix.
        ServersNotReplicas,
        /// The API server rejected or failed a request.
        ApiServerFailed,
        /// A reconcile timed out: the state is unknown.
        ReconcileTimedOut,
        /// The operator may not connect to this host: it is link-local, or not in the chart's
        /// allowedHosts.
        HostNotAllowed,
        /// ClickHouse has sessions with its Keeper, and all polled servers serve.
        CoordinationHealthy,
        /// Keeper or ZooKeeper has no leader, or too few followers: inserts stop.
        CoordinationQuorumLost,
        /// Some of a shard's ClickHouse servers have lost their Keeper session, or have read-only
        /// replicas; others accept inserts.
        CoordinationSessionsLost,
        /// A Keeper or ZooKeeper server does not serve or is not synced; the message names it.
        CoordinationServerDown,
        /// ClickHouse's Keeper sessions break repeatedly.
        CoordinationUnstable,
        /// A figure of a Keeper or ZooKeeper server is above its limit.
        CoordinationOverLimit,
        /// The operator can reach none of the Keeper or ZooKeeper servers in the spec.
        CoordinationUnreachable,
    }
);

impl ConditionType {
    /// Whether the condition reports a problem when it is true.
    pub const fn is_bad_when_true(self) -> bool {
        matches!(
            self,
            Self::Stalled
                | Self::Drifted
                | Self::Blocked
                | Self::DataLost
                | Self::LogsLost
                | Self::ScrapeCapacityReached
                | Self::DeadLettersPresent
                | Self::CredentialsExposed
                | Self::TablesNotReplicated
                | Self::DeduplicationAtRisk
        )
    }
}

#[cfg(test)]
mod tests;
