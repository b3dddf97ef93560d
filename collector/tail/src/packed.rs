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
    /// Its compressed bytes, as the last look found them.
    #[serde(skip)]
    pub(crate) packed_bytes: u64,
    /// The file that is there, or open, with the same text; and its generation.
    #[serde(skip)]
    pub(crate) twin: Option<(FileId, u64)>,
    /// Younger than all that was known of its name when it was met.
    #[serde(skip)]
    pub(crate) is_young: bool,
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
        self.packed = Some(Packed { end: Some(self.taken.offset), ..Packed::default() });
    }
}

/// The name that a compressed file had before it was compressed.
pub(crate) fn unpacked_name(path: &Path) -> Option<PathBuf> {
    (path.extension()? == ENDING).then(|| path.with_extension(""))
}

/// Whether a compressed file, by its name before, can be made of a file whose name was `base`.
fn is_kin(base: &Path, name: &Path) -> bool {
    base == name || is_rotated_name(base, name)
}

impl Tail {
    /// The directories in which files that may have been compressed are missing.
    pub(crate) fn bereft(&self) -> HashSet<&Path> {
        let is_missing =
            |file: &&File| file.packed.is_none() && (file.recalled || file.place.is_unseen());
        let missing = self.files.values().filter(is_missing);
        missing.filter_map(|file| file.base.parent()).collect()
    }

    /// What a compressed file is that was opened for the first time and begins with `head`
    /// decompressed. Whether it is to be read now.
    pub(crate) fn meet_packed(&mut self, id: FileId, head: &[u8]) -> bool {
        let Some(file) = self.files.get(&id) else { return false };
        let (identity, young) = (file.identity(), file.packed.is_some_and(|it| it.is_young));
        let Some(name) = unpacked_name(&file.path) else { return false };
        let begins_like = |print: &Fingerprint| print.covered_bytes() > 0 && print.fits(head);
        let mut like: Vec<(usize, FileId, Option<u64>)> = Vec::new();
        for (other, file) in self.files.iter().filter(|(other, _)| **other != id) {
            if file.stranger || !is_kin(&file.base, &name) {
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
        file.modified = same.modified;
        file.recalled = false;
        file.place = Place::Outside;
        file.packed = same.packed.map(|_| Packed::default());
        self.by_identity.insert(file.identity(), id);
        self.unpack(id);
    }

    /// A compressed file was seen. Whether it is to be opened.
    pub(crate) fn update_packed(file: &mut File, seen: &Seen) -> bool {
        let Some(packed) = &mut file.packed else { return false };
        let changed = seen.modified != file.modified || seen.size != packed.packed_bytes;
        packed.packed_bytes = seen.size;
        file.modified = seen.modified;
        let check = std::mem::take(&mut file.suspect) || changed;
        check && file.state == State::Closed && file.is_unpacked()
    }

    /// A compressed file that was opened before begins otherwise: it is another now.
    pub(crate) fn is_another(&mut self, id: FileId, head: &[u8]) -> bool {
        let of = self.files.get(&id).filter(|file| file.packed.is_some());
        let Some(file) = of.filter(|file| !file.fingerprint.fits(head)) else { return false };
        let (path, lost_bytes) = (file.path.clone(), file.unread_bytes());
        self.events.push(Event::Gone { path, lost_bytes });
        self.remove(id);
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
