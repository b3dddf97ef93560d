//! What a log file is: identity, rotation, how far it is read; as a state machine.
//!
//! [`Tail`] is told what was observed (files in their directories, heads, reads, acknowledgements)
//! and says what to do. It reads no clock and does no I/O.
//!
//! - **Identity** is device and inode, confirmed by a [`Fingerprint`] of the first bytes. A name
//!   is only where a file was last seen. Files that begin alike are told apart by inode; an inode
//!   that is used again is told apart by fingerprint.
//! - **Rotation.** A file that left its name or was deleted is read to its end: by its open
//!   descriptor, or under the name by which its inode is found again.
//! - **Truncation.** A file that is shorter than what was read of it, or that begins otherwise,
//!   begins again at 0. Its positions before that mean nothing any more.
//! - **Compression.** The rest of a file that was compressed before it was read to its end is read
//!   from the compressed file, which is told by its decompressed beginning.
//! - **Positions.** A file's committed [`Position`] is the lowest that isn't acknowledged. Only
//!   that is written to a checkpoint.

mod checkpoint;
mod file;
mod fingerprint;
mod look;
mod machine;
mod packed;
mod position;

pub use checkpoint::{CheckpointError, Recalled, Resort, recall};
pub use file::Ticket;
pub use fingerprint::{FINGERPRINT_BYTES, Fingerprint};
pub use look::Seen;
pub use machine::{Action, Event, FileId, Opened, Settings, Source, Step, Tail, Totals};
pub use position::{Position, STREAMS};
