//! What a log file is: texts, the files that have them, and how far each is read. A state machine.
//!
//! [`Tail`] takes what was observed (files in directories, heads, reads, acknowledgements) and says
//! what to do. It has no clock and does no I/O.
//!
//! - A **text** is a file's content from its beginning to its end or truncation. It has a
//!   [`Fingerprint`] of its first bytes and a [`Position`]. Requests, acknowledgements and
//!   positions on disk refer to texts.
//! - A **file** (device and inode) has one text at a time. A look shows names, sizes and stamps. A
//!   changed file may have another text: if it is closed, it is opened and judged by its beginning,
//!   in `judge` alone.
//! - **Rotation.** A text is read on from its file under any name. A file that is truncated, or
//!   whose inode is used again, has another text; the former one is continued in a copy, plain or
//!   compressed. If several files have a text, one is read.
//! - **Names** that rotation may have made of one that is read select other files. Such a file with
//!   an unknown text is read if it is younger than what is known of the name.
//! - **Positions.** A text's committed [`Position`] is the lowest one that isn't acknowledged.
//!   Checkpoints have only that, also for texts without a file: a copy may appear.
//! - **Between looks** a [`Glance`] suffices for a file that was written. While nothing is in doubt
//!   ([`Tail::is_settled`]) and no event tells of something new, no look is needed.
//!
//! - **Paused** files ([`Paused`]) are there and aren't read for now: their texts stay on record.
//!
//! [`Turns`] decides whose file is read next, by the weights of namespaces.
//!
//! [`KernelLog`] does the same for the kernel's log, by record numbers.
//!
//! Limits: texts that begin alike, as far as they were seen, are told apart only by their files.
//! What no look has seen isn't known.

mod checkpoint;
mod fingerprint;
mod glance;
mod inode;
mod judge;
mod kernel;
mod look;
mod machine;
mod names;
mod pause;
mod position;
mod text;
mod turns;

pub use checkpoint::{CheckpointError, Recalled, Resort, recall};
pub use fingerprint::{FINGERPRINT_BYTES, Fingerprint};
pub use glance::Glance;
pub use inode::{Identity, Seen};
pub use kernel::{Begins, KernelLog, KernelPosition, KernelResort, Met, recall_kernel};
pub use machine::{Action, Behind, Event, Opened, Settings, Source, Step, Tail, Totals};
pub use pause::Paused;
pub use position::{Position, STREAMS};
pub use text::{FileId, Ticket};
pub use turns::{Turns, Weight};
