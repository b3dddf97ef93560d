//! The simulated broker's side of a consumer group: its members, their partitions, and commits.
//!
//! One rebalance at a time per member, as in librdkafka: the next is sent once the session has
//! taken over, or released, what the last one named. Members are static or dynamic, the group is
//! cooperative or eager. A silent member is evicted; its partitions go to others at once, and it
//! learns of that only when it is back.
//!
//! In a world that parks, a rebalance begins with a round: members hear of it one by one, with
//! their heartbeats, and request to join again; none is answered before all have requested. A
//! client has one connection to the coordinator, so commits wait behind that request, and are of an
//! old generation when it is answered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use millrace_ledger::decode_metadata;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

use super::world::{TOPIC, World, millis};
use crate::group::context::ConsumerEvent;
use crate::topics::ids::TopicId;

/// A client's number; a process that returns has another one.
pub(super) type MemberId = usize;
/// A process and a worker in it: the identity of a static member.
pub(super) type Slot = (usize, u16);

/// How long the group waits for a silent member.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
/// The heartbeat interval: the longest that a member doesn't know of a rebalance.
const HEARTBEAT_MILLIS: u64 = 3_000;
/// Later than anything: the answer time of requests that wait behind a request to join.
const NOT_YET: Duration = Duration::MAX;
/// How long the broker may answer with earlier commits: less than sessions doubt it.
const MAX_STALE_MILLIS: u64 = 6_000;
/// The time between the end of such a period and the next: brokers aren't killed more often, and no
/// process is frozen for so long that it queries first in one and then in the other.
const STALE_APART: Duration = Duration::from_secs(60);
/// The messages that a client fetches ahead.
const FETCH: usize = 6;

/// Where a partition is read.
#[derive(Clone, Copy)]
pub(super) struct Fetch {
    pub(super) position: i64,
    pub(super) paused: bool,
}

/// A request to a member that isn't answered yet.
enum Told {
    Assign(BTreeSet<i32>),
    Revoke,
}

/// A message as a client has fetched it.
pub(super) struct Message {
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) topic: i64,
    pub(super) millis: i64,
    pub(super) payload: Vec<u8>,
}

/// The commit of a partition: its offset and metadata.
type Entry = (i32, i64, String);

/// Returns the number of the topic that a commit names.
fn topic_of((_, offset, metadata): &Entry) -> Option<u32> {
    decode_metadata(*offset, metadata).ok()?.topic
}

/// A commit in flight.
struct InFlight {
    entries: Vec<Entry>,
    /// The topic at the request, which is reported with its answer.
    topic: TopicId,
    lands: Option<Duration>,
    answered: Duration,
    result: KafkaResult<()>,
}

/// A member, as the broker and its client have it.
pub(super) struct Place {
    slot: Slot,
    /// When it last sent a heartbeat.
    seen: Duration,
    joins: Duration,
    pub(super) joined: bool,
    /// When it hears of the round, at the latest; `None` for members that join during the round.
    hears: Option<Duration>,
    /// It has requested to join again, and waits for the others.
    pub(super) parked: bool,
    /// The group has evicted it.
    evicted: bool,
    pub(super) owned: BTreeMap<i32, Fetch>,
    told: Option<Told>,
    pub(super) news: VecDeque<(Duration, ConsumerEvent)>,
    commit: Option<InFlight>,
    /// Its own commits that the broker confirmed to it.
    pub(super) confirmed: BTreeMap<i32, i64>,
    pub(super) fetched: VecDeque<Message>,
}

impl Place {
    /// Returns whether it is in the group and knows of the round.
    fn has_heard(&self, now: Duration) -> bool {
        let inside = self.joined && !self.evicted;
        inside && self.seen == now && self.hears.is_none_or(|at| at <= now)
    }

