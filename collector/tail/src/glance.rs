//! Between two looks: single files that were written, and whether a look is needed.
//!
//! An open file with a name that is read, and of which only size and stamp are new, is read on
//! without a look. Files that are new, moved, gone or closed need one.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::inode::{Identity, View};
use crate::judge::LOOKS_AT_END;
use crate::machine::Tail;
use crate::names::nearest;
use crate::text::{FileId, State, Text};

/// What to do about a single file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance {
    /// Nothing is new.
    Nothing,
    /// As [`crate::Action::Read`].
    Read(FileId),
    /// The directories must be looked at.
    Look,
}

impl Tail {
    /// A single file was seen with this size and stamp. `told` says that it was written since, even
    /// if neither shows it: stamps are as coarse as the system's tick.
    pub fn glance(&mut self, file: Identity, stamps: (u64, u64), told: bool) -> Glance {
        let Some(inode) = self.inodes.get_mut(&file) else {
            let is_passed = self.passed.get(&file) == Some(&stamps);
            return if is_passed && !told { Glance::Nothing } else { Glance::Look };
        };
        let differs = inode.seen.stamps() != stamps;
        let is_plain = inode.present && inode.seen.inside && inode.view == View::Judged;
        let own = inode.text.and_then(|id| Some((id, self.texts.get_mut(&id)?)));
        let own = own.filter(|(_, text)| text.inode == Some(file) && text.state == State::Open);
        let Some((id, text)) = own.filter(|_| is_plain) else {
            return if told || differs { Glance::Look } else { Glance::Nothing };
        };
        let before = std::mem::replace(&mut inode.changed, differs);
        if !told && !differs && !before {
            return Glance::Nothing;
        }
        (inode.seen.size, inode.seen.modified) = stamps;
        inode.unread = true;
        if inode.called.is_none() {
            inode.called = Some((inode.seen.source, Arc::clone(&inode.seen.path)));
            self.dirty = true;
        }
        if stamps.0 >= text.read {
            text.size = stamps.0;
        }
        Glance::Read(id)
    }

    /// Whether a look would find nothing new unless an event tells of it. Files that are to be read
    /// don't count, nor do `denied` ones, which may not be opened.
    #[must_use]
    pub fn is_settled(&self, denied: &HashSet<Identity>) -> bool {
        let is_sought = self.texts.values().any(|text| {
            text.inode.is_none() && text.state != State::Over && text.patience_looks <= LOOKS_AT_END
        });
        !is_sought
            && self.inodes.iter().all(|(identity, inode)| {
                if !inode.present {
                    return false;
                }
                if inode.view == View::Doubtful {
                    return denied.contains(identity);
                }
                let text = inode.text.and_then(|id| self.texts.get(&id));
                text.filter(|text| text.inode == Some(*identity)).is_none_or(|text| {
                    let waits_for_room = || !inode.seen.is_packed() && text.unread_bytes() > 0;
                    match text.state {
                        State::Open => inode.seen.inside,
                        State::Closed => inode.view != View::Judged || !waits_for_room(),
                        State::Over => true,
                    }
                })
            })
    }

    /// `count` looks were skipped, since they would have found nothing. They count for what is
    /// forgotten after long; the last looks before that are real.
    pub fn skip_looks(&mut self, count: u32) {
        self.skipped_looks = self.skipped_looks.saturating_add(count);
    }

    /// Whether a file under a name that isn't read never matters: it isn't known, and rotation
    /// can't have made its name of one that is read.
    #[must_use]
    pub fn is_stranger(&self, file: Identity, path: &Path) -> bool {
        let may_be = |text: &Text| {
            text.inode.is_none()
                && (text.was == file || text.was.1 == file.1 && *text.path == *path)
        };
        !self.inodes.contains_key(&file)
            && nearest(&self.names.by_folder(), path).is_none()
            && !self.texts.values().any(|text| may_be(text))
    }
}
