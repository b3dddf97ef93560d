//! What brokers may make the client library hold: bytes of their answers, and brokers, each of
//! which has a thread. Bounded for each connection of ours and for the whole process, whatever
//! brokers send and however slowly.
//!
//! An answer counts from its first byte until the library frees its buffer: on its way, in a queue,
//! while it is taken apart. Who finds no room waits a moment, and is refused then, which closes
//! that connection to a broker: other brokers could make a longer wait last. `native_intake` calls
//! this from the library's threads; whom one works for, it knows by the thread that started it.
//!
//! Limits: what the library makes of an answer while it takes it apart, up to five times as much,
//! and what it keeps of it afterwards, is not counted.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::outbound::Outbound;

/// The longest answer of a broker, in bytes: metadata of 25,000 partitions (42 bytes each with
/// three copies), which is a hundred topics with 250 each or the two largest topics there may be;
/// or what 200 commits hold at most (4.3 kB each). The library's own bound is 100 MB.
pub(super) const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of answers held when none has room to go on. A connection of ours may hold half of what is
/// left for others: alone a third of all, and beside thirty that hold what they may 256 KiB.
const HELD_BYTES_MAX: usize = 8 * ANSWER_BYTES_MAX;

/// Reads at once; each brings no more than what is left of its answer. A read takes what has
/// arrived and never waits, so that others may wait for it; in turn, as some always have more.
const READS_MAX: u64 = 2;

/// The bound: (8 + 2) * 1 MiB.
const BOUND_BYTES: usize = HELD_BYTES_MAX + 2 * ANSWER_BYTES_MAX;
const _: () = assert!(BOUND_BYTES == 10 * 1024 * 1024 && READS_MAX == 2);

/// Who finds no room waits this long for answers that the library takes apart meanwhile, some
/// milliseconds each.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Brokers that a cluster may name to a connection of ours; the largest have some hundreds.
pub(super) const BROKERS_MAX: usize = 200;

/// Brokers that all clusters may name to all connections of ours.
const BROKERS_TOTAL_MAX: usize = 1_000;

/// Threads of a connection of ours past which no broker is added or changed: two clients, each with
/// all brokers and some 16 threads of its own. Only a cluster whose brokers come and go faster than
/// their threads end gets there.
const THREADS_MAX: usize = 2 * (BROKERS_MAX + 16);

/// Why an answer was not read to its end, in the library's error.
pub(super) const NO_ROOM: &str = "no room for more bytes of brokers' answers";

/// What the brokers of one connection of ours make the library hold.
#[derive(Debug)]
pub(super) struct Share {
    /// Where brokers may be.
    outbound: Outbound,
    /// Bytes of answers; changed under the ledger's lock alone.
    bytes: AtomicUsize,
    threads: AtomicUsize,
    /// The numbers of the brokers that were let in.
    brokers: Mutex<BTreeSet<i32>>,
    /// Others were not, for want of room.
    is_crowded: AtomicBool,
}

/// What all shares hold together.
struct Ledger {
    /// Bytes of answers.
    bytes: usize,
    /// Reads that were given a turn, and those that are over.
    turns: u64,
    turns_over: u64,
    brokers: usize,
    /// Who holds how much in which buffer, by its address.
    buffers: BTreeMap<usize, (usize, Arc<Share>)>,
}

static LEDGER: Mutex<Ledger> =
    Mutex::new(Ledger { bytes: 0, turns: 0, turns_over: 0, brokers: 0, buffers: BTreeMap::new() });
/// Told when something was freed.
static FREED: Condvar = Condvar::new();
/// Told when a read is over.
static TURN_OVER: Condvar = Condvar::new();

thread_local! {
    /// The connection of ours that this thread works for.
    static CURRENT: RefCell<Option<Arc<Share>>> = const { RefCell::new(None) };
}

fn ledger() -> MutexGuard<'static, Ledger> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn current() -> Option<Arc<Share>> {
    CURRENT.with_borrow(Clone::clone)
}

