//! `resend`: sends dead letters back to their source, unchanged, and marks them.
//!
//! A dead letter is sent with its own key, headers, bytes and time, to the partition it was read
//! from. After each [`BATCH`] the confirmed ones are marked, and marked ones are skipped, so that a
//! command may be repeated: after a killed one at most [`BATCH`] are sent again. Two of these
//! commands at once on one topic don't see each other's marks.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use millrace_config::{Compression, MAX_MESSAGE_BYTES, TopicName};
use millrace_sink_kafka::{Producer, Shipment, StoredPosition, Traits, code_of, create_producer};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::error::DeadLetterError;
use crate::list::source_of;
use crate::reader::{DeadLetterAccess, DeadLetterReader, DeadLetterRecord, DeadLetterTopic, Item};
use crate::select::Selection;
use crate::sent_offsets::{HEADER, SentOffsets};
use crate::text::sanitize_text;

/// Dead letters sent before they are marked.
pub(crate) const BATCH: usize = 10;
/// Maximum message of the client, in bytes: the highest setting. The broker decides whether the
/// topic accepts it.
const CLIENT_MAX_BYTES: usize = 900_000_000;
/// Maximum time for Kafka to confirm one.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of a resend.
#[derive(Debug, Clone, Default)]
pub struct ResendOptions {
    /// The selected dead letters.
    pub selection: Selection,
    /// A destination other than their source topic.
    pub to: Option<TopicName>,
    /// Only report what would be sent.
    pub dry_run: bool,
    /// Also send those that were sent before.
    pub again: bool,
    /// Maximum number, in all topics together.
    pub limit: Option<u64>,
}

/// The result of a resend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResendReport {
    /// Dead letters sent, or that would be.
    pub sent: u64,
    /// Dead letters skipped because they were sent before.
    pub sent_before: u64,
    /// Dead letters skipped because they don't come from the known source topic.
    pub elsewhere: u64,
    /// Dead letters refused because they have no bytes to send.
    pub without_bytes: u64,
}

/// Sends dead letters again and writes a line for each.
///
/// # Errors
/// When a dead letter or a mark isn't accepted, a topic can't be read, or `out` can't be written.
pub fn resend_dead_letters(
    access: &DeadLetterAccess,
    options: &ResendOptions,
    out: &mut dyn Write,
) -> Result<ResendReport, DeadLetterError> {
    let reader = access.open_reader()?;
    let traits = Traits {
        compression: Compression::Zstd,
        max_message_bytes: CLIENT_MAX_BYTES,
        // The client library's default.
        messages_per_batch: 10_000,
        delivery_timeout: Some(DELIVERY_TIMEOUT),
        response_timeout: DELIVERY_TIMEOUT,
    };
    let producer = create_producer(&access.connection, &traits)?;
    let mut done = ResendReport::default();
    for topic in &access.topics {
        let marks = if options.again { HashMap::new() } else { read_marks(&reader, topic)? };
        let mut run = ResendRun {
            topic,
            options,
            marks,
            producer: &producer,
            batch: Vec::new(),
            partitions: BTreeMap::new(),
            reader: &reader,
            done: &mut done,
            out: &mut *out,
        };
        reader
            .read_all(topic, options.selection.since_millis, &mut |item| run.handle_item(item))?;
        run.send_batch()?;
    }
    Ok(done)
}

/// Returns all marks of a topic, by partition.
fn read_marks(
    reader: &DeadLetterReader,
    topic: &DeadLetterTopic,
) -> Result<HashMap<i32, SentOffsets>, DeadLetterError> {
    let mut marks: HashMap<i32, SentOffsets> = HashMap::new();
    reader.read_all(topic, None, &mut |item| {
        if let Item::Mark(partition, sent) = item {
            marks.entry(partition).or_default().merge(&sent);
        }
        Ok(())
    })?;
    Ok(marks)
}