    /// Answers its request to join, and the requests that waited behind it.
    fn unpark(&mut self, now: Duration) {
        self.parked = false;
        self.hears = None;
        if let Some(commit) = self.commit.as_mut().filter(|commit| commit.answered == NOT_YET) {
            commit.answered = now;
        }
    }
}

#[derive(Default)]
pub(super) struct Group {
    pub(super) members: BTreeMap<MemberId, Place>,
    next: MemberId,
    /// The owner, or the next owner, of each partition.
    owners: BTreeMap<i32, MemberId>,
    targets: BTreeMap<i32, MemberId>,
    changed: bool,
    /// A released partition is awaited by others: its owner requests to join again.
    again: bool,
    /// A round is in progress.
    preparing: bool,
    /// The partitions are shared out again at the end of the round.
    reshare: bool,
    /// An eager rebalance: no member is assigned anything before all have released everything.
    giving_up: bool,
    /// Members are identified by name.
    pub(super) is_static: bool,
}

fn refused(code: RDKafkaErrorCode) -> KafkaResult<()> {
    Err(KafkaError::ConsumerCommit(code))
}

fn named(partitions: impl IntoIterator<Item = i32>) -> Vec<(String, i32)> {
    partitions.into_iter().map(|partition| (TOPIC.to_owned(), partition)).collect()
}

impl Group {
    /// Describes the group's state of a member.
    pub(super) fn describe(&self, id: MemberId) -> String {
        let Some(place) = self.members.get(&id) else { return format!("member {id} is fenced") };
        let told = match &place.told {
            None => String::new(),
            Some(Told::Assign(partitions)) => format!(" told to take {partitions:?}"),
            Some(Told::Revoke) => " told to give up".to_owned(),
        };
        let owned: Vec<_> = place.owned.iter().map(|(p, f)| (*p, f.position, f.paused)).collect();
        let Place { joined, evicted, parked, .. } = place;
        let commit = place.commit.is_some();
        format!(
            "member {id} joined {joined} parked {parked} evicted {evicted}{told} reads {owned:?} \
             commits {commit}"
        )
    }
}

impl World {
    /// Requests membership for a client.
    pub(super) fn join(&mut self, slot: Slot) -> MemberId {
        let now = self.now;
        let delay = Duration::from_millis(self.random.between(1, 300));
        let group = &mut self.group;
        let id = group.next;
        group.next += 1;
        let mut place = Place {
            slot,
            seen: now,
            joins: now + delay,
            joined: false,
            hears: None,
            parked: false,
            evicted: false,
            owned: BTreeMap::new(),
            told: None,
            news: VecDeque::new(),
            commit: None,
            confirmed: BTreeMap::new(),
            fetched: VecDeque::new(),
        };
        let same = |place: &Place| group.is_static && place.slot == slot && !place.evicted;
        let before = group.members.iter().find(|(_, place)| same(place)).map(|(id, _)| *id);
        if let Some(before) = before {
            // It replaces its predecessor, which is fenced from here on.
            let joined = group.members.remove(&before).is_some_and(|place| place.joined);
            for holder in group.owners.values_mut().chain(group.targets.values_mut()) {
                if *holder == before {
                    *holder = id;
                }
            }
            let owned: BTreeSet<i32> =
                group.owners.iter().filter(|(_, owner)| **owner == id).map(|(p, _)| *p).collect();
            place.joined = joined;
            if !owned.is_empty() {
                place.news.push_back((now + delay, ConsumerEvent::Assigned(named(owned.clone()))));
                place.told = Some(Told::Assign(owned));
            }
        }
        group.members.insert(id, place);
        tracing::info!(id, ?slot, ?before, "joins");
        id
    }

    /// Removes a client that was killed.
    pub(super) fn vanish(&mut self, id: MemberId) {
        if self.random.once_in(2) {
            self.land_commit(id);
        }
        if let Some(place) = self.group.members.get_mut(&id) {
            place.commit = None;
            place.news.clear();
        }
    }

