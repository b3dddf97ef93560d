//! Positions on disk: a small document with a version and a checksum, and what is done when it
//! can't be read. Never is a position taken from a document that isn't whole.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::file::File;
use crate::fingerprint::{Fingerprint, hash};

/// The first word of a document.
const NAME: &str = "millrace-positions";
/// The form below. Another number is refused: what it means isn't known here.
const VERSION: &str = "1";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Body {
    /// The sources' names, and whether the files of their first start are on record.
    sources: Vec<(String, bool)>,
    files: Vec<Entry>,
}

/// One file. Names are short since a node has thousands.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(rename = "d")]
    device: u64,
    #[serde(rename = "i")]
    inode: u64,
    #[serde(rename = "f")]
    fingerprint: Fingerprint,
    #[serde(rename = "o")]
    offset: u64,
    /// When the file was last written, as seen.
    #[serde(rename = "m")]
    modified: u64,
    /// An index into the sources.
    #[serde(rename = "s")]
    source: usize,
    #[serde(rename = "p")]
    path: String,
}

/// Why a document can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It doesn't begin as one.
    #[error("it is not a document of positions")]
    Foreign,
    /// It was written by a release that writes them otherwise.
    #[error("it has version {0}, and this release reads version 1")]
    Version(String),
    /// Some of it is missing, or bytes have changed.
    #[error("it is torn or damaged: its checksum does not match")]
    Damaged,
    /// The checksum is right and the content isn't.
    #[error("it has a right checksum and can't be read: {0}")]
    Content(String),
}

/// What is done since the positions couldn't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Resort {
    /// The one before is used.
    #[error(
        "the positions can't be read: {0}; the ones written before them are used: what was read \
         since is read and sent again, nothing is skipped"
    )]
    Previous(CheckpointError),
    /// There is none that can be read.
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
    body: Body,
    /// All sources count as begun, so that nothing is skipped.
    all: bool,
}

impl Recalled {
    /// Of a first start.
    #[must_use]
    pub fn nothing() -> Self {
        Self { body: Body::default(), all: false }
    }

    pub(crate) fn knows(&self, source: &str) -> bool {
        self.all || self.body.sources.iter().any(|(name, begun)| *begun && name == source)
    }

    /// The files of sources that there still are, by `index` of a source's name.
    pub(crate) fn into_files(self, index: impl Fn(&str) -> Option<usize>) -> Vec<File> {
        let Body { sources, files } = self.body;
        let indices: Vec<_> = sources.iter().map(|(name, _)| index(name)).collect();
        let files = files.into_iter().filter_map(|entry| {
            let Entry { device, inode, fingerprint, offset, modified, source, path } = entry;
            let source = (*indices.get(source)?)?;
            let mut file = File::new(source, PathBuf::from(path), (device, inode), offset);
            file.fingerprint = fingerprint;
            file.modified = modified;
            file.verified = modified;
            file.recalled = true;
            Some(file)
        });
        files.collect()
    }
}

/// Reads the present document and the one before it, as far as they are there. Says what was wrong
/// if the present one can't be used.
#[must_use]
pub fn recall(present: Option<&[u8]>, previous: Option<&[u8]>) -> (Recalled, Option<Resort>) {
    let previous = previous.map(read);
    let error = match present.map(read) {
        Some(Ok(body)) => return (Recalled { body, all: false }, None),
        Some(Err(error)) => Some(error),
        None => None,
    };
    match (previous, error) {
        // A process that ends between two renames leaves no present one, and the previous is whole.
        (Some(Ok(body)), error) => (Recalled { body, all: false }, error.map(Resort::Previous)),
        (_, Some(error)) | (Some(Err(error)), None) => {
            (Recalled { body: Body::default(), all: true }, Some(Resort::Beginning(error)))
        }
        (None, None) => (Recalled::nothing(), None),
    }
}

