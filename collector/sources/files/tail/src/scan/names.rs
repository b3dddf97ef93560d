//! Tracks names that are read, and recognises names that rotation makes of them.
//!
//! A name without a file stays known for a while, so that files rotated in that time are
//! recognised. Its stamp is the modification time of the youngest text known to be read. An older
//! file next to it with an unknown text existed before, and isn't read, unless all positions were
//! lost. Next to a name that is itself new, a file as young as those of the last scan was made
//! since.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Scans for which a name without a file stays known: 2,400 of 250 ms are 10 minutes.
const SCANS_KNOWN: u32 = 2_400;

/// The suffix of compressed files that are read.
const PACKED: &str = "gz";

/// Suffixes of files that aren't text. `.gz` is removed before a name is compared.
const NO_TEXT: [&str; 7] = [PACKED, "zst", "bz2", "xz", "lz4", "zip", "tmp"];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    pub(crate) source: usize,
    /// The modification time of the youngest text of this name that was read.
    pub(crate) stamp: u64,
    /// Scans since a file or a text had this name: 0 if one had it at the end of the last scan.
    unseen_scans: u32,
}

/// All names that are read.
#[derive(Debug, Default)]
pub(crate) struct LogNames(HashMap<Arc<Path>, Name>);

/// Names and stamps by directory.
pub(crate) type Folders<'n> = HashMap<&'n Path, Vec<(&'n Arc<Path>, u64)>>;

impl LogNames {
    /// Adds a name. Returns whether it is new.
    pub(crate) fn add_name(&mut self, path: &Arc<Path>, source: usize) -> bool {
        if self.0.contains_key(path) {
            return false;
        }
        self.0.insert(Arc::clone(path), Name { source, stamp: 0, unseen_scans: 1 });
        true
    }

    /// The same path, shared with the name if it is known.
    pub(crate) fn shared_path(&self, path: &Arc<Path>) -> Arc<Path> {
        Arc::clone(self.0.get_key_value(path).map_or(path, |(known, _)| known))
    }

    /// Advances a name's stamp. Returns whether it changed.
    pub(crate) fn advance_stamp(&mut self, path: &Path, stamp: u64) -> bool {
        let older = self.0.get_mut(path).filter(|name| name.stamp < stamp);
        older.map(|name| name.stamp = stamp).is_some()
    }

    /// Whether a file or a text had this name at the end of the last scan.
    pub(crate) fn is_used(&self, path: &Path) -> bool {
        self.0.get(path).is_some_and(|name| name.unseen_scans == 0)
    }

    /// The source that reads files of this name.
    pub(crate) fn source(&self, path: &Path) -> Option<usize> {
        self.0.get(path).map(|name| name.source)
    }

    pub(crate) fn stamp_of(&self, path: &Path) -> u64 {
        self.0.get(path).map_or(0, |name| name.stamp)
    }

    /// Forgets names that had no text for long, or at once beyond `limit`. `scans` is the number of
    /// scans since the last call.
    pub(crate) fn evict_unused(&mut self, used: &HashSet<&Path>, scans: u32, limit: usize) {
        let patience = if self.0.len() > limit { 0 } else { SCANS_KNOWN };
        self.0.retain(|path, name| {
            let unseen = name.unseen_scans.saturating_add(scans);
            name.unseen_scans = if used.contains(&**path) { 0 } else { unseen };
            name.unseen_scans <= patience
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<Path>, Name)> {
        self.0.iter().map(|(path, name)| (path, *name))
    }

    pub(crate) fn by_folder(&self) -> Folders<'_> {
        let mut folders = Folders::new();
        for (path, name) in self.iter() {
            if let Some(folder) = path.parent() {
                folders.entry(folder).or_default().push((path, name.stamp));
            }
        }
        folders
    }
}

/// Whether this is the name of a compressed file.
pub(crate) fn is_packed(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(PACKED))
}

/// The name before compression.
pub(crate) fn unpacked_path(path: &Path) -> PathBuf {
    if is_packed(path) { path.with_extension("") } else { path.to_owned() }
}

/// Finds the name from which rotation made `path`, with its stamp: the shortest that is a prefix of
/// `path` (`app.log` of `app.log.1`), else the longest that matches.
pub(crate) fn nearest_name<'n>(folders: &Folders<'n>, path: &Path) -> Option<(&'n Arc<Path>, u64)> {
    let name = unpacked_path(path);
    let names = folders.get(name.parent()?)?;
    if is_no_text(&name) {
        return None;
    }
    let length = |base: &Path| base.as_os_str().len();
    let begins = |base: &Path| {
        let rest = name.as_os_str().as_encoded_bytes();
        rest.strip_prefix(base.as_os_str().as_encoded_bytes())
            .is_some_and(|rest| rest.first().is_none_or(|next| matches!(next, b'.' | b'-' | b'_')))
    };
    let by_beginning = names.iter().filter(|(base, _)| begins(base));
    let by_stem = || names.iter().filter(|(base, _)| is_kin(base, &name));
    by_beginning
        .min_by_key(|(base, _)| length(base))
        .or_else(|| by_stem().max_by_key(|(base, _)| length(base)))
        .copied()
}

/// Whether `path` is `base` or a rotated name of it: in the same directory, `base` up to its last
/// dot, then a dot, a dash, an underscore or a digit.
pub(crate) fn is_kin(base: &Path, path: &Path) -> bool {
    if base == path {
        return true;
    }
    if base.parent() != path.parent() || is_no_text(path) {
        return false;
    }
    let (Some(stem), Some(name)) = (base.file_stem(), path.file_name()) else { return false };
    let rest = name.as_encoded_bytes().strip_prefix(stem.as_encoded_bytes());
    let next = rest.and_then(<[u8]>::first);
    next.is_some_and(|next| matches!(next, b'.' | b'-' | b'_') || next.is_ascii_digit())
}

fn is_no_text(path: &Path) -> bool {
    NO_TEXT.contains(&path.extension().and_then(OsStr::to_str).unwrap_or_default())
}
