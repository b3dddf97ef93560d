//! Decides when a commit is due, what it names, and what its answer means.
//!
//! One commit is in flight at a time. A refused one is due again; a refusal that lasts is the
//! reason why the source isn't ready, because with effectively-once delivery nothing is inserted
//! that no commit has named.

use std::time::Duration;

use millrace_ledger::{Commit, Promises, encode_metadata};
use millrace_pipeline::failpoint;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::group::member::Member;
use crate::group::partition_key::PartitionKey;
use crate::group::session::GroupSession;

/// Delay after a refused commit.
const COMMIT_RETRY: Duration = Duration::from_millis(500);
/// How long commits may be refused before the source isn't ready: longer than a rebalance takes.
const REFUSED_TIME: Duration = Duration::from_secs(60);

/// Returns whether commits with this code are refused until somebody changes a setting.
fn is_permanent(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::OffsetMetadataTooLarge
            | RDKafkaErrorCode::InvalidCommitOffsetSize
            | RDKafkaErrorCode::InvalidGroupId
            | RDKafkaErrorCode::UnsupportedVersion
    )
}

impl<M: Member> GroupSession<M> {
    /// Sends the last commit of partitions that leave before everything was answered. librdkafka
    /// sends it before it revokes them; its answer would arrive too late.
    pub(crate) fn commit_and_forget(&self, commits: &[Commit<PartitionKey>]) {
        if commits.is_empty() {
            return;
        }
        let requested = self.commit_list(commits);
        let requested = requested.and_then(|list| self.member.commit_and_forget(&list));
        if let Err(error) = requested {
            tracing::warn!(worker = self.worker, %error, "cannot request the last commit");
        }
    }

    /// Commits changes, one commit in flight at a time: every second, at once when a batch waits to
    /// be named, and at once when partitions leave.
    pub(crate) fn commit_if_due(&mut self) {
        if !self.commits.may_begin(self.now) {
            return;
        }
        let announce = self.shared.settings.announces_batches();
        let hurry = self.leaving.is_some() || self.shared.drain.is_begun();
        let waiting = !self.held.is_empty();
        let is_due = self.commits.is_due(self.now);
        if !is_due && !hurry && !waiting {
            return;
        }
        if is_due {
            self.publish_lag();
        }
        let due = self.ledger.commits_due(announce);
        if !waiting || due.is_empty() {
            self.commits.postpone_check(self.now);
        }
        if due.is_empty() {
            return;
        }
        if self.send_commit(&due) {
            self.commits.in_flight = Some(due);
        } else {
            self.commits.retry_at(self.now + COMMIT_RETRY);
            for commit in &due {
                self.ledger.commit_answered(commit, false);
            }
        }
    }

    /// Converts the commits to librdkafka's list.
    fn commit_list(&self, commits: &[Commit<PartitionKey>]) -> KafkaResult<TopicPartitionList> {
        tracing::debug!(worker = self.worker, ?commits, "commit");
        let mut list = TopicPartitionList::new();
        for commit in commits {
            let topic = &self.topic_of(commit.key).name;
            let mut element = list.add_partition(topic, commit.key.partition);
            element.set_offset(Offset::Offset(commit.offset))?;
            let number = self.topic_number(commit.key);
            let promises = Promises { topic: number, ..commit.promises.clone() };
            if !promises.is_empty() {
                element.set_metadata(encode_metadata(commit.offset, &promises));
            }
        }
        Ok(list)
    }

    fn send_commit(&self, commits: &[Commit<PartitionKey>]) -> bool {
        failpoint::hit("before-commit");
        match self.commit_list(commits) {
            Ok(list) => self.member.commit(list),
            Err(error) => {
                tracing::error!(worker = self.worker, %error, "cannot list the offsets to commit");
                false
            }
        }
    }

    pub(crate) fn handle_committed(&mut self, result: Result<(), KafkaError>) {
        let commits = self.commits.in_flight.take().unwrap_or_default();
        tracing::debug!(worker = self.worker, ?commits, ?result, "commit answered");
        if let Err(error) = &result {
            // This is normal while the group rebalances; the offsets are due again.
            tracing::warn!(worker = self.worker, %error, "Kafka refused a commit; retrying");
            self.commits.retry_at(self.now + COMMIT_RETRY);
        }
        self.report_commit_refusal(result.as_ref().err());
        for commit in &commits {
            self.ledger.commit_answered(commit, result.is_ok());
            if result.is_ok() {
                self.commits.set_confirmed(commit.key, Some(commit.offset));
                self.record_committed(commit);
            }
        }
        self.release_held();
    }

    /// Counts a refusal, and reports one that lasts as the reason why the source isn't ready.
    fn report_commit_refusal(&mut self, error: Option<&KafkaError>) {
        let Some(error) = error else {
            if self.commits.refused_since.take().is_some() {
                self.shared.status.set_commit_refusal(self.worker, None);
            }
            return;
        };
        let code = error.rdkafka_error_code();
        let name = code.map_or_else(|| "unknown".to_owned(), |code| format!("{code:?}"));
        self.shared.telemetry.commit_refused(&name);
        let since = *self.commits.refused_since.get_or_insert(self.now);
        if self.now - since >= REFUSED_TIME || code.is_some_and(is_permanent) {
            let group = &self.shared.settings.group;
            let reason = format!("commits of group {group} are refused: {error}");
            self.shared.status.set_commit_refusal(self.worker, Some(reason));
        }
    }

    /// Records a commit for the lag board: no owner will find gaps before it again.
    pub(crate) fn record_committed(&self, commit: &Commit<PartitionKey>) {
        let topic = &self.topic_of(commit.key).name;
        self.shared.lag.record_committed(topic, commit.key.partition, commit.offset);
    }
}
