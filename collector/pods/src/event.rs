//! What the API server tells of objects: JSON, a line for each event, in pieces of any length.
//! Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use crate::metadata::Metadata;

/// An event of the API server.
#[derive(Debug)]
pub enum Event {
    /// An object is there, or has changed.
    Is(Object),
    /// An object was deleted.
    Gone(Object),
    /// A bookmark: no change up to here.
    Mark(Object),
    /// An event longer than may be, or one that isn't known.
    Unreadable,
}

/// The API server ends a watch, with a status of HTTP.
#[derive(Debug)]
pub struct Refusal {
    /// Its status code.
    pub status: u16,
    /// What it said.
    pub message: String,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

/// What is read of an object: a pod's metadata, a ConfigMap, or the status of a refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Object {
    /// Name, namespace, labels and so on.
    pub metadata: Metadata,
    pub(crate) data: BTreeMap<String, String>,
    code: u16,
    pub(crate) message: String,
}

/// The events of one answer.
#[derive(Debug)]
pub struct Events {
    /// The longest event that is read.
    bytes_max: usize,
    line: Vec<u8>,
    /// What was given and isn't read yet.
    rest: Bytes,
    /// Whether the rest of a long line is passed over.
    is_passing: bool,
}

impl Events {
    /// Reads events of at most so many bytes, their line ends included.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, line: Vec::new(), rest: Bytes::new(), is_passing: false }
    }

    /// Takes a piece of the answer. The events of the one before must have been taken.
    pub fn give(&mut self, piece: Bytes) {
        self.rest = piece;
    }

    /// The next event of what was given; none when it goes on in the next piece.
    ///
    /// # Errors
    /// When the API server ends the watch.
    pub fn take(&mut self) -> Result<Option<Event>, Refusal> {
        while let Some(is_whole) = self.take_line() {
            let event = if is_whole { event(&self.line) } else { Ok(Some(Event::Unreadable)) };
            self.line.clear();
            if let Some(event) = event? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Moves bytes into the line. Whether it is whole, once it has ended.
    fn take_line(&mut self) -> Option<bool> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let part = self.rest.split_to(end.map_or(self.rest.len(), |end| end + 1));
        self.is_passing |= self.line.len() + part.len() > self.bytes_max;
        if self.is_passing {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(&part);
        }
        end.map(|_| !std::mem::take(&mut self.is_passing))
    }
}

/// The event of a line; none if it is empty.
fn event(line: &[u8]) -> Result<Option<Event>, Refusal> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let Ok(Line { kind, object }) = serde_json::from_slice::<Line>(line) else {
        return Ok(Some(Event::Unreadable));
    };
    Ok(Some(match kind.as_str() {
        "ADDED" | "MODIFIED" => Event::Is(object),
        "DELETED" => Event::Gone(object),
        "BOOKMARK" => Event::Mark(object),
        "ERROR" => return Err(Refusal { status: object.code, message: object.message }),
        _ => Event::Unreadable,
    }))
}
