//! Positions on disk: a document with a version and a checksum, and what happens when it can't be
//! read. No position comes from a document that isn't whole.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::fingerprint::{Fingerprint, hash};
use crate::inode::{Identity, Inode};
use crate::look::LOOKS_RECALLED;
use crate::machine::Tail;
use crate::names::Names;
use crate::position::{Noted, Position};
use crate::text::Text;

/// The first word of a document.
const NAME: &str = "millrace-positions";
/// The version of the fields below. Any other is refused.
const VERSION: &str = "1";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Body<'p> {
    /// Each source's name, and whether the files of its first start are on record.
    sources: Vec<(String, bool)>,
    files: Vec<Entry<'p>>,
    /// Compressed files. Earlier releases ignore them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    packed: Vec<(Entry<'p>, Packed)>,
    /// Names without a text: path, source, stamp. Earlier releases drop them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<(Cow<'p, str>, usize, u64)>,
}

/// A text, or a file whose text isn't known, of which nothing is read yet. Keys are short: a node
/// has thousands.
#[derive(Debug, Serialize, Deserialize)]
struct Entry<'p> {
    #[serde(rename = "d")]
    device: u64,
    #[serde(rename = "i")]
    inode: u64,
    #[serde(rename = "f")]
    fingerprint: Fingerprint,
    #[serde(flatten)]
    position: Noted,
    /// The stamp of `base`.
    #[serde(rename = "m")]
    stamp: u64,
    /// An index into the sources.
    #[serde(rename = "s")]
    source: usize,
    #[serde(rename = "p")]
    path: Cow<'p, str>,
    /// The text's last name that a source reads, if that isn't `path`. Rotated names derive from
    /// it.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    base: Option<Cow<'p, str>>,
}

/// What is known of a text's compressed file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Packed {
    /// The text's length, known once it was read to its end.
    #[serde(rename = "e")]
    end: Option<u64>,
    /// The file's size and stamp. A record without them has the file opened once.
    #[serde(rename = "z", default)]
    seen: (u64, u64),
}

/// Why a document can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It has another first word.
    #[error("it is not a document of positions")]
    Foreign,
    /// It has another version.
    #[error("it has version {0}, and this release reads version 1")]
    Version(String),
    /// It is cut or changed.
    #[error("it is torn or damaged: its checksum does not match")]
    Damaged,
    /// The checksum is right, but the content isn't.
    #[error("it has a right checksum and can't be read: {0}")]
    Content(String),
}

/// What happens when the positions can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Resort {
    /// The previous document is used.
    #[error(
        "the positions can't be read: {0}; the ones written before them are used: what was read \
         since is read and sent again, nothing is skipped"
    )]
    Previous(CheckpointError),
    /// No document can be read.
    #[error(
        "the positions can't be read: {0}; no earlier ones can be either: every file is read from \
         its beginning, whatever startAt says: what was sent before is sent again, nothing is \
         skipped"
    )]
    Beginning(CheckpointError),
}

/// What is on record.
#[derive(Debug)]
pub struct Recalled {
    body: Body<'static>,
    /// All sources count as begun: nothing is skipped.
    all: bool,
}

impl Recalled {
    /// What a first start has.
    #[must_use]
    pub fn nothing() -> Self {
        Self { body: Body::default(), all: false }
    }

    pub(crate) fn knows(&self, source: &str) -> bool {
        self.all || self.body.sources.iter().any(|(name, begun)| *begun && name == source)
    }

    /// Whether there were positions, and none of them can be read.
    pub(crate) fn is_lost(&self) -> bool {
        self.all
    }

    /// The texts of the sources that still exist. `index` finds a source by name.
    pub(crate) fn into_texts(
        self,
        index: impl Fn(&str) -> Option<usize>,
        names: &mut Names,
    ) -> Vec<Text> {
        let Body { sources, files, packed, names: others } = self.body;
        let indices: Vec<_> = sources.iter().map(|(name, _)| index(name)).collect();
        let source = |source: usize| indices.get(source).copied().flatten();
        for (path, of, stamp) in others {
            if let Some(of) = source(of) {
                let path = shared(path);
                names.meet(&path, of);
                names.advance(&path, stamp);
            }
        }
        let packed = packed.into_iter().map(|(entry, packed)| (entry, Some(packed)));
        let files = files.into_iter().map(|entry| (entry, None)).chain(packed);
        let mut texts = Vec::new();
        for (entry, packed) in files {
            let Some(source) = source(entry.source) else { continue };
            let was = (entry.device, entry.inode);
            let mut text = Text::new(source, shared(entry.path), was, entry.position.into());
            text.fingerprint = entry.fingerprint;
            text.recalled = true;
            text.patience_looks = LOOKS_RECALLED;
            if let Some(base) = entry.base {
                text.base = shared(base);
            }
            if let Some(Packed { end, seen }) = packed {
                (text.end, text.packed) = (end, Some(seen));
            }
            names.meet(&text.base, source);
            names.advance(&text.base, entry.stamp);
            texts.push(text);
        }
        texts
    }
}

/// Reads the newest document that is whole, and says what was wrong with the present one.
#[must_use]
pub fn recall(present: Option<&[u8]>, previous: Option<&[u8]>) -> (Recalled, Option<Resort>) {
    match newest(present, previous, read) {
        Newest::Present(body) => (Recalled { body, all: false }, None),
        Newest::Previous(body, error) => {
            (Recalled { body, all: false }, error.map(Resort::Previous))
        }
        Newest::Unreadable(error) => {
            (Recalled { body: Body::default(), all: true }, Some(Resort::Beginning(error)))
        }
        Newest::Absent => (Recalled::nothing(), None),
    }
}