impl Share {
    /// A connection of ours to brokers that are where `outbound` allows.
    pub(super) fn new(outbound: Outbound) -> Arc<Self> {
        Arc::new(Self {
            outbound,
            bytes: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            brokers: Mutex::default(),
            is_crowded: AtomicBool::new(false),
        })
    }

    /// Whether there was no room for all brokers that its cluster names.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    fn has_room(&self, ledger: &Ledger) -> bool {
        self.bytes.load(Ordering::Relaxed) < HELD_BYTES_MAX.saturating_sub(ledger.bytes) / 2
    }

    fn may_add(&self, id: i32, host: &str) -> bool {
        if self.outbound.refuses(host).is_some() {
            return false;
        }
        let mut ledger = ledger();
        let mut brokers = self.brokers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = brokers.contains(&id);
        let has_room = brokers.len() < BROKERS_MAX && ledger.brokers < BROKERS_TOTAL_MAX;
        if self.threads.load(Ordering::Relaxed) >= THREADS_MAX || !(is_known || has_room) {
            self.is_crowded.store(true, Ordering::Relaxed);
            return false;
        }
        if brokers.insert(id) {
            ledger.brokers += 1;
        }
        true
    }
}

impl Drop for Share {
    /// No thread is left of it, since each holds it.
    fn drop(&mut self) {
        let brokers = self.brokers.get_mut().unwrap_or_else(PoisonError::into_inner);
        ledger().brokers -= brokers.len();
    }
}

/// This thread's, and the threads' that it starts, from now until this is dropped.
pub(super) struct Entered(Option<Arc<Share>>);

/// Has the threads that this one starts count for `share`.
pub(super) fn enter(share: &Arc<Share>) -> Entered {
    Entered(CURRENT.replace(Some(share.clone())))
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Not while the thread ends, when there is nothing to put back.
        let _ = CURRENT.try_with(|current| current.replace(self.0.take()));
    }
}

/// A thread, from before it starts until it ends.
pub(super) struct Counted(Option<Arc<Share>>);

impl Counted {
    /// One that this thread starts.
    pub(super) fn of_current() -> Self {
        let share = current();
        if let Some(share) = &share {
            share.threads.fetch_add(1, Ordering::Relaxed);
        }
        Self(share)
    }

    /// Has this thread work for whom it counts.
    pub(super) fn entered(&self) -> Option<Entered> {
        self.0.as_ref().map(enter)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(share) = &self.0 {
            share.threads.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A read that is under way.
pub(super) struct Reading {
    buffer: usize,
    share: Arc<Share>,
}

/// Before a part of an answer is read into a buffer; none for threads that count for nobody.
///
/// # Errors
/// When there is no room.
pub(super) fn read(buffer: usize) -> Result<Option<Reading>, &'static str> {
    let Some(share) = current() else { return Ok(None) };
    let until = Instant::now() + WAIT_MAX;
    let mut ledger = ledger();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let no_room = |ledger: &mut Ledger| !share.has_room(ledger);
        let waited = FREED.wait_timeout_while(ledger, left, no_room);
        let (at_last, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(NO_ROOM);
        }
        ledger = at_last;
        let turn = ledger.turns;
        ledger.turns += 1;
        let waits = |ledger: &mut Ledger| turn >= ledger.turns_over + READS_MAX;
        ledger = TURN_OVER.wait_while(ledger, waits).unwrap_or_else(PoisonError::into_inner);
        // Those who were before may have taken what there was.
        if share.has_room(&ledger) {
            return Ok(Some(Reading { buffer, share: share.clone() }));
        }
        ledger.turns_over += 1;
        TURN_OVER.notify_all();
    }
}

impl Reading {
    /// So many bytes were read.
    pub(super) fn done(self, bytes: usize) {
        let mut ledger = ledger();
        ledger.turns_over += 1;
        ledger.bytes += bytes;
        self.share.bytes.fetch_add(bytes, Ordering::Relaxed);
        if bytes > 0 {
            let entry = ledger.buffers.entry(self.buffer);
            entry.or_insert_with(|| (0, self.share.clone())).0 += bytes;
        }
        TURN_OVER.notify_all();
    }
}

/// After a buffer was freed, which may be any of the library's.
pub(super) fn freed(buffer: usize) {
    let mut ledger = ledger();
    let Some((bytes, share)) = ledger.buffers.remove(&buffer) else { return };
    ledger.bytes -= bytes;
    share.bytes.fetch_sub(bytes, Ordering::Relaxed);
    drop(ledger);
    FREED.notify_all();
    // Last, as the end of a share takes the ledger.
    drop(share);
}

/// Whether a cluster's broker may be added, or changed if it was already.
pub(super) fn may_add(id: i32, host: &str) -> bool {
    current().is_none_or(|share| share.may_add(id, host))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read of a connection of ours.
    fn reads(share: &Arc<Share>, buffer: usize, bytes: usize) -> Result<(), &'static str> {
        let _entered = enter(share);
        let reading = read(buffer)?;
        reading.expect("this thread counts for somebody").done(bytes);
        Ok(())
    }

