//! The partitions of a topic: which messages wait for each, which the client library has, and where
//! the next one goes. Pure: time is passed in.
//!
//! A partition is sent a few messages at a time, so that one that stores nothing holds only these.
//! It is *stalled* while it has no leader, while its oldest message has had no answer for a while,
//! and for a while after Kafka refused it or everything was withdrawn; then one message is tried.
//! Messages of a stalled partition go to the next one that isn't, so the spans of a trace stay
//! together. Kafka's client library retries a stalled partition's messages automatically, so the
//! answer that ends the stall needs no further message.
//!
//! A topic that has stored none of the messages that fill its slots is *silent*: its other
//! partitions are tried with one message at a time, until something is stored.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::produce::message::{Envelope, Message};
use crate::produce::partition_queue::{InFlight, PartitionQueue, is_old};
use crate::request::request_part::RequestPart;

/// The maximum of a topic's messages with the library. A connection carries five requests at a
/// time; with messages of 1 MB, 8 of them are 160 MB a second where an answer takes 50 ms. The
/// library also has each one's compressed form; 16 of them took 10 MiB more with a slow broker.
/// Stalled partitions' messages aren't counted, and messages with an assigned partition don't wait
/// for this.
const SLOTS_PER_TOPIC: usize = 8;

/// The minimum slots of a partition: one message in flight while another is answered. A topic of
/// few partitions has as many as the topic's slots allow.
const MIN_SLOTS_PER_PARTITION: usize = 2;

/// A message without an answer for this long makes its partition stalled. Kafka elects a leader in
/// less; a follower that is gone delays answers for longer (`replica.lag.time.max.ms`, 30 s).
const STALL_TIME: Duration = Duration::from_secs(5);

/// The maximum of messages that a silent topic has with the library: those that made it silent, and
/// as many that try its other partitions, one for each stall time. The first stored one ends it.
const MAX_SILENT_IN_FLIGHT: usize = 2 * SLOTS_PER_TOPIC;

/// How long a partition is stalled after Kafka refused it, or everything was withdrawn.
const COOL_DOWN: Duration = Duration::from_secs(2);

/// The partitions of one topic.
pub(crate) struct Partitions {
    partitions: Vec<PartitionQueue>,
    /// How many the topic has: those beyond, which it had once, only wait for their answers.
    count: usize,
    /// Messages for any partition.
    unassigned: VecDeque<Message>,
    /// The partition at which the search begins.
    next: usize,
    next_number: u64,
    stall_time: Duration,
    last_stored: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Healthy,
    /// One message may be tried.
    Probe,
    Stalled,
}

impl Partitions {
    /// Creates an empty set of partitions. A timeout that is shorter than the usual stall time also
    /// stalls.
    pub(crate) fn new(time_out: Option<Duration>) -> Self {
        Self {
            partitions: Vec::new(),
            count: 0,
            unassigned: VecDeque::new(),
            next: 0,
            next_number: 0,
            stall_time: time_out.map_or(STALL_TIME, |time_out| time_out.min(STALL_TIME)),
            last_stored: None,
        }
    }

