//! `resend`: sends dead letters back to their source, unchanged, and marks them.
//!
//! A dead letter is sent with its own key, headers, bytes and time, to the partition it was read
//! from. After each [`BATCH`] the confirmed ones are marked, and marked ones are skipped, so that a
//! command may be repeated: a killed one sends at most [`BATCH`] a second time. Two of these
//! commands at once on one topic don't see each other's marks.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use millrace_config::{Compression, TopicName};
use millrace_exporters::kafka::{Producer, Shipment, Traits, code_of, create};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::error::DeadLetterError;
use crate::list::source_of;
use crate::reader::{DeadLetterTopic, Desk, Found, Item, Reader};
use crate::select::Selection;
use crate::sent::{HEADER, Sent};

/// Letters sent before they are marked.
pub(crate) const BATCH: usize = 10;
/// The longest message the client takes, in bytes: its maximum. Whether the topic takes it is for
/// the broker to say.
const MAX_MESSAGE_BYTES: usize = 900_000_000;
/// How long Kafka may take to confirm one.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// What to send.
#[derive(Debug, Clone, Default)]
pub struct ResendOptions {
    /// Which letters.
    pub selection: Selection,
    /// Another topic than the one they came from.
    pub to: Option<TopicName>,
    /// Only say what would be sent.
    pub dry_run: bool,
    /// Also those that were sent before.
    pub again: bool,
    /// How many at most, in all topics together.
    pub limit: Option<u64>,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resent {
    /// Letters sent, or that would be.
    pub sent: u64,
    /// Letters passed over because they were sent before.
    pub sent_before: u64,
    /// Letters passed over because they don't come from the topic that is known.
    pub elsewhere: u64,
}

/// Sends letters again and writes a line for each.
///
/// # Errors
/// When a letter or a mark isn't taken, a topic can't be read, or `out` not written.
pub fn resend(
    desk: &Desk,
    options: &ResendOptions,
    out: &mut dyn Write,
) -> Result<Resent, DeadLetterError> {
    let reader = desk.reader()?;
    let traits = Traits {
        compression: Compression::Zstd,
        max_message_bytes: MAX_MESSAGE_BYTES,
        // The client library's default.
        messages_per_batch: 10_000,
        delivery_timeout: Some(DELIVERY_TIMEOUT),
        answer_timeout: DELIVERY_TIMEOUT,
    };
    let producer = create(&desk.connection, &traits)?;
    let mut done = Resent::default();
    for topic in &desk.topics {
        let marks = if options.again { HashMap::new() } else { marks(&reader, topic)? };
        let mut run = Run {
            topic,
            options,
            marks,
            producer: &producer,
            batch: Vec::new(),
            partitions: BTreeMap::new(),
            asking: &reader,
            done: &mut done,
            out: &mut *out,
        };
        reader.read_all(topic, options.selection.since_millis, &mut |item| run.take(item))?;
        run.send_batch()?;
    }
    Ok(done)
}

/// All marks of a topic, by partition.
fn marks(reader: &Reader, topic: &DeadLetterTopic) -> Result<HashMap<i32, Sent>, DeadLetterError> {
    let mut marks: HashMap<i32, Sent> = HashMap::new();
    reader.read_all(topic, None, &mut |item| {
        if let Item::Mark(partition, sent) = item {
            marks.entry(partition).or_default().join(&sent);
        }
        Ok(())
    })?;
    Ok(marks)
}

struct Run<'a> {
    topic: &'a DeadLetterTopic,
    options: &'a ResendOptions,
    marks: HashMap<i32, Sent>,
    producer: &'a Producer<Parcel>,
    batch: Vec<(Found, TopicName)>,
    /// How many partitions the topics have that letters go to.
    partitions: BTreeMap<TopicName, i32>,
    asking: &'a Reader,
    done: &'a mut Resent,
    out: &'a mut dyn Write,
}

/// A message on its way.
struct Parcel {
    index: usize,
    ended: SyncSender<(usize, Result<(), Code>)>,
}

impl Shipment for Parcel {
    fn ended(self, result: Result<(), Code>) {
        // There is a place for each parcel of a batch; nobody waits when the command has ended.
        let _ = self.ended.try_send((self.index, result));
    }
}

