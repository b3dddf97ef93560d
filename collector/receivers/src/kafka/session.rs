//! The state of one worker's session in the group, from joining to leaving. The rules are in the
//! modules above, one for each task: `turn` (the loop), `intake` (messages to batches), `flight`
//! (batches to answers), `apart` (refused batches), `group` (assignment, revocation, commits),
//! `deleted` (deleted by retention), `remade` (topics that were deleted and made again).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use millrace_ledger::{Commit, Generation, Ledger};
use millrace_pipeline::backoff::Backoff;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::{Answers, Completion, PartId};

use super::Shared;
use super::jobs::{Job, Question, THREADS};
use super::member::{JoinError, KafkaMember, Member};
use super::partition::{Key, Partition};
use super::parts::{OpenPart, Refused, Work};
use super::spares::Spares;
use super::topics::{LOOK_INTERVAL, TopicIds};

/// Parts of batches that may wait for their answer at once, per worker. Inserts are bounded lower
/// by the sink; this leaves room for a burst of dead letters. An answer takes about 100 bytes of
/// channel: 100 KiB.
const MAX_UNANSWERED: usize = 1024;
/// Interval of checks of the commit point.
pub(super) const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes that one message may add to an encoder before the next reservation: four times the usual
/// broker limit of 1 MB a message, for columns with their identifiers in text.
pub(super) const HEADROOM_BYTES: u64 = 4 << 20;

/// Whether messages are read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Reading,
    Holding { since: Instant },
    Paused,
}

/// Commits between request and answer.
#[derive(Debug)]
pub(super) struct Commits {
    /// Requested and not answered.
    pub(super) in_flight: Vec<Commit<Key>>,
    /// Topics whose ids changed since: their commits mean nothing.
    pub(super) outdated: BTreeSet<u16>,
    /// When to check for changes.
    pub(super) next: Instant,
    /// After a refusal: not earlier than this.
    pub(super) not_before: Instant,
}

/// Partitions assigned, waiting for their committed offsets.
pub(super) struct Joining {
    pub(super) keys: Vec<Key>,
    pub(super) next_try: Instant,
    pub(super) backoff: Backoff,
    /// Until when an answer that is too low is requested again.
    pub(super) doubted_until: Option<Instant>,
}

/// Partitions being given up.
pub(super) struct Leaving {
    /// Without a generation: taken over while the process drained, and never read.
    pub(super) keys: Vec<(Key, Option<Generation>)>,
    pub(super) deadline: Instant,
}

pub(super) struct Session<M> {
    pub(super) shared: Arc<Shared>,
    pub(super) worker: u16,
    /// Not shared: messages are borrowed from it while the session changes.
    pub(super) member: Rc<M>,
    pub(super) ledger: Ledger<Key>,
    pub(super) partitions: BTreeMap<Key, Partition>,
    pub(super) answers: Answers,
    pub(super) parts: HashMap<PartId, OpenPart>,
    /// Cut, and waiting for the commit that names them.
    pub(super) held: VecDeque<Work>,
    /// Waiting for the sink.
    pub(super) outbox: VecDeque<Work>,
    /// Waiting for their table to take inserts again, though their partitions are given up or the
    /// process drains: others' batches are read again instead.
    pub(super) blocked: VecDeque<Work>,
    /// When to check those again.
    pub(super) next_unblock: Instant,
    /// Waiting for the dead-letter topic.
    pub(super) letters: VecDeque<Work>,
    /// Parts that were refused for their rows, until all before them are done.
    pub(super) refused: Vec<Refused>,
    /// The salvage's requests. A job whose request has no place waits for one.
    pub(super) questions: (SyncSender<Question>, Receiver<Question>),
    /// Requests that wait for a commit.
    pub(super) to_record: Vec<Question>,
    /// Waiting for the salvage.
    pub(super) salvage: VecDeque<Job>,
    /// Handed back by a full sink, for the next try.
    pub(super) spare_completion: Option<Completion>,
    pub(super) spares: Spares,
    /// Budget for the next message; none while the budget is full.
    pub(super) headroom: Option<Reservation>,
    /// Its size: more while a long message waits.
    pub(super) headroom_bytes: u64,
    pub(super) commits: Commits,
    /// The last commit that the broker named or confirmed to this session, by partition, whoever
    /// reads it now. Bounded by the topics' partitions.
    pub(super) confirmed: BTreeMap<Key, i64>,
    /// The topics that are being read, in the order of the settings, as far as brokers have said.
    pub(super) topic_ids: TopicIds,
    /// When to request them if no commit does.
    pub(super) next_look: Instant,
    pub(super) joining: Option<Joining>,
    pub(super) leaving: Option<Leaving>,
    /// When a partition without room may be read again even if others still repeat.
    pub(super) next_repeat: Instant,
    /// When to retry failed seeks.
    pub(super) next_seek: Instant,
    /// Until when a gap may come from damaged messages.
    pub(super) damaged_until: Option<Instant>,
    /// Since when the budget is full and nothing in flight could free some.
    pub(super) stuck_since: Option<Instant>,
    /// What all open batches hold, in bytes.
    pub(super) open_bytes: usize,
    /// When the oldest open batch is due.
    pub(super) next_cut: Option<Instant>,
    pub(super) now: Instant,
    pub(super) flow: Flow,
    pub(super) joined: bool,
}

impl Session<KafkaMember> {
    /// Makes the consumer and subscribes it. Nothing is read before [`Session::run`].
    pub(super) fn new(shared: Arc<Shared>, worker: u16) -> Result<Self, JoinError> {
        let member = KafkaMember::join(&shared.settings, worker, &shared.asker)?;
        Ok(Self::of(shared, worker, member))
    }
}

impl<M: Member> Session<M> {
    /// The session of a member that has just asked to join.
    pub(super) fn of(shared: Arc<Shared>, worker: u16, member: M) -> Self {
        let now = member.now();
        let topics = shared.settings.topics.len();
        Self {
            shared,
            worker,
            member: Rc::new(member),
            ledger: Ledger::new(),
            partitions: BTreeMap::new(),
            answers: Answers::new(MAX_UNANSWERED),
            parts: HashMap::new(),
            held: VecDeque::new(),
            outbox: VecDeque::new(),
            blocked: VecDeque::new(),
            next_unblock: now,
            letters: VecDeque::new(),
            refused: Vec::new(),
            questions: sync_channel(THREADS),
            to_record: Vec::new(),
            salvage: VecDeque::new(),
            spare_completion: None,
            spares: Spares::default(),
            headroom: None,
            headroom_bytes: HEADROOM_BYTES,
            commits: Commits {
                in_flight: Vec::new(),
                outdated: BTreeSet::new(),
                next: now,
                not_before: now,
            },
            confirmed: BTreeMap::new(),
            topic_ids: vec![None; topics],
            next_look: now + LOOK_INTERVAL,
            joining: None,
            leaving: None,
            next_repeat: now,
            next_seek: now,
            damaged_until: None,
            stuck_since: None,
            open_bytes: 0,
            next_cut: None,
            now,
            flow: Flow::Reading,
            joined: false,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.flow == Flow::Paused
    }
}