    /// Lets a client leave. A static member remains in the group.
    pub(super) fn leave(&mut self, id: MemberId) {
        self.land_commit(id);
        if !self.group.is_static {
            self.evict(id);
            self.group.members.remove(&id);
        }
    }

    /// Records a client's heartbeat.
    pub(super) fn hear(&mut self, id: MemberId) {
        let late = Duration::from_millis(self.random.below(2500));
        let now = self.now;
        let Some(place) = self.group.members.get_mut(&id) else { return };
        place.seen = now;
        if place.evicted && !matches!(place.told, Some(Told::Revoke)) {
            let mut lost: BTreeSet<i32> = place.owned.keys().copied().collect();
            if let Some(Told::Assign(partitions)) = &place.told {
                lost.extend(partitions);
            }
            let event = ConsumerEvent::Revoked { partitions: named(lost), lost: true };
            place.news.push_back((now + late, event));
            place.told = Some(Told::Revoke);
        }
    }

    fn evict(&mut self, id: MemberId) {
        let now = self.now;
        tracing::info!(id, ?now, "given up on");
        let Some(place) = self.group.members.get_mut(&id) else { return };
        place.evicted = true;
        place.unpark(now);
        if matches!(place.told, Some(Told::Revoke)) {
            // The partitions that it should release are now lost, with all others.
            place.told = None;
            place.news.retain(|(_, event)| {
                matches!(event, ConsumerEvent::Committed(_) | ConsumerEvent::Topics(_))
            });
        }
        self.group.owners.retain(|_, owner| *owner != id);
        self.group.changed = true;
        self.events.evictions += 1;
    }

    pub(super) fn serve_group(&mut self) {
        let now = self.now;
        let ids: Vec<MemberId> = self.group.members.keys().copied().collect();
        for id in &ids {
            self.serve_commit(*id);
            let Some(place) = self.group.members.get_mut(id) else { continue };
            if !place.evicted && now.saturating_sub(place.seen) > SESSION_TIMEOUT {
                self.evict(*id);
            } else if !place.evicted && !place.joined && place.joins <= now {
                place.joined = true;
                self.group.changed = true;
            }
        }
        let changed = std::mem::take(&mut self.group.changed);
        if self.shape.parks {
            self.serve_round(changed);
        } else if changed {
            self.share_out();
        }
        for id in ids {
            self.tell(id);
        }
    }

    /// Begins, continues or ends a round.
    fn serve_round(&mut self, changed: bool) {
        let now = self.now;
        let again = std::mem::take(&mut self.group.again);
        self.group.reshare |= changed;
        let ids: Vec<MemberId> = self.group.members.keys().copied().collect();
        if (changed || again) && !std::mem::replace(&mut self.group.preparing, true) {
            for id in &ids {
                let hears = now + Duration::from_millis(self.random.below(HEARTBEAT_MILLIS));
                if let Some(place) = self.group.members.get_mut(id) {
                    place.hears = Some(hears);
                }
            }
        }
        if !self.group.preparing {
            return;
        }
        for id in ids {
            let Some(place) = self.group.members.get(&id) else { continue };
            let may_ask = place.has_heard(now)
                && place.told.is_none()
                && (place.owned.is_empty() || !self.shape.eager);
            if may_ask && !place.parked {
                // Its earlier requests are served before.
                self.land_commit(id);
                if let Some(place) = self.group.members.get_mut(&id) {
                    place.parked = true;
                }
            }
        }
        let group = &mut self.group;
        let waits = |place: &Place| place.joined && !place.evicted && !place.parked;
        if group.members.values().any(waits) {
            return;
        }
        group.preparing = false;
        group.members.values_mut().for_each(|place| place.unpark(now));
        if std::mem::take(&mut group.reshare) {
            self.share_out();
        }
    }