impl Run<'_> {
    fn take(&mut self, item: Item) -> Result<(), DeadLetterError> {
        let Item::Letter(found) = item else { return Ok(()) };
        let Found { place, at_millis, signal, letter, .. } = &*found;
        let ResendOptions { selection, to, dry_run, limit, .. } = self.options;
        if !selection.takes(*place, *at_millis, *signal, letter) {
            return Ok(());
        }
        if self.marks.get(&place.partition).is_some_and(|sent| sent.contains(place.offset)) {
            self.done.sent_before += 1;
            return Ok(());
        }
        let Some(target) = to.clone().or_else(|| self.source(&found)) else {
            self.done.elsewhere += 1;
            let source = source_of(&found);
            writeln!(
                self.out,
                "passed over {} {place}: it comes from {source}, not from a topic \
                known here; name one with --to",
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
            return self.say("would send", &found, &target);
        }
        self.batch.push((*found, target));
        if self.batch.len() == BATCH { self.send_batch() } else { Ok(()) }
    }

    /// The topic a letter comes from, if that is the one it should come from: a letter is text that
    /// others may have written, and must not choose its destination.
    fn source(&self, found: &Found) -> Option<TopicName> {
        let known = self.topic.source.as_ref()?;
        (found.letter.source_topic.as_deref() == Some(known.as_str())).then(|| known.clone())
    }

    fn say(&mut self, what: &str, found: &Found, to: &TopicName) -> Result<(), DeadLetterError> {
        let Found { place, letter, payload, .. } = found;
        let reason = letter.reason.as_deref().map_or_else(|| "-".to_owned(), crate::text::clean);
        let bytes = payload.len();
        let from = &self.topic.name;
        Ok(writeln!(self.out, "{what} {from} {place} -> {to} ({reason}, {bytes} bytes)")?)
    }

    /// Sends what waits and marks what was taken.
    fn send_batch(&mut self) -> Result<(), DeadLetterError> {
        let batch = std::mem::take(&mut self.batch);
        let mut counts = Vec::new();
        for (_, to) in &batch {
            counts.push(self.partitions_of(to)?);
        }
        let (ended, answers) = sync_channel(BATCH);
        for (index, ((found, to), count)) in batch.iter().zip(counts).enumerate() {
            self.send(found, to, count, Parcel { index, ended: ended.clone() });
        }
        drop(ended);
        let results = collect(&answers, batch.len());
        let mut failed = None;
        let mut sent: BTreeMap<i32, Sent> = BTreeMap::new();
        for ((found, to), result) in batch.iter().zip(results) {
            match result {
                Ok(()) => {
                    sent.entry(found.place.partition).or_default().insert(found.place.offset);
                    self.done.sent += 1;
                    self.say("sent", found, to)?;
                }
                Err(code) => failed = failed.or(Some((found.place, to.clone(), code))),
            }
        }
        for (partition, sent) in sent {
            self.mark(partition, &sent)?;
        }
        match failed {
            None => Ok(()),
            Some((place, to, code)) => {
                Err(DeadLetterError::NotTaken { from: self.topic.name.clone(), place, to, code })
            }
        }
    }

    fn partitions_of(&mut self, topic: &TopicName) -> Result<i32, DeadLetterError> {
        if let Some(count) = self.partitions.get(topic) {
            return Ok(*count);
        }
        let count = self.asking.partitions(topic)?;
        self.partitions.insert(topic.clone(), count);
        Ok(count)
    }

    fn send(&self, found: &Found, to: &TopicName, partitions: i32, parcel: Parcel) {
        let Found { at_millis, letter, key, payload, .. } = found;
        let own = letter.own_headers.iter();
        let headers = own.fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: value.as_deref() })
        });
        let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(to.as_str(), Box::new(parcel))
            .payload(payload)
            .headers(headers);
        // Its own partition: spans may be sorted by trace.
        record.partition = letter
            .source_partition
            .filter(|partition| self.options.to.is_none() && *partition < partitions);
        if let Some(key) = key {
            record = record.key(key);
        }
        if let Some(millis) = at_millis {
            record = record.timestamp(*millis);
        }
        if let Err((error, record)) = self.producer.send(record) {
            record.delivery_opaque.ended(Err(code_of(&error)));
        }
    }

    /// Writes down, behind the letters, that these were sent.
    fn mark(&self, partition: i32, sent: &Sent) -> Result<(), DeadLetterError> {
        let (ended, answers) = sync_channel(1);
        let text = sent.to_string();
        let headers = OwnedHeaders::new().insert(Header { key: HEADER, value: Some(&text) });
        let parcel = Box::new(Parcel { index: 0, ended });
        let topic = &self.topic.name;
        let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(topic.as_str(), parcel);
        record.partition = Some(partition);
        if let Err((error, record)) = self.producer.send(record.headers(headers)) {
            record.delivery_opaque.ended(Err(code_of(&error)));
        }
        match collect(&answers, 1).pop() {
            Some(Err(code)) => {
                let places = format!("{partition}:{text}");
                Err(DeadLetterError::NotMarked { topic: topic.clone(), places, code })
            }
            _ => Ok(()),
        }
    }
}

/// The answers to `count` parcels, in order. The producer answers for each within its time-out; one
/// that doesn't counts as not taken.
fn collect(answers: &Receiver<(usize, Result<(), Code>)>, count: usize) -> Vec<Result<(), Code>> {
    let mut results = vec![Err(Code::MessageTimedOut); count];
    for _ in 0..count {
        let Ok((index, result)) = answers.recv_timeout(DELIVERY_TIMEOUT * 2) else { break };
        if let Some(place) = results.get_mut(index) {
            *place = result;
        }
    }
    results
}
