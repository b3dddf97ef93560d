//! Documents: a pod's share as it reads it, and all state that a new operator needs.
//!
//! A share is written as JSON in parts, each of which fits into a ConfigMap. A pod applies a
//! version only when it has all parts of it. Documents hold no secrets: only addresses, labels and
//! the settings of jobs, which name secrets as files.
//!
//! Bounds: an entry has at most 512 bytes of address and 16 labels of 1,024 bytes (name and value
//! together), a job's settings 128 KiB, a part 900 KiB, a share 16 parts: 14 MiB. A typical entry
//! has at most 150 bytes, so a part has some 6,000 targets and a share some 98,000.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pod_name::PodName;
use crate::target_id::TargetId;
use crate::weight::Weight;

/// Maximum bytes of an address with its path.
pub const ADDRESS_BYTES_MAX: usize = 512;
/// Maximum labels of a target.
pub const LABELS_MAX: usize = 16;
/// Maximum bytes of a label, name and value together.
pub const LABEL_BYTES_MAX: usize = 1024;
/// Maximum bytes of a part: a ConfigMap holds 1 MiB (1,048,576 bytes) with its keys, and etcd
/// accepts 1.5 MiB with metadata and managed fields; 124 KiB stay free for these.
pub const PART_BYTES_MAX: usize = 900 * 1024;
/// Maximum bytes of a job's settings as JSON: eight regular expressions of 16 KiB, the longest that
/// collectors accept. Seven such jobs fit into a part.
pub const JOB_BYTES_MAX: usize = 128 * 1024;
/// Maximum parts of a share.
pub const PARTS_MAX: usize = 16;

/// Sets of parts of one share: the newest complete one, and one that is being written or removed.
const SETS_MAX: usize = 2;
/// The format version of a part.
const FORM: u32 = 1;
/// The bytes of a part without entries: form, version, numbers, braces.
const PART_FRAME_BYTES: usize = 256;

/// One target as a pod needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetEntry {
    /// Its job. Interval, path and limits are in the job's settings ([`Share::jobs`]).
    pub job: String,
    /// `host:port`, and a path if it differs from the job's; or the URL of a list of targets, all
    /// of which the pod reads and scrapes.
    pub address: String,
    /// The target's own labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The weight with which it was placed: a new operator decides by it until pods have reported.
    /// A change of only the weight writes no document.
    pub weight: Weight,
}

impl TargetEntry {
    /// Returns the bound that the entry exceeds, if any; a document can't contain it then.
    #[must_use]
    pub fn over_bound(&self) -> Option<&'static str> {
        let long = |(name, value): (&String, &String)| name.len() + value.len() > LABEL_BYTES_MAX;
        if self.address.len() > ADDRESS_BYTES_MAX || self.job.len() > ADDRESS_BYTES_MAX {
            Some("its address or job name exceeds 512 bytes")
        } else if self.labels.len() > LABELS_MAX {
            Some("it has more than 16 labels")
        } else if self.labels.iter().any(long) {
            Some("a label exceeds 1,024 bytes")
        } else {
            None
        }
    }
}

/// A target that was removed from a pod, until the pod has confirmed that it stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Released {
    /// The first version without it.
    pub version: u64,
    /// Higher than in each older note of this target: pods retain notes of earlier moves until
    /// their next version, and only the newest has the current destination.
    #[serde(default)]
    pub turn: u64,
    /// The pod that is to get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PodName>,
}

/// A pod's share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Increases with each write. A pod never returns to a lower one.
    pub version: u64,
    /// The settings of its targets' jobs, by name, in the collector's format and without targets.
    pub jobs: BTreeMap<String, Value>,
    /// The targets that the pod scrapes.
    pub targets: BTreeMap<TargetId, TargetEntry>,
    /// Targets that it has to stop, or has stopped. A pod ignores this field.
    pub released: BTreeMap<TargetId, Released>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DocumentPart {
    form: u32,
    version: u64,
    part: usize,
    parts: usize,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    jobs: BTreeMap<String, Value>,
    targets: BTreeMap<TargetId, TargetEntry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    released: BTreeMap<TargetId, Released>,
}

/// Why a document is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// An entry exceeds a bound.
    #[error("target {id}: {what}: shorten it or remove the target")]
    Entry {
        /// The target.
        id: TargetId,
        /// The part that is too long.
        what: &'static str,
    },
    /// A job's settings exceed a bound.
    #[error(
        "job {job}: its settings have {bytes} bytes, at most {JOB_BYTES_MAX}: shorten its rules"
    )]
    Job {
        /// Its name, the first 128 characters.
        job: String,
        /// The size of its settings.
        bytes: usize,
    },
    /// A share needs more parts.
    #[error("a share of {targets} targets needs more than {PARTS_MAX} parts: add pods")]
    TooLarge {
        /// The number of its targets.
        targets: usize,
    },
    /// A text is not a part, or has a format that this release doesn't know.
    #[error("part {part}: {message}: delete it, and the operator writes it again")]
    Unreadable {
        /// Its index in the given order, from 0.
        part: usize,
        /// The reader's message.
        message: String,
    },
    /// No version is complete: the next read may find one.
    #[error("{have} of {want} parts of version {version}: read again")]
    Incomplete {
        /// The highest version found.
        version: u64,
        /// Parts found.
        have: usize,
        /// Parts expected.
        want: usize,
    },
}

