//! Whose turn it is to be read: start-time fair queueing among namespaces, turn by turn of their
//! files within one.
//!
//! Each namespace has a virtual time, which a turn moves on by its bytes over the namespace's
//! weight. The one with the lowest is next. So namespaces that always have something to be read get
//! bytes in proportion to their weights, but for one turn each, however many files each has. One
//! that had nothing to be read begins at the time of the turn before: it has no credit for its
//! silence, and waits for at most one turn of each of the others. One that empties and comes back
//! still has its own time, so short absences gain nothing.
//!
//! Takes no time for what isn't queued. Knows neither files nor clocks.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// The heaviest weight. A hundredth is a share as small as any that is of use.
const WEIGHT_MAX: u8 = 100;

/// A byte's virtual time at weight 1. Rounding down costs less than a thousandth of a byte a turn.
const BYTE: u128 = 1000 * WEIGHT_MAX as u128;

/// Namespaces that are remembered although nothing of theirs is queued, before those whose time is
/// past are forgotten: 64 of some 100 bytes, or as many as were left the last time.
const REMEMBERED_MIN: usize = 64;

/// A namespace's share among those with something to be read: 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight(u8);

impl Weight {
    /// None unless it is 1 to 100.
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
struct Share<T> {
    weight: Weight,
    /// When its next turn begins, in virtual time.
    begins: u128,
    /// Which of those that begin at one time is first.
    number: u64,
    waiting: VecDeque<T>,
}

/// What waits to be read, in the order of turns.
#[derive(Debug)]
pub struct Turns<T> {
    weights: HashMap<String, Weight>,
    shares: HashMap<Arc<str>, Share<T>>,
    /// Of those with something queued: when their turn begins, their number and their name.
    order: BTreeSet<(u128, u64, Arc<str>)>,
    /// When the last turn began.
    now: u128,
    /// Whose the last turn was.
    last: Option<Arc<str>>,
    numbers: u64,
    forget_at: usize,
}

impl<T> Turns<T> {
    /// Namespaces without a weight have 1.
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

    /// Queues something of a namespace behind what is queued of it.
    pub fn push(&mut self, namespace: &str, waiting: T) {
        if let Some(share) = self.shares.get_mut(namespace) {
            share.waiting.push_back(waiting);
            if share.waiting.len() == 1 {
                share.begins = share.begins.max(self.now);
                self.order.insert((share.begins, share.number, namespace.into()));
            }
            return;
        }
        self.forget();
        self.numbers += 1;
        let (begins, number) = (self.now, self.numbers);
        let weight = self.weights.get(namespace).copied().unwrap_or_default();
        let waiting = VecDeque::from([waiting]);
        let namespace: Arc<str> = namespace.into();
        self.order.insert((begins, number, Arc::clone(&namespace)));
        self.shares.insert(namespace, Share { weight, begins, number, waiting });
    }

    /// What is to be read now. [`Self::spent`] tells what it took, before anything else is queued.
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

    /// The turn that [`Self::pop`] gave took these bytes. Without a call it took none.
    pub fn spent(&mut self, bytes: u64) {
        let Some(namespace) = self.last.take() else { return };
        let Some(share) = self.shares.get_mut(&namespace) else { return };
        let before = (share.begins, share.number, namespace);
        share.begins += u128::from(bytes) * BYTE / u128::from(share.weight.0);
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
    fn forget(&mut self) {
        if self.shares.len() < self.forget_at {
            return;
        }
        let now = self.now;
        self.shares.retain(|_, share| !share.waiting.is_empty() || share.begins > now);
        self.forget_at = (2 * self.shares.len()).max(REMEMBERED_MIN);
    }
}
