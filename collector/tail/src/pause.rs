//! What isn't read for now although it is there: files of namespaces that aren't chosen, and
//! sources of which nobody knows yet what they read.
//!
//! A paused file is as one of a process that is off: its text stays on record without a file, with
//! its position and no bytes behind it, as long as the file is there. When it is read again, its
//! beginning says which text it has, as after a start.

use std::collections::{BTreeSet, HashSet};

use crate::inode::{Identity, Seen};
use crate::look::LOOKS_RECALLED;
use crate::machine::Tail;
use crate::text::Text;

/// What isn't read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paused {
    /// Files that are there and under no name that is read now.
    pub files: HashSet<Identity>,
    /// Indices of sources whose first look is still to come.
    pub sources: BTreeSet<usize>,
}

impl Paused {
    /// Whether a text without a file is one of these.
    pub(crate) fn has(&self, text: &Text) -> bool {
        self.files.contains(&text.was) || self.sources.contains(&text.source)
    }
}

impl Tail {
    /// What isn't read from the next look on. What of it is open must be closed before.
    pub fn pause(&mut self, paused: Paused) {
        self.paused = paused;
    }

    /// Lets go of paused files. What another source reads isn't paused.
    pub(crate) fn let_go(&mut self, chosen: &[&Seen]) {
        if self.paused.files.is_empty() {
            return;
        }
        for seen in chosen {
            self.paused.files.remove(&seen.identity());
        }
        let known = self.inodes.keys().filter(|identity| self.paused.files.contains(*identity));
        for identity in known.copied().collect::<Vec<_>>() {
            let of = self.inodes.get(&identity).and_then(|inode| inode.text);
            if of.and_then(|id| self.texts.get(&id)).is_some_and(|it| it.is_open_in(identity)) {
                continue;
            }
            let Some(inode) = self.forget_file(identity) else { continue };
            for id in inode.claims.into_iter().chain(inode.text) {
                if self.texts.get(&id).is_some_and(|text| text.inode == Some(identity)) {
                    self.release(id, LOOKS_RECALLED);
                }
            }
        }
        for text in self.texts.values_mut() {
            if text.inode.is_none() && self.paused.files.contains(&text.was) {
                // Nobody asks for what is behind, and nobody looks for the file.
                (text.size, text.recalled) = (text.read, false);
                text.patience_looks = LOOKS_RECALLED;
            }
        }
    }
}
