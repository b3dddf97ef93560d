//! A recorded log, sent again: JSON lines, each a request with its session and time. Which nodes
//! the log takes for granted is found out from it. It reads text; it opens nothing.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::source::pace::Due;
use crate::watches::Changes;
use crate::wire::{Mode, Request, frame, multi};
use crate::workload::{DATA_BYTES_MAX, Kind, Made};

/// A log is held in memory, about 200 bytes a line.
const LINES_MAX: usize = 20_000_000;

/// A log can't be replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("line {line}: {cause}")]
    Line { line: usize, cause: serde_json::Error },
    #[error("line {line}: {what}")]
    Meaning { line: usize, what: &'static str },
    #[error("the log has no request")]
    Empty,
    #[error("the log has over {LINES_MAX} lines: replay it in parts")]
    TooLong,
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Microseconds since the log's beginning.
    pub(crate) at_us: u64,
    /// Any number; lines of one session are sent by one session, in their order.
    pub(crate) session: u64,
    /// How the server refused it then, if it did: the nodes that it names aren't taken for granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(flatten)]
    pub(crate) call: Call,
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum Call {
    Create {
        path: String,
        #[serde(default)]
        data_bytes: u32,
        #[serde(default)]
        ephemeral: bool,
        #[serde(default)]
        sequential: bool,
    },
    Remove {
        path: String,
    },
    Set {
        path: String,
        #[serde(default)]
        data_bytes: u32,
    },
    Get {
        path: String,
        #[serde(default)]
        watch: bool,
    },
    Exists {
        path: String,
        #[serde(default)]
        watch: bool,
    },
    List {
        path: String,
        #[serde(default)]
        watch: bool,
    },
    Check {
        path: String,
    },
    Sync {
        path: String,
    },
    Multi {
        parts: Vec<Call>,
    },
}

/// A log, read: its requests by session, and the nodes that have to be there first.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) sessions: Vec<Vec<Entry>>,
    /// Parents before their children.
    pub(crate) needed: Vec<String>,
    pub(crate) watching: bool,
}

impl Log {
    /// Reads a log; `root` goes before every path.
    pub(crate) fn read(text: &str, root: &str) -> Result<Self, LogError> {
        let mut sessions: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
        let mut needs = Needs { root, ..Needs::default() };
        let mut watching = false;
        for (nth, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            if nth >= LINES_MAX {
                return Err(LogError::TooLong);
            }
            let line_number = nth + 1;
            let mut entry: Entry = serde_json::from_str(line)
                .map_err(|cause| LogError::Line { line: line_number, cause })?;
            let meaning = |what| LogError::Meaning { line: line_number, what };
            entry.call.check(false).map_err(meaning)?;
            entry.call.root(root);
            if entry.error.is_none() {
                needs.see(&entry.call);
            }
            watching |= entry.call.watches();
            let session = sessions.entry(entry.session).or_default();
            if session.last().is_some_and(|last| last.at_us > entry.at_us) {
                return Err(meaning(
                    "earlier than the line before it of its session: sort the log",
                ));
            }
            session.push(entry);
        }
        match sessions.is_empty() {
            true => Err(LogError::Empty),
            false => Ok(Self {
                sessions: sessions.into_values().collect(),
                needed: needs.needed,
                watching,
            }),
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.sessions.iter().map(|entries| entries.len() as u64).sum()
    }
}

impl Call {
    fn parts(&self) -> &[Call] {
        match self {
            Self::Multi { parts } => parts,
            one => std::slice::from_ref(one),
        }
    }

    fn is_read(&self) -> bool {
        matches!(self, Self::Get { .. } | Self::List { .. } | Self::Exists { .. })
    }

    fn watches(&self) -> bool {
        matches!(
            self,
            Self::Get { watch: true, .. }
                | Self::Exists { watch: true, .. }
                | Self::List { watch: true, .. }
        )
    }

    /// What makes it impossible, if anything does.
    fn check(&self, in_multi: bool) -> Result<(), &'static str> {
        let fits = match self {
            Self::Multi { .. } | Self::Sync { .. } | Self::Exists { .. } if in_multi => {
                return Err("a multi can't hold that");
            }
            Self::Multi { parts } => {
                let reads = parts.iter().filter(|part| part.is_read()).count();
                if parts.is_empty() || (reads != 0 && reads != parts.len()) {
                    return Err("a multi holds reads or writes, and at least one");
                }
                if parts.iter().any(Self::watches) {
                    return Err("a read in a multi has no watch");
                }
                return parts.iter().try_for_each(|part| part.check(true));
            }
            Self::Check { .. } if !in_multi => return Err("a check stands only in a multi"),
            Self::Create { data_bytes, .. } | Self::Set { data_bytes, .. } => {
                *data_bytes <= DATA_BYTES_MAX
            }
            _ => true,
        };
        let path = self.path();
        match path.starts_with('/') && (path == "/" || !path.ends_with('/')) {
            _ if !fits => Err("data_bytes is over 1000000"),
            true => Ok(()),
            false => Err("a path begins with / and doesn't end with it"),
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::Remove { path }
            | Self::Set { path, .. }
            | Self::Get { path, .. }
            | Self::Exists { path, .. }
            | Self::List { path, .. }
            | Self::Check { path }
            | Self::Sync { path } => path,
            Self::Multi { .. } => "/",
        }
    }

