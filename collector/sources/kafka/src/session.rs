//! The state of one worker's session in the group, from joining to leaving. The rules are in the
//! modules above, one for each task: `session_loop`, `intake` (messages to batches), `cut` (batches
//! to parts), `flight` (batches to answers), `divide` (refused rows), `group` (assignment,
//! revocation), `commits`, `limits` (which partitions are read), `memory` (when the budget is
//! full), `deleted` (deleted by retention), `recreated_topics`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use millrace_ledger::Ledger;
use millrace_pipeline::backoff::Backoff;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::memory_shares::{HEADROOM_BYTES, MemoryShares};
use millrace_pipeline::sink::{Completion, CompletionQueue, PartId};

use super::WorkerContext;
use super::commit_state::Commits;
use super::dead_letter_queues::DeadLetterQueues;
use super::member::{JoinError, KafkaMember, Member};
use super::partition::AssignedPartition;
use super::partition_key::PartitionKey;
use super::parts::{OpenPart, PendingInsert};
use super::spares::SpareEncoders;
use super::topics::{ID_REQUEST_INTERVAL, TopicIds};

/// The parts of batches that may wait for their answer at once, per worker. The sink has a lower
/// bound for inserts; the others are for dead letters ([`super::dead_letter_queues`]). An answer
/// takes about 100 bytes of channel: 100 KiB.
const MAX_UNANSWERED: usize = 1024;

/// Whether messages are read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Reading,
    Holding { since: Instant },
    Paused,
}

/// Assigned partitions that wait for their committed offsets.
pub(super) struct PendingJoin {
    pub(super) keys: Vec<PartitionKey>,
    pub(super) next_try: Instant,
    pub(super) backoff: Backoff,
    /// Until when an answer that is too low is requested again.
    pub(super) doubted_until: Option<Instant>,
}

/// Partitions that are being released.
pub(super) struct PendingLeave {
    pub(super) keys: Vec<PartitionKey>,
    pub(super) deadline: Instant,
}

pub(super) struct GroupSession<M> {
    pub(super) shared: Arc<WorkerContext>,
    pub(super) worker: u16,
    /// Not shared between threads: messages are borrowed from it while the session changes.
    pub(super) member: Rc<M>,
    pub(super) ledger: Ledger<PartitionKey>,
    pub(super) partitions: BTreeMap<PartitionKey, AssignedPartition>,
    pub(super) answers: CompletionQueue,
    pub(super) parts: HashMap<PartId, OpenPart>,
    /// Inserts that wait for the commit that names them.
    pub(super) held: VecDeque<PendingInsert>,
    /// Inserts that wait for the sink.
    pub(super) outbox: VecDeque<PendingInsert>,
    /// When to check again whether stalled tables accept inserts.
    pub(super) next_unblock: Instant,
    /// Dead letters that wait for their topics.
    pub(super) dead_letters: DeadLetterQueues,
    /// Returned by a full sink, for the next attempt.
    pub(super) spare_completion: Option<Completion>,
    pub(super) spares: SpareEncoders,
    /// Budget for the next message; `None` while the budget is full.
    pub(super) headroom: Option<Reservation>,
    /// The size of the headroom: more while a long message waits.
    pub(super) headroom_bytes: u64,
    pub(super) commits: Commits,
    /// The ids of the topics that are being read, in the order of the settings, as far as known.
    pub(super) topic_ids: TopicIds,
    /// When to request them if no commit does.
    pub(super) next_id_request: Instant,
    pub(super) joining: Option<PendingJoin>,
    pub(super) leaving: Option<PendingLeave>,
    /// When a partition without budget may be read again even if others still repeat.
    pub(super) next_repeat: Instant,
    /// When to retry failed seeks.
    pub(super) next_seek: Instant,
    /// Until when a gap may come from damaged messages.
    pub(super) damaged_until: Option<Instant>,
    /// Since when the budget is full and nothing in flight could free some.
    pub(super) stuck_since: Option<Instant>,
    /// The bytes of all open batches.
    pub(super) open_bytes: usize,
    /// When the oldest open batch is due.
    pub(super) next_cut: Option<Instant>,
    pub(super) now: Instant,
    pub(super) flow: Flow,
    pub(super) joined: bool,
}

impl GroupSession<KafkaMember> {
    /// Creates the consumer and subscribes it. Nothing is read before [`GroupSession::run`].
    pub(super) fn new(shared: Arc<WorkerContext>, worker: u16) -> Result<Self, JoinError> {
        let member = KafkaMember::join_group(&shared.settings, worker, &shared.query_client)?;
        Ok(Self::with_member(shared, worker, member))
    }
}

impl<M: Member> GroupSession<M> {
    /// Creates the session of a member that has just requested to join.
    pub(super) fn with_member(shared: Arc<WorkerContext>, worker: u16, member: M) -> Self {
        let now = member.now();
        let topics = shared.settings.topics.len();
        let shares = MemoryShares::of_budget(shared.budget.limit_bytes());
        let dead_letters =
            DeadLetterQueues::new(shares.dead_letters_bytes(shared.settings.workers));
        Self {
            shared,
            worker,
            member: Rc::new(member),
            ledger: Ledger::new(),
            partitions: BTreeMap::new(),
            answers: CompletionQueue::new(MAX_UNANSWERED),
            parts: HashMap::new(),
            held: VecDeque::new(),
            outbox: VecDeque::new(),
            next_unblock: now,
            dead_letters,
            spare_completion: None,
            spares: SpareEncoders::default(),
            headroom: None,
            headroom_bytes: HEADROOM_BYTES,
            commits: Commits::new(now),
            topic_ids: vec![None; topics],
            next_id_request: now + ID_REQUEST_INTERVAL,
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
}
