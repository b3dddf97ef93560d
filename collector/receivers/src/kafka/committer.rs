//! Commits that don't block the worker, and return an answer.
//!
//! librdkafka's asynchronous commit answers through a callback that the event interface, which the
//! client library polls, never serves (librdkafka 2.12, `rd_kafka_cgrp_propagate_commit_result`).
//! So each worker has a thread that commits synchronously and posts the answer into the worker's
//! mailbox. It is busy for about one round trip a second.
//!
//! With each commit it also requests the topics' ids. That answer comes first: whatever a commit
//! names belongs to the topic that existed when the ids were read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::context::{Event, GroupConsumer};
use super::topics::{Question, Topics};

/// The thread's tasks.
enum Task {
    Commit(TopicPartitionList),
    /// Only request the topics' ids.
    Look,
}

pub(super) struct Committer {
    tasks: SyncSender<Task>,
    /// Tasks that were given and aren't done.
    under_way: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Committer {
    pub(super) fn start(
        worker: u16,
        consumer: Arc<GroupConsumer>,
        topics: Arc<Topics>,
    ) -> std::io::Result<Self> {
        // A worker has one commit in flight. A look may be before it.
        let (tasks, inbox) = sync_channel::<Task>(1);
        let under_way = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&under_way);
        let body = move || {
            while let Ok(task) = inbox.recv() {
                let question = topics.ask();
                let result = match task {
                    Task::Commit(list) => Some(consumer.commit(&list, CommitMode::Sync)),
                    Task::Look => None,
                };
                let ids = question.and_then(Question::answer);
                // A commit of nobody knows which topic isn't done: it is asked for again.
                let unknown = KafkaError::ConsumerCommit(RDKafkaErrorCode::RequestTimedOut);
                let result = result.map(|done| if ids.is_some() { done } else { Err(unknown) });
                let events = ids.map(Event::Topics).into_iter();
                for event in events.chain(result.map(Event::Committed)) {
                    consumer.context().push(event);
                }
                count.fetch_sub(1, Ordering::Release);
            }
        };
        let name = format!("kafka-commit-{worker}");
        let thread = std::thread::Builder::new().name(name).spawn(body)?;
        Ok(Self { tasks, under_way, thread })
    }

    /// Requests a commit, answered by [`Event::Committed`]. False when one is in flight.
    pub(super) fn commit(&self, list: TopicPartitionList) -> bool {
        self.give(Task::Commit(list))
    }

    /// Requests the topics' ids, answered by [`Event::Topics`] if a broker gives them. Does nothing
    /// when a request in flight does the same.
    pub(super) fn look(&self) {
        self.give(Task::Look);
    }

    fn give(&self, task: Task) -> bool {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        let given = self.tasks.try_send(task).is_ok();
        if !given {
            self.under_way.fetch_sub(1, Ordering::AcqRel);
        }
        given
    }

    /// Ends the thread. One that waits for a broker isn't awaited: it ends with its answer or with
    /// the process.
    pub(super) fn close(self) {
        let Self { tasks, under_way, thread } = self;
        drop(tasks);
        if under_way.load(Ordering::Acquire) == 0 && thread.join().is_err() {
            tracing::error!("the committing thread panicked");
        }
    }
}
