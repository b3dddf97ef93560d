//! The state of one worker's session in the group, from joining to leaving. The rules are in other
//! modules, one for each task: `session_loop`, `membership` (assignment, revocation) and `limits`
//! (which partitions are read) next to this one, and those of `batches`, `commits` and `topics`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use millrace_ledger::Ledger;
use millrace_pipeline::backoff::Backoff;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::memory_shares::{HEADROOM_BYTES, MemoryShares};
use millrace_pipeline::sink::{Completion, CompletionQueue, PartId};

use crate::WorkerContext;
use crate::batches::dead_letter_queues::DeadLetterQueues;
use crate::batches::parts::{OpenPart, PendingInsert};
use crate::batches::spares::SpareEncoders;
use crate::commits::state::Commits;
use crate::group::member::{JoinError, KafkaMember, Member};
use crate::group::partition::AssignedPartition;
use crate::group::partition_key::PartitionKey;
use crate::topics::ids::{ID_REQUEST_INTERVAL, TopicIds};

/// The parts of batches that may wait for their answer at once, per worker. The sink has a lower
/// bound for inserts; the others are for dead letters ([`crate::batches::dead_letter_queues`]). An
/// answer takes about 100 bytes of channel: 100 KiB.
const MAX_UNANSWERED: usize = 1024;

/// Whether messages are read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Reading,
    Holding { since: Instant },
    Paused,
}

/// Assigned partitions that wait for their committed offsets.
pub(crate) struct PendingJoin {
    pub(crate) keys: Vec<PartitionKey>,
    pub(crate) next_try: Instant,
    pub(crate) backoff: Backoff,
    /// Until when an answer that is too low is requested again.
    pub(crate) doubted_until: Option<Instant>,
}

/// Partitions that are being released.
pub(crate) struct PendingLeave {
    pub(crate) keys: Vec<PartitionKey>,
    pub(crate) deadline: Instant,
}

pub(crate) struct GroupSession<M> {
    pub(crate) shared: Arc<WorkerContext>,
    pub(crate) worker: u16,
    /// Not shared between threads: messages are borrowed from it while the session changes.
    pub(crate) member: Rc<M>,
    pub(crate) ledger: Ledger<PartitionKey>,
    pub(crate) partitions: BTreeMap<PartitionKey, AssignedPartition>,
    pub(crate) answers: CompletionQueue,
    pub(crate) parts: HashMap<PartId, OpenPart>,
    /// Inserts that wait for the commit that names them.
    pub(crate) held: VecDeque<PendingInsert>,
    /// Inserts that wait for the sink.
    pub(crate) outbox: VecDeque<PendingInsert>,
    /// When to check again whether stalled tables accept inserts.
    pub(crate) next_unblock: Instant,
    /// Dead letters that wait for their topics.
    pub(crate) dead_letters: DeadLetterQueues,
    /// Returned by a full sink, for the next attempt.
    pub(crate) spare_completion: Option<Completion>,
    pub(crate) spares: SpareEncoders,
    /// Budget for the next message; `None` while the budget is full.
    pub(crate) headroom: Option<Reservation>,
    /// The size of the headroom: more while a long message waits.
    pub(crate) headroom_bytes: u64,
    pub(crate) commits: Commits,
    /// The ids of the topics that are being read, in the order of the settings, as far as known.
    pub(crate) topic_ids: TopicIds,
    /// When to request them if no commit does.
    pub(crate) next_id_request: Instant,
    pub(crate) joining: Option<PendingJoin>,
    pub(crate) leaving: Option<PendingLeave>,
    /// When a partition without budget may be read again even if others still repeat.
    pub(crate) next_repeat: Instant,
    /// When to retry failed seeks.
    pub(crate) next_seek: Instant,
    /// Until when a gap may come from damaged messages.
    pub(crate) damaged_until: Option<Instant>,
    /// Since when the budget is full and nothing in flight could free some.
    pub(crate) stuck_since: Option<Instant>,
    /// The bytes of all open batches.
    pub(crate) open_bytes: usize,
    /// When the oldest open batch is due.
    pub(crate) next_cut: Option<Instant>,
    pub(crate) now: Instant,
    pub(crate) flow: Flow,
    pub(crate) joined: bool,
}

impl GroupSession<KafkaMember> {
    /// Creates the consumer and subscribes it. Nothing is read before [`GroupSession::run`].
    pub(crate) fn new(shared: Arc<WorkerContext>, worker: u16) -> Result<Self, JoinError> {
        let member = KafkaMember::join_group(&shared.settings, worker, &shared.query_client)?;
        Ok(Self::with_member(shared, worker, member))
    }
}

impl<M: Member> GroupSession<M> {
    /// Creates the session of a member that has just requested to join.
    pub(crate) fn with_member(shared: Arc<WorkerContext>, worker: u16, member: M) -> Self {
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
