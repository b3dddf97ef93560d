//! What to do about each reason of a condition, and which section of the documentation has more:
//! for `kubectl millrace`, the console and the reference page.
//!
//! A test of the plugin demands of each reason that it has a remedy or is listed as one that needs
//! none, and holds each section against the pages.

use serde::Serialize;

use crate::Reason;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// What to do next.
    pub text: &'static str,
    /// Page and section with more.
    pub section: &'static str,
}

const READING: &str = "docs/operations.md#reading-the-status";
const ROLLOUTS: &str = "docs/operations.md#rollouts-of-gateways";
const EDGES: &str = "docs/operations.md#changes-of-edge-pools";
const GONE: &str = "docs/operations.md#data-that-is-gone-or-set-aside";
const NODES: &str = "docs/operations.md#logs-of-nodes-that-went-unread";
const LETTERS: &str = "docs/operations.md#dead-letters";
const DRIFT: &str = "docs/operations.md#live-tables-that-differ";
const HOLDERS: &str = "docs/operations.md#two-pipelines-on-one-kafka-or-clickhouse";
const HOSTS: &str = "docs/operations.md#hosts-that-specs-name";
const PLAIN: &str = "docs/operations.md#passwords-in-plaintext";
const WINDOW: &str = "docs/operations.md#how-long-a-table-remembers-inserts";
const SHARDS: &str = "docs/operations.md#several-shards-of-clickhouse";
const REMOVED: &str = "docs/operations.md#what-is-removed-and-what-stays";
const TABLES: &str = "docs/operations.md#clickhouse-and-its-tables";
const KEEPER: &str = "docs/coordination.md#reasons";
const PLANS: &str = "docs/schema.md#what-a-plan-says";
const IN_CLUSTER: &str = "docs/schema.md#in-a-cluster";
const SIZING: &str = "docs/autoscaling.md#reasons";
const SHARING: &str = "docs/sharing.md#reasons";

/// What to do about a reason; none where nothing is wrong, or only waiting helps.
#[must_use]
pub const fn remedy(reason: Reason) -> Option<Remedy> {
    if let Some(found) = of_connections(reason) {
        return Some(found);
    }
    if let Some(found) = of_pods(reason) {
        return Some(found);
    }
    of_the_rest(reason)
}

const fn say(text: &'static str, section: &'static str) -> Option<Remedy> {
    Some(Remedy { text, section })
}

const fn of_connections(reason: Reason) -> Option<Remedy> {
    match reason {
        Reason::SecretMissing | Reason::SecretKeyMissing => say(
            "make the Secret or the key that the message names; nothing else is needed",
            READING,
        ),
        Reason::KafkaUnreachable | Reason::ClickHouseUnreachable => say(
            "check the address in the message from inside the cluster; the operator retries",
            READING,
        ),
        Reason::KafkaHostUnknown | Reason::ClickHouseHostUnknown => {
            say("correct the host's name in the spec: the cluster can't resolve it", READING)
        }
        Reason::KafkaAuthenticationFailed | Reason::ClickHouseAuthenticationFailed => say(
            "correct user and password in the Secret that the message names; pods roll",
            READING,
        ),
        Reason::KafkaNotAuthorized | Reason::ClickHouseNotAuthorized => {
            say("grant the user what the message names", HOLDERS)
        }
        Reason::KafkaTlsFailed | Reason::ClickHouseTlsFailed => {
            say("check tls in the spec: its authority, the server's name and dates", READING)
        }
        Reason::HostNotAllowed => {
            say("use another host, or have it added to the chart's allowedHosts", HOSTS)
        }
        Reason::ConnectionUnencrypted => {
            say("use tls, or another sasl mechanism than PLAIN", PLAIN)
        }
        Reason::KafkaRefused | Reason::TopicSettingRefused | Reason::ReplicationImpossible => {
            say("change the topic's settings as the message says, or Kafka's limits", READING)
        }
        Reason::ClickHouseRefused
        | Reason::ClickHouseReadOnly
        | Reason::ReplicaReadOnly
        | Reason::ClickHouseDiskFull
        | Reason::ClickHouseQuotaExceeded
        | Reason::ClickHouseVersionUnsupported => {
            say("mend ClickHouse as the message says; records wait in Kafka meanwhile", TABLES)
        }
        Reason::ClickHouseKeeperMissing => {
            say("name a Keeper in ClickHouse's configuration, or declare MergeTree", KEEPER)
        }
        Reason::ClickHouseKeeperLost | Reason::CoordinationQuorumLost => say(
            "bring back a majority of Keeper's servers; records wait in Kafka meanwhile",
            KEEPER,
        ),
        Reason::CoordinationPartlyLost => {
            say("look at the ClickHouse server that the message names, and its session", KEEPER)
        }
        Reason::CoordinationServerDown => {
            say("bring back the server that the message names before another one fails", KEEPER)
        }
        Reason::CoordinationUnsteady => {
            say("look at Keeper's disk, memory and network, and at its leader's log", KEEPER)
        }
        Reason::CoordinationOverLimit => say(
            "larger batches, a larger or another Keeper; or raise the limit in the spec",
            KEEPER,
        ),
        Reason::CoordinationUnreachable => {
            say("correct clickhouse.coordination.servers, or let the operator reach them", KEEPER)
        }
        _ => None,
    }
}

