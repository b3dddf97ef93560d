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

impl Remedy {
    /// The address of the section in a book; its path in the repository without one.
    #[must_use]
    pub fn address(&self, book_url: Option<&str>) -> String {
        let Some(book) = book_url else { return self.section.to_owned() };
        let section = self.section.strip_prefix("docs/").unwrap_or(self.section);
        format!("{}/{}", book.trim_end_matches('/'), section.replacen(".md", ".html", 1))
    }
}

const READING: &str = "docs/troubleshooting.md#not-ready";
const ROLLOUTS: &str = "docs/rollouts.md#gateways";
const PROCESSING: &str = "docs/processing.md#a-change-of-rules";
const EDGES: &str = "docs/rollouts.md#edge-pools";
const LOST_DATA: &str = "docs/lost-data.md#lost-messages";
const NODES: &str = "docs/lost-data.md#lost-logs-of-nodes";
const DEAD_LETTERS: &str = "docs/lost-data.md#dead-letters";
const DRIFT: &str = "docs/clickhouse.md#live-tables-that-differ";
const HOLDERS: &str = "docs/topics.md#two-pipelines-on-one-kafka-or-clickhouse";
const RIGHTS: &str = "docs/security.md#rights-in-kafka-and-clickhouse";
const HOSTS: &str = "docs/security.md#allowed-hosts";
const PLAIN: &str = "docs/security.md#passwords-in-plaintext";
const WINDOW: &str = "docs/clickhouse.md#deduplication-window";
const SHARDS: &str = "docs/clickhouse.md#several-shards";
const REMOVED: &str = "docs/deletion.md#what-is-deleted";
const TABLES: &str = "docs/clickhouse.md#when-an-insert-fails";
const KEEPER: &str = "docs/coordination.md#reasons";
const PLANS: &str = "docs/schema.md#what-a-plan-says";
const IN_CLUSTER: &str = "docs/schema.md#in-a-cluster";
const RESIZING: &str = "docs/autoscaling.md#where-pods-cant-be-resized-in-place";
const SIZING: &str = "docs/autoscaling.md#reasons";
const SHARING: &str = "docs/sharing.md#reasons";

/// What to do about a reason; none where nothing is wrong, or only waiting helps.
#[must_use]
pub const fn remedy_for(reason: Reason) -> Option<Remedy> {
    if let Some(found) = of_connections(reason) {
        return Some(found);
    }
    if let Some(found) = of_coordination(reason) {
        return Some(found);
    }
    if let Some(found) = of_pods(reason) {
        return Some(found);
    }
    if let Some(found) = of_rollouts(reason) {
        return Some(found);
    }
    if let Some(found) = of_tables(reason) {
        return Some(found);
    }
    of_others(reason)
}

const fn new_remedy(text: &'static str, section: &'static str) -> Option<Remedy> {
    Some(Remedy { text, section })
}

const fn of_connections(reason: Reason) -> Option<Remedy> {
    match reason {
        Reason::SecretMissing | Reason::SecretKeyMissing => new_remedy(
            "create the Secret or the key that the message names; the operator then continues",
            READING,
        ),
        Reason::KafkaUnreachable | Reason::ClickHouseUnreachable => new_remedy(
            "check that the cluster can reach the address in the message; the operator retries",
            READING,
        ),
        Reason::KafkaHostUnknown | Reason::ClickHouseHostUnknown => {
            new_remedy("correct the host name in the spec: the cluster can't resolve it", READING)
        }
        Reason::KafkaAuthenticationFailed | Reason::ClickHouseAuthenticationFailed => new_remedy(
            "correct the authentication or the Secret that the message names; the pods are then \
             replaced",
            READING,
        ),
        Reason::KafkaNotAuthorized | Reason::ClickHouseNotAuthorized => {
            new_remedy("grant the user the ACL or privilege that the message names", RIGHTS)
        }
        Reason::KafkaTlsFailed | Reason::ClickHouseTlsFailed => new_remedy(
            "check tls in the spec: its CA, and the server certificate's host name and dates",
            READING,
        ),
        Reason::HostNotAllowed => new_remedy(
            "use another host, or add this one to the chart's allowedHosts; link-local hosts are \
             never allowed",
            HOSTS,
        ),
        Reason::ConnectionUnencrypted => new_remedy(
            "encrypt the connection that the message names: https for ClickHouse, targets and \
             token endpoints; tls for Kafka, where a SCRAM type also protects the password",
            PLAIN,
        ),
        Reason::KafkaRequestRejected | Reason::TopicSettingRejected | Reason::TooFewBrokers => {
            new_remedy(
                "change the topic's settings in the spec as the message says, or raise Kafka's \
                 limits",
                READING,
            )
        }
        Reason::ClickHouseStatementRejected
        | Reason::ClickHouseReadOnly
        | Reason::ReplicaReadOnly
        | Reason::ClickHouseDiskFull
        | Reason::ClickHouseQuotaExceeded
        | Reason::ClickHouseVersionUnsupported => new_remedy(
            "fix the ClickHouse error in the message; records wait in Kafka until then",
            TABLES,
        ),
        _ => None,
    }
}

