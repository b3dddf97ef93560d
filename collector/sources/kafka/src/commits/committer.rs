//! Commits without blocking the worker, and returns an answer.
//!
//! librdkafka's asynchronous commit answers through a callback that the event interface, which the
//! client library polls, never serves (librdkafka 2.12, `rd_kafka_cgrp_propagate_commit_result`).
//! So each worker has a thread that commits synchronously and posts the answer into the worker's
//! mailbox. It is busy for about one round trip a second.
//!
//! With each commit it also requests the topics' ids. That answer is posted first: whatever a
//! commit names belongs to the topic that existed when the ids were read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::group::context::{ConsumerEvent, GroupConsumer};
use crate::topics::ids::{IdRequest, SourceTopics};

/// A commit, or only a request for the topics' ids.
type Task = Option<TopicPartitionList>;

pub(crate) struct Committer {
    tasks: SyncSender<Task>,
    /// The tasks that were queued and aren't done.
    pending: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Committer {
    pub(crate) fn start(
        worker: u16,
        consumer: Arc<GroupConsumer>,
        topics: Arc<SourceTopics>,
    ) -> std::io::Result<Self> {
        // A worker has one commit in flight. A request for ids may be before it.
        let (tasks, inbox) = sync_channel::<Task>(1);
        let pending = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&pending);
        let body = move || {
            while let Ok(task) = inbox.recv() {
                let question = topics.request_ids();
                let result = task.map(|list| consumer.commit(&list, CommitMode::Sync));
                let ids = question.and_then(IdRequest::await_ids);
                // Without ids it is unknown which topic the commit belongs to, so it counts as
                // failed and is repeated.
                let unknown = KafkaError::ConsumerCommit(RDKafkaErrorCode::RequestTimedOut);
                let result = result.map(|done| if ids.is_some() { done } else { Err(unknown) });
                let events = ids.map(ConsumerEvent::Topics).into_iter();
                for event in events.chain(result.map(ConsumerEvent::Committed)) {
                    consumer.context().push(event);
                }
                count.fetch_sub(1, Ordering::Release);
            }
        };
        let name = format!("kafka-commit-{worker}");
        let thread = std::thread::Builder::new().name(name).spawn(body)?;
        Ok(Self { tasks, pending, thread })
    }

    /// Requests a commit, answered by [`ConsumerEvent::Committed`]. Returns false when one is in
    /// flight.
    pub(crate) fn commit(&self, list: TopicPartitionList) -> bool {
        self.send_task(Some(list))
    }

    /// Requests the topics' ids, answered by [`ConsumerEvent::Topics`] if a broker returns them.
    /// Does nothing when a request in flight does the same.
    pub(crate) fn request_topic_ids(&self) {
        self.send_task(None);
    }

    fn send_task(&self, task: Task) -> bool {
        self.pending.fetch_add(1, Ordering::AcqRel);
        let is_sent = self.tasks.try_send(task).is_ok();
        if !is_sent {
            self.pending.fetch_sub(1, Ordering::AcqRel);
        }
        is_sent
    }

    /// Ends the thread. It doesn't wait for a thread that waits for a broker: that one ends with
    /// its answer or with the process.
    pub(crate) fn close(self) {
        let Self { tasks, pending, thread } = self;
        drop(tasks);
        if pending.load(Ordering::Acquire) == 0 && thread.join().is_err() {
            tracing::error!("the committing thread panicked");
        }
    }
}
