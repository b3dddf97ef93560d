//! What a log file is: texts, the files that have them, and how far each is read; a state machine.
//!
//! [`Tail`] is told what was observed (files in their directories, heads, reads, acknowledgements)
//! and says what to do. It reads no clock and does no I/O.
//!
//! - A **text** is what a file says from its beginning to its end or truncation. It has a
//!   [`Fingerprint`] of its first bytes and a [`Position`]; requests, acknowledgements and records
//!   of positions are of texts.
//! - A **file** (device and inode) has one text at a time. A look shows names, sizes and stamps;
//!   what it shows changed may be another text, so a closed file is opened and judged by its
//!   beginning (`judge`): nowhere else is it decided which text a file has.
//! - **Rotation.** A text is read on from the file that has it, under any name. A file that is
//!   truncated, or whose inode is used again, has another text; the one it had is read on from a
//!   copy of it, plain or compressed. Several files may have one text: one of them is read.
//! - **Names** tell which other files matter: those that rotation may have made of a name that is
//!   read. One of them that is like no known text is read if it is younger than what is known.
//! - **Positions.** A text's committed [`Position`] is the lowest that isn't acknowledged. Only
//!   that is written to a checkpoint, also of texts that no file has now: a copy may appear.
//! - **Between looks** a file that was written is read on by a [`Glance`] alone. While nothing is
//!   in doubt ([`Tail::is_settled`]) and no event says that something is new, no look is needed.
//!
//! [`KernelLog`] does the same for the kernel's log, which has numbers instead.
//!
//! Limits: texts that begin alike for as long as was seen of them are told apart by their files
//! alone. What no look has seen isn't known.

mod checkpoint;
mod fingerprint;
mod glance;
mod inode;
mod judge;
mod kernel;
mod look;
mod machine;
mod names;
mod position;
mod text;

pub use checkpoint::{CheckpointError, Recalled, Resort, recall};
pub use fingerprint::{FINGERPRINT_BYTES, Fingerprint};
pub use glance::Glance;
pub use inode::{Identity, Seen};
pub use kernel::{Begins, KernelLog, KernelPosition, KernelResort, Met, recall_kernel};
pub use machine::{Action, Behind, Event, Opened, Settings, Source, Step, Tail, Totals};
pub use position::{Position, STREAMS};
pub use text::{FileId, Ticket};