    /// Puts the root before every path.
    fn root(&mut self, root: &str) {
        match self {
            Self::Create { path, .. }
            | Self::Remove { path }
            | Self::Set { path, .. }
            | Self::Get { path, .. }
            | Self::Exists { path, .. }
            | Self::List { path, .. }
            | Self::Check { path }
            | Self::Sync { path } => {
                *path = if path == "/" { root.to_owned() } else { format!("{root}{path}") };
            }
            Self::Multi { parts } => parts.iter_mut().for_each(|part| part.root(root)),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Create { .. } => Kind::Create,
            Self::Remove { .. } => Kind::Remove,
            Self::Set { .. } => Kind::Set,
            Self::Get { .. } => Kind::Get,
            Self::Exists { .. } => Kind::Exists,
            Self::List { .. } => Kind::List,
            Self::Sync { .. } => Kind::Sync,
            Self::Multi { parts } if parts.iter().all(Self::is_read) => Kind::MultiRead,
            Self::Multi { .. } | Self::Check { .. } => Kind::MultiWrite,
        }
    }

    fn write<'a>(&'a self, data: &'a [u8], write: impl FnOnce(&Request<'a>)) {
        let bytes = |count: &u32| &data[..(*count as usize).min(data.len())];
        write(&match self {
            Self::Create { path, data_bytes, ephemeral, sequential } => Request::Create {
                path,
                data: bytes(data_bytes),
                mode: Mode { ephemeral: *ephemeral, sequential: *sequential },
            },
            Self::Remove { path } => Request::Delete { path },
            Self::Set { path, data_bytes } => Request::Set { path, data: bytes(data_bytes) },
            Self::Get { path, watch } => Request::Get { path, watch: *watch },
            Self::Exists { path, watch } => Request::Exists { path, watch: *watch },
            Self::List { path, watch } => Request::List { path, watch: *watch },
            Self::Check { path } => Request::Check { path },
            // A multi's parts are written one by one.
            Self::Sync { path } => Request::Sync { path },
            Self::Multi { .. } => return,
        });
    }
}

/// Which nodes a log takes for granted, by what it asks in turn.
#[derive(Debug, Default)]
struct Needs<'a> {
    root: &'a str,
    /// Nodes that are there, or were once.
    known: HashSet<String>,
    needed: Vec<String>,
}

impl Needs<'_> {
    fn see(&mut self, call: &Call) {
        for part in call.parts() {
            let path = part.path();
            match part {
                Call::Create { sequential, .. } => {
                    if let Some((parent, _)) = path.rsplit_once('/') {
                        self.need(parent);
                    }
                    if !sequential {
                        self.known.insert(path.to_owned());
                    }
                }
                Call::Exists { .. } | Call::Sync { .. } => {}
                _ => self.need(path),
            }
        }
    }

    fn need(&mut self, path: &str) {
        if path.len() <= self.root.len() || self.known.contains(path) {
            return;
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.need(parent);
        }
        self.known.insert(path.to_owned());
        self.needed.push(path.to_owned());
    }
}

/// One session's part of a log.
#[derive(Debug)]
pub(crate) struct Recorded {
    entries: std::vec::IntoIter<Entry>,
    data: Arc<[u8]>,
    /// Times of the log's own pace, or nothing: as fast as replies allow.
    speed: Option<f64>,
    go: u64,
}

impl Recorded {
    pub(crate) fn new(entries: Vec<Entry>, data: Arc<[u8]>, speed: Option<f64>) -> Self {
        Self { entries: entries.into_iter(), data, speed, go: 0 }
    }

    pub(crate) fn start(&mut self, go: u64) {
        self.go = go;
    }

    pub(crate) fn due(&self) -> Due {
        match (self.entries.as_slice().first(), self.speed) {
            (None, _) => Due::Never,
            (Some(_), None) => Due::AtOnce,
            (Some(entry), Some(speed)) => {
                Due::At(self.go.saturating_add((entry.at_us as f64 * 1e3 / speed) as u64))
            }
        }
    }

    pub(crate) fn left(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn next(
        &mut self,
        out: &mut Vec<u8>,
        xid: i32,
        notes: Option<(&Changes, u64)>,
    ) -> Option<Made> {
        let Entry { call, .. } = self.entries.next()?;
        let kind = call.kind();
        if let Some((changes, now)) = notes {
            for part in call.parts().iter().filter(|part| !part.is_read()) {
                changes.note_with_parent(part.path(), now);
            }
        }
        match &call {
            Call::Multi { parts } => {
                let mut writing = multi(out, xid, kind == Kind::MultiRead);
                parts.iter().for_each(|part| part.write(&self.data, |one| writing.add(one)));
                writing.end();
            }
            one => one.write(&self.data, |request| frame(out, xid, request)),
        }
        Some(Made { kind, watch: call.watches() })
    }
}

#[cfg(test)]
mod tests;
