//! A bounded queue of records on disk, first in, first out, that survives a crash at any moment.
//!
//! Invariants:
//! - What [`Queue::sync`] has confirmed is given out after any crash, unaltered and in order, until
//!   it was acknowledged.
//! - What [`Queue::ack`] took and a later `sync` confirmed is never given out again. What was
//!   acknowledged without such a `sync` may be.
//! - Records never take more than the limit; acknowledgements, 40 bytes each, come on top until
//!   their segment is removed.
//! - No byte is given out that its checksum doesn't cover. A record whose bytes went bad on the
//!   disk is left out and counted; where its header went bad, so are those behind it in its file.
//!
//! A record is a header of 40 bytes (see [`frame`]) and its payload, appended to a file of some
//! megabytes (a segment). Acknowledgements are frames of the same kind, written to the newest
//! segment; each segment begins with one. A segment is removed when all its records are
//! acknowledged. Files are only appended to, and never by a later process: a torn end needs no
//! repair.
//!
//! [`Queue`] is a state machine over a [`Disk`]: no threads, no clock, no locks. [`Folder`] is the
//! real disk. Whoever drives it does so from a thread that may block.

mod disk;
pub mod frame;
mod queue;
mod values;

pub use disk::{Disk, Folder, FolderError};
pub use queue::Queue;
pub use values::{AppendError, Entry, Limits, Recovery, Stats};
