//! A bounded first-in, first-out queue of records on disk that survives a crash at any moment.
//!
//! Invariants:
//! - After any crash, the queue returns what [`Queue::sync`] confirmed, unaltered and in order,
//!   until it was acknowledged.
//! - The queue never returns a record again once [`Queue::ack_through`] acknowledged it and a later
//!   `sync` confirmed that. Without such a `sync` it may.
//! - Records never take more than the limit. Acknowledgements, 40 bytes each, come on top until
//!   their segment is removed.
//! - The queue returns no byte that its checksum doesn't cover. A record whose bytes went bad on
//!   the disk is omitted when it is read, and reported; if its header went bad, the records behind
//!   it in its file are omitted too.
//! - A record that the disk can't read is retried until the caller gives up on it
//!   ([`Queue::skip_unreadable`]). It then counts as damaged, and its file is never removed but set
//!   aside.
//!
//! A record is a header of 40 bytes (see [`frame`]) and its payload, appended to a file of some
//! megabytes (a segment). Acknowledgements are frames of the same format, written to the newest
//! segment. Each segment begins with one that also states how much was appended before it, so
//! opening a queue doesn't read it all. A segment is removed when all its records are acknowledged.
//! Only the process that created a file appends to it, so a torn end needs no repair.
//!
//! [`Queue`] is a state machine over a [`Disk`], without threads, clock or locks; [`Folder`] is the
//! real disk. The caller must use a thread that may block.

mod disk;
pub mod frame;
mod queue;
mod read;
mod recover;
mod release;
mod unreadable;
mod values;

pub use disk::{Disk, Folder, FolderError};
pub use queue::{Queue, is_full};
pub use unreadable::is_unreadable;
pub use values::{AppendError, QueueLimits, QueuedRecord, Recovery, Stats, Sums};