    /// Decides which member reads which partition from now on.
    fn share_out(&mut self) {
        let turn = if self.random.once_in(3) { self.random.below(7) as usize } else { 0 };
        let group = &mut self.group;
        let inside = group.members.iter().filter(|(_, place)| place.joined && !place.evicted);
        let inside: Vec<MemberId> = inside.map(|(id, _)| *id).collect();
        group.targets.clear();
        if inside.is_empty() {
            return;
        }
        for partition in 0..self.shape.partitions {
            let at = (partition as usize + turn) % inside.len();
            group.targets.insert(partition, inside[at]);
        }
        group.giving_up = self.shape.eager;
    }

    /// Sends a member the next step of the rebalance, if it has answered the last.
    fn tell(&mut self, id: MemberId) {
        let now = self.now;
        let group = &mut self.group;
        let busy =
            |place: &Place| !place.evicted && (!place.owned.is_empty() || place.told.is_some());
        group.giving_up &= group.members.values().any(busy);
        let (eager, preparing) = (self.shape.eager, group.preparing);
        let giving_up = group.giving_up || (eager && preparing);
        let Some(place) = group.members.get_mut(&id) else { return };
        if place.evicted || !place.joined || place.told.is_some() || place.parked {
            return;
        }
        if preparing && !(eager && place.has_heard(now)) {
            return;
        }
        let gone = |p: &&i32| group.targets.get(*p) != Some(&id);
        let revoke: Vec<i32> =
            place.owned.keys().filter(|p| giving_up || gone(p)).copied().collect();
        if !revoke.is_empty() {
            let partitions = named(revoke);
            place.news.push_back((now, ConsumerEvent::Revoked { partitions, lost: false }));
            place.told = Some(Told::Revoke);
            return;
        }
        let mine = group.targets.iter().filter(|(_, target)| **target == id).map(|(p, _)| *p);
        let assign: BTreeSet<i32> = mine.filter(|p| !group.owners.contains_key(p)).collect();
        if !assign.is_empty() && !giving_up {
            group.owners.extend(assign.iter().map(|p| (*p, id)));
            place.news.push_back((now, ConsumerEvent::Assigned(named(assign.clone()))));
            place.told = Some(Told::Assign(assign));
        }
    }

    pub(super) fn take_over(&mut self, id: MemberId, from: &[(i32, Option<i64>)]) {
        tracing::info!(id, ?from, "takes over");
        let Some(place) = self.group.members.get_mut(&id) else { return };
        for (partition, offset) in from {
            let position = offset.unwrap_or(0);
            place.owned.insert(*partition, Fetch { position, paused: false });
        }
        if matches!(place.told, Some(Told::Assign(_))) {
            place.told = None;
        }
    }

    pub(super) fn give_back(&mut self, id: MemberId, partitions: &[i32]) {
        tracing::info!(id, ?partitions, "gives back");
        // The client's requests reach the coordinator in order: the commit comes before this.
        if self.random.once_in(2) {
            self.land_commit(id);
        }
        let (eager, joins) = (self.shape.eager, self.now + Duration::from_millis(50));
        let group = &mut self.group;
        group.again |= !eager;
        let Some(place) = group.members.get_mut(&id) else { return };
        let gone: Vec<i32> =
            if eager { place.owned.keys().copied().collect() } else { partitions.to_vec() };
        for partition in gone {
            place.owned.remove(&partition);
            place.fetched.retain(|message| message.partition != partition);
            if group.owners.get(&partition) == Some(&id) {
                group.owners.remove(&partition);
            }
        }
        if let Some(commit) = &mut place.commit
            && commit.lands.take().is_some()
        {
            commit.result = refused(RDKafkaErrorCode::IllegalGeneration);
        }
        let lost =
            |event: &ConsumerEvent| matches!(event, ConsumerEvent::Revoked { lost: true, .. });
        if place.evicted && (place.told.is_none() || place.news.iter().any(|(_, e)| lost(e))) {
            // This answers an earlier request. The member has yet to learn that everything is lost.
            return;
        }
        place.told = None;
        if std::mem::take(&mut place.evicted) {
            place.joined = false;
            place.joins = joins;
        }
    }

