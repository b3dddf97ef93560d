//! Decides which text an open file has, by its beginning. No other module decides that.
//!
//! In this order:
//! 1. The known text with a matching fingerprint, the longest first: one that the file had or, for
//!    a file under a name that isn't read, one from whose name its own may derive. A file shorter
//!    than what was read of it was restarted.
//! 2. A file that was empty so far has the text expected in it.
//! 3. Under a name that is read, a new text. Under another name too, if rotation made it.
//!
//! If several files have a text, one is read. When that one is gone or has another text, the next
//! is read from the same position, compressed or not.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use crate::machine::{OpenOutcome, ReadOutcome, Tail, TailEvent};
use crate::scan::inode::{FileId, Identification, Inode, InodeId, PassedFile};
use crate::scan::names::{is_kin, unpacked_path};
use crate::text::fingerprint::Fingerprint;
use crate::text::patience::SCANS_FOR_COPY;
use crate::text::position::Position;
use crate::text::{FileText, NOWHERE, ReadState};

enum TextMatch {
    /// The file has this text.
    Has(FileId),
    /// The file has a new text.
    New,
    /// The file is irrelevant.
    Nothing,
    /// Other files must be identified first.
    Later,
}

impl Tail {
    /// Identifies the file `meant`, opened as `found`, with `size` bytes and this `head`, which are
    /// those of the text for a compressed file.
    pub fn record_opened(
        &mut self,
        meant: InodeId,
        found: InodeId,
        size: u64,
        head: &[u8],
    ) -> OpenOutcome {
        let verdict = match meant == found {
            true => self.identify_file(meant, size, head),
            false => TextMatch::Later,
        };
        let id = match verdict {
            TextMatch::Has(id) => id,
            TextMatch::New => self.begin_text(meant, size),
            TextMatch::Nothing => {
                self.ignore_file(meant);
                return OpenOutcome::Unread;
            }
            TextMatch::Later => {
                self.record_open_failure(meant);
                return OpenOutcome::Unread;
            }
        };
        self.assign_text(meant, id);
        self.read_from(meant, id, size, head)
    }

    fn identify_file(&self, identity: InodeId, size: u64, head: &[u8]) -> TextMatch {
        let Some(inode) = self.inodes.get(&identity) else { return TextMatch::Nothing };
        let of = |id: &FileId| self.texts.get(id).map(|text| (*id, &**text));
        let had: Vec<_> = inode.claims.iter().chain(&inode.text).filter_map(of).collect();
        if let Some((id, text)) = self.find_known_text(identity, inode, &had, size, head) {
            let other = text.inode.filter(|other| *other != identity);
            let other = other.and_then(|other| self.inodes.get(&other));
            let is_certain = text.state == ReadState::Open
                || other.is_none_or(|other| other.view != Identification::Doubtful);
            return if is_certain { TextMatch::Has(id) } else { TextMatch::Later };
        }
        let is_expected = |text: &FileText| text.is_blank() && text.inode == Some(identity);
        let is_long_enough = |text: &FileText| inode.observed.is_packed() || size >= text.read;
        let mut expected = had.iter().filter(|(_, text)| is_expected(text) && is_long_enough(text));
        if let Some((id, _)) = expected.next() {
            return TextMatch::Has(*id);
        }
        if inode.observed.inside {
            return TextMatch::New;
        }
        if head.is_empty() {
            return TextMatch::Nothing;
        }
        if inode.called.is_some() {
            return TextMatch::New;
        }
        let Some(base) = &inode.base else { return TextMatch::Nothing };
        if self.has_unsure_original(identity, inode.observed.is_packed(), base) {
            return TextMatch::Later;
        }
        // An inode that had another text belongs to a newer file.
        let was_made_since = had.iter().any(|(_, text)| !text.is_blank());
        if inode.young || was_made_since { TextMatch::New } else { TextMatch::Nothing }
    }

