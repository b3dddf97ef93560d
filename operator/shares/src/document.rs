//! Documents: what a pod reads of its share, and all that a new operator reads to go on.
//!
//! A share is written as JSON in parts that fit into a ConfigMap each. A pod takes up a version
//! only when it has all parts of it. Nothing secret is in it: addresses, labels and the settings of
//! jobs, which name secrets as files.
//!
//! Bounds: an entry has at most 512 bytes of address and 16 labels of 1,024 bytes (name and value
//! together), a job's settings 128 KiB, a part 900 KiB, a share 16 parts: 14 MiB. A usual entry has
//! at most 150 bytes, so a part has some 6,000 targets and a share some 98,000.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pod::PodName;
use crate::target::{TargetId, Weight};

/// Most bytes of an address with its path.
pub const ADDRESS_BYTES_MAX: usize = 512;
/// Most labels of a target.
pub const LABELS_MAX: usize = 16;
/// Most bytes of a label, name and value together.
pub const LABEL_BYTES_MAX: usize = 1024;
/// Most bytes of a part: a ConfigMap holds 1 MiB (1,048,576 bytes) with its keys, and etcd takes
/// 1.5 MiB with metadata and managed fields; 124 KiB stay free for these.
pub const PART_BYTES_MAX: usize = 900 * 1024;
/// Most bytes of a job's settings as JSON: eight regular expressions of 16 KiB, the longest that
/// collectors take. Seven such jobs fit into a part.
pub const JOB_BYTES_MAX: usize = 128 * 1024;
/// Most parts of a share.
pub const PARTS_MAX: usize = 16;

/// Sets of parts of one share: the newest whole one, and one that is written or removed.
const SETS_MAX: usize = 2;
/// The form of a part. Another one is another number.
const FORM: u32 = 1;
/// Of a part without entries: form, version, numbers, braces.
const PART_FRAME_BYTES: usize = 256;

/// One target as a pod needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// Its job. Interval, path and limits are in the job's settings ([`Share::jobs`]).
    pub job: String,
    /// `host:port`, and a path if it differs from the job's; or the URL of a list of targets, which
    /// the pod reads and scrapes whole.
    pub address: String,
    /// Labels of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What it was taken to cost when it was placed: a new operator decides by it until pods have
    /// reported. A change of it alone writes no document.
    pub weight: Weight,
}

impl Entry {
    /// Which bound it is over, if any: a document can't have it then.
    #[must_use]
    pub fn over_bound(&self) -> Option<&'static str> {
        let long = |(name, value): (&String, &String)| name.len() + value.len() > LABEL_BYTES_MAX;
        if self.address.len() > ADDRESS_BYTES_MAX || self.job.len() > ADDRESS_BYTES_MAX {
            Some("its address or its job's name has over 512 bytes")
        } else if self.labels.len() > LABELS_MAX {
            Some("it has over 16 labels")
        } else if self.labels.iter().any(long) {
            Some("a label has over 1,024 bytes")
        } else {
            None
        }
    }
}

/// A target that was taken from a pod, until the pod has confirmed that it stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Released {
    /// The first version without it.
    pub version: u64,
    /// Higher than in each older note of this target: pods keep notes of earlier moves until their
    /// next version, and only the newest says where the target is to go.
    #[serde(default)]
    pub turn: u64,
    /// Where it is to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PodName>,
}

/// A pod's share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Higher with each write. A pod never goes back to a lower one.
    pub version: u64,
    /// The settings of the jobs that its targets have, by name, in the collector's form and without
    /// targets.
    pub jobs: BTreeMap<String, Value>,
    /// What the pod scrapes.
    pub targets: BTreeMap<TargetId, Entry>,
    /// What it has to stop, or has stopped. A pod reads over it.
    pub released: BTreeMap<TargetId, Released>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Part {
    form: u32,
    version: u64,
    part: usize,
    parts: usize,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    jobs: BTreeMap<String, Value>,
    targets: BTreeMap<TargetId, Entry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    released: BTreeMap<TargetId, Released>,
}

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// An entry is over a bound.
    #[error("target {id}: {what}: shorten it or leave the target out")]
    Entry {
        /// The target.
        id: TargetId,
        /// What is too long.
        what: &'static str,
    },
    /// A job's settings are over a bound.
    #[error(
        "job {job}: its settings have {bytes} bytes, at most {JOB_BYTES_MAX}: shorten its rules"
    )]
    Job {
        /// Its name, the first 128 characters.
        job: String,
        /// What they have.
        bytes: usize,
    },
    /// A share needs more parts.
    #[error("a share of {targets} targets needs more than {PARTS_MAX} parts: add pods")]
    TooLarge {
        /// Its targets.
        targets: usize,
    },
    /// Not a part, or of a form that this release doesn't know.
    #[error("part {part}: {message}: the operator writes it anew once it is deleted")]
    Unreadable {
        /// Its number in the order given, from 0.
        part: usize,
        /// What the reader said.
        message: String,
    },
    /// Of no version all parts: the next read may have them.
    #[error("{have} of {want} parts of version {version}: read again")]
    Incomplete {
        /// The highest version there is.
        version: u64,
        /// Parts of it.
        have: usize,
        /// Parts it should have.
        want: usize,
    },
}

