//! A scripted sink and dead-letter topic in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_pipeline::sink::{
    AcceptedRecords, AppendedMessage, Block, BlockSlice, Completion, DeadLetter, DeadLetterSink,
    DeliveryOutcome, Encoder, Insert, QueueFull, RejectedRecords, Rejection, Sink, TableIndex,
};
use millrace_wire::Signal;
use millrace_wire::otlp::{TIME_OUT_OF_RANGE, TimeRange};

/// Separates the groups of a message.
const GROUP_END: u8 = b'|';

/// How the fake handles inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Stores them at once, except those with a poisoned message.
    Store,
    /// Accepts them and doesn't answer.
    Hold,
    /// Accepts none.
    Full,
    /// Drops the next one unanswered, then stores.
    DropOne,
    /// Returns the next one unstored, then stores.
    DeferOne,
}

/// One insert: its token and the messages in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub(super) token: String,
    pub(super) messages: Vec<String>,
}

#[derive(Default)]
struct State {
    /// The tokens that arrived, and whether they may already be stored.
    sent: Vec<(String, bool)>,
    stored: Vec<Seen>,
    dropped: Vec<Seen>,
    held: Vec<(Seen, Completion, Insert)>,
    letters: Vec<DeadLetter>,
    held_letters: Vec<(DeadLetter, Completion)>,
}

pub(super) struct FakeSink {
    mode: Mutex<Mode>,
    /// The signals whose dead letters aren't answered.
    hold_letters: Mutex<Vec<Signal>>,
    /// The table accepts poisoned messages too.
    mended: AtomicBool,
    /// The signal whose table accepts nothing.
    blocked: Mutex<Option<Signal>>,
    /// How long tables accept nothing after an answer, and until when.
    stall: Mutex<(Duration, Option<Instant>)>,
    state: Mutex<State>,
    /// The bytes in encoders and unanswered bodies, now and at most.
    live_bytes: Arc<LiveBytes>,
}

#[derive(Default)]
struct LiveBytes {
    now: AtomicU64,
    most: AtomicU64,
}

impl LiveBytes {
    fn add(&self, bytes: usize) {
        let now = self.now.fetch_add(bytes as u64, Ordering::SeqCst) + bytes as u64;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn sub(&self, bytes: usize) {
        self.now.fetch_sub(bytes as u64, Ordering::SeqCst);
    }
}

/// The beginning of messages that can't be decoded.
pub(super) const BROKEN: &str = "broken";
/// The beginning of messages that make their insert fail.
pub(super) const POISON: &str = "poison";

impl FakeSink {
    pub(super) fn new(mode: Mode) -> Arc<Self> {
        Arc::new(Self {
            mode: Mutex::new(mode),
            hold_letters: Mutex::default(),
            mended: AtomicBool::new(false),
            blocked: Mutex::new(None),
            stall: Mutex::default(),
            state: Mutex::default(),
            live_bytes: Arc::default(),
        })
    }

    /// Changes how inserts are handled; held ones are stored when the new mode stores.
    pub(super) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
        if mode == Mode::Store {
            self.finish_held();
        }
    }

    /// Answers held inserts, except those for a blocked table.
    fn finish_held(&self) {
        let held = std::mem::take(&mut self.state.lock().unwrap().held);
        for (seen, completion, insert) in held {
            if self.is_signal_blocked(insert.block.table) {
                self.state.lock().unwrap().held.push((seen, completion, insert));
                continue;
            }
            self.live_bytes.sub(insert.block.body.len());
            self.finish(seen, completion);
        }
    }

    pub(super) fn hold_letters(&self, hold: bool) {
        self.hold_letters_of(if hold { &Signal::ALL } else { &[] });
    }

    /// Leaves dead letters of these signals, and no others, unanswered from now on.
    pub(super) fn hold_letters_of(&self, signals: &[Signal]) {
        *self.hold_letters.lock().unwrap() = signals.to_vec();
        if signals.is_empty() {
            let mut state = self.state.lock().unwrap();
            for (letter, completion) in std::mem::take(&mut state.held_letters) {
                state.letters.push(letter);
                completion.finish_with(DeliveryOutcome::Stored);
            }
        }
    }

