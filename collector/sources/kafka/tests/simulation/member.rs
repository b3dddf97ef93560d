//! A session's membership in the simulated group: passes the trait's calls to the world.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use millrace_pipeline::dead_letter::MessageHeader;
use millrace_pipeline::sink::{CompletionQueue, PartOutcome};
use rdkafka::Timestamp;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::OwnedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::cluster::{MemberId, Message};
use super::world::{TOPIC, World};
use crate::commits::committed_metadata::{CommittedOffset, read_committed};
use crate::group::context::ConsumerEvent;
use crate::group::member::{FetchedMessage, Member};
use crate::topics::ids::TopicIds;

pub(super) struct SimMember {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) id: MemberId,
}

impl SimMember {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    fn set_paused(&self, list: &TopicPartitionList, paused: bool) {
        let mut world = self.world();
        for partition in partitions(list) {
            if paused {
                // Pausing drops fetched messages.
                world.reposition(self.id, partition, None);
            }
            let place = world.group.members.get_mut(&self.id);
            if let Some(fetch) = place.and_then(|place| place.owned.get_mut(&partition)) {
                fetch.paused = paused;
            }
        }
    }
}

fn partitions(list: &TopicPartitionList) -> Vec<i32> {
    list.elements().iter().map(|element| element.partition()).collect()
}

fn entries(list: &TopicPartitionList) -> Vec<(i32, i64, String)> {
    let text = |entry: CommittedOffset| Some((entry.partition, entry.offset?, entry.metadata));
    read_committed(list).into_iter().filter_map(text).collect()
}

/// The simulation writes no headers.
impl FetchedMessage for OwnedMessage {
    fn raw_headers(&self) -> Vec<MessageHeader> {
        Vec::new()
    }
}

impl Member for SimMember {
    type Message<'a> = OwnedMessage;

    fn now(&self) -> Instant {
        self.world().instant()
    }

    fn poll(&self, _: Duration) -> Option<KafkaResult<OwnedMessage>> {
        let mut world = self.world();
        if world.fault_in(400) {
            let code = RDKafkaErrorCode::BrokerTransportFailure;
            return Some(Err(KafkaError::MessageConsumption(code)));
        }
        if world.fault_in(4000) {
            let code = RDKafkaErrorCode::FencedInstanceId;
            return Some(Err(KafkaError::MessageConsumptionFatal(code)));
        }
        if world.fault_in(300) && world.fetch(self.id).is_some() {
            // The message was damaged; the messages fetched behind it arrive.
            return Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::BadMessage)));
        }
        let Message { partition, offset, topic, millis, payload } = world.fetch(self.id)?;
        let time = Timestamp::CreateTime(millis);
        // A dead letter's key shows which topic it is from.
        let (key, topic) = (Some(topic.to_le_bytes().to_vec()), TOPIC.to_owned());
        Some(Ok(OwnedMessage::new(Some(payload), key, topic, time, partition, offset, None)))
    }

    fn next_answer(&self, answers: &mut CompletionQueue, _: Duration) -> Option<PartOutcome> {
        answers.try_next()
    }

    fn next_event(&self) -> Option<ConsumerEvent> {
        let mut world = self.world();
        let now = world.now;
        let place = world.group.members.get_mut(&self.id)?;
        let due = place.news.front().is_some_and(|(at, _)| *at <= now);
        let (_, event) = due.then(|| place.news.pop_front()).flatten()?;
        Some(event)
    }

    fn has_joined(&self) -> bool {
        self.world().group.members.get(&self.id).is_some_and(|place| place.joined)
    }

    fn assign(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        let from = read_committed(list);
        let from: Vec<_> = from.iter().map(|entry| (entry.partition, entry.offset)).collect();
        self.world().take_over(self.id, &from);
        Ok(())
    }

    fn unassign(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        self.world().give_back(self.id, &partitions(list));
        Ok(())
    }

    fn pause(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        self.set_paused(list, true);
        Ok(())
    }

    fn resume(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        self.set_paused(list, false);
        Ok(())
    }

    fn seek(&self, _: &str, partition: i32, offset: Offset) -> KafkaResult<()> {
        let to = if let Offset::Offset(offset) = offset { offset } else { 0 };
        if self.world().fault_in(6) {
            return Err(KafkaError::Seek("simulated".to_owned()));
        }
        self.world().reposition(self.id, partition, Some(to));
        Ok(())
    }

    fn committed_offsets(
        &self,
        list: TopicPartitionList,
        _: Duration,
    ) -> KafkaResult<Vec<CommittedOffset>> {
        let mut world = self.world();
        let parked = world.group.members.get(&self.id).is_some_and(|place| place.parked);
        if world.fault_in(8) || parked {
            return Err(KafkaError::OffsetFetch(RDKafkaErrorCode::RequestTimedOut));
        }
        let mut known = |partition: i32| {
            let found = world.committed(self.id, partition);
            let topic = TOPIC.to_owned();
            let (offset, metadata) = found.map_or((None, String::new()), |(o, m)| (Some(o), m));
            CommittedOffset { topic, partition, offset, metadata }
        };
        Ok(partitions(&list).into_iter().map(&mut known).collect())
    }

    fn commit(&self, list: TopicPartitionList) -> bool {
        self.world().commit(self.id, entries(&list))
    }

    fn topic_ids(&self) -> Option<TopicIds> {
        let mut world = self.world();
        let ids = vec![Some(world.topic_id())];
        (!world.fault_in(8)).then_some(ids)
    }

    fn request_topic_ids(&self) {
        let mut world = self.world();
        let news = (world.now, ConsumerEvent::Topics(vec![Some(world.topic_id())]));
        if !world.fault_in(8)
            && let Some(place) = world.group.members.get_mut(&self.id)
        {
            place.news.push_back(news);
        }
    }

    fn commit_and_forget(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        self.world().commit_at_once(self.id, &entries(list));
        Ok(())
    }

    fn close(&self) {
        self.world().leave(self.id);
    }
}
