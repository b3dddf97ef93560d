//! Parses the API server's watch events: JSON, one line per event, in pieces of any length. Pure.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::metadata::Metadata;
use crate::pod::{PodSpec, PodStatus};

/// An event of a watch.
#[derive(Debug)]
pub enum WatchEvent {
    /// An object was added or changed.
    Upserted(Object),
    /// An object was deleted.
    Deleted(Object),
    /// A bookmark: no change up to this version.
    Bookmark(Object),
    /// An event that is too long or unknown.
    Unreadable,
}

/// The error with which the API server ends a watch.
#[derive(Debug)]
pub struct WatchRefusal {
    /// The HTTP status code.
    pub status: u16,
    /// The server's message.
    pub message: String,
}

#[derive(Deserialize)]
struct EventLine {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

/// The parts of an object that are read: of a pod, a ConfigMap, or the status of a refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Object {
    /// The object's metadata.
    pub metadata: Metadata,
    pub(crate) data: BTreeMap<String, String>,
    pub(crate) spec: PodSpec,
    /// Absent in a refusal, whose status is a text.
    #[serde(deserialize_with = "pod_status")]
    pub(crate) status: PodStatus,
    code: u16,
    pub(crate) message: String,
}

/// Reads a pod's status; a refusal's is a text.
fn pod_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PodStatus, D::Error> {
    struct StatusVisitor;
    impl<'de> Visitor<'de> for StatusVisitor {
        type Value = PodStatus;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a status")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PodStatus, A::Error> {
            PodStatus::deserialize(MapAccessDeserializer::new(map))
        }

        fn visit_str<E>(self, _: &str) -> Result<PodStatus, E> {
            Ok(PodStatus::default())
        }

        fn visit_unit<E>(self) -> Result<PodStatus, E> {
            Ok(PodStatus::default())
        }
    }
    deserializer.deserialize_any(StatusVisitor)
}

/// The events of one response.
#[derive(Debug)]
pub struct Events {
    /// The longest event that is read.
    bytes_max: usize,
    line: Vec<u8>,
    /// Bytes that were pushed and not read yet.
    pending: Bytes,
    /// Whether the rest of a long line is skipped.
    is_skipping: bool,
}

impl Events {
    /// Returns a parser for events of at most `bytes_max` bytes, including their line feeds.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, line: Vec::new(), pending: Bytes::new(), is_skipping: false }
    }

    /// Adds a piece of the response. All events of the piece before must have been read.
    pub fn push_piece(&mut self, piece: Bytes) {
        self.pending = piece;
    }

    /// Returns the next event; `None` if it needs another piece.
    ///
    /// # Errors
    /// The API server ends the watch.
    pub fn next_event(&mut self) -> Result<Option<WatchEvent>, WatchRefusal> {
        while let Some(is_complete) = self.read_line() {
            let event = if is_complete {
                parse_event(&self.line)
            } else {
                Ok(Some(WatchEvent::Unreadable))
            };
            self.line.clear();
            if let Some(event) = event? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Moves bytes into the line. At its end, returns whether it is complete.
    fn read_line(&mut self) -> Option<bool> {
        if self.pending.is_empty() {
            return None;
        }
        let end = self.pending.iter().position(|byte| *byte == b'\n');
        let part = self.pending.split_to(end.map_or(self.pending.len(), |end| end + 1));
        self.is_skipping |= self.line.len() + part.len() > self.bytes_max;
        if self.is_skipping {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(&part);
        }
        end.map(|_| !std::mem::take(&mut self.is_skipping))
    }
}

/// Parses the event of a line; `None` if the line is empty.
fn parse_event(line: &[u8]) -> Result<Option<WatchEvent>, WatchRefusal> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let Ok(EventLine { kind, object }) = serde_json::from_slice::<EventLine>(line) else {
        return Ok(Some(WatchEvent::Unreadable));
    };
    Ok(Some(match kind.as_str() {
        "ADDED" | "MODIFIED" => WatchEvent::Upserted(object),
        "DELETED" => WatchEvent::Deleted(object),
        "BOOKMARK" => WatchEvent::Bookmark(object),
        "ERROR" => return Err(WatchRefusal { status: object.code, message: object.message }),
        _ => WatchEvent::Unreadable,
    }))
}
