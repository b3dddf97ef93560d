//! Kafka requests that the client library supports but its safe interface does not: about many
//! topics at once, offsets with their times, other groups' commits, and commits with metadata for a
//! group without members.
//!
//! [`ask`] sends requests and waits for their answers; it decides nothing and keeps nothing. All
//! unsafe code of the operator is in this file.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::bindings as sys;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::probe::Link;

/// A partition of a topic.
pub(super) type Partition = (Arc<str>, i32);

/// The spec of a partition's first offset.
pub(super) const EARLIEST: i64 = sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_EARLIEST as i64;
/// The spec of the offset after a partition's last message.
pub(super) const LATEST: i64 = sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64;

/// Topics per request. The library searches the list of requested topics for each answer: 1,000 *
/// 1,000 comparisons take some milliseconds.
pub(super) const TOPICS_MAX: usize = 1_000;
/// Partitions in one question, for the same reason.
pub(super) const PARTITIONS_MAX: usize = 1_000;
/// Requests under way at once. Each has at most 1,000 partitions of about 200 bytes in the library,
/// so all are under 20 MB; most have a dozen partitions.
const UNDER_WAY_MAX: usize = 100;
/// How much later than its timeout a request may end: the library's timers are coarse.
const GRACE: Duration = Duration::from_secs(1);

/// A request. It may go to several brokers.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// Topics' partitions; no name twice, at most [`TOPICS_MAX`].
    Topics(Vec<Arc<str>>),
    /// The offset for a time in milliseconds, [`EARLIEST`] or [`LATEST`], in each partition; none
    /// twice, at most [`PARTITIONS_MAX`].
    Offsets(Vec<(Partition, i64)>),
    /// A group's commits; only over a link with a group.
    Commits {
        /// The group.
        group: String,
        /// For these; for all that the group has if empty.
        partitions: Vec<Partition>,
    },
    /// Commits for a group without members; only over a link with a group.
    Commit {
        /// The group.
        group: String,
        /// What is committed for each; at least one, none twice.
        commits: Vec<(Partition, Commit)>,
    },
}

/// What a group committed for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    /// The offset, at least 0.
    pub(super) offset: i64,
    /// The caller's value for it.
    pub(super) metadata: String,
}

/// The answer to a request of the same name; in any order.
#[derive(Debug)]
pub(super) enum Answer {
    Topics(Vec<(Arc<str>, Result<Topic, Code>)>),
    Offsets(Vec<(Partition, Result<Found, Code>)>),
    /// `None`: nothing was committed.
    Commits(Vec<(Partition, Result<Option<Commit>, Code>)>),
    /// Each that was committed, or why not.
    Commit(Vec<(Partition, Result<(), Code>)>),
}

/// A topic as brokers describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topic {
    /// Its id, new each time it is created; 0 where brokers have none.
    pub(super) id: u128,
    /// By number.
    pub(super) partitions: Vec<Replicas>,
}

/// Where a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replicas {
    /// The broker that leads it, if one does.
    pub(super) leader: Option<i32>,
    /// Copies of it.
    pub(super) copies: usize,
}

/// The message at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its offset; `None`: there is no message that late.
    pub(super) offset: Option<i64>,
    /// Its time in milliseconds, if it was asked for by time.
    pub(super) at_millis: i64,
}

/// Sends requests, many at a time, and waits for the answers, in the requests' order. A request not
/// answered within `limit` counts as timed out, as does one that could not be sent before `until`.
pub(super) fn ask(
    link: &Link,
    questions: &[Question],
    limit: Duration,
    until: Instant,
) -> Vec<Result<Answer, Code>> {
    let mut answers: Vec<Result<Answer, Code>> =
        questions.iter().map(|_| Err(Code::OperationTimedOut)).collect();
    let line = Line::new(link);
    let mut waiting: VecDeque<(usize, &Question)> = questions.iter().enumerate().collect();
    let mut under_way = 0;
    loop {
        while under_way < UNDER_WAY_MAX && Instant::now() < until {
            let Some((number, question)) = waiting.pop_front() else { break };
            match line.put(number, question, limit) {
                Ok(()) => under_way += 1,
                Err(code) => answers[number] = Err(code),
            }
        }
        if under_way == 0 {
            return answers;
        }
        let Some(event) = line.next(limit + GRACE) else { return answers };
        under_way -= 1;
        if let Some(question) = questions.get(event.number()) {
            answers[event.number()] = event.answer(question);
        }
    }
}

