//! Commits without making the worker wait, and with an answer.
//!
//! librdkafka's asynchronous commit answers through a callback that the event interface, which the
//! client library polls, never serves (librdkafka 2.12, `rd_kafka_cgrp_propagate_commit_result`).
//! So each worker has a thread that commits synchronously and posts the answer into the worker's
//! mailbox. It sleeps but for about one round trip a second.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::context::{Event, GroupConsumer};

pub(super) struct Committer {
    lists: SyncSender<TopicPartitionList>,
    thread: JoinHandle<()>,
}

impl Committer {
    pub(super) fn start(worker: u16, consumer: Arc<GroupConsumer>) -> std::io::Result<Self> {
        // A worker has one commit in flight.
        let (lists, inbox) = sync_channel::<TopicPartitionList>(1);
        let body = move || {
            while let Ok(list) = inbox.recv() {
                let result = consumer.commit(&list, CommitMode::Sync);
                consumer.context().push(Event::Committed(result));
            }
        };
        let name = format!("kafka-commit-{worker}");
        let thread = std::thread::Builder::new().name(name).spawn(body)?;
        Ok(Self { lists, thread })
    }

    /// Asks for a commit, to be answered by [`Event::Committed`]. False when one is in flight.
    pub(super) fn commit(&self, list: TopicPartitionList) -> bool {
        self.lists.try_send(list).is_ok()
    }

    /// Ends the thread. One that waits for a broker is left to itself: it ends with its answer or
    /// with the process.
    pub(super) fn close(self, in_flight: bool) {
        let Self { lists, thread } = self;
        drop(lists);
        if !in_flight && thread.join().is_err() {
            tracing::error!("the committing thread panicked");
        }
    }
}
