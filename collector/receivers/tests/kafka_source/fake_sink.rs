//! A sink and a dead-letter topic in memory, which answer as the test says.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use millrace_pipeline::sink::{
    Appended, Block, Completion, DeadLetter, DeadLetters, Encoder, Insert, Outcome, Refused,
    Rejection, Returned, Sink, Slice, TableIndex, Taken,
};
use millrace_wire::Signal;

/// Stands between the groups of a message.
const GROUP_END: u8 = b'|';

/// What the fake does with inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Stores them at once, but for those that hold a poisoned message.
    Store,
    /// Takes them and doesn't answer.
    Hold,
    /// Takes none.
    Full,
    /// Drops the next one unanswered, then stores.
    DropOne,
}

/// One insert: its token and the messages in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub(super) token: String,
    pub(super) messages: Vec<String>,
}

#[derive(Default)]
struct State {
    stored: Vec<Seen>,
    dropped: Vec<Seen>,
    held: Vec<(Seen, Completion, Insert)>,
    letters: Vec<DeadLetter>,
    held_letters: Vec<(DeadLetter, Completion)>,
}

pub(super) struct FakeSink {
    mode: Mutex<Mode>,
    hold_letters: Mutex<bool>,
    /// The table takes poisoned messages too.
    mended: AtomicBool,
    /// The signal whose table takes nothing.
    blocked: Mutex<Option<Signal>>,
    state: Mutex<State>,
    /// Bytes in encoders and unanswered bodies, now and at most.
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

/// Messages that begin so can't be decoded.
pub(super) const BROKEN: &str = "broken";
/// Messages that begin so make their insert fail.
pub(super) const POISON: &str = "poison";

impl FakeSink {
    pub(super) fn new(mode: Mode) -> Arc<Self> {
        Arc::new(Self {
            mode: Mutex::new(mode),
            hold_letters: Mutex::new(false),
            mended: AtomicBool::new(false),
            blocked: Mutex::new(None),
            state: Mutex::default(),
            live_bytes: Arc::default(),
        })
    }

    /// Changes what happens with inserts; those held are stored when the new mode stores.
    pub(super) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
        if mode == Mode::Store {
            self.finish_held();
        }
    }

    /// Answers what is held, but for what is for a blocked table.
    fn finish_held(&self) {
        let held = std::mem::take(&mut self.state.lock().unwrap().held);
        for (seen, completion, insert) in held {
            if self.is_blocked(insert.block.table) {
                self.state.lock().unwrap().held.push((seen, completion, insert));
                continue;
            }
            self.live_bytes.sub(insert.block.body.len());
            self.finish(seen, completion);
        }
    }

    pub(super) fn hold_letters(&self, hold: bool) {
        *self.hold_letters.lock().unwrap() = hold;
        if !hold {
            let mut state = self.state.lock().unwrap();
            for (letter, completion) in std::mem::take(&mut state.held_letters) {
                state.letters.push(letter);
                completion.finish(Outcome::Stored);
            }
        }
    }

    /// From now on nothing is refused for its rows.
    pub(super) fn mend(&self) {
        self.mended.store(true, Ordering::SeqCst);
    }

    /// From now on the table of this signal, and no other, takes nothing: what is sent to it all
    /// the same is held.
    pub(super) fn block(&self, signal: Option<Signal>) {
        *self.blocked.lock().unwrap() = signal;
        if *self.mode.lock().unwrap() == Mode::Store {
            self.finish_held();
        }
    }

    /// Messages stored, sorted, copies included.
    pub(super) fn messages(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let mut all: Vec<_> = state.stored.iter().flat_map(|s| s.messages.clone()).collect();
        all.sort();
        all
    }

    pub(super) fn stored(&self) -> Vec<Seen> {
        self.state.lock().unwrap().stored.clone()
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
        state.held_letters.iter().map(|(letter, _)| letter.bytes()).sum()
    }