/// A queue for answers of one client.
struct Line<'a> {
    link: &'a Link,
    queue: *mut sys::rd_kafka_queue_t,
}

impl<'a> Line<'a> {
    fn new(link: &'a Link) -> Self {
        // SAFETY: the client is valid while it is borrowed, which is longer than the queue lives.
        let queue = unsafe { sys::rd_kafka_queue_new(link.consumer.client().native_ptr()) };
        Self { link, queue }
    }

    /// Sends one request; `number` comes back with its answer.
    fn put(&self, number: usize, question: &Question, limit: Duration) -> Result<(), Code> {
        use sys::rd_kafka_admin_op_t as Op;
        let millis = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1);
        let client = self.link.consumer.client().native_ptr();
        let operation = match question {
            Question::Topics(_) => Op::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            Question::Offsets(_) => Op::RD_KAFKA_ADMIN_OP_LISTOFFSETS,
            Question::Commits { .. } => Op::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
            Question::Commit { .. } => Op::RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS,
        };
        let of_group = matches!(question, Question::Commits { .. } | Question::Commit { .. });
        if of_group && !self.link.in_group {
            // When a coordinator moved, librdkafka 2.12 makes the client's own group search for its
            // coordinator, and follows a null pointer if the client has no group.
            return Err(Code::InvalidArgument);
        }
        let prepared = Prepared::of(question)?;
        // SAFETY: client and queue are valid; the library copies what it is given, which is freed
        // here or by `prepared`, each once. The timeout is within the range that is allowed.
        unsafe {
            let options = sys::rd_kafka_AdminOptions_new(client, operation);
            let no_text = std::ptr::null_mut();
            sys::rd_kafka_AdminOptions_set_request_timeout(options, millis, no_text, 0);
            sys::rd_kafka_AdminOptions_set_opaque(options, number as *mut c_void);
            match &prepared {
                Prepared::Topics(_, topics) => {
                    sys::rd_kafka_DescribeTopics(client, *topics, options, self.queue);
                }
                Prepared::Offsets(list) => {
                    sys::rd_kafka_ListOffsets(client, list.0, options, self.queue);
                }
                Prepared::Commits(_, group) => {
                    // Only commits that the coordinator has written, none in progress.
                    let error = sys::rd_kafka_AdminOptions_set_require_stable_offsets(options, 1);
                    if !error.is_null() {
                        sys::rd_kafka_error_destroy(error);
                    }
                    let mut group = *group;
                    let groups = &raw mut group;
                    sys::rd_kafka_ListConsumerGroupOffsets(client, groups, 1, options, self.queue);
                }
                Prepared::Commit(_, group) => {
                    let mut group = *group;
                    let groups = &raw mut group;
                    sys::rd_kafka_AlterConsumerGroupOffsets(client, groups, 1, options, self.queue);
                }
            }
            sys::rd_kafka_AdminOptions_destroy(options);
        }
        Ok(())
    }

    /// The next answer, if one comes in time.
    fn next(&self, wait: Duration) -> Option<Event> {
        let millis = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is valid; the event is ours from here on.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue, millis) };
        (!event.is_null()).then_some(Event(event))
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed here alone. Answers still on their way are dropped by
        // the library, which counts who holds the queue.
        unsafe { sys::rd_kafka_queue_destroy(self.queue) };
    }
}

