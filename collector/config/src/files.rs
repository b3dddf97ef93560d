//! The sections of what is read from files: containers' output and logs of the host.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::section::section;
use crate::units::ByteSize;

section! {
    /// What this node's containers write to their standard output and error.
    pub struct ContainersReceiver {
        /// Where the kubelet keeps it: `NAMESPACE_POD_UID/CONTAINER/RESTARTS.log` below.
        pub directory: PathBuf = PathBuf::from("/var/log/pods"),
        /// Where a file is begun that isn't on record.
        pub start_at: StartAt = StartAt::Beginning,
        /// The longest line; what is beyond is cut, marked and counted.
        pub max_line_bytes: ByteSize = ByteSize::kib(256),
    }
}

section! {
    /// Log files of the host, or of a volume: lines of text.
    pub struct FilesReceiver {
        /// The files, as glob patterns: `*` and `?` within a name, `**` for any directories. At
        /// least one must be given.
        pub include: Vec<String> = Vec::new(),
        /// Those of them that aren't read, likewise.
        pub exclude: Vec<String> = Vec::new(),
        /// Where a file is begun that isn't on record.
        pub start_at: StartAt = StartAt::End,
        /// Lines that are one record together; each line is one when absent.
        pub multiline: Option<Multiline> = None,
        /// The longest record; what is beyond is cut, marked and counted.
        pub max_line_bytes: ByteSize = ByteSize::kib(256),
    }
}

section! {
    /// Lines that are one record together. One of `start` and `indented` must be given.
    pub struct Multiline {
        /// A regular expression: a line in which it is found begins a record.
        pub start: Option<String> = None,
        /// A line that begins with a space or a tab belongs to the record before it.
        pub indented: bool = false,
        /// After this many milliseconds without a further line a record is whole.
        pub timeout_millis: u32 = 1000,
    }
}

section! {
    /// Where it is kept how far files are read.
    pub struct Positions {
        /// A directory of this process's own, which survives it.
        pub directory: PathBuf = PathBuf::from("/var/lib/millrace/positions"),
    }
}

/// Where a file is begun that isn't on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartAt {
    /// With its first byte.
    Beginning,
    /// With what is written from now on. A file that appears later is read from its first byte.
    End,
}