    /// Fetches ahead, and returns the next message.
    pub(super) fn fetch(&mut self, id: MemberId) -> Option<Message> {
        let place = self.group.members.get(&id)?;
        if place.fetched.is_empty() {
            let read: Vec<i32> =
                place.owned.iter().filter(|(_, fetch)| !fetch.paused).map(|(p, _)| *p).collect();
            let partition = self.random.pick(&read)?;
            let log = self.logs.get(partition as usize)?;
            let (topic, has_same_times) = (self.topic, self.shape.has_same_times);
            let fetch = self.group.members.get_mut(&id)?.owned.get_mut(&partition)?;
            if fetch.position > log.end {
                // Out of range: the client moves to the earliest.
                fetch.position = 0;
            }
            fetch.position = fetch.position.max(log.low);
            let message = |(at, payload): (&i64, &Vec<u8>)| Message {
                partition,
                offset: *at,
                topic,
                millis: millis(if has_same_times { 0 } else { topic }, *at),
                payload: payload.clone(),
            };
            let ahead: Vec<Message> =
                log.messages.range(fetch.position..).take(FETCH).map(message).collect();
            fetch.position = ahead.last().map_or(fetch.position, |last| last.offset + 1);
            self.group.members.get_mut(&id)?.fetched.extend(ahead);
        }
        self.group.members.get_mut(&id)?.fetched.pop_front()
    }

    /// Moves a partition's position and drops its fetched messages.
    pub(super) fn reposition(&mut self, id: MemberId, partition: i32, to: Option<i64>) {
        let Some(place) = self.group.members.get_mut(&id) else { return };
        let fetched = place.fetched.iter().find(|message| message.partition == partition);
        let fetched = fetched.map(|message| message.offset);
        place.fetched.retain(|message| message.partition != partition);
        if let Some(fetch) = place.owned.get_mut(&partition) {
            fetch.position = to.or(fetched).unwrap_or(fetch.position);
        }
    }

    /// Returns the topic's id as brokers report it.
    pub(super) fn topic_id(&self) -> TopicId {
        TopicId(1 + u128::from(self.topic.unsigned_abs()))
    }

    /// Sends a commit. Returns false when one is in flight.
    pub(super) fn commit(&mut self, id: MemberId, entries: Vec<Entry>) -> bool {
        let slow = self.fault_in(10);
        let way = Duration::from_millis(self.random.between(1, if slow { 5000 } else { 40 }));
        let back = Duration::from_millis(self.random.between(0, 40));
        let (lost, unheard) = (self.fault_in(12), self.fault_in(12));
        let lands = (!lost).then_some(self.now + way);
        let result = match lost || unheard {
            true => refused(RDKafkaErrorCode::RequestTimedOut),
            false => Ok(()),
        };
        let (topic, answered) = (self.topic_id(), self.now + way + back);
        let mut commit = InFlight { entries, topic, lands, answered, result };
        let Some(place) = self.group.members.get_mut(&id) else { return false };
        if place.commit.is_some() {
            return false;
        }
        if place.parked {
            commit.lands = None;
            commit.answered = NOT_YET;
            commit.result = refused(RDKafkaErrorCode::IllegalGeneration);
            self.events.parked += 1;
        }
        place.commit = Some(commit);
        true
    }

