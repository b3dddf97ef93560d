//! Compressed files: which of them has the rest of a file that went before it was read to its end.
//!
//! A compressed file is told by its decompressed beginning.
//! - While the file that it was made of is there, or open, it is that file's twin and isn't read.
//! - Once that is gone unread, the compressed one takes its place, and is read on from its
//!   position. Once that was read to its end, the compressed one is on record as read.
//! - One that is like no known file is read if it is younger than what is known of its name: it was
//!   written, rotated and compressed while nobody looked.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file::{File, Place, State};
use crate::fingerprint::Fingerprint;
use crate::look::{Seen, is_rotated_name};
use crate::machine::{Event, FileId, Tail};

/// The ending of a compressed file that is read.
const ENDING: &str = "gz";

/// What is known of a compressed file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Packed {
    /// Its decompressed length, once it was read to its end.
    #[serde(rename = "e")]
    pub(crate) end: Option<u64>,
    /// Its compressed bytes and its stamp, as the last look found them. Releases that didn't keep
    /// them make it be opened once.
    #[serde(rename = "z", default)]
    pub(crate) seen: (u64, u64),
    /// The file that is there, or open, with the same text; and its generation.
    #[serde(skip)]
    pub(crate) twin: Option<(FileId, u64)>,
}

impl File {
    /// Whether anything of a compressed file is still to be read.
    pub(crate) fn is_unpacked(&self) -> bool {
        let wanted = |packed: &Packed| {
            packed.twin.is_none() && packed.end.is_none_or(|end| self.taken.offset < end)
        };
        self.packed.as_ref().is_some_and(wanted)
    }

    /// Whether all of a compressed file was read.
    pub(crate) fn is_ended(&self) -> bool {
        self.packed.is_some_and(|packed| packed.end.is_some()) && !self.is_unpacked()
    }

    /// On record as read to its end, whatever that is.
    fn pass(&mut self) {
        self.stranger = false;
        self.verified = self.verified.max(self.modified);
        if let Some(packed) = &mut self.packed {
            (packed.end, packed.twin) = (Some(self.taken.offset), None);
        }
    }
}

/// The name that a compressed file had before it was compressed.
pub(crate) fn unpacked_name(path: &Path) -> Option<PathBuf> {
    (path.extension()? == ENDING).then(|| path.with_extension(""))
}

/// Whether a compressed file, by its name before, can be made of a file whose name was `base`.
pub(crate) fn is_kin(base: &Path, name: &Path) -> bool {
    base == name || is_rotated_name(base, name)
}

impl Tail {
    /// The directories in which files that may have been compressed are missing.
    pub(crate) fn bereft(&self) -> HashSet<&Path> {
        let is_missing =
            |file: &&File| file.packed.is_none() && (file.recalled || file.place.is_unseen());
        let missing = self.files.values().filter(is_missing);
        missing.filter_map(|file| file.sure_base().parent()).collect()
    }

    /// What a compressed file is that was opened for the first time and begins with `head`
    /// decompressed. Whether it is to be read now.
    pub(crate) fn meet_packed(&mut self, id: FileId, head: &[u8]) -> bool {
        let Some(file) = self.files.get(&id) else { return false };
        let (identity, young) = (file.identity(), file.is_young);
        let Some(name) = unpacked_name(&file.path) else { return false };
        let is_unjudged = |file: &File| {
            file.packed.is_none() && file.stranger && file.path == name && !file.place.is_unseen()
        };
        if !self.wanted.is_empty() || self.files.values().any(is_unjudged) {
            // What it is made of may still be there, and is opened first.
            self.not_opened(id);
            return false;
        }
        let begins_like = |print: &Fingerprint| print.covered_bytes() > 0 && print.fits(head);
        let mut like: Vec<(usize, FileId, Option<u64>)> = Vec::new();
        for (other, file) in self.files.iter().filter(|(other, _)| **other != id) {
            if file.stranger || !is_kin(file.sure_base(), &name) {
                continue;
            }
            if begins_like(&file.fingerprint) {
                like.push((file.fingerprint.covered_bytes(), *other, None));
            }
            for former in file.formers.iter().filter(|it| !it.has_heir()) {
                if begins_like(&former.fingerprint) {
                    let covered = former.fingerprint.covered_bytes();
                    like.push((covered, *other, Some(former.generation())));
                }
            }
        }
        like.sort_unstable();
        match like.pop() {
            Some((_, original, Some(generation))) => self.inherit(id, original, generation),
            Some((_, twin, None)) => {
                let generation = self.files.get(&twin).map_or(0, |file| file.generation);
                if let Some(file) = self.files.get_mut(&id) {
                    file.fingerprint = Fingerprint::of(head);
                }
                self.set_twin(id, (twin, generation));
                return false;
            }
            None if young && !head.is_empty() => {}
            None => {
                self.remove(id);
                self.passed.insert(identity);
                return false;
            }
        }
        if let Some(file) = self.files.get_mut(&id) {
            file.stranger = false;
            file.fingerprint = Fingerprint::of(head);
        }
        true
    }