struct ResendRun<'a> {
    topic: &'a DeadLetterTopic,
    options: &'a ResendOptions,
    marks: HashMap<i32, SentOffsets>,
    producer: &'a Producer<Parcel>,
    batch: Vec<(DeadLetterRecord, TopicName)>,
    /// The number of partitions of each destination topic.
    partitions: BTreeMap<TopicName, i32>,
    reader: &'a DeadLetterReader,
    done: &'a mut ResendReport,
    out: &'a mut dyn Write,
}

/// A message in flight.
struct Parcel {
    index: usize,
    ended: SyncSender<(usize, Result<(), Code>)>,
}

impl Shipment for Parcel {
    fn handle_result(self, result: Result<StoredPosition, (Code, &[u8])>) {
        // The channel has a slot for each parcel of a batch; after the command has ended nobody
        // receives.
        let result = result.map(|_position| ()).map_err(|(code, _)| code);
        let _ = self.ended.try_send((self.index, result));
    }
}

impl ResendRun<'_> {
    fn handle_item(&mut self, item: Item) -> Result<(), DeadLetterError> {
        let Item::DeadLetter(found) = item else { return Ok(()) };
        let DeadLetterRecord { position, at_millis, signal, headers, .. } = &*found;
        let ResendOptions { selection, to, dry_run, limit, .. } = self.options;
        if !selection.selects(*position, *at_millis, *signal, headers) {
            return Ok(());
        }
        if self.marks.get(&position.partition).is_some_and(|sent| sent.contains(position.offset)) {
            self.done.sent_before += 1;
            return Ok(());
        }
        if found.payload.is_empty() {
            self.done.without_bytes += 1;
            return self.refuse_without_bytes(&found);
        }
        let Some(target) = to.clone().or_else(|| self.trusted_source(&found)) else {
            self.done.elsewhere += 1;
            let source = source_of(&found);
            writeln!(
                self.out,
                "skipped {} {position}: its source topic {source} is not in the settings; set a \
                 destination with --to",
                self.topic.name
            )?;
            return Ok(());
        };
        let waiting = self.batch.len() as u64;
        if limit.is_some_and(|limit| self.done.sent + waiting >= limit) {
            return Ok(());
        }
        if *dry_run {
            self.done.sent += 1;
            return self.print_line("would send", &found, &target);
        }
        self.batch.push((*found, target));
        if self.batch.len() == BATCH { self.send_batch() } else { Ok(()) }
    }

    /// Reports a dead letter without bytes: an empty message would count as sent and store nothing.
    fn refuse_without_bytes(&mut self, found: &DeadLetterRecord) -> Result<(), DeadLetterError> {
        let detail = found.headers.detail.as_deref().map_or_else(|| "-".to_owned(), sanitize_text);
        let (topic, position, source) = (&self.topic.name, found.position, source_of(found));
        Ok(writeln!(
            self.out,
            "refused {topic} {position}: it was written without its bytes ({detail}); copy them \
             from {source} before retention deletes them, in messages of at most \
             {MAX_MESSAGE_BYTES} bytes"
        )?)
    }

    /// Returns the source topic of a dead letter, if it is the known one: others may have written a
    /// dead letter's text, which must not choose its destination.
    fn trusted_source(&self, found: &DeadLetterRecord) -> Option<TopicName> {
        let known = self.topic.source.as_ref()?;
        (found.headers.source_topic.as_deref() == Some(known.as_str())).then(|| known.clone())
    }

    fn print_line(
        &mut self,
        what: &str,
        found: &DeadLetterRecord,
        to: &TopicName,
    ) -> Result<(), DeadLetterError> {
        let DeadLetterRecord { position, headers, payload, .. } = found;
        let reason = headers.reason.as_deref().map_or_else(|| "-".to_owned(), sanitize_text);
        let bytes = payload.len();
        let from = &self.topic.name;
        Ok(writeln!(self.out, "{what} {from} {position} -> {to} ({reason}, {bytes} bytes)")?)
    }

    /// Sends the batch and marks the accepted dead letters.
    fn send_batch(&mut self) -> Result<(), DeadLetterError> {
        let batch = std::mem::take(&mut self.batch);
        let mut counts = Vec::new();
        for (_, to) in &batch {
            counts.push(self.partitions_of(to)?);
        }
        let (ended, answers) = sync_channel(BATCH);
        for (index, ((found, to), count)) in batch.iter().zip(counts).enumerate() {
            self.send_dead_letter(found, to, count, Parcel { index, ended: ended.clone() });
        }
        drop(ended);
        let results = collect_results(&answers, batch.len());
        let mut failed = None;
        let mut sent: BTreeMap<i32, SentOffsets> = BTreeMap::new();
        for ((found, to), result) in batch.iter().zip(results) {
            match result {
                Ok(()) => {
                    sent.entry(found.position.partition).or_default().insert(found.position.offset);
                    self.done.sent += 1;
                    self.print_line("sent", found, to)?;
                }
                Err(code) => failed = failed.or(Some((found.position, to.clone(), code))),
            }
        }
        for (partition, sent) in sent {
            self.write_mark(partition, &sent)?;
        }
        match failed {
            None => Ok(()),
            Some((position, to, code)) => Err(DeadLetterError::NotAccepted {
                from: self.topic.name.clone(),
                place: position,
                to,
                code,
            }),
        }
    }

    fn partitions_of(&mut self, topic: &TopicName) -> Result<i32, DeadLetterError> {
        if let Some(count) = self.partitions.get(topic) {
            return Ok(*count);
        }
        let count = self.reader.partition_count(topic)?;
        self.partitions.insert(topic.clone(), count);
        Ok(count)
    }

    fn send_dead_letter(
        &self,
        found: &DeadLetterRecord,
        to: &TopicName,
        partitions: i32,
        parcel: Parcel,
    ) {
        let DeadLetterRecord { at_millis, headers: parsed, key, payload, .. } = found;
        let own = parsed.record_headers.iter();
        let headers = own.fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: value.as_deref() })
        });
        let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(to.as_str(), Box::new(parcel))
            .payload(payload)
            .headers(headers);
        // Its own partition: spans may be partitioned by trace.
        record.partition = parsed
            .source_partition
            .filter(|partition| self.options.to.is_none() && *partition < partitions);
        if let Some(key) = key {
            record = record.key(key);
        }
        if let Some(millis) = at_millis {
            record = record.timestamp(*millis);
        }
        if let Err((error, record)) = self.producer.send(record) {
            record.delivery_opaque.handle_result(Err((code_of(&error), &[])));
        }
    }

    /// Writes a mark after the dead letters that were sent.
    fn write_mark(&self, partition: i32, sent: &SentOffsets) -> Result<(), DeadLetterError> {
        let (ended, answers) = sync_channel(1);
        let text = sent.to_string();
        let headers = OwnedHeaders::new().insert(Header { key: HEADER, value: Some(&text) });
        let parcel = Box::new(Parcel { index: 0, ended });
        let topic = &self.topic.name;
        let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(topic.as_str(), parcel);
        record.partition = Some(partition);
        if let Err((error, record)) = self.producer.send(record.headers(headers)) {
            record.delivery_opaque.handle_result(Err((code_of(&error), &[])));
        }
        match collect_results(&answers, 1).pop() {
            Some(Err(code)) => {
                let positions = format!("{partition}:{text}");
                Err(DeadLetterError::NotMarked { topic: topic.clone(), places: positions, code })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the answers to `count` parcels, in order. The producer answers for each within its
/// time-out; a missing answer counts as not accepted.
fn collect_results(
    answers: &Receiver<(usize, Result<(), Code>)>,
    count: usize,
) -> Vec<Result<(), Code>> {
    let mut results = vec![Err(Code::MessageTimedOut); count];
    for _ in 0..count {
        let Ok((index, result)) = answers.recv_timeout(DELIVERY_TIMEOUT * 2) else { break };
        if let Some(slot) = results.get_mut(index) {
            *slot = result;
        }
    }
    results
}

#[cfg(test)]
mod tests;
