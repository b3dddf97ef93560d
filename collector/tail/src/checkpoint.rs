//! Positions on disk: a small document with a version and a checksum, and what is done when it
//! can't be read. Never is a position taken from a document that isn't whole.

use serde::{Deserialize, Serialize};

use crate::file::File;
use crate::fingerprint::{Fingerprint, hash};
use crate::packed::Packed;
use crate::position::Noted;

/// The first word of a document.
const NAME: &str = "millrace-positions";
/// The form below. Another number is refused: what it means isn't known here.
const VERSION: &str = "1";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Body {
    /// The sources' names, and whether the files of their first start are on record.
    sources: Vec<(String, bool)>,
    files: Vec<Entry>,
    /// Compressed files, which earlier releases pass by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    packed: Vec<(Entry, Packed)>,
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
    #[serde(flatten)]
    position: Noted,
    /// When the file was last written, as seen.
    #[serde(rename = "m")]
    modified: u64,
    /// An index into the sources.
    #[serde(rename = "s")]
    source: usize,
    #[serde(rename = "p")]
    path: String,
    /// The name that is read and that it had, if that is another: rotated names are derived from
    /// it.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    base: Option<String>,
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
        let Body { sources, files, packed } = self.body;
        let indices: Vec<_> = sources.iter().map(|(name, _)| index(name)).collect();
        let packed = packed.into_iter().map(|(entry, packed)| (entry, Some(packed)));
        let files = files.into_iter().map(|entry| (entry, None)).chain(packed);
        let files = files.filter_map(|(entry, packed)| {
            let Entry { device, inode, fingerprint, position, modified, source, path, base } =
                entry;
            let source = (*indices.get(source)?)?;
            let mut file = File::new(source, path.into(), (device, inode), position.into());
            file.fingerprint = fingerprint;
            file.modified = modified;
            file.verified = modified;
            file.recalled = true;
            if let Some(base) = base {
                file.base = base.into();
            }
            file.packed = packed;
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

/// Writes sources, and files with the stamp of what is known to be in each.
pub(crate) fn write<'a>(
    sources: impl Iterator<Item = (&'a str, bool)>,
    files: impl Iterator<Item = (&'a File, u64)>,
) -> Vec<u8> {
    let mut body = Body {
        sources: sources.map(|(name, begun)| (name.to_owned(), begun)).collect(),
        ..Body::default()
    };
    for (file, stamp) in files {
        match file.packed {
            Some(packed) => body.packed.push((entry(file, stamp), packed)),
            None => body.files.push(entry(file, stamp)),
        }
    }
    body.files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    body.packed.sort_unstable_by(|(one, _), (other, _)| one.path.cmp(&other.path));
    // Only maps with odd keys and failing writers make this fail; there are none here.
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut document = format!("{NAME} {VERSION} {:016x}\n", hash(&body)).into_bytes();
    document.extend_from_slice(&body);
    document
}

fn entry(file: &File, stamp: u64) -> Entry {
    let (path, base) = (file.sure_path(), file.sure_base());
    Entry {
        device: file.device,
        inode: file.inode,
        fingerprint: file.fingerprint,
        position: file.committed.noted(),
        modified: stamp,
        source: file.before.as_ref().map_or(file.source, |names| names.source),
        path: path.to_string_lossy().into_owned(),
        base: (base != path).then(|| base.to_string_lossy().into_owned()),
    }
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
    use crate::position::Position;

    fn document(offset: u64) -> Vec<u8> {
        let at = Position::at(offset);
        let mut file = File::new(0, "/var/log/a.log".into(), (1, 2), at);
        file.fingerprint = Fingerprint::of(b"first line\n");
        write([("host", true)].into_iter(), [(&file, 0)].into_iter())
    }

    fn offsets(recalled: Recalled) -> Vec<u64> {
        recalled.into_files(|_| Some(0)).iter().map(|file| file.committed.offset).collect()
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

    /// Scenario: of a file with two streams, records of one are written past the beginning of an
    /// open one of the other; and a document of a release that kept the offset alone. Guarantee:
    /// the first is on record whole; the second is read on from its offset.
    #[test]
    fn what_is_written_of_each_stream_is_on_record() {
        let position = Position { offset: 10, written: [90, 10, 120] };
        let file = File::new(0, "/var/log/a.log".into(), (1, 2), position);
        let document = write([("host", true)].into_iter(), [(&file, 0)].into_iter());
        let recalled = |body| Recalled { body, all: false }.into_files(|_| Some(0));
        assert_eq!(recalled(read(&document).unwrap())[0].committed, position);
        let text = String::from_utf8(document).unwrap();
        let body = text.split_once('\n').unwrap().1;
        let before = body.replace(",\"w\":[90,10,120]", "");
        assert!(before.len() < body.len(), "{body}");
        assert_eq!(recalled(serde_json::from_str(&before).unwrap())[0].committed, Position::at(10));
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