    /// Scenario: connections one after the other take as many bytes as they are let, in pieces,
    /// then one's are freed. Guarantee: no more than the bound is held; each leaves room for the
    /// next one; one that is full is refused, and not for longer than its own answers stay.
    #[test]
    fn what_answers_hold_is_bounded_and_shared() {
        const PIECE: usize = 32 * 1024;
        let shares: Vec<Arc<Share>> = (0..8).map(|_| Share::new(Outbound::default())).collect();
        let mut buffers: Vec<Vec<usize>> = Vec::new();
        for (number, share) in shares.iter().enumerate() {
            let mut own = Vec::new();
            while share.has_room(&ledger()) {
                let buffer = 1 + number * 1_000 + own.len();
                reads(share, buffer, PIECE).unwrap();
                own.push(buffer);
            }
            assert!(!own.is_empty(), "no room for connection {number}");
            buffers.push(own);
        }
        assert!(ledger().bytes <= BOUND_BYTES);
        assert!(buffers[0].len() * PIECE <= HELD_BYTES_MAX / 3 + PIECE);
        assert_eq!(reads(&shares[0], 1, PIECE), Err(NO_ROOM));
        buffers[0].drain(..).for_each(freed);
        assert_eq!(shares[0].bytes.load(Ordering::Relaxed), 0);
        reads(&shares[0], 1, PIECE).unwrap();
        freed(1);
        buffers.into_iter().flatten().for_each(freed);
        let ledger = ledger();
        assert_eq!((ledger.bytes, ledger.buffers.len()), (0, 0));
        assert_eq!(ledger.turns, ledger.turns_over);
        drop(ledger);
        assert!(read(7).unwrap().is_none(), "a thread that counts for nobody is held up");
    }

    /// Scenario: clusters name as many brokers as they can, one of them at hosts that are not
    /// allowed; one is given up. Guarantee: each has a bound and all have one; known brokers may
    /// change; hosts are looked at; what was given up makes room.
    #[test]
    fn brokers_are_bounded_and_only_where_they_may_be() {
        let known = || Outbound::new(vec!["k".parse().unwrap()]);
        const FULL: usize = BROKERS_TOTAL_MAX / BROKERS_MAX;
        let shares: Vec<Arc<Share>> = (0..=FULL).map(|_| Share::new(known())).collect();
        let added = |share: &Share| (0..1_000).filter(|id| share.may_add(*id, "k")).count();
        assert!(!shares[0].may_add(1, "elsewhere"));
        assert!(!shares[0].is_crowded(), "a host that is not allowed is no want of room");
        assert_eq!(added(&shares[0]), BROKERS_MAX);
        assert!(shares[0].is_crowded());
        shares[1..FULL].iter().for_each(|share| assert_eq!(added(share), BROKERS_MAX));
        assert_eq!(added(&shares[FULL]), 0);
        assert!(shares[0].may_add(7, "k"), "a known broker can't change");
        let mut shares = shares.into_iter();
        drop(shares.next());
        assert_eq!(added(&shares.next_back().unwrap()), BROKERS_MAX);
    }
}