const fn of_coordination(reason: Reason) -> Option<Remedy> {
    match reason {
        Reason::ClickHouseKeeperMissing => new_remedy(
            "configure a Keeper in ClickHouse; engine is immutable, so MergeTree needs a new \
             object",
            KEEPER,
        ),
        Reason::ClickHouseKeeperLost | Reason::CoordinationQuorumLost => new_remedy(
            "restore a majority of Keeper's servers; records wait in Kafka until then",
            KEEPER,
        ),
        Reason::CoordinationSessionsLost => new_remedy(
            "check the ClickHouse server that the message names, and its Keeper session",
            KEEPER,
        ),
        Reason::CoordinationServerDown => {
            new_remedy("restore the server that the message names before another one fails", KEEPER)
        }
        Reason::CoordinationUnstable => {
            new_remedy("check Keeper's disk, memory and network, and the log of its leader", KEEPER)
        }
        Reason::CoordinationOverLimit => new_remedy(
            "reduce the load on Keeper, give it more resources, or raise \
             clickhouse.coordination.limits",
            KEEPER,
        ),
        Reason::CoordinationUnreachable => new_remedy(
            "correct clickhouse.coordination.servers, or allow the operator to connect to them",
            KEEPER,
        ),
        _ => None,
    }
}

const fn of_pods(reason: Reason) -> Option<Remedy> {
    match reason {
        Reason::PodsNotReady => new_remedy(
            "read `kubectl millrace logs` if it lasts; a pod starts within seconds",
            READING,
        ),
        Reason::ImagePullFailed => new_remedy(
            "correct collector.imageRepository or collector.version, or add \
             podTemplate.spec.imagePullSecrets",
            READING,
        ),
        Reason::PodCrashing | Reason::PodOutOfMemory => new_remedy(
            "read `kubectl millrace logs --previous`; if the pod was OOM-killed, raise \
             resources.limits.memory",
            READING,
        ),
        Reason::PodUnschedulable => new_remedy(
            "add nodes, lower resources, or change the scheduling fields in podTemplate.spec",
            READING,
        ),
        Reason::TopicSettingsConflict => new_remedy(
            "follow the message: change the settings where the topic is managed, or write the \
             same ones in all objects that share it; a change of this spec retries",
            HOLDERS,
        ),
        Reason::ResizeRejected => new_remedy(
            "raise the quota or limit that the message names, or raise resources, which replaces \
             the pods",
            RESIZING,
        ),
        Reason::WatchForbidden => new_remedy(
            "grant the pods' service account the right in the message, or set podAccess.grant in \
             the operator's chart",
            READING,
        ),
        Reason::PodCreationFailed => new_remedy(
            "fix the cause in the message: a quota, an admission policy, or a missing role",
            READING,
        ),
        Reason::ConfigurationRejected => {
            new_remedy("correct the field that the message names", EDGES)
        }
        Reason::PodsUnreachable => new_remedy(
            "allow the operator to connect to port 9464 of the pods (a NetworkPolicy may block it)",
            NODES,
        ),
        Reason::LagAboveBound | Reason::PartitionLimitReached => new_remedy(
            "read the sizing decision in `kubectl millrace why`; nothing is lost before Kafka's \
             retention ends",
            SIZING,
        ),
        Reason::LagUnknown => {
            new_remedy("check that Kafka answers the operator; the operator retries", SIZING)
        }
        _ => None,
    }
}

const fn of_rollouts(reason: Reason) -> Option<Remedy> {
    match reason {
        Reason::RolloutDeadlineExceeded
        | Reason::RolledBack
        | Reason::CanaryRecordsUnaccounted
        | Reason::CanarySlower
        | Reason::CanaryMemoryHigher
        | Reason::CanaryInsertsFail
        | Reason::CanaryLagGrows
        | Reason::CanaryFallsBehind
        | Reason::CanaryLosesLogs
        | Reason::CanaryReadsNothing => new_remedy(
            "compare the figures in `kubectl millrace rollout status`, then change the spec",
            ROLLOUTS,
        ),
        Reason::CanaryDropsAll => new_remedy(
            "correct the condition of the step that drops the records: `kubectl millrace rules \
             test` shows it",
            PROCESSING,
        ),
        Reason::RolloutPaused => {
            new_remedy("run `kubectl millrace rollout resume` to continue", ROLLOUTS)
        }
        Reason::RolloutAborted => {
            new_remedy("change the spec, then run `kubectl millrace rollout resume`", ROLLOUTS)
        }
        _ => None,
    }
}

