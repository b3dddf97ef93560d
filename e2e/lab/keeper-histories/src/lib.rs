//! What several clients of ZooKeeper or Keeper did and saw, and whether its promises were kept.
//!
//! A [`History`] has the operations of each session with the places where they began and ended, the
//! watches that fired and the sessions that ended. [`judge`] holds it against the [`Rule`]s and
//! names each broken one, with the operations that show it. What is left open (a lost answer, the
//! number of a deletion) is allowed to have been either way.
//!
//! Pure: no clock, no I/O. Placing operations takes a search, which has a budget of steps; when that
//! is spent the verdict is undecided, never a guess.

mod history;
mod judge;
mod known;
mod order;
mod register;
mod search;
mod verdict;
mod watches;

pub use history::{
    Change, Ending, Fired, History, Key, Malformed, Moved, Operation, Outcome, Refusal, Seen,
    Session, Stamp, Task, Value, WatchId, WatchKind, Write, Zxid,
};
pub use judge::judge;
pub use verdict::{Finding, Rule, Undecided, Verdict};