/// The newest document that is whole, and what was wrong with the present one.
pub(crate) enum Newest<T> {
    /// The present one.
    Present(T),
    /// The previous one. Without an error there is no present one: a process that ends between two
    /// renames leaves none.
    Previous(T, Option<CheckpointError>),
    /// Neither can be read.
    Unreadable(CheckpointError),
    /// There is none.
    Absent,
}

/// Reads the present document, else the previous one.
pub(crate) fn newest<T>(
    present: Option<&[u8]>,
    previous: Option<&[u8]>,
    read: impl Fn(&[u8]) -> Result<T, CheckpointError>,
) -> Newest<T> {
    let error = match present.map(&read) {
        Some(Ok(whole)) => return Newest::Present(whole),
        Some(Err(error)) => Some(error),
        None => None,
    };
    match (previous.map(read), error) {
        (Some(Ok(whole)), error) => Newest::Previous(whole, error),
        (_, Some(error)) | (Some(Err(error)), None) => Newest::Unreadable(error),
        (None, None) => Newest::Absent,
    }
}

/// A path from a document. All who know the file share it.
fn shared(path: Cow<'_, str>) -> Arc<Path> {
    PathBuf::from(path.into_owned()).into()
}

/// Writes what is known.
pub(crate) fn write(tail: &Tail) -> Vec<u8> {
    let sources = tail.settings.sources.iter().zip(&tail.begun);
    let mut body = Body {
        sources: sources.map(|(source, begun)| (source.name.clone(), *begun)).collect(),
        ..Body::default()
    };
    let unknown = tail.inodes.iter();
    let unknown =
        unknown.filter_map(|(identity, inode)| Some((unknown_in(tail, inode)?, *identity)));
    let unknown: Vec<(Text, Identity)> = unknown.collect();
    body.files.reserve_exact(tail.texts.len() + unknown.len());
    for text in tail.texts.values() {
        let inode = text.inode.and_then(|identity| tail.inodes.get(&identity));
        let is_packed = match inode {
            Some(inode) => inode.seen.is_packed() && inode.text.is_some(),
            None => text.packed.is_some(),
        };
        let of = entry(tail, text, text.inode.unwrap_or(text.was));
        if is_packed {
            let seen = text.packed.unwrap_or_default();
            body.packed.push((of, Packed { end: text.end, seen }));
        } else {
            body.files.push(of);
        }
    }
    body.files.extend(unknown.iter().map(|(text, identity)| entry(tail, text, *identity)));
    let mut bases: HashSet<&Path> = unknown.iter().map(|(text, _)| &*text.base).collect();
    bases.extend(tail.texts.values().map(|text| &*text.base));
    let others = tail.names.iter().filter(|(path, _)| !bases.contains(&***path));
    body.names = others.map(|(path, of)| (path.to_string_lossy(), of.source, of.stamp)).collect();
    body.files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    body.packed.sort_unstable_by(|(one, _), (other, _)| one.path.cmp(&other.path));
    body.names.sort_unstable();
    seal(NAME, &body)
}

fn entry<'t>(tail: &Tail, text: &'t Text, (device, inode): Identity) -> Entry<'t> {
    Entry {
        device,
        inode,
        fingerprint: text.fingerprint,
        position: text.committed.noted(),
        stamp: tail.names.stamp(&text.base),
        source: text.source,
        path: text.path.to_string_lossy(),
        base: (text.base != text.path).then(|| text.base.to_string_lossy()),
    }
}

/// An entry for a file that was seen under a name that is read, and not judged since: all of it
/// must be read, under any later name.
fn unknown_in(tail: &Tail, inode: &Inode) -> Option<Text> {
    let (source, path) = inode.called.as_ref()?;
    let mut had = inode.claims.iter().chain(&inode.text);
    if had.any(|id| tail.texts.get(id).is_some_and(|text| text.is_blank())) {
        return None;
    }
    let from = Position::at(inode.at_end.unwrap_or_default());
    Some(Text::new(*source, Arc::clone(path), inode.seen.identity(), from))
}

fn read(document: &[u8]) -> Result<Body<'static>, CheckpointError> {
    content(unseal(NAME, document)?)
}

/// A document with this name, a version and a checksum. It is written in place: thousands of files
/// make some megabytes.
pub(crate) fn seal(name: &str, body: &impl Serialize) -> Vec<u8> {
    let head = |checksum: u64| format!("{name} {VERSION} {checksum:016x}\n").into_bytes();
    let mut document = head(0);
    let start = document.len();
    // Only maps with odd keys or failing writers fail here. There are none.
    let _ = serde_json::to_writer(&mut document, body);
    let checksum = hash(&document[start..]);
    document[..start].copy_from_slice(&head(checksum));
    document
}

/// The content of a whole document.
pub(crate) fn unseal<'a>(name: &str, document: &'a [u8]) -> Result<&'a [u8], CheckpointError> {
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

/// Parses the content of a whole document.
pub(crate) fn content<T: DeserializeOwned>(body: &[u8]) -> Result<T, CheckpointError> {
    serde_json::from_slice(body).map_err(|error| CheckpointError::Content(error.to_string()))
}

#[cfg(test)]
#[path = "../tests/unit/checkpoint.rs"]
pub(crate) mod tests;