    /// Refuses no rows from now on.
    pub(super) fn mend(&self) {
        self.mended.store(true, Ordering::SeqCst);
    }

    /// Blocks the table of this signal, and no other, from now on: inserts sent to it are held.
    pub(super) fn block(&self, signal: Option<Signal>) {
        *self.blocked.lock().unwrap() = signal;
        if *self.mode.lock().unwrap() == Mode::Store {
            self.finish_held();
        }
    }

    /// Lets tables accept nothing for a while after each answer, from now on.
    pub(super) fn stall_after_answers(&self, stall: Duration) {
        *self.stall.lock().unwrap() = (stall, None);
    }

    /// Returns the stored messages, sorted, including copies.
    pub(super) fn messages(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let mut all: Vec<_> = state.stored.iter().flat_map(|s| s.messages.clone()).collect();
        all.sort();
        all
    }

    pub(super) fn stored(&self) -> Vec<Seen> {
        self.state.lock().unwrap().stored.clone()
    }

    /// Returns whether an insert may already be stored, as stated by each of its attempts.
    pub(super) fn may_be_stored(&self, token: &str) -> Vec<bool> {
        let state = self.state.lock().unwrap();
        let attempts = state.sent.iter().filter(|(sent, _)| sent == token);
        attempts.map(|(_, may_be_stored)| *may_be_stored).collect()
    }

    pub(super) fn dropped(&self) -> Vec<Seen> {
        self.state.lock().unwrap().dropped.clone()
    }

    pub(super) fn held(&self) -> Vec<Seen> {
        self.state.lock().unwrap().held.iter().map(|(seen, ..)| seen.clone()).collect()
    }

    pub(super) fn letters(&self) -> Vec<DeadLetter> {
        self.state.lock().unwrap().letters.clone()
    }

    pub(super) fn held_letters(&self) -> usize {
        self.state.lock().unwrap().held_letters.len()
    }

    pub(super) fn held_letter_bytes(&self) -> usize {
        let state = self.state.lock().unwrap();
        state.held_letters.iter().map(|(letter, _)| letter.memory_bytes()).sum()
    }

    pub(super) fn most_live_bytes(&self) -> u64 {
        self.live_bytes.most.load(Ordering::SeqCst)
    }

    fn is_signal_blocked(&self, table: TableIndex) -> bool {
        let blocked = *self.blocked.lock().unwrap();
        blocked.is_some_and(|signal| signal.index() == usize::from(table.0))
    }

    fn finish(&self, seen: Seen, completion: Completion) {
        let mut stall = self.stall.lock().unwrap();
        stall.1 = (!stall.0.is_zero()).then(|| Instant::now() + stall.0);
        drop(stall);
        let poisoned = seen.messages.iter().any(|message| message.starts_with(POISON));
        if poisoned && !self.mended.load(Ordering::SeqCst) {
            let detail = "code 117".to_owned();
            completion
                .finish_with(DeliveryOutcome::Rejected(Rejection { reason: "refused", detail }));
        } else {
            self.state.lock().unwrap().stored.push(seen);
            completion.finish_with(DeliveryOutcome::Stored);
        }
    }
}

impl Sink for FakeSink {
    fn new_encoder(&self, signal: Signal) -> Box<dyn Encoder> {
        let live = Arc::clone(&self.live_bytes);
        Box::new(FakeEncoder { signal, lines: Vec::new(), rows: 0, live })
    }

    fn is_blocked(&self, _: &str, _: i32, table: TableIndex) -> bool {
        let (_, stalled_until) = *self.stall.lock().unwrap();
        if stalled_until.is_some_and(|until| until > Instant::now()) {
            return true;
        }
        self.is_signal_blocked(table)
    }

