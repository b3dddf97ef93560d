//! Reads and writes positions on disk: a document with a version and a checksum. A document that
//! isn't complete is refused; then the previous one is used, or files are read from their
//! beginning.

mod writer;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::scan::names::LogNames;
use crate::text::FileText;
use crate::text::fingerprint::{Fingerprint, hash};
use crate::text::patience::SCANS_RECORDED;
use crate::text::position::PositionRecord;

/// The first word of a document.
pub(crate) const NAME: &str = "millrace-positions";
/// The version of the fields below. Any other version is refused.
const VERSION: &str = "2";

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CheckpointBody<'p> {
    /// The names of sources whose first scan is over.
    pub(crate) begun: Vec<String>,
    pub(crate) files: Vec<CheckpointEntry<'p>>,
    /// Compressed files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) packed: Vec<(CheckpointEntry<'p>, PackedEntry)>,
    /// Names without a text: path and modification time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) names: Vec<(Cow<'p, str>, u64)>,
}

/// A text, or a file whose text isn't known and of which nothing is read yet. Keys are short
/// because a node has thousands of entries.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CheckpointEntry<'p> {
    #[serde(rename = "d")]
    pub(crate) device: u64,
    #[serde(rename = "i")]
    pub(crate) inode: u64,
    #[serde(rename = "f")]
    pub(crate) fingerprint: Fingerprint,
    #[serde(flatten)]
    pub(crate) position: PositionRecord,
    /// The stamp of `base`: the modification time up to which its texts are known.
    #[serde(rename = "m")]
    pub(crate) stamp: u64,
    #[serde(rename = "p")]
    pub(crate) path: Cow<'p, str>,
    /// The text's last name that a source reads, if that isn't `path`. Rotated names derive from
    /// it.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<Cow<'p, str>>,
}

/// The state of a text's compressed file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PackedEntry {
    /// The text's length, known once it was read to its end.
    #[serde(rename = "e")]
    pub(crate) end: Option<u64>,
    /// The file's size and modification time. Without them the file is opened once.
    #[serde(rename = "z", default)]
    pub(crate) stamps: (u64, u64),
}

/// Why a document can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It begins with another word.
    #[error("not a document of positions")]
    Foreign,
    /// It has another version.
    #[error("it has version {0}, but this release reads only version {VERSION}")]
    Version(String),
    /// It is cut or changed.
    #[error("truncated or corrupt: the checksum does not match")]
    Damaged,
    /// The checksum is right, but the content is invalid.
    #[error("the checksum matches, but the content is invalid: {0}")]
    Content(String),
}

/// What is used if the positions can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PositionFallback {
    /// The previous document.
    #[error(
        "the positions can't be read: {0}; the previous ones are used: lines read since then are \
         sent again, none is skipped"
    )]
    Previous(CheckpointError),
    /// No document can be read.
    #[error(
        "the positions can't be read: {0}; there are no readable previous ones: every file is read \
         from its beginning, regardless of startAt: lines already sent are sent again, none is \
         skipped"
    )]
    Beginning(CheckpointError),
}

/// The recorded positions.
#[derive(Debug)]
pub struct RecordedPositions {
    body: CheckpointBody<'static>,
    /// All sources count as begun: nothing is skipped.
    all: bool,
}

impl RecordedPositions {
    /// The positions of a first start: none.
    #[must_use]
    pub fn for_first_start() -> Self {
        Self { body: CheckpointBody::default(), all: false }
    }

    /// Whether the first scan of a source with this name is over.
    #[must_use]
    pub fn knows_source(&self, name: &str) -> bool {
        self.all || self.body.begun.iter().any(|begun| begun == name)
    }

    /// Whether there were positions, and none of them can be read.
    pub(crate) fn is_lost(&self) -> bool {
        self.all
    }

    /// Converts the entries to texts, without those whose last name no source reads now. `source`
    /// finds a name's source.
    pub(crate) fn into_texts(
        self,
        source: impl Fn(&Path) -> Option<usize>,
        names: &mut LogNames,
    ) -> Vec<FileText> {
        let CheckpointBody { begun: _, files, packed, names: others } = self.body;
        for (path, stamp) in others {
            let path = shared_path(path);
            if let Some(of) = source(&path) {
                names.add_name(&path, of);
                names.advance_stamp(&path, stamp);
            }
        }
        let packed = packed.into_iter().map(|(entry, packed)| (entry, Some(packed)));
        let files = files.into_iter().map(|entry| (entry, None)).chain(packed);
        let mut texts = Vec::new();
        for (entry, packed) in files {
            let path = shared_path(entry.path);
            let base = entry.base.map_or_else(|| Arc::clone(&path), shared_path);
            let Some(source) = source(&base) else { continue };
            let was = (entry.device, entry.inode);
            let mut text = FileText::new(source, path, was, entry.position.into());
            text.base = base;
            text.fingerprint = entry.fingerprint;
            text.recalled = true;
            text.patience_scans = SCANS_RECORDED;
            if let Some(PackedEntry { end, stamps }) = packed {
                (text.end, text.packed) = (end, Some(stamps));
            }
            names.add_name(&text.base, source);
            names.advance_stamp(&text.base, entry.stamp);
            texts.push(text);
        }
        texts
    }
}

