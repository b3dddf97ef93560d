//! Checks single written files between two scans, and decides whether a scan is needed.
//!
//! An open file whose name is read, and of which only size and modification time changed, is read
//! on without a scan. Files that are new, moved, gone or closed need one.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::machine::Tail;
use crate::scan::inode::{FileId, Identification, InodeId};
use crate::scan::names::nearest_name;
use crate::text::patience::SCANS_AT_END;
use crate::text::{FileText, ReadState};

/// The result of checking a single file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCheck {
    /// Nothing changed.
    Nothing,
    /// Read the file, as for [`crate::Action::Read`].
    Read(FileId),
    /// The directories must be scanned.
    Scan,
}

impl Tail {
    /// Checks a single file with this size and modification time. `is_reported` states that an
    /// event reported a write, which neither may show: modification times are as coarse as the
    /// system's tick.
    pub fn check_file(
        &mut self,
        file: InodeId,
        stamps: (u64, u64),
        is_reported: bool,
    ) -> FileCheck {
        let Some(inode) = self.inodes.get_mut(&file) else {
            let is_passed = self.passed.get(&file).is_some_and(|it| it.stamps == stamps);
            return if is_passed && !is_reported { FileCheck::Nothing } else { FileCheck::Scan };
        };
        let differs = inode.observed.size_and_stamp() != stamps;
        let is_plain =
            inode.present && inode.observed.inside && inode.view == Identification::Identified;
        let own = inode.text.and_then(|id| Some((id, self.texts.get_mut(&id)?)));
        let own = own.filter(|(_, text)| text.inode == Some(file) && text.state == ReadState::Open);
        let Some((id, text)) = own.filter(|_| is_plain) else {
            return if is_reported || differs { FileCheck::Scan } else { FileCheck::Nothing };
        };
        let before = std::mem::replace(&mut inode.changed, differs);
        if !is_reported && !differs && !before {
            return FileCheck::Nothing;
        }
        (inode.observed.size, inode.observed.modified) = stamps;
        inode.unread = true;
        if inode.called.is_none() {
            inode.called = Some((inode.observed.source, Arc::clone(&inode.observed.path)));
            self.dirty = true;
        }
        if stamps.0 >= text.read {
            text.size = stamps.0;
        }
        FileCheck::Read(id)
    }

    /// Whether a scan would find nothing new until an event reports it. These don't count, as a
    /// later scan tries them again: files that are to be read, `denied` ones, which can't be
    /// opened, and those that the last scan couldn't list.
    #[must_use]
    pub fn is_quiescent(&self, denied: &HashSet<InodeId>) -> bool {
        let is_sought = self.texts.values().any(|text| {
            text.inode.is_none()
                && text.state != ReadState::Finished
                && text.patience_scans <= SCANS_AT_END
                && !self.unlisted.covers_text(text)
        });
        // The process may have the missing resource again at once.
        !self.unlisted.is_everything()
            && !is_sought
            && self.inodes.iter().all(|(identity, inode)| {
                if !inode.present {
                    return false;
                }
                if inode.view == Identification::Doubtful {
                    return denied.contains(identity) || !inode.listed;
                }
                let text = inode.text.and_then(|id| self.texts.get(&id));
                text.filter(|text| text.inode == Some(*identity)).is_none_or(|text| {
                    let waits_for_room = || !inode.observed.is_packed() && text.unread_bytes() > 0;
                    match text.state {
                        ReadState::Open => inode.observed.inside,
                        ReadState::Closed => {
                            inode.view != Identification::Identified
                                || !inode.listed
                                || !waits_for_room()
                        }
                        ReadState::Finished => true,
                    }
                })
            })
    }

    /// Records that `count` scans were skipped, since they would have found nothing. They count
    /// towards forgetting texts and names after long; the last scans before that are real.
    pub fn skip_scans(&mut self, count: u32) {
        self.skipped_scans = self.skipped_scans.saturating_add(count);
    }

    /// Whether a file under a name that isn't read is irrelevant: it isn't known, and rotation
    /// can't have made its name of one that is read.
    #[must_use]
    pub fn is_stranger(&self, file: InodeId, path: &Path) -> bool {
        let may_be = |text: &FileText| {
            text.inode.is_none()
                && (text.last_file == file || text.last_file.1 == file.1 && *text.path == *path)
        };
        !self.inodes.contains_key(&file)
            && nearest_name(&self.names.by_folder(), path).is_none()
            && !self.texts.values().any(|text| may_be(text))
    }
}