    pub(super) fn most_live_bytes(&self) -> u64 {
        self.live_bytes.most.load(Ordering::SeqCst)
    }

    fn finish(&self, seen: Seen, completion: Completion) {
        let poisoned = seen.messages.iter().any(|message| message.starts_with(POISON));
        if poisoned && !self.mended.load(Ordering::SeqCst) {
            let detail = "code 117".to_owned();
            completion.finish(Outcome::Rejected(Rejection { reason: "refused", detail }));
        } else {
            self.state.lock().unwrap().stored.push(seen);
            completion.finish(Outcome::Stored);
        }
    }
}

impl Sink for FakeSink {
    fn encoder(&self, signal: Signal) -> Box<dyn Encoder> {
        let live = Arc::clone(&self.live_bytes);
        Box::new(FakeEncoder { signal, lines: Vec::new(), rows: 0, live })
    }

    fn is_blocked(&self, table: TableIndex) -> bool {
        let blocked = *self.blocked.lock().unwrap();
        blocked.is_some_and(|signal| signal.index() == usize::from(table.0))
    }

    fn submit(&self, insert: Insert, completion: Completion) -> Result<(), Box<Returned<Insert>>> {
        let text = String::from_utf8(insert.block.body.to_vec()).unwrap();
        let messages = text.lines().map(str::to_owned).collect();
        let seen = Seen { token: insert.token(), messages };
        let mut mode = self.mode.lock().unwrap();
        match *mode {
            Mode::Full => return Err(Box::new(Returned { work: insert, completion })),
            Mode::Hold => self.state.lock().unwrap().held.push((seen, completion, insert)),
            Mode::Store if self.is_blocked(insert.block.table) => {
                self.state.lock().unwrap().held.push((seen, completion, insert));
            }
            Mode::DropOne => {
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

impl DeadLetters for FakeSink {
    fn submit(
        &self,
        letter: DeadLetter,
        completion: Completion,
    ) -> Result<(), Box<Returned<DeadLetter>>> {
        let mut state = self.state.lock().unwrap();
        if *self.hold_letters.lock().unwrap() {
            state.held_letters.push((letter, completion));
        } else {
            state.letters.push(letter);
            completion.finish(Outcome::Stored);
        }
        Ok(())
    }
}

/// Each message is a row of text; a broken one is refused.
struct FakeEncoder {
    signal: Signal,
    lines: Vec<u8>,
    rows: usize,
    live: Arc<LiveBytes>,
}

impl Encoder for FakeEncoder {
    fn append(&mut self, message: &[u8]) -> Result<Appended, Rejection> {
        if message.starts_with(BROKEN.as_bytes()) {
            return Err(Rejection { reason: "truncated", detail: "at byte 3".to_owned() });
        }
        self.lines.extend_from_slice(message);
        self.lines.push(b'\n');
        self.live.add(message.len() + 1);
        self.rows += 1;
        Ok(Appended { records: 1 })
    }

    /// A message of groups with a broken one: the others are taken.
    fn append_groups(&mut self, message: &[u8]) -> Taken {
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
        Taken { records, refused: refused.map(|rejection| Refused { rejection, payload }) }
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn plain_bytes(&self) -> usize {
        self.lines.len()
    }

    fn memory_bytes(&self) -> usize {
        self.lines.len()
    }

    fn take(&mut self) -> Vec<Block> {
        let rows = std::mem::take(&mut self.rows) as u64;
        if rows == 0 {
            return Vec::new();
        }
        let body = std::mem::take(&mut self.lines);
        vec![Block {
            table: TableIndex(self.signal.index() as u16),
            table_name: format!("otel.otel_{}", self.signal).into(),
            slice: Slice { day: 1, number: 0 },
            rows,
            records: rows,
            plain_bytes: body.len() as u64,
            is_own: false,
            body: body.into(),
        }]
    }
}

impl Drop for FakeEncoder {
    fn drop(&mut self) {
        self.live.sub(self.lines.len());
    }
}