    /// Sets the topic's partitions, and whether each has a leader.
    pub(crate) fn set_leaders(&mut self, has_leader: &[bool]) {
        self.count = has_leader.len();
        self.partitions.resize_with(self.partitions.len().max(self.count), PartitionQueue::default);
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            partition.has_leader = has_leader.get(index).copied().unwrap_or_default();
        }
    }

    pub(crate) fn partition_count(&self) -> usize {
        self.count
    }

    /// Returns the partition that a new message can be sent to at once; `None` when it has to wait.
    pub(crate) fn assign_partition(
        &mut self,
        partition: Option<usize>,
        now: Instant,
    ) -> Option<usize> {
        let Some(own) = partition else {
            return self.unassigned.is_empty().then(|| self.pick_any(now)).flatten();
        };
        let untried = self.untried_health(now);
        let chosen = self.redirect_partition(own, now, untried)?;
        let partition = &self.partitions[chosen];
        (partition.waiting.is_empty() && self.has_slot(partition, now, untried)).then_some(chosen)
    }

    /// Adds a message behind those that wait.
    pub(crate) fn queue_message(&mut self, message: Message, now: Instant) {
        let own = message.partition.filter(|own| *own < self.partitions.len());
        let untried = self.untried_health(now);
        let chosen = own.map(|own| self.redirect_partition(own, now, untried).unwrap_or(own));
        self.queue_of(chosen).push_back(message);
    }

    /// Puts the halves of a message where it was: before those that wait for the same partition.
    pub(crate) fn return_first(&mut self, partition: usize, message: Message) {
        self.queue_of(Some(partition)).push_front(message);
    }

    /// Records that the library has a message, and returns its number.
    pub(crate) fn begin_send(&mut self, partition: usize, envelope: Envelope, now: Instant) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        if let Some(partition) = self.partitions.get_mut(partition) {
            partition.in_flight.push_back(InFlight { number, sent_at: now, envelope });
        }
        number
    }

    /// Records that the library has ended a message, stored or not.
    pub(crate) fn end_send(
        &mut self,
        partition: usize,
        number: u64,
        stored_at: Option<Instant>,
    ) -> Option<InFlight> {
        self.last_stored = self.last_stored.max(stored_at);
        let partition = self.partitions.get_mut(partition)?;
        if stored_at.is_some() {
            (partition.retry_at, partition.failed_sent_at) = (None, None);
        }
        let index = partition.in_flight.iter().position(|message| message.number == number)?;
        let message = partition.in_flight.remove(index)?;
        if partition.retry_at.is_some() && partition.failed_sent_at <= self.last_stored {
            partition.failed_sent_at = Some(message.sent_at);
        }
        Some(message)
    }

    /// Returns when the topic last stored a message.
    pub(crate) fn last_stored(&self) -> Option<Instant> {
        self.last_stored
    }

    /// Records that Kafka refused a partition, or its messages were withdrawn; `None` is the
    /// complete topic.
    pub(crate) fn suspend_partitions(&mut self, partition: Option<usize>, now: Instant) {
        let suspend = |partition: &mut PartitionQueue| partition.retry_at = Some(now + COOL_DOWN);
        match partition {
            Some(partition) => self.partitions.get_mut(partition).into_iter().for_each(suspend),
            None => self.partitions.iter_mut().for_each(suspend),
        }
    }

    /// Returns the next message that can be sent, and its partition.
    pub(crate) fn next_message(&mut self, now: Instant) -> Option<(usize, Message)> {
        let untried = self.untried_health(now);
        let ready = |partition: &PartitionQueue| {
            !partition.waiting.is_empty() && self.has_slot(partition, now, untried)
        };
        if let Some(index) = self.partitions.iter().position(ready) {
            return Some((index, self.partitions[index].waiting.pop_front()?));
        }
        if self.unassigned.is_empty() {
            return None;
        }
        let chosen = self.pick_any(now)?;
        Some((chosen, self.unassigned.pop_front()?))
    }

    /// Moves waiting messages of stalled partitions to others.
    pub(crate) fn redirect_waiting(&mut self, now: Instant) {
        let untried = self.untried_health(now);
        for index in 0..self.partitions.len() {
            let partition = &self.partitions[index];
            if partition.waiting.is_empty()
                || self.health_of(partition, now, untried) != Health::Stalled
            {
                continue;
            }
            if let Some(chosen) = self.redirect_partition(index, now, untried) {
                let mut waiting = std::mem::take(&mut self.partitions[index].waiting);
                self.partitions[chosen].waiting.append(&mut waiting);
            }
        }
    }

    /// Removes messages that were not sent in time.
    pub(crate) fn expire_waiting(&mut self, now: Instant, time_out: Duration) -> Vec<Message> {
        self.take_waiting(|message| is_old(message.envelope.closed_at, now, time_out))
    }

    /// Removes some of the waiting messages.
    pub(crate) fn take_waiting(&mut self, is_selected: impl Fn(&Message) -> bool) -> Vec<Message> {
        let mut selected = Vec::new();
        for queue in self.all_queues() {
            if queue.iter().any(&is_selected) {
                let (some, others): (VecDeque<_>, _) = queue.drain(..).partition(&is_selected);
                selected.extend(some);
                *queue = others;
            }
        }
        selected
    }

    /// Removes requests whose clients were answered or are gone from the waiting messages.
    pub(crate) fn remove_abandoned(&mut self) -> Vec<RequestPart> {
        let mut removed = Vec::new();
        for queue in self.all_queues() {
            for message in queue.iter_mut() {
                removed.extend(message.remove(RequestPart::is_abandoned));
            }
            queue.retain(|message| !message.envelope.parts.is_empty());
        }
        removed
    }

    /// Answers the clients of overdue messages with `why`. The messages stay with the library.
    /// Returns how many requests it answered, and whether no client waits for an overdue message.
    pub(crate) fn expire_in_flight(
        &self,
        now: Instant,
        time_out: Duration,
        why: &str,
    ) -> (usize, bool) {
        let (mut answered, mut is_unawaited) = (0, false);
        for InFlight { envelope, .. } in
            self.partitions.iter().flat_map(|partition| &partition.in_flight)
        {
            if is_old(envelope.closed_at, now, time_out) {
                answered += envelope.parts.iter().filter(|part| part.expire_client(why)).count();
                is_unawaited |= envelope.parts.iter().all(RequestPart::is_abandoned);
            }
        }
        (answered, is_unawaited)
    }

    /// Returns whether a message may be sent, if only to test whether its partition stores it.
    pub(crate) fn is_accepting(&self, now: Instant) -> bool {
        let untried = self.untried_health(now);
        self.current_partitions()
            .any(|partition| self.health_of(partition, now, untried) != Health::Stalled)
    }

    /// Returns whether some partition, and the topic, has shown no failure.
    pub(crate) fn is_healthy(&self, now: Instant) -> bool {
        let untried = self.untried_health(now);
        self.current_partitions()
            .any(|partition| self.health_of(partition, now, untried) == Health::Healthy)
    }

    /// Returns the partitions that store nothing.
    pub(crate) fn stalled_partitions(&self, now: Instant) -> Vec<usize> {
        let stalled = |(_, partition): &(usize, &PartitionQueue)| {
            self.health_of(partition, now, Health::Healthy) == Health::Stalled
        };
        self.current_partitions().enumerate().filter(stalled).map(|(index, _)| index).collect()
    }

    /// Returns whether all partitions lack a leader.
    pub(crate) fn is_leaderless(&self) -> bool {
        self.current_partitions().all(|partition| !partition.has_leader)
    }

    /// Returns how many messages with the library are likely to be stored soon.
    pub(crate) fn healthy_in_flight(&self, now: Instant) -> usize {
        let healthy =
            self.partitions.iter().filter(|partition| !partition.is_overdue(now, self.stall_time));
        healthy.map(|partition| partition.in_flight.len()).sum()
    }

    /// Returns whether every request is safe, or its client got a retryable answer.
    pub(crate) fn is_idle(&self) -> bool {
        let in_flight = self.partitions.iter().flat_map(|partition| &partition.in_flight);
        let waiting =
            self.partitions.iter().flat_map(|partition| &partition.waiting).chain(&self.unassigned);
        let envelopes = in_flight.map(|it| &it.envelope).chain(waiting.map(|it| &it.envelope));
        let mut parts = envelopes.flat_map(|envelope| &envelope.parts);
        parts.all(|part| part.is_on_disk() || part.is_abandoned())
    }

    fn current_partitions(&self) -> impl Iterator<Item = &PartitionQueue> {
        self.partitions.iter().take(self.count)
    }

    fn all_queues(&mut self) -> impl Iterator<Item = &mut VecDeque<Message>> {
        self.partitions
            .iter_mut()
            .map(|partition| &mut partition.waiting)
            .chain([&mut self.unassigned])
    }

    fn queue_of(&mut self, partition: Option<usize>) -> &mut VecDeque<Message> {
        let partition = partition.and_then(|partition| self.partitions.get_mut(partition));
        partition.map_or(&mut self.unassigned, |partition| &mut partition.waiting)
    }

    /// Returns the partition itself, or the next one that isn't stalled; `None` when all are.
    fn redirect_partition(&self, own: usize, now: Instant, untried: Health) -> Option<usize> {
        let mut candidates = (0..self.count).map(|offset| (own + offset) % self.count);
        candidates
            .find(|index| self.health_of(&self.partitions[*index], now, untried) != Health::Stalled)
    }

    /// Returns the next partition with a slot, round robin, while the topic has a slot.
    fn pick_any(&mut self, now: Instant) -> Option<usize> {
        if self.healthy_in_flight(now) >= SLOTS_PER_TOPIC {
            return None;
        }
        let candidates = (0..self.count).map(|offset| (self.next + offset) % self.count);
        let untried = self.untried_health(now);
        let chosen = candidates
            .into_iter()
            .find(|index| self.has_slot(&self.partitions[*index], now, untried))?;
        self.next = chosen + 1;
        Some(chosen)
    }

    fn has_slot(&self, partition: &PartitionQueue, now: Instant, untried: Health) -> bool {
        let slots = SLOTS_PER_TOPIC / self.count.max(1);
        match self.health_of(partition, now, untried) {
            Health::Healthy => partition.in_flight.len() < slots.max(MIN_SLOTS_PER_PARTITION),
            Health::Probe => true,
            Health::Stalled => false,
        }
    }

    /// Returns a partition's own health, but no better than the health of the topic's `untried`
    /// partitions.
    fn health_of(&self, partition: &PartitionQueue, now: Instant, untried: Health) -> Health {
        if !partition.has_leader || partition.is_overdue(now, self.stall_time) {
            return Health::Stalled;
        }
        match partition.retry_at {
            None => untried,
            Some(at) if now >= at && partition.in_flight.is_empty() => match untried {
                Health::Healthy => Health::Probe,
                Health::Probe | Health::Stalled => untried,
            },
            Some(_) => Health::Stalled,
        }
    }

    /// Returns the health of partitions that have shown no failure themselves.
    fn untried_health(&self, now: Instant) -> Health {
        if !self.is_silent(now) {
            return Health::Healthy;
        }
        let in_flight: usize =
            self.partitions.iter().map(|partition| partition.in_flight.len()).sum();
        if self.healthy_in_flight(now) == 0 && in_flight < MAX_SILENT_IN_FLIGHT {
            Health::Probe
        } else {
            Health::Stalled
        }
    }

    /// Returns whether so many partitions lack an answer, or were refused, that the topic is at
    /// fault: as many as the topic has slots, or all, while nothing was stored since the newest was
    /// sent to.
    fn is_silent(&self, now: Instant) -> bool {
        let since = self
            .current_partitions()
            .filter_map(|partition| partition.unstored_since(self.last_stored));
        let late = since.filter(|since| is_old(*since, now, self.stall_time));
        let (partitions, newest) = late.fold((0, None), |(partitions, newest), since| {
            (partitions + 1, newest.max(Some(since)))
        });
        partitions >= SLOTS_PER_TOPIC.min(self.count) && newest > self.last_stored
    }
}

#[cfg(test)]
mod tests;
