//! The queues on disk: one for each topic, so that a topic that stores nothing delays no other, and
//! one for each destination's requests that were set aside.
//!
//! Together they use at most the limit, of which a part is reserved for setting aside: otherwise a
//! full buffer could not get rid of a request that Kafka never accepts, and would stay full.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use millrace_buffer::frame::{HEAD_BYTES, HEADER_BYTES};
use millrace_buffer::{
    AppendError, Disk, Folder, Queue, QueueLimits, Stats, Sums, is_full, is_unreadable,
};
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::Signal;

use super::BufferError;
use super::sender::{Sender, skip_unreadable};
use crate::topics::destination::{Destination, TopicKey};

/// The folder of requests that were set aside, next to those of the signals.
const ASIDE: &str = "set-aside";
/// The folder with a folder for each route, by its topic.
const ROUTES: &str = "routes";

/// The queues of all topics, and of requests that were set aside.
pub(super) struct DiskBuffers<D> {
    destinations: Vec<DestinationBuffers<D>>,
    max_bytes: u64,
    /// The part of `max_bytes` that topics' requests don't get.
    held_back_bytes: u64,
}

/// The queues of one destination.
struct DestinationBuffers<D> {
    destination: Destination,
    /// The route's topic; empty for the exporter's own.
    name: String,
    /// The signals that the destination has, and others of which there are records.
    signals: Vec<SignalBuffer<D>>,
    aside: Queue<D>,
}

/// A signal's queue.
struct SignalBuffer<D> {
    signal: Signal,
    queue: Queue<D>,
    sender: Sender,
    is_configured: bool,
}

impl DiskBuffers<Folder> {
    /// Opens the folders, and returns requests that an earlier process set aside to their topic,
    /// which may accept them by now. A route that the settings no longer have is opened if its
    /// folder has records, so that they are reported.
    ///
    /// # Errors
    /// A folder can't be used or read.
    pub(super) fn open(
        path: &Path,
        routes: &[&str],
        (max_bytes, max_message_bytes): (u64, usize),
        telemetry: &Arc<Telemetry>,
        sender: impl Fn(TopicKey) -> (Sender, bool),
    ) -> Result<Self, BufferError> {
        let folders = |name: &str| path.join(ROUTES).join(name);
        let mut destinations =
            vec![open_destination(Destination::Own, "", path, max_bytes, &sender)?];
        let removed = removed_routes(&path.join(ROUTES), routes)?;
        let names = routes.iter().map(|name| (*name).to_owned()).chain(removed);
        for (position, name) in names.enumerate() {
            let destination = Destination::Route(position);
            let folder = folders(&name);
            let buffers = open_destination(destination, &name, &folder, max_bytes, &sender)?;
            if position < routes.len() || buffers.stats().records > 0 {
                destinations.push(buffers);
            }
        }
        let held_back_bytes = held_back_bytes(max_bytes, max_message_bytes as u64);
        let mut buffers = Self { destinations, max_bytes, held_back_bytes };
        buffers.return_aside()?;
        for SignalBuffer { signal, queue, .. } in buffers.signals() {
            telemetry.add_buffered(*signal, queue.stats().count as i64);
        }
        // Requests that didn't fit are still buffered.
        telemetry.add_buffered(Signal::Traces, buffers.aside_records() as i64);
        Ok(buffers)
    }
}

fn open_destination(
    destination: Destination,
    name: &str,
    path: &Path,
    max_bytes: u64,
    sender: &impl Fn(TopicKey) -> (Sender, bool),
) -> Result<DestinationBuffers<Folder>, BufferError> {
    let open = |name: &str| -> Result<Queue<Folder>, BufferError> {
        let (queue, recovery) =
            Queue::open(Folder::open(&path.join(name))?, QueueLimits::from_max_bytes(max_bytes))?;
        let stats = queue.stats();
        tracing::info!(
            path = %path.display(), name, records = stats.count, bytes = stats.file_bytes,
            unreadable_bytes = recovery.unreadable_bytes, "opened a buffer on disk"
        );
        Ok(queue)
    };
    let aside = open(ASIDE)?;
    let has_aside = aside.stats().records > 0;
    let mut signals = Vec::new();
    for signal in Signal::ALL {
        let (sender, is_configured) = sender(TopicKey { destination, signal });
        // Requests that were set aside return to their signal's queue, whatever the settings are.
        let is_required = is_configured || has_aside;
        if !is_required && !path.join(signal.as_str()).try_exists()? {
            continue;
        }
        let queue = open(signal.as_str())?;
        if is_required || queue.stats().records > 0 {
            signals.push(SignalBuffer { signal, queue, sender, is_configured });
        }
    }
    Ok(DestinationBuffers { destination, name: name.to_owned(), signals, aside })
}

/// Returns the topics of routes that have a folder, but are no longer routes, in order.
fn removed_routes(folder: &Path, routes: &[&str]) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut removed = Vec::new();
    for entry in entries {
        let name: Result<String, OsString> = entry?.file_name().into_string();
        removed.extend(name.ok().filter(|name| !routes.contains(&name.as_str())));
    }
    removed.sort();
    Ok(removed)
}

