//! Kafka requests that the client library supports but its safe interface does not: about many
//! topics at once, offsets with their times, other groups' commits, and commits with metadata for a
//! group without members.
//!
//! [`send_requests`] sends requests and waits for their responses; it decides nothing and stores
//! nothing. All unsafe code of the operator is in this file.
#![allow(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::bindings as sys;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::probe::BrokerClient;

pub(in crate::kafka) type TopicPartition = (Arc<str>, i32);

/// The spec of a partition's first offset.
pub(in crate::kafka) const EARLIEST: i64 =
    sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_EARLIEST as i64;
/// The spec of the offset after a partition's last message.
pub(in crate::kafka) const LATEST: i64 =
    sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64;

/// Maximum number of topics per request. The library searches the list of requested topics for each
/// answer: 1,000 * 1,000 comparisons take some milliseconds.
pub(in crate::kafka) const TOPICS_MAX: usize = 1_000;
/// Maximum number of partitions per request, for the same reason.
pub(in crate::kafka) const PARTITIONS_MAX: usize = 1_000;
/// Maximum number of requests in flight. Each has at most 1,000 partitions of about 200 bytes in
/// the library, so all are under 20 MB; most have a dozen partitions.
const IN_FLIGHT_MAX: usize = 100;
/// How much later than its timeout a request may end: the library's timers are coarse.
const GRACE: Duration = Duration::from_secs(1);
/// The library's longest timeout of a request. A request to a group's coordinator must not time out
/// in librdkafka 2.12: it is freed then, and used again when the coordinator is found, which ends
/// the process. We stop waiting after `limit`, and close the client long before this timeout.
const GROUP_TIMEOUT_MILLIS: i32 = 3_600_000;

/// A request. It may go to several brokers.
#[derive(Clone, Debug)]
pub(in crate::kafka) enum AdminRequest {
    /// Describes topics; no duplicate names, at most [`TOPICS_MAX`].
    Topics(Vec<Arc<str>>),
    /// Requests the offset for a time in milliseconds, [`EARLIEST`] or [`LATEST`], in each
    /// partition; no duplicates, at most [`PARTITIONS_MAX`].
    Offsets(Vec<(TopicPartition, i64)>),
    /// Requests a group's commits; only over a link with a group.
    Commits {
        group: String,
        /// The partitions; empty for all that the group has committed.
        partitions: Vec<TopicPartition>,
    },
    /// Commits for a group without members; only over a link with a group.
    Commit {
        group: String,
        /// The commit for each partition; at least one, no duplicates.
        commits: Vec<(TopicPartition, Commit)>,
    },
}

impl AdminRequest {
    /// Returns whether the coordinator of a group answers it.
    fn is_of_group(&self) -> bool {
        matches!(self, Self::Commits { .. } | Self::Commit { .. })
    }
}

/// A group's commit for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct Commit {
    /// The offset, at least 0.
    pub(in crate::kafka) offset: i64,
    /// The caller's value for it.
    pub(in crate::kafka) metadata: String,
}

/// The response to a request of the same name; in any order.
#[derive(Debug)]
pub(in crate::kafka) enum AdminResponse {
    Topics(Vec<(Arc<str>, Result<Topic, Code>)>),
    Offsets(Vec<(TopicPartition, Result<ListedOffset, Code>)>),
    /// `None`: the group has no commit for the partition.
    Commits(Vec<(TopicPartition, Result<Option<Commit>, Code>)>),
    /// The result for each partition.
    Commit(Vec<(TopicPartition, Result<(), Code>)>),
}

/// A topic as brokers describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct Topic {
    /// The topic's id, new each time it is created; 0 where brokers have none.
    pub(in crate::kafka) id: u128,
    /// The partitions, by number.
    pub(in crate::kafka) partitions: Vec<Replicas>,
}

/// The leader and number of replicas of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct Replicas {
    /// The broker that leads it, if one does.
    pub(in crate::kafka) leader: Option<i32>,
    /// The number of replicas.
    pub(in crate::kafka) copies: usize,
}

/// The result of an offset query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct ListedOffset {
    /// The message's offset; `None`: there is no message that late.
    pub(in crate::kafka) offset: Option<i64>,
    /// The message's time in milliseconds, if it was queried by time.
    pub(in crate::kafka) at_millis: i64,
}

