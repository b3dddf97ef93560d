//! Writes down what sessions do and see, as a history.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_keeper_histories::{
    Ending, Fired, History, Moved, Operation, Session, Stamp, Value, WatchId, Zxid,
};
use zookeeper_client::Stat;

/// A history in the making.
#[derive(Debug, Default)]
pub struct Recorder {
    stamps: AtomicU64,
    values: AtomicU64,
    watches: AtomicU64,
    sessions: AtomicU32,
    /// The furthest that a server's clock was off, as new nodes told.
    off_seconds: AtomicU64,
    history: Mutex<History>,
}

impl Recorder {
    /// The next place in the history.
    pub fn stamp(&self) -> Stamp {
        self.stamps.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A value that nobody has written.
    pub fn value(&self) -> Value {
        Value(self.values.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// A new watch.
    pub fn watch(&self) -> WatchId {
        WatchId(self.watches.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// A new session.
    pub fn session(&self) -> Session {
        Session(self.sessions.fetch_add(1, Ordering::SeqCst))
    }

    /// An operation that has ended.
    pub fn operation(&self, operation: Operation) {
        self.history().operations.push(operation);
    }

    /// A watch has fired.
    pub fn fired(&self, watch: WatchId, zxid: i64) {
        let at = self.stamp();
        self.history().fired.push(Fired { watch, at, zxid: (zxid > 0).then_some(Zxid(zxid)) });
    }

    /// A connection was lost.
    pub fn moved(&self, session: Session) {
        let at = self.stamp();
        self.history().moved.push(Moved { session, at });
    }

    /// A session is over, or will be.
    pub fn ending(&self, session: Session) {
        let from = self.stamp();
        self.history().endings.push(Ending { session, from, gone_by: None });
    }

    /// From now on the nodes of every session that has ended must be gone.
    pub fn all_gone(&self) {
        let now = self.stamp();
        for ending in &mut self.history().endings {
            ending.gone_by.get_or_insert(now);
        }
    }

    /// Notes how far the clock of the server that made a node is off.
    pub fn clock(&self, stat: &Stat) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let made = u64::try_from(stat.ctime / 1000).unwrap_or(0);
        self.off_seconds.fetch_max(now.abs_diff(made), Ordering::SeqCst);
    }

    /// The furthest that a server's clock was off.
    pub fn off_seconds(&self) -> u64 {
        self.off_seconds.load(Ordering::SeqCst)
    }

    /// What was recorded so far.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