/// A question in the library's own form.
enum Prepared {
    /// The names are what the collection points to.
    Topics(#[expect(dead_code)] Vec<CString>, *mut sys::rd_kafka_TopicCollection_t),
    Offsets(List),
    /// The list is what the group's question was made of.
    Commits(#[expect(dead_code)] Option<List>, *mut sys::rd_kafka_ListConsumerGroupOffsets_t),
    /// The same of a group's commits.
    Commit(#[expect(dead_code)] List, *mut sys::rd_kafka_AlterConsumerGroupOffsets_t),
}

impl Prepared {
    fn of(question: &Question) -> Result<Self, Code> {
        match question {
            Question::Topics(names) => {
                let names = names.iter().map(|name| text(name)).collect::<Result<Vec<_>, _>>()?;
                let mut list: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
                // SAFETY: pointers to `list.len()` names that end in a zero byte; they are copied.
                let topics = unsafe {
                    sys::rd_kafka_TopicCollection_of_topic_names(list.as_mut_ptr(), list.len())
                };
                Ok(Self::Topics(names, topics))
            }
            Question::Offsets(partitions) => {
                let list = partitions.iter().map(|(partition, spec)| (partition, *spec));
                Ok(Self::Offsets(List::of(list)?))
            }
            Question::Commits { group, partitions } => {
                let nothing = i64::from(sys::RD_KAFKA_OFFSET_INVALID);
                let list = List::of(partitions.iter().map(|partition| (partition, nothing)))?;
                // To the library, no list is all partitions, and an empty one is a mistake.
                let list = (!partitions.is_empty()).then_some(list);
                let group = text(group)?;
                let given = list.as_ref().map_or(std::ptr::null(), |list| list.0.cast_const());
                // SAFETY: a name that ends in a zero byte, and a valid list or none; both are
                // copied.
                let group =
                    unsafe { sys::rd_kafka_ListConsumerGroupOffsets_new(group.as_ptr(), given) };
                Ok(Self::Commits(list, group))
            }
            Question::Commit { group, commits } => {
                let offsets = commits.iter().map(|(partition, commit)| (partition, commit.offset));
                let list = List::of(offsets)?;
                for (number, (_, commit)) in commits.iter().enumerate() {
                    list.put_metadata(number, &commit.metadata)?;
                }
                let group = text(group)?;
                // SAFETY: a name that ends in a zero byte and a valid list; both are copied.
                let group =
                    unsafe { sys::rd_kafka_AlterConsumerGroupOffsets_new(group.as_ptr(), list.0) };
                Ok(Self::Commit(list, group))
            }
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: made by `of`, destroyed here alone.
        unsafe {
            match self {
                Self::Topics(_, topics) => sys::rd_kafka_TopicCollection_destroy(*topics),
                Self::Offsets(_) => {}
                Self::Commits(_, group) => {
                    sys::rd_kafka_ListConsumerGroupOffsets_destroy(*group);
                }
                Self::Commit(_, group) => sys::rd_kafka_AlterConsumerGroupOffsets_destroy(*group),
            }
        }
    }
}

/// A list of partitions, each with an offset.
struct List(*mut sys::rd_kafka_topic_partition_list_t);

impl List {
    fn of<'a>(partitions: impl Iterator<Item = (&'a Partition, i64)>) -> Result<Self, Code> {
        // SAFETY: the list is ours; it may grow beyond its initial size.
        let list = Self(unsafe { sys::rd_kafka_topic_partition_list_new(16) });
        for ((topic, partition), offset) in partitions {
            let topic = text(topic)?;
            // SAFETY: the name is copied; the element is valid until the list grows again.
            unsafe {
                let element =
                    sys::rd_kafka_topic_partition_list_add(list.0, topic.as_ptr(), *partition);
                (*element).offset = offset;
            }
        }
        Ok(list)
    }

    /// Puts metadata with an element. The library frees it with the list.
    fn put_metadata(&self, number: usize, metadata: &str) -> Result<(), Code> {
        // SAFETY: the list is valid; its elements are as many as it says. The memory is the
        // library's own, of the metadata's length (at least one byte), which is written whole.
        unsafe {
            let count = usize::try_from((*self.0).cnt).unwrap_or(0);
            if number >= count {
                return Err(Code::InvalidArgument);
            }
            let size = metadata.len();
            let memory = sys::rd_kafka_mem_malloc(std::ptr::null_mut(), size.max(1));
            not_null(memory)?;
            std::ptr::copy_nonoverlapping(metadata.as_ptr(), memory.cast::<u8>(), size);
            let element = (*self.0).elems.add(number);
            (*element).metadata = memory;
            (*element).metadata_size = size;
        }
        Ok(())
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: made by `of`, destroyed here alone.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.0) };
    }
}