/// Sends requests, many at a time, and waits for the responses, in the requests' order. A request
/// not answered within `limit` counts as timed out, as does one that could not be sent before
/// `until`. If it was for a group's coordinator, the link must be closed, and is marked.
pub(in crate::kafka) fn send_requests(
    link: &BrokerClient,
    questions: &[AdminRequest],
    limit: Duration,
    until: Instant,
) -> Vec<Result<AdminResponse, Code>> {
    let mut answers: Vec<Result<AdminResponse, Code>> =
        questions.iter().map(|_| Err(Code::OperationTimedOut)).collect();
    let line = ResponseQueue::new(link);
    let mut waiting: VecDeque<(usize, &AdminRequest)> = questions.iter().enumerate().collect();
    let mut pending = BTreeSet::new();
    let mut sent_at = Instant::now();
    loop {
        while pending.len() < IN_FLIGHT_MAX && Instant::now() < until {
            let Some((number, question)) = waiting.pop_front() else { break };
            match line.submit_request(number, question, limit) {
                Ok(()) => {
                    pending.insert(number);
                    sent_at = Instant::now();
                }
                Err(code) => answers[number] = Err(code),
            }
        }
        if pending.is_empty() {
            return answers;
        }
        let wait = (sent_at + limit + GRACE).saturating_duration_since(Instant::now());
        let Some(event) = line.next(wait) else {
            if pending.iter().any(|number| questions[*number].is_of_group()) {
                link.mark_unusable();
            }
            return answers;
        };
        pending.remove(&event.request_index());
        if let Some(question) = questions.get(event.request_index()) {
            answers[event.request_index()] = event.read_response(question);
        }
    }
}

/// A queue for responses to one client.
struct ResponseQueue<'a> {
    link: &'a BrokerClient,
    queue: *mut sys::rd_kafka_queue_t,
}

impl<'a> ResponseQueue<'a> {
    fn new(link: &'a BrokerClient) -> Self {
        // SAFETY: the client is valid while it is borrowed, which is longer than the queue lives.
        let queue = unsafe { sys::rd_kafka_queue_new(link.consumer.client().native_ptr()) };
        Self { link, queue }
    }

    /// Sends one request; its response carries the same `number`.
    fn submit_request(
        &self,
        number: usize,
        question: &AdminRequest,
        limit: Duration,
    ) -> Result<(), Code> {
        use sys::rd_kafka_admin_op_t as Op;
        let client = self.link.consumer.client().native_ptr();
        let operation = match question {
            AdminRequest::Topics(_) => Op::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            AdminRequest::Offsets(_) => Op::RD_KAFKA_ADMIN_OP_LISTOFFSETS,
            AdminRequest::Commits { .. } => Op::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
            AdminRequest::Commit { .. } => Op::RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS,
        };
        let is_of_group = question.is_of_group();
        if is_of_group && !self.link.in_group {
            // When a coordinator moved, librdkafka 2.12 makes the client's own group search for its
            // coordinator, and dereferences a null pointer if the client has no group.
            return Err(Code::InvalidArgument);
        }
        let millis = match is_of_group {
            true => GROUP_TIMEOUT_MILLIS,
            false => i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1),
        };
        let prepared = Prepared::from_request(question)?;
        // SAFETY: client and queue are valid; the library copies its arguments, which are freed
        // here or by `prepared`, each once. The timeout is within the allowed range.
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
                    // Request only commits that the coordinator has written, none in progress.
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

    /// Returns the next response, if one arrives in time.
    fn next(&self, wait: Duration) -> Option<NativeEvent> {
        let millis = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is valid; the event is ours from here on.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue, millis) };
        (!event.is_null()).then_some(NativeEvent(event))
    }
}

impl Drop for ResponseQueue<'_> {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed only here. The library drops later responses, since
        // it counts references to the queue.
        unsafe { sys::rd_kafka_queue_destroy(self.queue) };
    }
}