/// Returns a share as the texts of its parts, in order; at least one.
pub fn split_share(share: &Share) -> Result<Vec<String>, DocumentFault> {
    let too_large = || DocumentFault::TooLarge { targets: share.targets.len() };
    let mut parts = vec![DocumentPart::empty(share.version)];
    let mut room = PART_BYTES_MAX - PART_FRAME_BYTES;
    // The bytes of one entry in the text: its id in quotes, colon, comma, and the entry.
    let key = 32 + 4;
    let mut open = |parts: &mut Vec<DocumentPart>, bytes: usize| {
        if bytes > room {
            parts.push(DocumentPart::empty(share.version));
            room = PART_BYTES_MAX - PART_FRAME_BYTES;
        }
        room = room.saturating_sub(bytes);
    };
    for (name, settings) in &share.jobs {
        let (name_bytes, bytes) = (to_json(name)?.len(), to_json(settings)?.len());
        check_job(name, bytes)?;
        open(&mut parts, name_bytes + ": ,".len() + bytes);
        if let Some(last) = parts.last_mut() {
            last.jobs.insert(name.clone(), settings.clone());
        }
    }
    for (id, entry) in &share.targets {
        check_entry(*id, entry)?;
        open(&mut parts, key + to_json(entry)?.len());
        if let Some(last) = parts.last_mut() {
            last.targets.insert(*id, entry.clone());
        }
    }
    for (id, released) in &share.released {
        open(&mut parts, key + to_json(released)?.len());
        if let Some(last) = parts.last_mut() {
            last.released.insert(*id, released.clone());
        }
    }
    let count = parts.len();
    if count > PARTS_MAX {
        return Err(too_large());
    }
    let numbered = parts.into_iter().zip(0..);
    numbered
        .map(|(part, number)| to_json(&DocumentPart { part: number, parts: count, ..part }))
        .collect()
}

/// Returns the newest complete share from the texts of parts, in any order.
pub fn join_parts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Share, DocumentFault> {
    let mut parts = Vec::new();
    for (number, text) in texts.into_iter().take(PARTS_MAX * SETS_MAX).enumerate() {
        let unreadable = |message: String| DocumentFault::Unreadable { part: number, message };
        let part: DocumentPart =
            serde_json::from_str(text).map_err(|it| unreadable(it.to_string()))?;
        if part.form != FORM {
            return Err(unreadable(format!("format {} is unknown", part.form)));
        }
        parts.push(part);
    }
    // Parts of a version that is being written or removed may exist alongside.
    let mut versions: BTreeMap<(u64, usize), BTreeSet<usize>> = BTreeMap::new();
    for part in &parts {
        versions.entry((part.version, part.parts)).or_default().insert(part.part);
    }
    let newest = versions.last_key_value().map(|(key, have)| (*key, have.len()));
    let is_complete =
        |(key, have): &(&(u64, usize), &BTreeSet<usize>)| have.iter().copied().eq(0..key.1);
    let Some((&(version, of), _)) = versions.iter().rev().find(is_complete) else {
        let ((version, expected), have) = newest.unwrap_or(((0, 1), 0));
        return Err(DocumentFault::Incomplete { version, have, want: expected });
    };
    parts.retain(|part| (part.version, part.parts) == (version, of));
    let mut share = Share { version, ..Share::default() };
    for part in parts {
        share.jobs.extend(part.jobs);
        share.targets.extend(part.targets);
        share.released.extend(part.released);
    }
    Ok(share)
}

impl DocumentPart {
    fn empty(version: u64) -> Self {
        Self {
            form: FORM,
            version,
            part: 0,
            parts: 1,
            jobs: BTreeMap::new(),
            targets: BTreeMap::new(),
            released: BTreeMap::new(),
        }
    }
}

fn check_job(name: &str, bytes: usize) -> Result<(), DocumentFault> {
    if bytes > JOB_BYTES_MAX || name.len() > ADDRESS_BYTES_MAX {
        return Err(DocumentFault::Job { job: name.chars().take(128).collect(), bytes });
    }
    Ok(())
}

fn check_entry(id: TargetId, entry: &TargetEntry) -> Result<(), DocumentFault> {
    entry.over_bound().map_or(Ok(()), |what| Err(DocumentFault::Entry { id, what }))
}

/// JSON can represent these types completely; an error would be reported as unreadable.
fn to_json(value: &impl Serialize) -> Result<String, DocumentFault> {
    let unreadable = |fault: serde_json::Error| DocumentFault::Unreadable {
        part: 0,
        message: fault.to_string(),
    };
    serde_json::to_string(value).map_err(unreadable)
}
