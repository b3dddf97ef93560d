//! Names that are read, and names that rotation makes of them.
//!
//! A name stays known for a while without a file, so that what is rotated meanwhile is recognised.
//! Its stamp is that of the youngest text known to be read. An older file beside it with an unknown
//! text was there before, and isn't read, unless all positions were lost. Beside a name that is new
//! itself, what is as young as the files of the last look was made since.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Looks for which a name without a file stays known: 2,400 of 250 ms are 10 minutes.
const LOOKS_KNOWN: u32 = 2_400;

/// The ending of a compressed file that is read.
const PACKED: &str = "gz";

/// Endings of files that aren't text. `.gz` is removed before a name is compared.
const NO_TEXT: [&str; 7] = [PACKED, "zst", "bz2", "xz", "lz4", "zip", "tmp"];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    pub(crate) source: usize,
    /// The stamp of the youngest text of this name that was read.
    pub(crate) stamp: u64,
    unseen_looks: u32,
}

/// All names that are read.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<Arc<Path>, Name>);

/// Names and stamps by directory.
pub(crate) type Folders<'n> = HashMap<&'n Path, Vec<(&'n Arc<Path>, u64)>>;

impl Names {
    /// Adds a name. Whether it is new.
    pub(crate) fn meet(&mut self, path: &Arc<Path>, source: usize) -> bool {
        if self.0.contains_key(path) {
            return false;
        }
        self.0.insert(Arc::clone(path), Name { source, stamp: 0, unseen_looks: 0 });
        true
    }

    /// The same path, shared with the name if it is known.
    pub(crate) fn shared(&self, path: &Arc<Path>) -> Arc<Path> {
        Arc::clone(self.0.get_key_value(path).map_or(path, |(known, _)| known))
    }

    /// Texts of this name up to this stamp are known. Whether that is news.
    pub(crate) fn advance(&mut self, path: &Path, stamp: u64) -> bool {
        let older = self.0.get_mut(path).filter(|name| name.stamp < stamp);
        older.map(|name| name.stamp = stamp).is_some()
    }

    /// The source that reads files of this name.
    pub(crate) fn source(&self, path: &Path) -> Option<usize> {
        self.0.get(path).map(|name| name.source)
    }

    pub(crate) fn stamp(&self, path: &Path) -> u64 {
        self.0.get(path).map_or(0, |name| name.stamp)
    }

    /// Forgets names that had no text for long, or at once beyond `limit`. `looks` have passed.
    pub(crate) fn forget(&mut self, used: &HashSet<&Path>, looks: u32, limit: usize) {
        let patience = if self.0.len() > limit { 0 } else { LOOKS_KNOWN };
        self.0.retain(|path, name| {
            let unseen = name.unseen_looks.saturating_add(looks);
            name.unseen_looks = if used.contains(&**path) { 0 } else { unseen };
            name.unseen_looks <= patience
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
pub(crate) fn unpacked(path: &Path) -> PathBuf {
    if is_packed(path) { path.with_extension("") } else { path.to_owned() }
}

/// The name of which rotation made `path`, with its stamp: the shortest that `path` begins with
/// (`app.log` of `app.log.1`), else the longest that fits.
pub(crate) fn nearest<'n>(folders: &Folders<'n>, path: &Path) -> Option<(&'n Arc<Path>, u64)> {
    let name = unpacked(path);
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
    let whole = names.iter().filter(|(base, _)| begins(base));
    let by_stem = || names.iter().filter(|(base, _)| is_kin(base, &name));
    whole
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