pub(crate) fn write<'a>(
    sources: impl Iterator<Item = (&'a str, bool)>,
    files: impl Iterator<Item = &'a File>,
) -> Vec<u8> {
    let mut files: Vec<Entry> = files
        .map(|file| Entry {
            device: file.device,
            inode: file.inode,
            fingerprint: file.fingerprint,
            offset: file.committed,
            modified: file.verified,
            source: file.source,
            path: file.path.to_string_lossy().into_owned(),
        })
        .collect();
    files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let body =
        Body { sources: sources.map(|(name, begun)| (name.to_owned(), begun)).collect(), files };
    // Only maps with odd keys and failing writers make this fail; there are none here.
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut document = format!("{NAME} {VERSION} {:016x}\n", hash(&body)).into_bytes();
    document.extend_from_slice(&body);
    document
}

fn read(document: &[u8]) -> Result<Body, CheckpointError> {
    let end = document.iter().position(|byte| *byte == b'\n').ok_or_else(|| {
        if document.starts_with(NAME.as_bytes()) {
            CheckpointError::Damaged
        } else {
            CheckpointError::Foreign
        }
    })?;
    let (head, body) = (&document[..end], &document[end + 1..]);
    let mut words = head.split(|byte| *byte == b' ');
    if words.next() != Some(NAME.as_bytes()) {
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
    serde_json::from_slice(body).map_err(|error| CheckpointError::Content(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(offset: u64) -> Vec<u8> {
        let mut file = File::new(0, "/var/log/a.log".into(), (1, 2), offset);
        file.fingerprint = Fingerprint::of(b"first line\n");
        write([("host", true)].into_iter(), [&file].into_iter())
    }

    fn offsets(recalled: Recalled) -> Vec<u64> {
        recalled.into_files(|_| Some(0)).iter().map(|file| file.committed).collect()
    }

    /// Scenario: a document is cut at every length, and has every byte changed. Guarantee: each is
    /// refused, the one before is used, and what is said names that.
    #[test]
    fn a_torn_or_changed_document_is_never_used() {
        let (whole, before) = (document(700), document(300));
        let mut bad: Vec<Vec<u8>> = (0..whole.len()).map(|cut| whole[..cut].to_vec()).collect();
        bad.extend((0..whole.len()).map(|at| {
            let mut changed = whole.clone();
            changed[at] ^= 0x20;
            changed
        }));
        for bad in bad {
            let (recalled, resort) = recall(Some(&bad), Some(&before));
            let said = resort.unwrap().to_string();
            assert!(said.contains("written before them are used"), "{said}");
            assert!(recalled.knows("host") && !recalled.knows("another"));
            assert_eq!(offsets(recalled), [300]);
        }
        let (recalled, resort) = recall(Some(&whole), Some(&before));
        assert_eq!((offsets(recalled), resort), (vec![700], None));
    }

    /// Scenario: no document can be read, and in the second case there is none. Guarantee: the
    /// first reads all files from their beginning and says so, whatever they were; the second is a
    /// first start.
    #[test]
    fn without_a_readable_document_nothing_is_skipped() {
        for previous in [None, Some(&b"junk"[..])] {
            let (recalled, resort) = recall(Some(b"millrace-positions 1 00\n{}"), previous);
            assert!(recalled.knows("anything"));
            let said = resort.unwrap().to_string();
            assert!(said.contains("from its beginning") && said.contains("checksum"), "{said}");
            assert!(offsets(recalled).is_empty());
        }
        let (recalled, resort) = recall(None, None);
        assert!(!recalled.knows("anything") && resort.is_none());
    }

    /// Scenario: a process ended between the two renames, so only the previous document is there.
    /// Guarantee: it is used, and nothing is said since nothing is wrong.
    #[test]
    fn a_document_between_its_renames_is_the_previous_one() {
        let (recalled, resort) = recall(None, Some(&document(300)));
        assert_eq!((offsets(recalled), resort), (vec![300], None));
    }

    /// Scenario: a later release wrote the document. Guarantee: its version is named.
    #[test]
    fn another_version_is_named() {
        let (_, resort) = recall(Some(b"millrace-positions 9 00\n{}"), None);
        assert_eq!(resort, Some(Resort::Beginning(CheckpointError::Version("9".into()))));
    }
}