/// Reads the newest complete document, and returns the present one's error, if any.
#[must_use]
pub fn load_positions(
    present: Option<&[u8]>,
    previous: Option<&[u8]>,
) -> (RecordedPositions, Option<PositionFallback>) {
    match read_newest(present, previous, read) {
        NewestDocument::Present(body) => (RecordedPositions { body, all: false }, None),
        NewestDocument::Previous(body, error) => {
            (RecordedPositions { body, all: false }, error.map(PositionFallback::Previous))
        }
        NewestDocument::Unreadable(error) => (
            RecordedPositions { body: CheckpointBody::default(), all: true },
            Some(PositionFallback::Beginning(error)),
        ),
        NewestDocument::Absent => (RecordedPositions::for_first_start(), None),
    }
}

/// The newest complete document, and the present one's error.
pub(crate) enum NewestDocument<T> {
    /// The present one.
    Present(T),
    /// The previous one. Without an error the present one doesn't exist: a process that ends
    /// between two renames leaves none.
    Previous(T, Option<CheckpointError>),
    /// Neither can be read.
    Unreadable(CheckpointError),
    /// No document exists.
    Absent,
}

/// Reads the present document, or else the previous one.
pub(crate) fn read_newest<T>(
    present: Option<&[u8]>,
    previous: Option<&[u8]>,
    read: impl Fn(&[u8]) -> Result<T, CheckpointError>,
) -> NewestDocument<T> {
    let error = match present.map(&read) {
        Some(Ok(document)) => return NewestDocument::Present(document),
        Some(Err(error)) => Some(error),
        None => None,
    };
    match (previous.map(read), error) {
        (Some(Ok(document)), error) => NewestDocument::Previous(document, error),
        (_, Some(error)) | (Some(Err(error)), None) => NewestDocument::Unreadable(error),
        (None, None) => NewestDocument::Absent,
    }
}

/// A path from a document, shared by everything that refers to the file.
fn shared_path(path: Cow<'_, str>) -> Arc<Path> {
    PathBuf::from(path.into_owned()).into()
}

fn read(document: &[u8]) -> Result<CheckpointBody<'static>, CheckpointError> {
    parse_content(unseal_document(NAME, document)?)
}

/// Makes a document with this name, a version and a checksum. It is written in place: thousands of
/// files make some megabytes.
pub(crate) fn seal_document(name: &str, body: &impl Serialize) -> Vec<u8> {
    let head = |checksum: u64| format!("{name} {VERSION} {checksum:016x}\n").into_bytes();
    let mut document = head(0);
    let start = document.len();
    // This fails only for maps with unusual keys and for failing writers, which don't occur here.
    let _ = serde_json::to_writer(&mut document, body);
    let checksum = hash(&document[start..]);
    document[..start].copy_from_slice(&head(checksum));
    document
}

/// Checks a document, and returns its content.
pub(crate) fn unseal_document<'a>(
    name: &str,
    document: &'a [u8],
) -> Result<&'a [u8], CheckpointError> {
    let end = document.iter().position(|byte| *byte == b'\n').ok_or_else(|| {
        if document.starts_with(name.as_bytes()) {
            CheckpointError::Damaged
        } else {
            CheckpointError::Foreign
        }
    })?;
    let (head, body) = (&document[..end], &document[end + 1..]);
    let mut words = head.split(|byte| *byte == b' ');
    if words.next() != Some(name.as_bytes()) {
        return Err(CheckpointError::Foreign);
    }
    let version = words.next().unwrap_or_default();
    if version != VERSION.as_bytes() {
        return Err(CheckpointError::Version(String::from_utf8_lossy(version).into_owned()));
    }
    let checksum = words.next().unwrap_or_default();
    if checksum != format!("{:016x}", hash(body)).as_bytes() {
        return Err(CheckpointError::Damaged);
    }
    Ok(body)
}

/// Parses the content of a complete document.
pub(crate) fn parse_content<T: DeserializeOwned>(body: &[u8]) -> Result<T, CheckpointError> {
    serde_json::from_slice(body).map_err(|error| CheckpointError::Content(error.to_string()))
}

#[cfg(test)]
pub(crate) mod tests;
