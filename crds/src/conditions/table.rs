//! The conditions: one table of types and one of reasons. Everything else about a condition follows
//! from its rows: the statuses' descriptions, the reference page, how severe it is for `kubectl
//! millrace` and the console, and what these advise.
//!
//! Reasons are an interface: alerts, scripts and docs name them, so one is never renamed.

use super::remedies::{
    AWAIT_OBSERVATION, CHANGE_TOPIC_SETTINGS, CHECK_ADDRESS, CHECK_TLS, COMPARE_ROLLOUT,
    CORRECT_AUTHENTICATION, CORRECT_HOST, CORRECT_TARGET, CREATE_SECRET, CREATE_TOPIC,
    DEAD_LETTERS, DECLARE_TOPIC_VALUE, EDGES, FIX_CLICKHOUSE_ERROR, FIX_TABLE, FOLLOW_PLAN,
    GRANT_RIGHT, HOLDERS, HOSTS, IN_CLUSTER, KEEPER, LOST_DATA, NO_REMEDY, NODES, PLAIN, PLANS,
    PROCESSING, READ_PREVIOUS_LOG, READ_SIZING, READING, REMOVED, RESIZING, RESOLVE_OWNERSHIP,
    RESTORE_QUORUM, ROLLOUTS, Remedy, SHARDS, SIZING, WINDOW, advise,
};
use crate::kinds::Kind::{
    self, EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};
use crate::word_list::words;

/// When a condition is a problem, and of what severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionClass {
    /// False is a fault.
    Expected,
    /// Neither value is a problem.
    Neutral,
    /// True is a fault.
    Fault,
    /// True means that records are lost, or became dead letters.
    Loss,
    /// True means that everything works and a change is recommended.
    Advice,
}

