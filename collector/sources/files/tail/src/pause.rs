//! Pauses files that exist and aren't read for now: those of namespaces that aren't selected, and
//! of sources whose selection isn't known yet.
//!
//! A paused file is like a file while the process is off: its text remains on record without a
//! file, with its position and no unread bytes, as long as the file exists. When it is read again,
//! its beginning identifies its text, as after a start.

pub(crate) mod pause_set;

use crate::machine::Tail;
use crate::pause::pause_set::PauseSet;
use crate::scan::inode::FileObservation;
use crate::text::patience::SCANS_RECORDED;

impl Tail {
    /// Sets the files that are paused from the next scan on. The caller must have closed those that
    /// are open.
    pub fn set_paused(&mut self, paused: PauseSet) {
        self.paused = paused;
    }

    /// Detaches paused files from their texts. A file that another source reads isn't paused.
    pub(crate) fn release_paused(&mut self, chosen: &[&FileObservation]) {
        if self.paused.files.is_empty() {
            return;
        }
        for observation in chosen {
            self.paused.files.remove(&observation.file_identity());
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
                    self.release_text(id, SCANS_RECORDED);
                }
            }
        }
        for text in self.texts.values_mut() {
            if text.inode.is_none() && self.paused.files.contains(&text.last_file) {
                // Its unread bytes don't count, and its file isn't sought.
                (text.size, text.recalled) = (text.read, false);
                text.patience_scans = SCANS_RECORDED;
            }
        }
    }
}
