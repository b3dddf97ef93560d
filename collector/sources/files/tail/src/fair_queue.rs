//! Schedules reads: start-time fair queueing among namespaces, and round robin among the files of
//! one.
//!
//! Each namespace has a virtual time, which a read advances by its bytes over the namespace's
//! weight. The namespace with the lowest time is next. So namespaces that always have something to
//! read get bytes in proportion to their weights, within one read each, however many files each
//! has. A namespace that had nothing to read begins at the time of the last read: it has no credit
//! for its silence, and waits for at most one read of each of the others. One that empties and
//! comes back still has its own time, so short absences gain nothing.
//!
//! A read that takes more processor time than its bytes allow is charged for that instead: a
//! pattern that is costly to match is at its own namespace's expense.
//!
//! The queue costs nothing for items that aren't queued. It knows neither files nor clocks.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The maximum weight. A hundredth is the smallest useful share.
const WEIGHT_MAX: u8 = 100;

/// A byte's virtual time at weight 1. Rounding down costs less than a thousandth of a byte a read.
const BYTE: u128 = 1000 * WEIGHT_MAX as u128;

/// Processor time that a byte allows: 20 ns. Containers' lines take 4, those by a pattern of the
/// settings 2. So next to a pattern of any cost a usual file is read at up to 50 MB/s.
const BYTE_NANOS: u128 = 20;

/// Namespaces that are remembered with nothing queued, before those whose time is past are
/// forgotten: 64 of some 100 bytes, or as many as remained the last time.
const REMEMBERED_MIN: usize = 64;

/// A namespace's weight among those with something to read: 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight(u8);

impl Weight {
    /// Returns None unless `weight` is 1 to 100.
    #[must_use]
    pub fn new(weight: u8) -> Option<Self> {
        (1..=WEIGHT_MAX).contains(&weight).then_some(Self(weight))
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

/// A namespace with something queued, or with a time that isn't past.
#[derive(Debug)]
struct NamespaceShare<T> {
    weight: Weight,
    /// The virtual time of its next read.
    begins: u128,
    /// Breaks ties between equal times: the lowest is first.
    number: u64,
    waiting: VecDeque<T>,
}

/// The items to read, in fair order.
#[derive(Debug)]
pub struct FairQueue<T> {
    weights: HashMap<String, Weight>,
    shares: HashMap<Arc<str>, NamespaceShare<T>>,
    /// The namespaces with something queued: the time of their next read, their number and their
    /// name.
    order: BTreeSet<(u128, u64, Arc<str>)>,
    /// The virtual time of the last read.
    now: u128,
    /// The namespace of the last read.
    last: Option<Arc<str>>,
    numbers: u64,
    forget_at: usize,
}

impl<T> FairQueue<T> {
    /// Creates a queue. Namespaces without a weight have 1.
    #[must_use]
    pub fn new(weights: HashMap<String, Weight>) -> Self {
        Self {
            weights,
            shares: HashMap::new(),
            order: BTreeSet::new(),
            now: 0,
            last: None,
            numbers: 0,
            forget_at: REMEMBERED_MIN,
        }
    }

    /// Queues an item of a namespace after its other items.
    pub fn push(&mut self, namespace: &str, waiting: T) {
        if let Some(share) = self.shares.get_mut(namespace) {
            share.waiting.push_back(waiting);
            if share.waiting.len() == 1 {
                share.begins = share.begins.max(self.now);
                self.order.insert((share.begins, share.number, namespace.into()));
            }
            return;
        }
        self.forget_past_shares();
        self.numbers += 1;
        let (begins, number) = (self.now, self.numbers);
        let weight = self.weights.get(namespace).copied().unwrap_or_default();
        let waiting = VecDeque::from([waiting]);
        let namespace: Arc<str> = namespace.into();
        self.order.insert((begins, number, Arc::clone(&namespace)));
        self.shares.insert(namespace, NamespaceShare { weight, begins, number, waiting });
    }

    /// The item to read now. Report its cost with [`Self::charge_usage`] before anything else is
    /// queued.
    pub fn pop(&mut self) -> Option<T> {
        let (begins, number, namespace) = self.order.pop_first()?;
        let share = self.shares.get_mut(&namespace)?;
        let next = share.waiting.pop_front();
        self.now = begins;
        if !share.waiting.is_empty() {
            self.order.insert((begins, number, Arc::clone(&namespace)));
        }
        self.last = Some(namespace);
        next
    }

    /// Charges the last item of [`Self::pop`] for these bytes, and this processor time. Without a
    /// call it costs nothing.
    pub fn charge_usage(&mut self, bytes: u64, processor_time: Duration) {
        let Some(namespace) = self.last.take() else { return };
        let Some(share) = self.shares.get_mut(&namespace) else { return };
        let before = (share.begins, share.number, namespace);
        let cost = u128::from(bytes).max(processor_time.as_nanos() / BYTE_NANOS);
        share.begins += cost * BYTE / u128::from(share.weight.0);
        if self.order.remove(&before) {
            self.order.insert((share.begins, before.1, before.2));
        }
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Forgets namespaces that would begin now anyway.
    fn forget_past_shares(&mut self) {
        if self.shares.len() < self.forget_at {
            return;
        }
        let now = self.now;
        self.shares.retain(|_, share| !share.waiting.is_empty() || share.begins > now);
        self.forget_at = (2 * self.shares.len()).max(REMEMBERED_MIN);
    }
}
