//! What to do about a reason, and which section of the documentation has more, for `kubectl
//! millrace`, the console and the reference page. This file has the sections, and the remedies of
//! several reasons; the others are in the table.
//!
//! A test of the plugin compares each section with the pages.

use serde::Serialize;

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

pub(super) const READING: &str = "docs/troubleshooting.md#not-ready";
pub(super) const ROLLOUTS: &str = "docs/rollouts.md#gateways";
pub(super) const PROCESSING: &str = "docs/processing.md#a-change-of-rules";
pub(super) const EDGES: &str = "docs/rollouts.md#edge-pools";
pub(super) const LOST_DATA: &str = "docs/lost-data.md#lost-messages";
pub(super) const NODES: &str = "docs/lost-data.md#lost-logs-of-nodes";
pub(super) const DEAD_LETTERS: &str = "docs/lost-data.md#dead-letters";
const DRIFT: &str = "docs/clickhouse.md#live-tables-that-differ";
pub(super) const HOLDERS: &str = "docs/topics.md#two-pipelines-on-one-kafka-or-clickhouse";
const RIGHTS: &str = "docs/security.md#rights-in-kafka-and-clickhouse";
pub(super) const HOSTS: &str = "docs/security.md#allowed-hosts";
pub(super) const PLAIN: &str = "docs/security.md#passwords-in-plaintext";
pub(super) const WINDOW: &str = "docs/clickhouse.md#deduplication-window";
pub(super) const SHARDS: &str = "docs/clickhouse.md#several-shards";
pub(super) const REMOVED: &str = "docs/deletion.md#what-is-deleted";
const TABLES: &str = "docs/clickhouse.md#when-an-insert-fails";
pub(super) const KEEPER: &str = "docs/coordination.md#reasons";
pub(super) const PLANS: &str = "docs/schema.md#what-a-plan-says";
pub(super) const IN_CLUSTER: &str = "docs/schema.md#in-a-cluster";
pub(super) const RESIZING: &str = "docs/autoscaling.md#where-pods-cant-be-resized-in-place";
pub(super) const SIZING: &str = "docs/autoscaling.md#reasons";
const SHARING: &str = "docs/sharing.md#reasons";

/// Nothing is wrong, or only waiting helps.
pub(super) const NO_REMEDY: Option<Remedy> = None;

pub(super) const fn advise(text: &'static str, section: &'static str) -> Option<Remedy> {
    Some(Remedy { text, section })
}

pub(super) const CREATE_SECRET: Option<Remedy> = advise(
    "create the Secret or the key that the message names; the operator then continues",
    READING,
);

pub(super) const CHECK_ADDRESS: Option<Remedy> = advise(
    "check that the cluster can reach the address in the message; the operator retries",
    READING,
);

pub(super) const CORRECT_HOST: Option<Remedy> =
    advise("correct the host name in the spec: the cluster can't resolve it", READING);

pub(super) const CORRECT_AUTHENTICATION: Option<Remedy> = advise(
    "correct the authentication or the Secret that the message names; the pods are then replaced",
    READING,
);

pub(super) const GRANT_RIGHT: Option<Remedy> =
    advise("grant the user the ACL or privilege that the message names", RIGHTS);

pub(super) const CHECK_TLS: Option<Remedy> = advise(
    "check tls in the spec: its CA, and the server certificate's host name and dates",
    READING,
);

pub(super) const CHANGE_TOPIC_SETTINGS: Option<Remedy> = advise(
    "change the topic's settings in the spec as the message says, or raise Kafka's limits",
    READING,
);

pub(super) const FIX_CLICKHOUSE_ERROR: Option<Remedy> =
    advise("fix the ClickHouse error in the message; records wait in Kafka until then", TABLES);

pub(super) const RESTORE_QUORUM: Option<Remedy> =
    advise("restore a majority of Keeper's servers; records wait in Kafka until then", KEEPER);

pub(super) const READ_PREVIOUS_LOG: Option<Remedy> = advise(
    "read `kubectl millrace logs --previous`; if the pod was OOM-killed, raise \
     resources.limits.memory",
    READING,
);

pub(super) const READ_SIZING: Option<Remedy> = advise(
    "read the sizing decision in `kubectl millrace why`; nothing is lost before Kafka's retention \
     ends",
    SIZING,
);

pub(super) const COMPARE_ROLLOUT: Option<Remedy> = advise(
    "compare the figures in `kubectl millrace rollout status`, then change the spec",
    ROLLOUTS,
);

pub(super) const FIX_TABLE: Option<Remedy> = advise(
    "fix the table or column that the message names; the operator only adds tables and columns",
    DRIFT,
);

pub(super) const FOLLOW_PLAN: Option<Remedy> =
    advise("follow the message: it names the cause and the manual fix", PLANS);

pub(super) const AWAIT_OBSERVATION: Option<Remedy> = advise(
    "wait for the first observation; if none follows, check that the operator runs, watches this \
     namespace and reaches the pods: read its log",
    READING,
);

pub(super) const CREATE_TOPIC: Option<Remedy> = advise(
    "with management: Managed, the operator creates topics and adds partitions; with Observed, do \
     so where the topic is managed",
    READING,
);

pub(super) const DECLARE_TOPIC_VALUE: Option<Remedy> =
    advise("write the topic's current value into the spec; the operator can't change it", READING);

pub(super) const CORRECT_TARGET: Option<Remedy> =
    advise("correct the target, or set replicas, as the message says", SHARING);

pub(super) const RESOLVE_OWNERSHIP: Option<Remedy> =
    advise("delete the other owner's object or field, or rename this object", READING);

#[cfg(test)]
mod tests {
    use crate::Reason;

    /// Scenario: a remedy's section with the address of a book, with and without a slash at its
    /// end, and without an address. Guarantee: a link to the rendered page; else the path.
    #[test]
    fn a_section_is_a_link_into_the_book() {
        let remedy = Reason::RecordsDeadLettered.remedy().unwrap();
        let link = "https://d.example/0.1.0/lost-data.html#dead-letters";
        assert_eq!(remedy.address(Some("https://d.example/0.1.0")), link);
        assert_eq!(remedy.address(Some("https://d.example/0.1.0/")), link);
        assert_eq!(remedy.address(None), "docs/lost-data.md#dead-letters");
    }
}