const fn of_pods(reason: Reason) -> Option<Remedy> {
    match reason {
        Reason::PodsNotReady => say(
            "see `kubectl millrace top` and `kubectl millrace logs`; a starting pod needs seconds",
            READING,
        ),
        Reason::ImagePullFailed => say(
            "correct collector.imageRepository or version, or add the registry's pull secret",
            READING,
        ),
        Reason::PodCrashing | Reason::PodOutOfMemory => say(
            "read `kubectl millrace logs --previous`; raise resources.memory.max if it was killed for memory",
            READING,
        ),
        Reason::PodUnschedulable => say(
            "make room on nodes, or lower resources, or change podTemplate's placement",
            READING,
        ),
        Reason::WatchesRefused => say(
            "grant what the message names to the pods' account, or let the operator grant it \
             (chart: podAccess.grant)",
            READING,
        ),
        Reason::PodsRefused => say(
            "the message has the API server's cause: a quota, an admission rule, a role",
            READING,
        ),
        Reason::SettingsRefused => {
            say("change the field that the message names; no pod was changed", EDGES)
        }
        Reason::RolloutDeadlineExceeded
        | Reason::RolledBack
        | Reason::CanaryUnaccounted
        | Reason::CanarySlower
        | Reason::CanaryMemory
        | Reason::CanaryInsertsFail
        | Reason::CanaryLagGrows
        | Reason::CanaryFallsBehind
        | Reason::CanaryLosesLogs
        | Reason::CanaryReadsNothing => say(
            "all pods run the earlier unit; see `kubectl millrace rollout status`, then change the spec",
            ROLLOUTS,
        ),
        Reason::RolloutPaused => say("`kubectl millrace rollout resume` goes on", ROLLOUTS),
        Reason::RolloutAborted => {
            say("change the spec, then `kubectl millrace rollout resume`", ROLLOUTS)
        }
        Reason::PodsSilent => say(
            "let the operator reach port 9464 of the pods (a NetworkPolicy may forbid it)",
            NODES,
        ),
        Reason::LagAboveBound | Reason::AtPartitionCeiling => say(
            "`kubectl millrace why` has the sizing decision; nothing is lost before Kafka's retention ends",
            SIZING,
        ),
        Reason::LagUnknown => say("see whether Kafka answers the operator; it retries", SIZING),
        _ => None,
    }
}

const fn of_the_rest(reason: Reason) -> Option<Remedy> {
    match reason {
        Reason::SpecInvalid => say("change the field that the message names", READING),
        Reason::PausedByAnnotation => {
            say("remove the annotation millrace.dev/paused to let the operator go on", READING)
        }
        Reason::NotObserved | Reason::ChildOutOfDate => say(
            "see whether the operator runs and watches this namespace: its pods, its log",
            READING,
        ),
        Reason::TopicMissing | Reason::TopicTooFewPartitions => {
            say("the operator makes it; the message says what holds it back", READING)
        }
        Reason::TopicMorePartitions | Reason::ReplicationDiffers => {
            say("write what the topic has into the spec: Kafka can't take it back", READING)
        }
        Reason::TableMissing | Reason::TableColumnMissing | Reason::TableDrifted => {
            say("the message names table and column; only additive repairs are automatic", DRIFT)
        }
        Reason::ConsentNeeded => {
            say("if the data may go, name it in spec.consent of the TelemetrySchema", PLANS)
        }
        Reason::ApprovalNeeded => say(
            "read `kubectl millrace plan`; approve with the annotation millrace.dev/approve-plan",
            IN_CLUSTER,
        ),
        Reason::CollectorsOutdated => say("write a newer collector.version first", PLANS),
        Reason::TableBlocked | Reason::MigrationJournalBroken => {
            say("the message says what blocks it and what a person can do", PLANS)
        }
        Reason::MessagesLostToRetention => say(
            "longer topic.retention, more gateways, an alert on lag; then acknowledge the number",
            GONE,
        ),
        Reason::LogsGoneUnread => say("find out why the node is behind; let it keep more", NODES),
        Reason::RecordsDeadLettered => say(
            "`kubectl millrace dead-letters list` has the causes; remove them and resend, then acknowledge",
            LETTERS,
        ),
        Reason::TargetsRefused | Reason::CapReached => {
            say("the message names the target, or how many pods the load needs", SHARING)
        }
        Reason::DeduplicationWindowShort => {
            say("set what the message says, or cut larger batches", WINDOW)
        }
        Reason::ServersNotReplicas => say("write what the message says", SHARDS),
        Reason::HeldByAnother => {
            say("use other names, or take over what a gone cluster holds", HOLDERS)
        }
        Reason::NotOurs | Reason::FieldConflict => say(
            "another writer owns it: remove that object or field, or name this one differently",
            READING,
        ),
        Reason::DeletionGivenUp => say("remove by hand what the message names", REMOVED),
        Reason::ApiServerFailed => say(
            "the message says whether it passes: a role, a quota, an admission rule don't",
            READING,
        ),
        Reason::ReconcileTimedOut => say("the operator's log says what hung", READING),
        _ => None,
    }
}