/// Each row: its class, and the kinds whose status has it.
macro_rules! condition_types {
    ($(
        $(#[doc = $meaning:literal])+
        $variant:ident: $class:ident of $kinds:expr;
    )+) => {
        words!(
            /// The types of conditions.
            ConditionType {
                $( $(#[doc = $meaning])+ $variant, )+
            }
        );

        impl ConditionType {
            /// When it is a problem, and of what severity.
            pub const fn class(self) -> ConditionClass {
                match self {
                    $( Self::$variant => ConditionClass::$class, )+
                }
            }

            /// The kinds whose status has it.
            pub const fn kinds(self) -> &'static [Kind] {
                match self {
                    $( Self::$variant => $kinds, )+
                }
            }
        }
    };
}

/// Each row: what to do about it, or [`NO_REMEDY`].
macro_rules! condition_reasons {
    ($(
        $(#[doc = $meaning:literal])+
        $variant:ident => $remedy:expr;
    )+) => {
        words!(
            /// The reasons of conditions. Stable: alerts and scripts may rely on them.
            Reason {
                $( $(#[doc = $meaning])+ $variant, )+
            }
        );

        impl Reason {
            /// What to do about it; none where nothing is wrong, or only waiting helps.
            pub const fn remedy(self) -> Option<Remedy> {
                match self {
                    $( Self::$variant => $remedy, )+
                }
            }
        }
    };
}

condition_types!(
    /// All resources of this generation exist and work.
    Ready: Expected of Kind::ALL;
    /// A change is in progress; it ends in Ready or Stalled.
    Progressing: Neutral of Kind::ALL;
    /// The operator can't continue until a user changes something; the message says what.
    Stalled: Fault of Kind::ALL;
    /// The topic exists with at least the declared partitions, and the declared settings.
    TopicReady: Expected of &[TelemetryTopic];
    /// All topics of a pipeline are ready.
    TopicsReady: Expected of &[TelemetryPipeline];
    /// The tables have the declared revision, without drift.
    SchemaReady: Expected of &[TelemetryPipeline, TelemetrySchema];
    /// The statements that change the tables to the declared ones are known; the status lists
    /// them.
    Planned: Expected of &[TelemetrySchema];
    /// No statement is pending.
    Applied: Expected of &[TelemetrySchema];
    /// Live tables differ from the declared ones; harmless differences don't count.
    Drifted: Fault of &[TelemetrySchema];
    /// No statement can remove a difference from the declared tables without data loss; the
    /// message says what a user can do.
    Blocked: Fault of &[TelemetrySchema];
    /// All edge pods run the declared configuration and image, and are available.
    EdgeReady: Expected of &[TelemetryPipeline];
    /// All gateway pods run the declared configuration and image, and are available.
    GatewayReady: Expected of &[TelemetryPipeline];
    /// All pods of the pool are updated and available.
    PodsReady: Expected of &[EdgePool, GatewayPool];
    /// The nodes have applied the memory and CPU that sizing decided to all running gateway
    /// pods. Absent if neither may change. Does not affect Ready.
    PodsResized: Expected of &[GatewayPool];
    /// The gateway pool's lag is within its bound.
    LagWithinBound: Expected of &[TelemetryPipeline, GatewayPool];
    /// Kafka deleted messages before a gateway read them, and nobody has acknowledged the loss.
    /// Does not affect Ready.
    DataLost: Loss of &[TelemetryPipeline, GatewayPool];
    /// Within the last hour, log files of nodes were deleted or truncated, or kernel log
    /// records overwritten, before a pod read them. Absent if the pool reads no node logs. Does
    /// not affect Ready.
    LogsLost: Loss of &[TelemetryPipeline, EdgePool];
    /// The API server allows the pool's pods to watch pods (for metadata) and namespaces (for
    /// `namespaceSelector`). Absent if the pool needs neither. While it is false, Ready is
    /// false.
    WatchesAllowed: Expected of &[EdgePool];
    /// Each scrape target is assigned to a pod or is being handed over. Absent if the pool
    /// scrapes nothing. While it is false, Ready is false.
    TargetsAssigned: Expected of &[EdgePool];
    /// The samples of the scrape targets need more pods than exist, by the capacity in the
    /// spec. Absent without it. Does not affect Ready.
    ScrapeCapacityReached: Advice of &[EdgePool];
    /// Records became dead letters, and nobody has acknowledged them. Does not affect Ready.
    DeadLettersPresent: Loss of &[TelemetryPipeline, GatewayPool];
    /// A table's deduplication window is so short that a late retry of an insert may be stored
    /// as a duplicate. Does not affect Ready.
    DeduplicationAtRisk: Advice of &[TelemetryPipeline, GatewayPool];
    /// Every Secret that the spec names exists and has the required keys.
    SecretsFound: Expected of Kind::ALL;
    /// A password or token is sent over an unencrypted connection. Absent if none is. Does not
    /// affect Ready.
    CredentialsExposed: Advice of Kind::ALL;
    /// Rows of a table that isn't replicated may go to any of several servers: each server
    /// stores a part of them, and some may be duplicates. Absent otherwise. Does not affect
    /// Ready.
    TablesNotReplicated: Advice of &[TelemetryPipeline, TelemetrySchema];
    /// The Keeper or ZooKeeper of replicated tables works, with a margin. Absent if no table
    /// needs one. Does not affect Ready; rollouts and statements wait while inserts stop.
    CoordinationHealthy: Expected of &[TelemetryPipeline, TelemetrySchema];
    /// spec.paused is true: the operator only updates the status.
    Paused: Advice of Kind::ALL;
);

condition_reasons!(
    /// All resources match the spec.
    Reconciled => NO_REMEDY;
    /// All child objects are ready at this generation.
    AllReady => NO_REMEDY;
    /// The operator has not observed this generation yet.
    NotObserved => AWAIT_OBSERVATION;
    /// The operator is applying a change.
    Applying => NO_REMEDY;
    /// Another step must finish first; the message names it.
    Waiting => NO_REMEDY;
    /// No change is in progress.
    UpToDate => NO_REMEDY;
    /// spec.paused is true.
    PausedBySpec => advise("set spec.paused to false to resume reconciliation", READING);
    /// The spec is invalid in a way that the API server can't detect; the message names the
    /// field.
    SpecInvalid => advise("correct the field that the message names", READING);
    /// A Secret that the spec names does not exist.
    SecretMissing => CREATE_SECRET;
    /// A Secret that the spec names lacks a required key.
    SecretKeyMissing => CREATE_SECRET;
    /// No Kafka broker answered in time.
    KafkaUnreachable => CHECK_ADDRESS;
    /// No bootstrap server's host name can be resolved.
    KafkaHostUnknown => CORRECT_HOST;
    /// Kafka rejected the user name and password, or the client certificate.
    KafkaAuthenticationFailed => CORRECT_AUTHENTICATION;
    /// The Kafka user lacks an ACL; the message names the operation.
    KafkaNotAuthorized => GRANT_RIGHT;
    /// The TLS handshake with Kafka failed.
    KafkaTlsFailed => CHECK_TLS;
    /// Kafka rejected a request for another reason; the message has its error.
    KafkaRequestRejected => CHANGE_TOPIC_SETTINGS;
    /// The topic does not exist.
    TopicMissing => CREATE_TOPIC;
    /// The topic has fewer partitions than declared.
    TopicTooFewPartitions => CREATE_TOPIC;
    /// The topic has more partitions than declared; Kafka can't remove partitions.
    TopicTooManyPartitions => DECLARE_TOPIC_VALUE;
    /// Kafka has fewer brokers than the replication factor.
    TooFewBrokers => CHANGE_TOPIC_SETTINGS;
    /// The topic's replication factor differs from the declared one; the operator does not
    /// change it.
    ReplicationFactorDiffers => DECLARE_TOPIC_VALUE;
    /// Kafka rejected a topic setting.
    TopicSettingRejected => CHANGE_TOPIC_SETTINGS;
    /// No ClickHouse endpoint answered in time.
    ClickHouseUnreachable => CHECK_ADDRESS;
    /// No ClickHouse endpoint's host name can be resolved.
    ClickHouseHostUnknown => CORRECT_HOST;
    /// ClickHouse rejected the user name and password.
    ClickHouseAuthenticationFailed => CORRECT_AUTHENTICATION;
    /// The ClickHouse user lacks a privilege; the message has the missing grant.
    ClickHouseNotAuthorized => GRANT_RIGHT;
    /// The TLS handshake with ClickHouse failed.
    ClickHouseTlsFailed => CHECK_TLS;
    /// ClickHouse rejected a statement for another reason; the message has its error.
    ClickHouseStatementRejected => FIX_CLICKHOUSE_ERROR;
    /// ClickHouse is read-only at the moment.
    ClickHouseReadOnly => FIX_CLICKHOUSE_ERROR;
    /// A table is missing.
    TableMissing => FIX_TABLE;
    /// A table lacks a column.
    TableColumnMissing => FIX_TABLE;
    /// A table differs from its declaration; the message names the difference.
    TableDrifted => FIX_TABLE;
    /// The change needs a statement that destroys or rewrites data, and nobody has consented to
    /// it.
    ConsentRequired => advise(
        "to allow deletion, list it in spec.schema.consent of the pipeline, or spec.consent of a \
         standalone TelemetrySchema",
        PLANS,
    );
    /// A plan waits for approval by its hash in approvedPlan.
    ApprovalRequired => advise(
        "review status.planPending of the TelemetrySchema; approve its status.planHash with \
         spec.schema.approvedPlan of the pipeline, or spec.approvedPlan of a standalone \
         TelemetrySchema",
        IN_CLUSTER,
    );
    /// A consented drop waits until every gateway pool runs this release or newer.
    CollectorsOutdated => advise("upgrade collector.version of the gateway pools first", PLANS);
    /// Another table, view or column type blocks the change.
    TableChangeBlocked => FOLLOW_PLAN;
    /// ClickHouse is older than the tables require, or reports an unknown version.
    ClickHouseVersionUnsupported => FIX_CLICKHOUSE_ERROR;
    /// The spec declares replicated tables, and ClickHouse has no Keeper configured.
    ClickHouseKeeperMissing => advise(
        "configure a Keeper in ClickHouse; engine is immutable, so MergeTree needs a new object",
        KEEPER,
    );
    /// ClickHouse has no live session with its Keeper, or Keeper has lost its quorum.
    ClickHouseKeeperLost => RESTORE_QUORUM;
    /// A replicated table accepts no writes.
    ReplicaReadOnly => FIX_CLICKHOUSE_ERROR;
    /// ClickHouse's disk is full.
    ClickHouseDiskFull => FIX_CLICKHOUSE_ERROR;
    /// The ClickHouse user has exceeded a quota.
    ClickHouseQuotaExceeded => FIX_CLICKHOUSE_ERROR;
    /// A newer release wrote to the migration journal; no statement is run.
    MigrationJournalNewer => FOLLOW_PLAN;
    /// Another migration of the same tables is running.
    MigrationLocked => NO_REMEDY;
    /// Not all pods are updated and available yet.
    PodsNotReady => advise(
        "read `kubectl millrace logs` if it lasts; a pod starts within seconds",
        READING,
    );
    /// An image can't be pulled.
    ImagePullFailed => advise(
        "correct collector.imageRepository or collector.version, or add \
         podTemplate.spec.imagePullSecrets",
        READING,
    );
    /// A pod crashes repeatedly.
    PodCrashing => READ_PREVIOUS_LOG;
    /// A pod exceeded its memory limit and was OOM-killed.
    PodOutOfMemory => READ_PREVIOUS_LOG;
    /// The scheduler finds no node for a pod.
    PodUnschedulable => advise(
        "add nodes, lower resources, or change the scheduling fields in podTemplate.spec",
        READING,
    );
    /// Pods can't be created; the message has the API server's cause.
    PodCreationFailed => advise(
        "fix the cause in the message: a quota, an admission policy, or a missing role",
        READING,
    );
    /// The rollout exceeded its deadline.
    RolloutDeadlineExceeded => COMPARE_ROLLOUT;
    /// A change was rolled back: all pods run the previous image and configuration. It is
    /// retried when the spec changes.
    RolledBack => COMPARE_ROLLOUT;
    /// spec.rolloutAction pauses the rollout.
    RolloutPaused => advise("run `kubectl millrace rollout resume` to continue", ROLLOUTS);
    /// spec.rolloutAction rolled the change back.
    RolloutAborted => advise(
        "change the spec, then run `kubectl millrace rollout resume`",
        ROLLOUTS,
    );
    /// Event: a rollout began; status.rollout has image and configuration before and after.
    RolloutStarted => NO_REMEDY;
    /// Event: a paused rollout continues.
    RolloutResumed => NO_REMEDY;
    /// Event: new pods are compared with the others.
    RolloutAnalyzing => NO_REMEDY;
    /// Event: more pods get the change.
    RolloutPromoting => NO_REMEDY;
    /// Event: all pods run the change; status.rollout.report has the figures.
    RolloutCompleted => NO_REMEDY;
    /// Event: new pods had too few records for a comparison; the change continues.
    RolloutTooFewRecords => NO_REMEDY;
    /// The collector rejects its configuration; the message names the field.
    ConfigurationRejected => advise("correct the field that the message names", EDGES);
    /// Some records of new pods are neither stored, nor dead letters, nor dropped by a rule,
    /// nor in flight.
    CanaryRecordsUnaccounted => COMPARE_ROLLOUT;
    /// Rules of new pods drop nearly all records, and those of the others do not.
    CanaryDropsAll => advise(
        "correct the condition of the step that drops the records: `kubectl millrace rules test` \
         shows it",
        PROCESSING,
    );
    /// New pods process fewer records per CPU-second than the others.
    CanarySlower => COMPARE_ROLLOUT;
    /// New pods use more memory than the others.
    CanaryMemoryHigher => COMPARE_ROLLOUT;
    /// Inserts of new pods fail.
    CanaryInsertsFail => COMPARE_ROLLOUT;
    /// The lag of the new pods' partitions grows.
    CanaryLagGrows => COMPARE_ROLLOUT;
    /// New pods fall behind with their nodes' logs.
    CanaryFallsBehind => COMPARE_ROLLOUT;
    /// Logs of the new pods' nodes were deleted before they were read.
    CanaryLosesLogs => COMPARE_ROLLOUT;
    /// New pods read nothing on their nodes, while pods on other nodes read much.
    CanaryReadsNothing => COMPARE_ROLLOUT;
    /// Another writer, such as another object that shares the topic, changed the topic's
    /// settings; the message lists them. The operator writes nothing until the spec changes.
    TopicSettingsConflict => advise(
        "follow the message: change the settings where the topic is managed, or write the same \
         ones in all objects that share it; a change of this spec retries",
        HOLDERS,
    );
    /// A pod's node has not applied its new resources yet.
    ResizePending => NO_REMEDY;
    /// The API server or a pod's node rejects a resize; the message has the cause. The pods are
    /// unchanged.
    ResizeRejected => advise(
        "raise the quota or limit that the message names, or raise resources, which replaces the \
         pods",
        RESIZING,
    );
    /// The lag is within its bound.
    LagWithinBound => NO_REMEDY;
    /// The lag is above its bound.
    LagAboveBound => READ_SIZING;
    /// The operator has no answer about the lag yet; it does not count as zero.
    LagUnknown => advise("check that Kafka answers the operator; the operator retries", SIZING);
    /// No gateway has reported retention loss.
    NoDataLost => NO_REMEDY;
    /// Kafka's retention deleted messages before a gateway read them; the message has their
    /// number.
    MessagesLostToRetention => advise(
        "raise topic.retention or scaling.maxReplicas; once resolved, acknowledge with \
         spec.acknowledged.dataLost",
        LOST_DATA,
    );
    /// spec.acknowledged.dataLost acknowledges all messages lost so far.
    LossAcknowledged => NO_REMEDY;
    /// No pod that answers has reported lost node logs within the last hour.
    NoLogsLost => NO_REMEDY;
    /// Node logs were deleted before they were read; the message has node, amount and time.
    LogsDeletedUnread => advise(
        "find out why the node is behind, and let it retain logs for longer",
        NODES,
    );
    /// No pod has answered the operator on its admin port for ten minutes.
    PodsUnreachable => advise(
        "allow the operator to connect to port 9464 of the pods (a NetworkPolicy may block it)",
        NODES,
    );
    /// The API server denies the pods a watch; the message names the missing right and its
    /// effect.
    WatchForbidden => advise(
        "grant the pods' service account the right in the message, or set podAccess.grant in the \
         operator's chart",
        READING,
    );
    /// A target or job can't be assigned to a pod; the message names it.
    TargetsRejected => CORRECT_TARGET;
    /// The load is below the capacity of the existing pods.
    WithinCapacity => NO_REMEDY;
    /// The pods are at their capacity; the message has the number of pods that the load needs.
    CapacityReached => CORRECT_TARGET;
    /// No gateway has reported a dead letter.
    NoDeadLetters => NO_REMEDY;
    /// Records could not be stored and became dead letters; the message has their number.
    RecordsDeadLettered => advise(
        "list the causes with `kubectl millrace dead-letters list`, fix them, resend; then \
         acknowledge with spec.acknowledged.deadLetters",
        DEAD_LETTERS,
    );
    /// spec.acknowledged.deadLetters acknowledges all dead letters so far.
    DeadLettersAcknowledged => NO_REMEDY;
    /// As far as is known, each table's deduplication window covers the time in which an insert
    /// may be retried.
    DeduplicationWindowSufficient => NO_REMEDY;
    /// A table's deduplication window holds fewer inserts than may precede a retry; the message
    /// has the setting to raise.
    DeduplicationWindowShort => advise(
        "raise the setting that the message names, or batch.maxAgeMillis of the gateway for fewer, \
         larger inserts",
        WINDOW,
    );
    /// delivery is AtLeastOnce: duplicates are possible.
    DuplicatesAllowed => NO_REMEDY;
    /// A child object is not ready; the message names it.
    ChildNotReady => NO_REMEDY;
    /// A child object's status is of an older generation.
    ChildOutOfDate => AWAIT_OBSERVATION;
    /// Another object, possibly in another cluster, holds the same topic, consumer group or
    /// tables; the message names it.
    HeldByAnother => advise(
        "use other names; if the holder no longer exists, write it into spec.takesOver",
        HOLDERS,
    );
    /// A child object belongs to another owner.
    OwnedByAnother => RESOLVE_OWNERSHIP;
    /// Another field manager owns a field that the operator must write.
    FieldConflict => RESOLVE_OWNERSHIP;
    /// The pool can't grow: it has as many pods as the topic has partitions.
    PartitionLimitReached => READ_SIZING;
    /// The operator gave up deleting an object outside Kubernetes; the message names what
    /// remains.
    DeletionFailed => advise("delete what the message names manually", REMOVED);
    /// A connection is not encrypted; the message names it and the setting to change.
    ConnectionUnencrypted => advise(
        "encrypt the connection that the message names: https for ClickHouse, targets and token \
         endpoints; tls for Kafka, where a SCRAM type also protects the password",
        PLAIN,
    );
    /// The servers of a shard are not replicas of each other; the message has the fix.
    ServersNotReplicas => advise(
        "change clickhouse.endpoints, clickhouse.shards or the engine as the message says",
        SHARDS,
    );
    /// The API server rejected or failed a request.
    ApiServerFailed => advise(
        "fix the role, quota or admission policy that the message names; other errors are retried",
        READING,
    );
    /// A reconcile timed out: the state is unknown.
    ReconcileTimedOut => advise(
        "find the request that did not finish in the operator's log",
        READING,
    );
    /// The operator may not connect to this host: it is link-local, or not in the chart's
    /// allowedHosts.
    HostNotAllowed => advise(
        "use another host, or add this one to the chart's allowedHosts; link-local hosts are never \
         allowed",
        HOSTS,
    );
    /// ClickHouse has sessions with its Keeper, and all polled servers serve.
    CoordinationHealthy => NO_REMEDY;
    /// Keeper or ZooKeeper has no leader, or too few followers: inserts stop.
    CoordinationQuorumLost => RESTORE_QUORUM;
    /// Some of a shard's ClickHouse servers have lost their Keeper session, or have read-only
    /// replicas; others accept inserts.
    CoordinationSessionsLost => advise(
        "check the ClickHouse server that the message names, and its Keeper session",
        KEEPER,
    );
    /// A Keeper or ZooKeeper server does not serve or is not synced; the message names it.
    CoordinationServerDown => advise(
        "restore the server that the message names before another one fails",
        KEEPER,
    );
    /// ClickHouse's Keeper sessions break repeatedly.
    CoordinationUnstable => advise(
        "check Keeper's disk, memory and network, and the log of its leader",
        KEEPER,
    );
    /// A figure of a Keeper or ZooKeeper server is above its limit.
    CoordinationOverLimit => advise(
        "reduce the load on Keeper, give it more resources, or raise \
         clickhouse.coordination.limits",
        KEEPER,
    );
    /// The operator can reach none of the Keeper or ZooKeeper servers in the spec.
    CoordinationUnreachable => advise(
        "correct clickhouse.coordination.servers, or allow the operator to connect to them",
        KEEPER,
    );
);

impl ConditionType {
    /// Whether the condition reports a problem when it is true.
    pub const fn is_bad_when_true(self) -> bool {
        matches!(
            self.class(),
            ConditionClass::Fault | ConditionClass::Loss | ConditionClass::Advice
        )
    }
}