/// A share as the texts of its parts, in order; one at least.
pub fn split(share: &Share) -> Result<Vec<String>, DocumentFault> {
    let too_large = || DocumentFault::TooLarge { targets: share.targets.len() };
    let mut parts = vec![Part::empty(share.version)];
    let mut room = PART_BYTES_MAX - PART_FRAME_BYTES;
    // What one entry takes in the text: its id in quotes, colon, comma, and itself.
    let key = 32 + 4;
    let mut open = |parts: &mut Vec<Part>, bytes: usize| {
        if bytes > room {
            parts.push(Part::empty(share.version));
            room = PART_BYTES_MAX - PART_FRAME_BYTES;
        }
        room = room.saturating_sub(bytes);
    };
    for (name, settings) in &share.jobs {
        let (name_bytes, bytes) = (text(name)?.len(), text(settings)?.len());
        check_job(name, bytes)?;
        open(&mut parts, name_bytes + ": ,".len() + bytes);
        if let Some(last) = parts.last_mut() {
            last.jobs.insert(name.clone(), settings.clone());
        }
    }
    for (id, entry) in &share.targets {
        check(*id, entry)?;
        open(&mut parts, key + text(entry)?.len());
        if let Some(last) = parts.last_mut() {
            last.targets.insert(*id, entry.clone());
        }
    }
    for (id, released) in &share.released {
        open(&mut parts, key + text(released)?.len());
        if let Some(last) = parts.last_mut() {
            last.released.insert(*id, released.clone());
        }
    }
    let count = parts.len();
    if count > PARTS_MAX {
        return Err(too_large());
    }
    let numbered = parts.into_iter().zip(0..);
    numbered.map(|(part, number)| text(&Part { part: number, parts: count, ..part })).collect()
}

/// The newest share of which all parts are there, of the texts of parts in any order.
pub fn join<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Share, DocumentFault> {
    let mut parts = Vec::new();
    for (number, text) in texts.into_iter().take(PARTS_MAX * SETS_MAX).enumerate() {
        let unreadable = |message: String| DocumentFault::Unreadable { part: number, message };
        let part: Part = serde_json::from_str(text).map_err(|it| unreadable(it.to_string()))?;
        if part.form != FORM {
            return Err(unreadable(format!("form {} is not known here", part.form)));
        }
        parts.push(part);
    }
    // Parts of a version that is being written, or of one that is being removed, may lie beside.
    let mut versions: BTreeMap<(u64, usize), BTreeSet<usize>> = BTreeMap::new();
    for part in &parts {
        versions.entry((part.version, part.parts)).or_default().insert(part.part);
    }
    let newest = versions.last_key_value().map(|(key, have)| (*key, have.len()));
    let is_whole =
        |(key, have): &(&(u64, usize), &BTreeSet<usize>)| have.iter().copied().eq(0..key.1);
    let Some((&(version, of), _)) = versions.iter().rev().find(is_whole) else {
        let ((version, want), have) = newest.unwrap_or(((0, 1), 0));
        return Err(DocumentFault::Incomplete { version, have, want });
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

impl Part {
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

fn check(id: TargetId, entry: &Entry) -> Result<(), DocumentFault> {
    entry.over_bound().map_or(Ok(()), |what| Err(DocumentFault::Entry { id, what }))
}

/// These types have nothing that JSON can't say; a fault would be reported as unreadable.
fn text(value: &impl Serialize) -> Result<String, DocumentFault> {
    let unreadable = |fault: serde_json::Error| DocumentFault::Unreadable {
        part: 0,
        message: fault.to_string(),
    };
    serde_json::to_string(value).map_err(unreadable)
}