impl<D: Disk> DiskBuffers<D> {
    /// Without free space the rest is returned at the next start.
    fn return_aside(&mut self) -> io::Result<()> {
        for index in 0..self.destinations.len() {
            let returned = self.return_aside_of(index);
            self.destinations[index].aside.rewind();
            match returned {
                // Sending what is on disk frees space.
                Err(error) if is_full(&error) => {
                    tracing::warn!(%error, "cannot return requests that were set aside");
                }
                returned => returned?,
            }
        }
        Ok(())
    }

    fn return_aside_of(&mut self, index: usize) -> io::Result<()> {
        let max_bytes = self.max_bytes;
        loop {
            let entry = match self.destinations[index].aside.read() {
                Err(error) if is_unreadable(&error) => {
                    skip_unreadable(&mut self.destinations[index].aside, ASIDE, &error)?;
                    continue;
                }
                entry => entry?,
            };
            let Some(entry) = entry else { break };
            if let Some(signal) = Signal::ALL.get(usize::from(entry.tag)) {
                let destination = self.destinations[index].destination;
                let topic = TopicKey { destination, signal: *signal };
                let at = entry.at_millis;
                // Its bytes in the other queue become free.
                match self.append_within(max_bytes, topic, &entry.payload, at, entry.count) {
                    Ok(()) => self.find_queue(topic)?.sync()?,
                    Err(AppendError::Disk(error)) => return Err(error),
                    Err(_) => break,
                }
            }
            self.destinations[index].aside.ack_through(entry.number)?;
        }
        self.destinations[index].aside.sync()
    }

    /// Returns all topics that have a queue.
    pub(super) fn topics(&self) -> impl Iterator<Item = TopicKey> {
        self.destinations.iter().flat_map(|DestinationBuffers { destination, signals, .. }| {
            let destination = *destination;
            signals.iter().map(move |buffer| TopicKey { destination, signal: buffer.signal })
        })
    }

    fn signals(&self) -> impl Iterator<Item = &SignalBuffer<D>> {
        self.destinations.iter().flat_map(|buffers| &buffers.signals)
    }

    fn signals_mut(&mut self) -> impl Iterator<Item = &mut SignalBuffer<D>> {
        self.destinations.iter_mut().flat_map(|buffers| &mut buffers.signals)
    }

    fn find_queue(&mut self, topic: TopicKey) -> io::Result<&mut Queue<D>> {
        let TopicKey { destination, signal } = topic;
        let buffers = self.destinations.iter_mut().filter(|it| it.destination == destination);
        let mut buffers = buffers.flat_map(|it| &mut it.signals);
        let buffer = buffers.find(|it| it.signal == signal);
        let missing = || io::Error::other("the topic has no buffer on disk");
        buffer.map(|it| &mut it.queue).ok_or_else(missing)
    }

    /// Appends a request to its topic's queue.
    ///
    /// # Errors
    /// The limit is reached, or the disk fails.
    pub(super) fn append_request(
        &mut self,
        topic: TopicKey,
        payload: &[u8],
        at_millis: u64,
        count: u32,
    ) -> Result<(), AppendError> {
        let max_bytes = self.max_bytes.saturating_sub(self.held_back_bytes);
        self.append_within(max_bytes, topic, payload, at_millis, count)
    }

    fn append_within(
        &mut self,
        max_bytes: u64,
        topic: TopicKey,
        payload: &[u8],
        at_millis: u64,
        count: u32,
    ) -> Result<(), AppendError> {
        let all = self.stats().file_bytes;
        let queue = self.find_queue(topic).map_err(AppendError::Disk)?;
        // The other queues' bytes are already in use.
        queue.set_max_bytes((max_bytes + queue.stats().file_bytes).saturating_sub(all));
        match queue.append(payload, at_millis, count, topic.signal.index() as u8) {
            Ok(_) => Ok(()),
            // On its own the request isn't too long.
            Err(AppendError::TooLong { bytes, .. }) if (bytes as u64) < max_bytes / 2 => {
                Err(AppendError::Full { used_bytes: all, max_bytes })
            }
            Err(AppendError::Full { .. }) => Err(AppendError::Full { used_bytes: all, max_bytes }),
            Err(error) => Err(error),
        }
    }

    /// Makes everything that was appended and acknowledged safe.
    ///
    /// # Errors
    /// One of the queues can't be synced; the others are still tried.
    pub(super) fn sync_queues(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for DestinationBuffers { signals, aside, .. } in &mut self.destinations {
            let queues = signals.iter_mut().map(|buffer| &mut buffer.queue);
            result = queues.chain([aside]).map(Queue::sync).fold(result, io::Result::and);
        }
        result
    }

    /// Returns whether something was appended or acknowledged that isn't safe yet.
    pub(super) fn is_dirty(&self) -> bool {
        self.destinations.iter().any(|DestinationBuffers { signals, aside, .. }| {
            aside.is_dirty() || signals.iter().any(|buffer| buffer.queue.is_dirty())
        })
    }