    fn serve_commit(&mut self, id: MemberId) {
        let (now, topic) = (self.now, self.topic_id());
        let is_current = |commit: &Entry| topic_of(commit) == topic.number();
        let Some(commit) = self.group.members.get(&id).and_then(|p| p.commit.as_ref()) else {
            return;
        };
        let (lands, answered) = (commit.lands, commit.answered <= now);
        if lands.is_some_and(|at| at <= now) {
            self.land_commit(id);
        }
        let Some(place) = self.group.members.get_mut(&id) else { return };
        if answered && let Some(commit) = place.commit.take() {
            if commit.result.is_ok() {
                let current = commit.entries.iter().filter(|commit| is_current(commit));
                place.confirmed.extend(current.map(|(p, offset, _)| (*p, *offset)));
            }
            place.news.push_back((now, ConsumerEvent::Topics(vec![Some(commit.topic)])));
            place.news.push_back((now, ConsumerEvent::Committed(commit.result)));
        }
    }

    /// Delivers the commit in flight to the coordinator.
    fn land_commit(&mut self, id: MemberId) {
        let Some(place) = self.group.members.get_mut(&id) else { return };
        let current = place.joined && !place.evicted;
        let Some(commit) = place.commit.as_mut() else { return };
        if commit.lands.take().is_none() {
            return;
        }
        if !current {
            commit.result = refused(RDKafkaErrorCode::IllegalGeneration);
            return;
        }
        let entries = commit.entries.clone();
        self.write_commit(&entries);
    }

    /// Commits without an answer.
    pub(super) fn commit_at_once(&mut self, id: MemberId, entries: &[Entry]) {
        // One connection: earlier requests are served before.
        self.land_commit(id);
        let Some(place) = self.group.members.get(&id) else { return };
        if place.joined && !place.parked && !place.evicted && !self.fault_in(8) {
            self.write_commit(entries);
        }
    }

    /// Returns what the broker reports as committed. For some seconds after a failure it may answer
    /// with earlier commits; never to a process that knows nothing newer, because the group has
    /// written since it admitted that one, and later writes are read later.
    pub(super) fn committed(&mut self, id: MemberId, partition: i32) -> Option<(i64, String)> {
        let now = self.now;
        let begins = self.fault_in(6).then(|| self.random.between(1, MAX_STALE_MILLIS));
        let place = self.group.members.get(&id);
        let own = place.and_then(|place| place.confirmed.get(&partition).copied());
        if let Some(millis) = begins
            && self.stale_until.is_none_or(|last| now > last + STALE_APART)
        {
            self.stale_until = Some(now + Duration::from_millis(millis));
        }
        let is_stale = self.stale_until.is_some_and(|until| now < until);
        let log = self.log(partition)?;
        let is_known = own.is_some_and(|own| log.before.as_ref().is_none_or(|(at, _)| *at < own));
        if is_stale && is_known {
            let before = log.before.clone();
            self.events.stale += 1;
            return before;
        }
        log.committed.clone()
    }

    /// Stores a commit, and checks whether it is allowed.
    fn write_commit(&mut self, entries: &[Entry]) {
        let topic = self.topic_id().number();
        for commit in entries {
            let is_stale = topic_of(commit) != topic;
            let (partition, offset, metadata) = commit;
            self.events.commits += 1;
            tracing::info!(partition, offset, metadata, is_stale, "committed");
            if let Err(error) = decode_metadata(*offset, metadata) {
                self.broken.push(format!("{metadata} can't be read back: {error}"));
            }
            let Some(log) = self.log(*partition) else { continue };
            if is_stale || std::mem::take(&mut log.is_stale) {
                log.before = None;
                log.committed = None;
            }
            if is_stale {
                log.committed = Some((*offset, metadata.clone()));
                log.is_stale = true;
                continue;
            }
            let before = log.committed.as_ref().map_or(0, |(offset, _)| *offset);
            if *offset > before {
                log.before = log.committed.take();
            }
            log.committed = Some((*offset, metadata.clone()));
            if *offset < before {
                let text = format!("the commit of {partition} goes back: {before} to {offset}");
                self.broken.push(text);
            } else if let Some(missing) = self.missing(*partition, before, *offset) {
                self.broken.push(format!("{offset} is committed, but not stored: {missing}"));
            }
        }
    }
}