    /// Finds the known text that matches a file's beginning: the longest, then one that the file
    /// had, then one without another file.
    fn find_known_text<'t>(
        &'t self,
        identity: InodeId,
        inode: &Inode,
        had: &[(FileId, &'t FileText)],
        size: u64,
        head: &[u8],
    ) -> Option<(FileId, &'t FileText)> {
        let Inode { observed, .. } = inode;
        let has_still = |text: &FileText| {
            // A copy may be shorter than what was read of the original.
            let is_copy = text.inode != Some(identity) || text.path != text.base;
            observed.is_packed() || is_copy || size >= text.read
        };
        let had = had.iter().copied().filter(|(_, text)| has_still(text));
        let name = if observed.is_packed() {
            unpacked_path(&observed.path)
        } else {
            observed.path.to_path_buf()
        };
        let all = (!observed.inside).then(|| self.texts.iter().map(|(id, text)| (*id, &**text)));
        let kin = all
            .into_iter()
            .flatten()
            .filter(|(id, text)| !inode.may_have(*id) && is_kin(&text.base, &name));
        let like = had.chain(kin).filter(|(_, text)| text.is_like(head));
        like.max_by_key(|(id, text)| {
            let is_free = text.inode.is_none_or(|other| other == identity);
            (text.fingerprint.covered_bytes(), inode.may_have(*id), is_free, Reverse(*id))
        })
    }

    /// Whether a file can only be identified after others are read that may have another text by
    /// now.
    #[must_use]
    pub fn must_wait(&self, file: InodeId) -> bool {
        let Some(inode) = self.inodes.get(&file).filter(|inode| !inode.observed.inside) else {
            return false;
        };
        let is_packed = inode.observed.is_packed();
        inode.base.as_ref().is_some_and(|base| self.has_unsure_original(file, is_packed, base))
    }

    /// Whether this file may be the copy of another one that isn't identified yet.
    fn has_unsure_original(&self, identity: InodeId, packed: bool, base: &Path) -> bool {
        self.inodes.iter().any(|(other, inode)| {
            *other != identity
                && !inode.observed.is_packed()
                && (inode.called.is_some() || inode.unread || packed && inode.is_unsure())
                && inode.base_names().any(|name| **name == *base)
        })
    }

    /// Adds a new text for a file.
    fn begin_text(&mut self, identity: InodeId, size: u64) -> FileId {
        let Some(inode) = self.inodes.get_mut(&identity) else { return self.next_id() };
        let at_end = inode.at_end.take().filter(|offset| size >= *offset);
        let from = Position::from_offset(at_end.unwrap_or_default());
        let (source, path) = (inode.observed.source, Arc::clone(&inode.observed.path));
        let mut text = FileText::new(source, path, identity, from);
        text.at_end = at_end.is_some_and(|offset| offset > 0);
        if !inode.observed.inside {
            match (inode.called.take(), inode.base.clone()) {
                (_, Some(base)) => {
                    text.source = self.names.source(&base).unwrap_or(source);
                    text.base = base;
                }
                (Some((source, path)), None) => (text.source, text.base) = (source, path),
                (None, None) => {}
            }
        }
        let id = self.next_id();
        self.texts.insert(id, Box::new(text));
        id
    }

    /// Assigns a text to a file.
    pub(crate) fn assign_text(&mut self, identity: InodeId, id: FileId) {
        self.dirty = true;
        let Some(inode) = self.inodes.get_mut(&identity) else { return };
        inode.view = Identification::Identified;
        (inode.called, inode.unread) = (None, false);
        inode.at_end = None;
        let text = inode.text.replace(id);
        let was_there = std::mem::take(&mut inode.at_first_start);
        inode.found_since_scan |= text != Some(id) && !was_there;
        let before = std::mem::take(&mut inode.claims).into_iter().chain(text);
        if let Some(text) = text {
            self.carriers.remove(&(text, identity));
        }
        self.carriers.insert((id, identity));
        let (observed, base) = (inode.observed.clone(), inode.base.clone());
        let mut has_begun_again = false;
        for other in before.filter(|other| *other != id).collect::<Vec<_>>() {
            let Some(text) = self.texts.get_mut(&other) else { continue };
            if text.inode == Some(identity) {
                has_begun_again |= !text.is_blank();
                (text.last_file, text.recalled) = (NOWHERE, false);
                self.release_text(other, SCANS_FOR_COPY);
            }
        }
        let Some(text) = self.texts.get_mut(&id) else { return };
        let other = text.inode.and_then(|other| self.inodes.get(&other));
        if other.is_none_or(|other| other.view == Identification::Torn) {
            text.inode = Some(identity);
        }
        if has_begun_again && text.is_blank() {
            self.events.push(TailEvent::Restarted { path: observed.path.to_path_buf() });
        }
        if text.inode != Some(identity) {
            return;
        }
        text.last_file = identity;
        text.recalled = false;
        text.state =
            if text.state == ReadState::Open { ReadState::Open } else { ReadState::Closed };
        if let (true, Some(base)) = (text.is_blank(), &base) {
            // The text expected in it may have had another name.
            text.source = self.names.source(base).unwrap_or(observed.source);
            text.base = Arc::clone(base);
        }
        text.set_name(&observed);
        if observed.is_packed() {
            text.packed = Some(observed.size_and_stamp());
        }
        if let Some(base) = base {
            self.names.add_name(&base, observed.source);
        }
    }

    /// Begins to read a text from this file, if it has unread bytes and there is capacity.
    fn read_from(&mut self, identity: InodeId, id: FileId, size: u64, head: &[u8]) -> OpenOutcome {
        let has_room = self.open < self.settings.open_files;
        let Some(inode) = self.inodes.get_mut(&identity) else { return OpenOutcome::Unread };
        let packed = inode.observed.is_packed();
        let Some(text) = self.texts.get_mut(&id) else { return OpenOutcome::Unread };
        if text.inode != Some(identity) || text.state == ReadState::Open {
            return OpenOutcome::Unread;
        }
        text.fingerprint.extend_from(head);
        text.read = text.accepted.offset;
        text.size = size.max(text.read);
        if text.is_ended() || !packed && size < text.read {
            return OpenOutcome::Unread;
        }
        if !has_room {
            if packed {
                inode.view = Identification::Doubtful;
            }
            return OpenOutcome::Unread;
        }
        text.state = ReadState::Open;
        text.scans_at_end = 0;
        self.open += 1;
        let from = text.accepted;
        match std::mem::take(&mut text.at_end) {
            true => OpenOutcome::FromEnd(id, from),
            false => OpenOutcome::From(id, from),
        }
    }

    /// Ignores a file until it changes.
    fn ignore_file(&mut self, identity: InodeId) {
        let Some(inode) = self.forget_file(identity) else { return };
        for id in inode.claims.into_iter().chain(inode.text) {
            if self.texts.get(&id).is_some_and(|text| text.inode == Some(identity)) {
                self.release_text(id, SCANS_FOR_COPY);
            }
        }
        self.passed.insert(identity, PassedFile::of_observation(&inode.observed));
    }

    /// Detaches a text from a file that is gone or has another text: it is read from another file,
    /// or one is awaited.
    pub(crate) fn release_text(&mut self, id: FileId, patience_scans: u32) {
        self.dirty = true;
        let twin = self.other_carrier(id);
        let Some(text) = self.texts.get_mut(&id) else { return };
        text.inode = twin;
        if let Some(inode) = twin.and_then(|twin| self.inodes.get_mut(&twin)) {
            text.last_file = inode.observed.file_identity();
            text.set_name(&inode.observed);
            inode.view = Identification::Doubtful;
            return;
        }
        text.patience_scans = patience_scans;
        // An ignored file may be its copy or its compressed remainder.
        self.passed.clear();
        if text.is_blank() && text.is_safe() && text.unread_bytes() == 0 {
            self.texts.remove(&id);
        }
    }

    /// Another file with this text, preferably not compressed.
    pub(crate) fn other_carrier(&self, id: FileId) -> Option<InodeId> {
        let inode = self.texts.get(&id)?.inode;
        let files = self.carriers.range((id, NOWHERE)..=(id, (u64::MAX, u64::MAX)));
        let others = files.filter_map(|(_, identity)| {
            let other = self.inodes.get(identity)?;
            let is_other = other.view != Identification::Torn && Some(*identity) != inode;
            is_other.then(|| (other.observed.is_packed(), *identity))
        });
        others.min().map(|(_, identity)| identity)
    }

    /// Records that `bytes` were read at `from`, and that the file had `size` bytes and this `head`
    /// afterwards. In this order, a matching head proves that the bytes belong to the text. An
    /// unfinished line may be read again.
    pub fn record_read(
        &mut self,
        id: FileId,
        from: u64,
        bytes: u64,
        size: u64,
        head: &[u8],
    ) -> ReadOutcome {
        let Some(text) = self.texts.get_mut(&id) else { return ReadOutcome::AtEnd };
        let end = text.read.max(from + bytes);
        if size < end || !text.fingerprint.matches_head(head) {
            return self.restart_text(id, size, head);
        }
        text.fingerprint.extend_from(head);
        if end > text.read {
            text.scans_at_end = 0;
        }
        (text.read, text.size) = (end, size);
        if let Some(inode) = text.inode.and_then(|identity| self.inodes.get_mut(&identity)) {
            (inode.called, inode.unread) = (None, false);
        }
        if from + bytes < size { ReadOutcome::On } else { ReadOutcome::AtEnd }
    }

    /// Replaces the text of an open file by a new one.
    fn restart_text(&mut self, id: FileId, size: u64, head: &[u8]) -> ReadOutcome {
        let identity = self.texts.get_mut(&id).and_then(|text| {
            text.state = ReadState::Closed;
            text.inode
        });
        let Some(identity) = identity else { return ReadOutcome::AtEnd };
        let new = self.begin_text(identity, size);
        self.assign_text(identity, new);
        if let Some(text) = self.texts.get_mut(&new) {
            (text.state, text.size) = (ReadState::Open, size);
            text.fingerprint = Fingerprint::of_head(head);
        }
        ReadOutcome::Restart(new)
    }
}
