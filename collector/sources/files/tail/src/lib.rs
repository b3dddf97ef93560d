//! Tracks log files: texts, the files that have them, and how far each is read. A state machine.
//!
//! [`Tail`] receives observations (files in directories, heads, reads, acknowledgements) and
//! returns actions. It has no clock and does no I/O.
//!
//! - A **text** is a file's content from its beginning to its end or truncation. It has a
//!   [`Fingerprint`] of its first bytes and a [`Position`]. Requests, acknowledgements and
//!   positions on disk refer to texts.
//! - A **file** (device and inode) has one text at a time. A scan shows names, sizes and
//!   modification times. A changed file may have another text: if it is closed, it is opened and
//!   identified by its beginning, only in `judge`.
//! - **Rotation.** A text is read on from its file under any name. A file that is truncated, or
//!   whose inode is reused, has another text; the former one is continued in a copy, plain or
//!   compressed. If several files have a text, one is read.
//! - **Names** that rotation may have made of one that is read select other files. Such a file with
//!   an unknown text is read if it is younger than the stamp of the name.
//! - **Positions.** A text's committed [`Position`] is the lowest one that isn't acknowledged.
//!   Checkpoints contain only that, also for texts without a file: a copy may appear.
//! - **Between scans** [`Tail::check_file`] suffices for a file that was written. While no file is
//!   uncertain ([`Tail::is_quiescent`]) and no event reports a change, no scan is needed.
//! - **Unlisted** paths ([`UnlistedPaths`]) could not be read in a scan: the state of files there
//!   is unchanged, and all others continue.
//! - **Paused** files ([`PauseSet`]) exist and aren't read for now: their texts remain on record.
//!
//! [`FairQueue`] decides whose file is read next, by the weights of namespaces. [`KernelLog`]
//! tracks the kernel's log, by record numbers.
//!
//! Limits: texts with the same beginning, as far as it was observed, are distinguished only by
//! their files. Files that no scan has observed aren't known.

mod checkpoint;
mod fair_queue;
mod kernel;
mod machine;
mod pause;
mod scan;
mod text;

pub use checkpoint::{CheckpointError, PositionFallback, RecordedPositions, load_positions};
pub use fair_queue::{FairQueue, Weight};
pub use kernel::{
    KernelFallback, KernelLog, KernelPosition, KernelStart, RecordStatus, load_kernel_position,
};
pub use machine::{
    Action, BacklogEntry, FileTotals, OpenOutcome, ReadOutcome, Tail, TailEvent, TailSettings,
    TailSource,
};
pub use pause::pause_set::PauseSet;
pub use scan::file_check::FileCheck;
pub use scan::inode::{FileId, FileObservation, InodeId};
pub use scan::unlisted::UnlistedPaths;
pub use text::Ticket;
pub use text::fingerprint::{FINGERPRINT_BYTES, Fingerprint};
pub use text::position::{Position, STREAMS};