/// A request in the library's own form.
enum Prepared {
    /// The collection points to these names.
    Topics(#[expect(dead_code)] Vec<CString>, *mut sys::rd_kafka_TopicCollection_t),
    Offsets(List),
    /// The group's request was created from this list.
    Commits(#[expect(dead_code)] Option<List>, *mut sys::rd_kafka_ListConsumerGroupOffsets_t),
    /// The list from which the group's commits were created.
    Commit(#[expect(dead_code)] List, *mut sys::rd_kafka_AlterConsumerGroupOffsets_t),
}

impl Prepared {
    fn from_request(question: &AdminRequest) -> Result<Self, Code> {
        match question {
            AdminRequest::Topics(names) => {
                let names =
                    names.iter().map(|name| to_c_string(name)).collect::<Result<Vec<_>, _>>()?;
                let mut list: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
                // SAFETY: pointers to `list.len()` names that end in a zero byte; they are copied.
                let topics = unsafe {
                    sys::rd_kafka_TopicCollection_of_topic_names(list.as_mut_ptr(), list.len())
                };
                Ok(Self::Topics(names, topics))
            }
            AdminRequest::Offsets(partitions) => {
                let list = partitions.iter().map(|(partition, spec)| (partition, *spec));
                Ok(Self::Offsets(List::from_partitions(list)?))
            }
            AdminRequest::Commits { group, partitions } => {
                let nothing = i64::from(sys::RD_KAFKA_OFFSET_INVALID);
                let list =
                    List::from_partitions(partitions.iter().map(|partition| (partition, nothing)))?;
                // To the library, no list means all partitions, and an empty one is an error.
                let list = (!partitions.is_empty()).then_some(list);
                let group = to_c_string(group)?;
                let list_pointer =
                    list.as_ref().map_or(std::ptr::null(), |list| list.0.cast_const());
                // SAFETY: a name that ends in a zero byte, and a valid list or none; both are
                // copied.
                let group = unsafe {
                    sys::rd_kafka_ListConsumerGroupOffsets_new(group.as_ptr(), list_pointer)
                };
                Ok(Self::Commits(list, group))
            }
            AdminRequest::Commit { group, commits } => {
                let offsets = commits.iter().map(|(partition, commit)| (partition, commit.offset));
                let list = List::from_partitions(offsets)?;
                for (number, (_, commit)) in commits.iter().enumerate() {
                    list.set_metadata(number, &commit.metadata)?;
                }
                let group = to_c_string(group)?;
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
        // SAFETY: created by `of`, destroyed only here.
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
    fn from_partitions<'a>(
        partitions: impl Iterator<Item = (&'a TopicPartition, i64)>,
    ) -> Result<Self, Code> {
        // SAFETY: the list is ours; it may grow beyond its initial size.
        let list = Self(unsafe { sys::rd_kafka_topic_partition_list_new(16) });
        for ((topic, partition), offset) in partitions {
            let topic = to_c_string(topic)?;
            // SAFETY: the name is copied; the element is valid until the list grows again.
            unsafe {
                let element =
                    sys::rd_kafka_topic_partition_list_add(list.0, topic.as_ptr(), *partition);
                (*element).offset = offset;
            }
        }
        Ok(list)
    }

    /// Attaches metadata to an element. The library frees it with the list.
    fn set_metadata(&self, number: usize, metadata: &str) -> Result<(), Code> {
        // SAFETY: the list is valid and has `cnt` elements. The memory comes from the library's
        // allocator, has the metadata's length (at least one byte), and is written completely.
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
        // SAFETY: created by `of`, destroyed only here.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.0) };
    }
}

/// Converts a name; no name in Kafka contains a zero byte.
fn to_c_string(name: &str) -> Result<CString, Code> {
    CString::new(name).map_err(|_| Code::InvalidArgument)
}

/// A response in the library's own form.
struct NativeEvent(*mut sys::rd_kafka_event_t);

impl NativeEvent {
    fn request_index(&self) -> usize {
        // SAFETY: the event is valid until it is dropped.
        unsafe { sys::rd_kafka_event_opaque(self.0) as usize }
    }

    fn read_response(&self, question: &AdminRequest) -> Result<AdminResponse, Code> {
        // SAFETY: the event is valid until it is dropped; results of another type are null.
        unsafe {
            no_error(sys::rd_kafka_event_error(self.0))?;
            let mut count = 0;
            match question {
                AdminRequest::Topics(_) => {
                    let result = sys::rd_kafka_event_DescribeTopics_result(self.0);
                    not_null(result)?;
                    let all = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
                    let topics = slice_from_raw(all.cast_const(), count).iter();
                    // Topics missing from the brokers' response are null.
                    Ok(AdminResponse::Topics(
                        topics.filter(|it| !it.is_null()).map(read_topic).collect(),
                    ))
                }
                AdminRequest::Offsets(_) => {
                    let result = sys::rd_kafka_event_ListOffsets_result(self.0);
                    not_null(result)?;
                    let all = sys::rd_kafka_ListOffsets_result_infos(result, &raw mut count);
                    let found = slice_from_raw(all.cast_const(), count).iter();
                    Ok(AdminResponse::Offsets(found.map(read_offset).collect()))
                }
                AdminRequest::Commits { .. } => {
                    let result = sys::rd_kafka_event_ListConsumerGroupOffsets_result(self.0);
                    not_null(result)?;
                    let all = sys::rd_kafka_ListConsumerGroupOffsets_result_groups(
                        result,
                        &raw mut count,
                    );
                    let of_group = group_partitions(slice_from_raw(all.cast_const(), count))?;
                    Ok(AdminResponse::Commits(of_group.iter().map(read_commit).collect()))
                }
                AdminRequest::Commit { .. } => {
                    let result = sys::rd_kafka_event_AlterConsumerGroupOffsets_result(self.0);
                    not_null(result)?;
                    let all = sys::rd_kafka_AlterConsumerGroupOffsets_result_groups(
                        result,
                        &raw mut count,
                    );
                    let of_group = group_partitions(slice_from_raw(all.cast_const(), count))?;
                    let committed = |element: &sys::rd_kafka_topic_partition_t| {
                        ((to_arc_str(element.topic), element.partition), no_error(element.err))
                    };
                    Ok(AdminResponse::Commit(of_group.iter().map(committed).collect()))
                }
            }
        }
    }
}

impl Drop for NativeEvent {
    fn drop(&mut self) {
        // SAFETY: ours since it was polled, destroyed only here.
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
unsafe fn slice_from_raw<'a, T>(first: *const T, count: usize) -> &'a [T] {
    match first.is_null() {
        true => &[],
        // SAFETY: by the contract above.
        false => unsafe { std::slice::from_raw_parts(first, count) },
    }
}

/// # Safety
/// `name` is a text that ends in a zero byte.
unsafe fn to_arc_str(name: *const c_char) -> Arc<str> {
    // SAFETY: by the contract above.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into()
}

/// Reads one topic of a result, which is valid while it is read.
fn read_topic(
    described: &*const sys::rd_kafka_TopicDescription_t,
) -> (Arc<str>, Result<Topic, Code>) {
    let described = *described;
    // SAFETY: `described` is not null and belongs to a borrowed result, as does everything it
    // points to. Ids and leaders may be null.
    unsafe {
        let name = to_arc_str(sys::rd_kafka_TopicDescription_name(described));
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
        let mut partitions: Vec<(i32, Replicas)> = slice_from_raw(all.cast_const(), count)
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
fn read_offset(
    info: &*const sys::rd_kafka_ListOffsetsResultInfo_t,
) -> (TopicPartition, Result<ListedOffset, Code>) {
    // SAFETY: `info` belongs to a borrowed result, as does the partition it points to.
    let (of, at_millis) = unsafe {
        let of = &*sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info);
        (of, sys::rd_kafka_ListOffsetsResultInfo_timestamp(*info))
    };
    // SAFETY: the library ends names with a zero byte.
    let partition = (unsafe { to_arc_str(of.topic) }, of.partition);
    let found = no_error(of.err).and_then(|()| match of.offset {
        // If a broker did not answer, its partitions are unchanged, without an error.
        unanswered if unanswered == i64::from(sys::RD_KAFKA_OFFSET_INVALID) => {
            Err(Code::OperationTimedOut)
        }
        offset => Ok(ListedOffset { offset: (offset >= 0).then_some(offset), at_millis }),
    });
    (partition, found)
}

/// Returns the partitions of the one requested group.
///
/// # Safety
/// The group belongs to a result that is borrowed for `'a`.
unsafe fn group_partitions<'a>(
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
        Ok(slice_from_raw((*list).elems.cast_const(), usize::try_from((*list).cnt).unwrap_or(0)))
    }
}

/// Reads a commit of a result, which is valid while it is read.
fn read_commit(
    element: &sys::rd_kafka_topic_partition_t,
) -> (TopicPartition, Result<Option<Commit>, Code>) {
    // SAFETY: the library ends names with a zero byte; metadata has the length `metadata_size`, or
    // is null.
    let (partition, metadata) = unsafe {
        let metadata =
            slice_from_raw(element.metadata.cast_const().cast::<u8>(), element.metadata_size);
        (
            (to_arc_str(element.topic), element.partition),
            String::from_utf8_lossy(metadata).into_owned(),
        )
    };
    let Ok(()) = no_error(element.err) else {
        return (partition, Err(Code::from(element.err)));
    };
    let offset = element.offset;
    (partition, Ok((offset >= 0).then_some(Commit { offset, metadata })))
}