    /// What has become of the files that compressed ones are made of.
    pub(crate) fn settle_twins(&mut self) {
        let twin = |(id, file): (&FileId, &File)| Some((*id, file.packed?.twin?));
        let mut twins: Vec<_> = self.files.iter().filter_map(twin).collect();
        twins.sort_unstable();
        for (id, (original, generation)) in twins {
            let Some(file) = self.files.get(&original) else {
                // It was read to its end, and all of it is acknowledged.
                if let Some(file) = self.files.get_mut(&id) {
                    file.pass();
                    self.has_changed();
                }
                continue;
            };
            if file.generation != generation {
                let heir = file.heir(generation);
                if let Some(heir) = heir.and_then(|heir| Some((heir, self.files.get(&heir)?))) {
                    // A copy has the same text as well.
                    self.set_twin(id, (heir.0, heir.1.generation));
                } else {
                    self.inherit(id, original, generation);
                    self.unpack(id);
                }
            } else if file.is_gone() {
                self.replace(original, id);
            }
        }
    }

    fn set_twin(&mut self, id: FileId, twin: (FileId, u64)) {
        if let Some(packed) = self.files.get_mut(&id).and_then(|file| file.packed.as_mut()) {
            packed.twin = Some(twin);
        }
    }

    /// A compressed file isn't read by another name any more.
    fn unpack(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(&id) {
            file.stranger = false;
            file.suspect = true;
            if let Some(packed) = &mut file.packed {
                packed.twin = None;
            }
        }
        self.has_changed();
    }

    /// A file is gone, and `by` has the same text.
    pub(crate) fn replace(&mut self, id: FileId, by: FileId) {
        let Some(same) = self.files.remove(&by) else { return };
        self.by_identity.remove(&same.identity());
        let Some(file) = self.files.get_mut(&id) else { return };
        self.recalled.remove(&(file.inode, file.path.clone()));
        if self.by_identity.get(&file.identity()) == Some(&id) {
            self.by_identity.remove(&file.identity());
        }
        (file.device, file.inode) = same.identity();
        file.path = same.path;
        file.before = None;
        file.modified = same.modified;
        file.recalled = false;
        file.place = Place::Outside;
        let seen = same.packed.map(|packed| packed.seen);
        file.packed = seen.map(|seen| Packed { seen, ..Packed::default() });
        self.by_identity.insert(file.identity(), id);
        self.unpack(id);
    }

    /// A compressed file was seen. Whether it is to be opened.
    pub(crate) fn update_packed(file: &mut File, seen: &Seen) -> bool {
        let Some(packed) = &mut file.packed else { return false };
        let changed = packed.seen != (seen.size, seen.modified);
        packed.seen = (seen.size, seen.modified);
        file.modified = seen.modified;
        // One that was read, or has a twin, may be another by now.
        let check = std::mem::take(&mut file.suspect) && file.is_unpacked() || changed;
        check && file.state == State::Closed
    }

    /// A compressed file that was opened before begins otherwise: it is another now.
    pub(crate) fn is_another(&mut self, id: FileId, head: &[u8]) -> bool {
        let of = self.files.get(&id).filter(|file| file.packed.is_some());
        let Some(file) = of.filter(|file| !file.fingerprint.fits(head)) else { return false };
        if !file.is_ended() {
            let (path, lost_bytes) = (file.path.clone(), file.unread_bytes());
            self.events.push(Event::Gone { path, lost_bytes });
        }
        let identity = file.identity();
        self.remove(id);
        self.wanted.insert(identity);
        true
    }

    /// A compressed file was read to its end, which is whole. It is to be closed.
    pub fn ended(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(&id)
            && let Some(packed) = &mut file.packed
        {
            packed.end = Some(file.read);
            file.verified = file.verified.max(file.modified);
            self.has_changed();
        }
    }

    /// A compressed file that isn't open can't be read, or not further: it is torn, damaged, or not
    /// whole yet. It is tried again when it has changed.
    pub fn damaged(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(&id)
            && file.state != State::Open
        {
            file.state = State::Closed;
            file.suspect = false;
        }
    }
}