    /// Runs each topic's sender.
    ///
    /// # Errors
    /// The disk fails; the other topics' senders have run.
    pub(super) fn step_senders(&mut self, more: bool) -> io::Result<()> {
        let max_bytes = self.max_bytes;
        let mut result = Ok(());
        for index in 0..self.destinations.len() {
            let all = self.stats().file_bytes;
            let DestinationBuffers { signals, aside, .. } = &mut self.destinations[index];
            aside.set_max_bytes((max_bytes + aside.stats().file_bytes).saturating_sub(all));
            for SignalBuffer { queue, sender, .. } in signals {
                result = result.and(sender.run_step(queue, aside, more));
            }
        }
        result
    }

    /// Polls answers, and acknowledges.
    ///
    /// # Errors
    /// The disk fails; the other topics' answers are polled.
    pub(super) fn collect_results(&mut self) -> io::Result<()> {
        let collect = |it: &mut SignalBuffer<D>| it.sender.collect_results(&mut it.queue);
        self.signals_mut().map(collect).fold(Ok(()), io::Result::and)
    }

    /// Reports records whose bytes went bad on the disk: they are lost.
    pub(super) fn report_damaged(&mut self, telemetry: &Telemetry) {
        for DestinationBuffers { name, signals, aside, .. } in &mut self.destinations {
            let of_signals =
                signals.iter_mut().map(|it| (Some(it.signal), it.queue.take_damaged()));
            // What was damaged while it was set aside is found at the start, and was never counted.
            for (signal, damaged) in of_signals.chain([(None, aside.take_damaged())]) {
                if damaged == Sums::default() {
                    continue;
                }
                let Sums { records: requests, count: records } = damaged;
                telemetry.disk_buffer_damaged(records);
                if let Some(signal) = signal {
                    telemetry.add_buffered(signal, -(records as i64));
                }
                let signal = signal.map(Signal::as_str);
                tracing::error!(
                    signal,
                    route = name,
                    requests,
                    records,
                    "records in the buffer on disk were damaged there and are lost: check the disk"
                );
            }
        }
    }

    /// Returns whether answers are pending.
    pub(super) fn is_busy(&self) -> bool {
        self.signals().any(|buffer| buffer.sender.is_busy())
    }

    /// Returns the sums of all queues.
    pub(super) fn stats(&self) -> Stats {
        self.destinations.iter().map(DestinationBuffers::stats).fold(Stats::default(), add_stats)
    }

    /// Returns the number of records that are set aside.
    pub(super) fn aside_records(&self) -> u64 {
        self.destinations.iter().map(|buffers| buffers.aside.stats().count).sum()
    }

    /// Returns when the oldest request was written, in milliseconds since 1970.
    pub(super) fn oldest_millis(&mut self) -> Option<u64> {
        let queues = self.signals_mut().map(|buffer| &mut buffer.queue);
        queues.filter_map(|queue| queue.oldest_millis().ok().flatten()).min()
    }

    /// Returns notes for people: records that wait for a change of the topics or the settings.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let aside = self.aside_records();
        if aside > 0 {
            notes.push(format!(
                "records set aside on disk: {aside}; Kafka refused them while it accepted others; \
                 raise the topic's max.message.bytes or find the cause in the log, then restart"
            ));
        }
        for DestinationBuffers { name, signals, .. } in &self.destinations {
            for SignalBuffer { signal, queue, is_configured, .. } in signals {
                let records = queue.stats().count;
                if records > 0 && !is_configured {
                    let of_route = match name.as_str() {
                        "" => String::new(),
                        topic => format!(" for topic {topic}"),
                    };
                    notes.push(format!(
                        "records of {signal}{of_route} are on disk ({records}), but the settings \
                         no longer send {signal} there"
                    ));
                }
            }
        }
        notes
    }
}

impl<D: Disk> DestinationBuffers<D> {
    fn stats(&self) -> Stats {
        let queues = self.signals.iter().map(|buffer| &buffer.queue).chain([&self.aside]);
        queues.map(Queue::stats).fold(Stats::default(), add_stats)
    }
}

fn add_stats(sum: Stats, stats: Stats) -> Stats {
    Stats {
        records: sum.records + stats.records,
        count: sum.count + stats.count,
        file_bytes: sum.file_bytes + stats.file_bytes,
    }
}

/// Returns the bytes of a queue's complete oldest segment, whose space becomes free only when it is
/// empty: it ends with the request that makes it long enough, and the segment that it is copied to
/// has a head. At most half of the limit.
fn held_back_bytes(max_bytes: u64, max_message_bytes: u64) -> u64 {
    let frame_bytes = max_message_bytes.saturating_add((HEADER_BYTES + HEAD_BYTES) as u64);
    let bytes = QueueLimits::from_max_bytes(max_bytes).segment_bytes.saturating_add(frame_bytes);
    bytes.min(max_bytes / 2)
}

#[cfg(test)]
mod tests;