/// No name in Kafka holds a zero byte.
fn text(name: &str) -> Result<CString, Code> {
    CString::new(name).map_err(|_| Code::InvalidArgument)
}

/// An answer in the library's own form.
struct Event(*mut sys::rd_kafka_event_t);

impl Event {
    fn number(&self) -> usize {
        // SAFETY: the event is valid until it is dropped.
        unsafe { sys::rd_kafka_event_opaque(self.0) as usize }
    }

    fn answer(&self, question: &Question) -> Result<Answer, Code> {
        // SAFETY: the event is valid until it is dropped; results of another type are null.
        unsafe {
            no_error(sys::rd_kafka_event_error(self.0))?;
            let mut count = 0;
            match question {
                Question::Topics(_) => {
                    let result = sys::rd_kafka_event_DescribeTopics_result(self.0);
                    not_null(result)?;
                    let all = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
                    let topics = slice(all.cast_const(), count).iter();
                    // What brokers left out of their answer is null.
                    Ok(Answer::Topics(topics.filter(|it| !it.is_null()).map(topic).collect()))
                }
                Question::Offsets(_) => {
                    let result = sys::rd_kafka_event_ListOffsets_result(self.0);
                    not_null(result)?;
                    let all = sys::rd_kafka_ListOffsets_result_infos(result, &raw mut count);
                    let found = slice(all.cast_const(), count).iter();
                    Ok(Answer::Offsets(found.map(offset).collect()))
                }
                Question::Commits { .. } => {
                    let result = sys::rd_kafka_event_ListConsumerGroupOffsets_result(self.0);
                    not_null(result)?;
                    let all = sys::rd_kafka_ListConsumerGroupOffsets_result_groups(
                        result,
                        &raw mut count,
                    );
                    let of_group = partitions(slice(all.cast_const(), count))?;
                    Ok(Answer::Commits(of_group.iter().map(commit).collect()))
                }
                Question::Commit { .. } => {
                    let result = sys::rd_kafka_event_AlterConsumerGroupOffsets_result(self.0);
                    not_null(result)?;
                    let all = sys::rd_kafka_AlterConsumerGroupOffsets_result_groups(
                        result,
                        &raw mut count,
                    );
                    let of_group = partitions(slice(all.cast_const(), count))?;
                    let told = |element: &sys::rd_kafka_topic_partition_t| {
                        ((owned(element.topic), element.partition), no_error(element.err))
                    };
                    Ok(Answer::Commit(of_group.iter().map(told).collect()))
                }
            }
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: ours since it was polled, destroyed here alone.
        unsafe { sys::rd_kafka_event_destroy(self.0) };
    }
}

fn no_error(code: sys::rd_kafka_resp_err_t) -> Result<(), Code> {
    match Code::from(code) {
        Code::NoError => Ok(()),
        code => Err(code),
    }
}

fn not_null<T>(pointer: *const T) -> Result<(), Code> {
    if pointer.is_null() { Err(Code::BadMessage) } else { Ok(()) }
}

/// # Safety
/// `first` is null, or points to `count` values that live for `'a`.
unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    match first.is_null() {
        true => &[],
        // SAFETY: by the contract above.
        false => unsafe { std::slice::from_raw_parts(first, count) },
    }
}

/// # Safety
/// `name` is a text that ends in a zero byte.
unsafe fn owned(name: *const c_char) -> Arc<str> {
    // SAFETY: by the contract above.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into()
}