const fn of_tables(reason: Reason) -> Option<Remedy> {
    match reason {
        Reason::TableMissing | Reason::TableColumnMissing | Reason::TableDrifted => new_remedy(
            "fix the table or column that the message names; the operator only adds tables and \
             columns",
            DRIFT,
        ),
        Reason::ConsentRequired => new_remedy(
            "to allow deletion, list it in spec.schema.consent of the pipeline, or spec.consent \
                 of a standalone TelemetrySchema",
            PLANS,
        ),
        Reason::ApprovalRequired => new_remedy(
            "review status.planPending of the TelemetrySchema; approve its status.planHash with \
             spec.schema.approvedPlan of the pipeline, or spec.approvedPlan of a standalone \
             TelemetrySchema",
            IN_CLUSTER,
        ),
        Reason::CollectorsOutdated => {
            new_remedy("upgrade collector.version of the gateway pools first", PLANS)
        }
        Reason::TableChangeBlocked | Reason::MigrationJournalNewer => {
            new_remedy("follow the message: it names the cause and the manual fix", PLANS)
        }
        _ => None,
    }
}

const fn of_others(reason: Reason) -> Option<Remedy> {
    match reason {
        Reason::SpecInvalid => new_remedy("correct the field that the message names", READING),
        Reason::PausedBySpec => {
            new_remedy("set spec.paused to false to resume reconciliation", READING)
        }
        Reason::NotObserved | Reason::ChildOutOfDate => new_remedy(
            "wait for the first observation; if none follows, check that the operator runs, \
             watches this namespace and reaches the pods: read its log",
            READING,
        ),
        Reason::TopicMissing | Reason::TopicTooFewPartitions => new_remedy(
            "with management: Managed, the operator creates topics and adds partitions; with \
             Observed, do so where the topic is managed",
            READING,
        ),
        Reason::TopicTooManyPartitions | Reason::ReplicationFactorDiffers => new_remedy(
            "write the topic's current value into the spec; the operator can't change it",
            READING,
        ),
        Reason::MessagesLostToRetention => new_remedy(
            "raise topic.retention or scaling.maxReplicas; once resolved, acknowledge with \
             spec.acknowledged.dataLost",
            LOST_DATA,
        ),
        Reason::LogsDeletedUnread => {
            new_remedy("find out why the node is behind, and let it retain logs for longer", NODES)
        }
        Reason::RecordsDeadLettered => new_remedy(
            "list the causes with `kubectl millrace dead-letters list`, fix them, resend; then \
             acknowledge with spec.acknowledged.deadLetters",
            DEAD_LETTERS,
        ),
        Reason::TargetsRejected | Reason::CapacityReached => {
            new_remedy("correct the target, or set replicas, as the message says", SHARING)
        }
        Reason::DeduplicationWindowShort => new_remedy(
            "raise the setting that the message names, or batch.maxAgeMillis of the gateway for \
             fewer, larger inserts",
            WINDOW,
        ),
        Reason::ServersNotReplicas => new_remedy(
            "change clickhouse.endpoints, clickhouse.shards or the engine as the message says",
            SHARDS,
        ),
        Reason::HeldByAnother => new_remedy(
            "use other names; if the holder no longer exists, write it into spec.takesOver",
            HOLDERS,
        ),
        Reason::OwnedByAnother | Reason::FieldConflict => {
            new_remedy("delete the other owner's object or field, or rename this object", READING)
        }
        Reason::DeletionFailed => new_remedy("delete what the message names manually", REMOVED),
        Reason::ApiServerFailed => new_remedy(
            "fix the role, quota or admission policy that the message names; other errors are \
             retried",
            READING,
        ),
        Reason::ReconcileTimedOut => {
            new_remedy("find the request that did not finish in the operator's log", READING)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::remedy_for;
    use crate::Reason;

    /// Scenario: a remedy's section with the address of a book, with and without a slash at its
    /// end, and without an address. Guarantee: a link to the rendered page; else the path.
    #[test]
    fn a_section_is_a_link_into_the_book() {
        let remedy = remedy_for(Reason::RecordsDeadLettered).unwrap();
        let link = "https://d.example/0.1.0/lost-data.html#dead-letters";
        assert_eq!(remedy.address(Some("https://d.example/0.1.0")), link);
        assert_eq!(remedy.address(Some("https://d.example/0.1.0/")), link);
        assert_eq!(remedy.address(None), "docs/lost-data.md#dead-letters");
    }
}