    fn submit(&self, insert: Insert, completion: Completion) -> Result<(), Box<QueueFull<Insert>>> {
        let text = String::from_utf8(insert.block.body.to_vec()).unwrap();
        let messages = text.lines().map(str::to_owned).collect();
        let seen = Seen { token: insert.dedup_token(), messages };
        let mut mode = self.mode.lock().unwrap();
        if *mode != Mode::Full {
            let sent = (seen.token.clone(), insert.origin.may_be_stored);
            self.state.lock().unwrap().sent.push(sent);
        }
        match *mode {
            Mode::Full => return Err(Box::new(QueueFull { work: insert, completion })),
            Mode::Hold => self.state.lock().unwrap().held.push((seen, completion, insert)),
            Mode::Store if self.is_signal_blocked(insert.block.table) => {
                self.state.lock().unwrap().held.push((seen, completion, insert));
            }
            Mode::DropOne | Mode::DeferOne => {
                if *mode == Mode::DeferOne {
                    completion.finish_with(DeliveryOutcome::Deferred);
                }
                *mode = Mode::Store;
                self.live_bytes.sub(insert.block.body.len());
                self.state.lock().unwrap().dropped.push(seen);
            }
            Mode::Store => {
                self.live_bytes.sub(insert.block.body.len());
                self.finish(seen, completion);
            }
        }
        Ok(())
    }
}

impl DeadLetterSink for FakeSink {
    fn submit(
        &self,
        letter: DeadLetter,
        completion: Completion,
    ) -> Result<(), Box<QueueFull<DeadLetter>>> {
        let mut state = self.state.lock().unwrap();
        if self.hold_letters.lock().unwrap().contains(&letter.signal) {
            state.held_letters.push((letter, completion));
        } else {
            state.letters.push(letter);
            completion.finish_with(DeliveryOutcome::Stored);
        }
        Ok(())
    }
}

/// An encoder whose rows are messages of text; it refuses a broken one.
struct FakeEncoder {
    signal: Signal,
    lines: Vec<u8>,
    rows: usize,
    live: Arc<LiveBytes>,
}

impl Encoder for FakeEncoder {
    fn append(&mut self, message: &[u8]) -> Result<AppendedMessage, Rejection> {
        if message.starts_with(BROKEN.as_bytes()) {
            return Err(Rejection { reason: "truncated", detail: "at byte 3".to_owned() });
        }
        self.lines.extend_from_slice(message);
        self.lines.push(b'\n');
        self.live.add(message.len() + 1);
        self.rows += 1;
        Ok(AppendedMessage { records: 1 })
    }

    /// Appends a message of groups with a broken one: the others are accepted. It refuses a message
    /// that begins with `@` and a time that isn't accepted.
    fn append_groups(&mut self, message: &[u8], times: &TimeRange) -> AcceptedRecords {
        let text = std::str::from_utf8(message).unwrap_or_default();
        let time = text.strip_prefix('@').and_then(|text| text.parse().ok());
        if time.is_some_and(|time| !times.contains(time)) {
            let detail = String::new();
            return AcceptedRecords::all_rejected(Rejection { reason: TIME_OUT_OF_RANGE, detail });
        }
        let is_broken = |group: &&[u8]| group.starts_with(BROKEN.as_bytes());
        let groups: Vec<&[u8]> = message.split(|&byte| byte == GROUP_END).collect();
        let broken: Vec<u8> = groups.iter().copied().filter(is_broken).flatten().copied().collect();
        let mut records = 0;
        let mut refused = None;
        for group in groups.iter().copied() {
            match self.append(group) {
                Ok(appended) => records += appended.records,
                Err(rejection) => refused = Some(rejection),
            }
        }
        let payload = (records > 0).then_some(broken);
        AcceptedRecords {
            records,
            refused: refused.map(|rejection| RejectedRecords { rejection, payload }),
        }
    }

    fn row_count(&self) -> usize {
        self.rows
    }

    fn plain_bytes(&self) -> usize {
        self.lines.len()
    }

    fn memory_bytes(&self) -> usize {
        self.lines.len()
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        let rows = std::mem::take(&mut self.rows) as u64;
        if rows == 0 {
            return Vec::new();
        }
        let body = std::mem::take(&mut self.lines);
        vec![Block {
            table: TableIndex(self.signal.index() as u16),
            table_name: format!("otel.otel_{}", self.signal).into(),
            slice: BlockSlice { day: 1, number: 0 },
            rows,
            records: rows,
            plain_bytes: body.len() as u64,
            is_self_telemetry: false,
            body: body.into(),
        }]
    }
}

impl Drop for FakeEncoder {
    fn drop(&mut self) {
        self.live.sub(self.lines.len());
    }
}