/// Reads one topic of a result, which is valid while it is read.
fn topic(described: &*const sys::rd_kafka_TopicDescription_t) -> (Arc<str>, Result<Topic, Code>) {
    let described = *described;
    // SAFETY: `described` is not null and belongs to a result that is borrowed; so is what it
    // points to. Ids and leaders may be null.
    unsafe {
        let name = owned(sys::rd_kafka_TopicDescription_name(described));
        let error = sys::rd_kafka_TopicDescription_error(described);
        if !error.is_null()
            && let Err(code) = no_error(sys::rd_kafka_error_code(error))
        {
            return (name, Err(code));
        }
        let id = sys::rd_kafka_TopicDescription_topic_id(described);
        let id = match id.is_null() {
            true => 0,
            false => {
                let high = sys::rd_kafka_Uuid_most_significant_bits(id).cast_unsigned();
                let low = sys::rd_kafka_Uuid_least_significant_bits(id).cast_unsigned();
                u128::from(high) << 64 | u128::from(low)
            }
        };
        let mut count = 0;
        let all = sys::rd_kafka_TopicDescription_partitions(described, &raw mut count);
        let mut partitions: Vec<(i32, Replicas)> = slice(all.cast_const(), count)
            .iter()
            .map(|partition| {
                let leader = sys::rd_kafka_TopicPartitionInfo_leader(*partition);
                let leader = (!leader.is_null()).then(|| sys::rd_kafka_Node_id(leader));
                let mut copies = 0;
                sys::rd_kafka_TopicPartitionInfo_replicas(*partition, &raw mut copies);
                let leader = leader.filter(|id| *id >= 0);
                let number = sys::rd_kafka_TopicPartitionInfo_partition(*partition);
                (number, Replicas { leader, copies })
            })
            .collect();
        partitions.sort_unstable_by_key(|(number, _)| *number);
        let partitions = partitions.into_iter().map(|(_, replicas)| replicas).collect();
        (name, Ok(Topic { id, partitions }))
    }
}

/// Reads one partition of a result, which is valid while it is read.
fn offset(info: &*const sys::rd_kafka_ListOffsetsResultInfo_t) -> (Partition, Result<Found, Code>) {
    // SAFETY: `info` belongs to a result that is borrowed; so does the partition it points to.
    let (of, at_millis) = unsafe {
        let of = &*sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info);
        (of, sys::rd_kafka_ListOffsetsResultInfo_timestamp(*info))
    };
    // SAFETY: the library ends names with a zero byte.
    let partition = (unsafe { owned(of.topic) }, of.partition);
    let found = no_error(of.err).and_then(|()| match of.offset {
        // A broker that did not answer leaves its partitions as they were, without an error.
        unanswered if unanswered == i64::from(sys::RD_KAFKA_OFFSET_INVALID) => {
            Err(Code::OperationTimedOut)
        }
        offset => Ok(Found { offset: (offset >= 0).then_some(offset), at_millis }),
    });
    (partition, found)
}

/// The partitions of the one group asked for.
///
/// # Safety
/// The group belongs to a result that is borrowed for `'a`.
unsafe fn partitions<'a>(
    groups: &[*const sys::rd_kafka_group_result_t],
) -> Result<&'a [sys::rd_kafka_topic_partition_t], Code> {
    let Some(group) = groups.first() else { return Err(Code::BadMessage) };
    // SAFETY: by the contract above; an error and a list may be null.
    unsafe {
        let error = sys::rd_kafka_group_result_error(*group);
        if !error.is_null() {
            no_error(sys::rd_kafka_error_code(error))?;
        }
        let list = sys::rd_kafka_group_result_partitions(*group);
        not_null(list)?;
        Ok(slice((*list).elems.cast_const(), usize::try_from((*list).cnt).unwrap_or(0)))
    }
}

/// Reads a commit of a result, which is valid while it is read.
fn commit(element: &sys::rd_kafka_topic_partition_t) -> (Partition, Result<Option<Commit>, Code>) {
    // SAFETY: the library ends names with a zero byte; metadata has the length it says, or is null.
    let (partition, metadata) = unsafe {
        let metadata = slice(element.metadata.cast_const().cast::<u8>(), element.metadata_size);
        ((owned(element.topic), element.partition), String::from_utf8_lossy(metadata).into_owned())
    };
    let Ok(()) = no_error(element.err) else {
        return (partition, Err(Code::from(element.err)));
    };
    let offset = element.offset;
    (partition, Ok((offset >= 0).then_some(Commit { offset, metadata })))
}
