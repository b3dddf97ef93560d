//! Decides which text an open file has, by its beginning. Nothing else decides that.
//!
//! In this order:
//! 1. The known text whose fingerprint fits, the longest first: one that the file had or, for a
//!    file under a name that isn't read, one whose name its own may derive from. A file shorter
//!    than what was read of it has begun again.
//! 2. A file that was empty so far has the text expected in it.
//! 3. Under a name that is read, a new text. Under another name too, if rotation made it.
//!
//! If several files have a text, one is read. When that one goes or has another text, the next is
//! read from the same position, compressed or not.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use crate::fingerprint::Fingerprint;
use crate::inode::{Identity, Inode, View};
use crate::machine::{Event, Opened, Step, Tail};
use crate::names::{is_kin, unpacked};
use crate::position::Position;
use crate::text::{FileId, NOWHERE, State, Text};

/// Looks that wait for a copy of a text whose file has another one, or is gone and read to its end.
/// A copy was made before that: the next look finds it, one more finds a head that wasn't complete.
pub(crate) const LOOKS_FOR_COPY: u32 = 3;

/// Looks after which a text without a file is over, and an open file that is gone or lost its name:
/// 20 of 250 ms are the 5 s in which a writer told to reopen still writes to the old file.
pub(crate) const LOOKS_AT_END: u32 = 20;

enum Verdict {
    /// It has this text.
    Has(FileId),
    /// It has a new text.
    New,
    /// It doesn't matter.
    Nothing,
    /// Others must be judged first.
    Later,
}

impl Tail {
    /// The file `meant` was opened as `found`, with `size` bytes and this `head`: of a compressed
    /// one, those of its text.
    pub fn opened(&mut self, meant: Identity, found: Identity, size: u64, head: &[u8]) -> Opened {
        let verdict = match meant == found {
            true => self.judge(meant, size, head),
            false => Verdict::Later,
        };
        let id = match verdict {
            Verdict::Has(id) => id,
            Verdict::New => self.begin(meant, size),
            Verdict::Nothing => {
                self.pass(meant);
                return Opened::Unread;
            }
            Verdict::Later => {
                self.not_opened(meant);
                return Opened::Unread;
            }
        };
        self.carry(meant, id);
        self.read_from(meant, id, size, head)
    }

    fn judge(&self, identity: Identity, size: u64, head: &[u8]) -> Verdict {
        let Some(inode) = self.inodes.get(&identity) else { return Verdict::Nothing };
        let of = |id: &FileId| self.texts.get(id).map(|text| (*id, &**text));
        let had: Vec<_> = inode.claims.iter().chain(&inode.text).filter_map(of).collect();
        if let Some((id, text)) = self.known(identity, inode, &had, size, head) {
            let other = text.inode.filter(|other| *other != identity);
            let other = other.and_then(|other| self.inodes.get(&other));
            let is_certain =
                text.state == State::Open || other.is_none_or(|other| other.view != View::Doubtful);
            return if is_certain { Verdict::Has(id) } else { Verdict::Later };
        }
        let is_expected = |text: &Text| text.is_blank() && text.inode == Some(identity);
        let is_long_enough = |text: &Text| inode.seen.is_packed() || size >= text.read;
        let mut expected = had.iter().filter(|(_, text)| is_expected(text) && is_long_enough(text));
        if let Some((id, _)) = expected.next() {
            return Verdict::Has(*id);
        }
        if inode.seen.inside {
            return Verdict::New;
        }
        if head.is_empty() {
            return Verdict::Nothing;
        }
        if inode.called.is_some() {
            return Verdict::New;
        }
        let Some(base) = &inode.base else { return Verdict::Nothing };
        if self.has_unjudged_original(identity, inode.seen.is_packed(), base) {
            return Verdict::Later;
        }
        // An inode that had another text is a newer file's.
        let was_made_since = had.iter().any(|(_, text)| !text.is_blank());
        if inode.young || was_made_since { Verdict::New } else { Verdict::Nothing }
    }

    /// The known text that fits a file's beginning: the longest, then one the file had, then one
    /// without another file.
    fn known<'t>(
        &'t self,
        identity: Identity,
        inode: &Inode,
        had: &[(FileId, &'t Text)],
        size: u64,
        head: &[u8],
    ) -> Option<(FileId, &'t Text)> {
        let Inode { seen, .. } = inode;
        let has_still = |text: &Text| {
            // A copy may be shorter than what was read of the original.
            let is_copy = text.inode != Some(identity) || text.path != text.base;
            seen.is_packed() || is_copy || size >= text.read
        };
        let had = had.iter().copied().filter(|(_, text)| has_still(text));
        let name = if seen.is_packed() { unpacked(&seen.path) } else { seen.path.to_path_buf() };
        let all = (!seen.inside).then(|| self.texts.iter().map(|(id, text)| (*id, &**text)));
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

    /// Whether a file can only be judged once others are read that may have another text by now.
    #[must_use]
    pub fn must_wait(&self, file: Identity) -> bool {
        let Some(inode) = self.inodes.get(&file).filter(|inode| !inode.seen.inside) else {
            return false;
        };
        let is_packed = inode.seen.is_packed();
        inode.base.as_ref().is_some_and(|base| self.has_unjudged_original(file, is_packed, base))
    }

    /// Whether a file isn't judged yet of which this one may be the copy.
    fn has_unjudged_original(&self, identity: Identity, packed: bool, base: &Path) -> bool {
        self.inodes.iter().any(|(other, inode)| {
            *other != identity
                && !inode.seen.is_packed()
                && (inode.called.is_some() || inode.unread || packed && inode.is_unsure())
                && inode.names().any(|name| **name == *base)
        })
    }

    /// A file has a new text.
    fn begin(&mut self, identity: Identity, size: u64) -> FileId {
        let Some(inode) = self.inodes.get_mut(&identity) else { return self.next_id() };
        let at_end = inode.at_end.take().filter(|offset| size >= *offset);
        let from = Position::at(at_end.unwrap_or_default());
        let (source, path) = (inode.seen.source, Arc::clone(&inode.seen.path));
        let mut text = Text::new(source, path, identity, from);
        text.at_end = at_end.is_some_and(|offset| offset > 0);
        if !inode.seen.inside {
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

    /// A file has this text.
    pub(crate) fn carry(&mut self, identity: Identity, id: FileId) {
        self.dirty = true;
        let Some(inode) = self.inodes.get_mut(&identity) else { return };
        inode.view = View::Judged;
        (inode.called, inode.unread) = (None, false);
        inode.at_end = None;
        let text = inode.text.replace(id);
        let was_there = std::mem::take(&mut inode.at_first_start);
        inode.found_since_look |= text != Some(id) && !was_there;
        let before = std::mem::take(&mut inode.claims).into_iter().chain(text);
        if let Some(text) = text {
            self.carriers.remove(&(text, identity));
        }
        self.carriers.insert((id, identity));
        let (seen, base) = (inode.seen.clone(), inode.base.clone());
        let mut has_begun_again = false;
        for other in before.filter(|other| *other != id).collect::<Vec<_>>() {
            let Some(text) = self.texts.get_mut(&other) else { continue };
            if text.inode == Some(identity) {
                has_begun_again |= !text.is_blank();
                (text.was, text.recalled) = (NOWHERE, false);
                self.release(other, LOOKS_FOR_COPY);
            }
        }
        let Some(text) = self.texts.get_mut(&id) else { return };
        let other = text.inode.and_then(|other| self.inodes.get(&other));
        if other.is_none_or(|other| other.view == View::Torn) {
            text.inode = Some(identity);
        }
        if has_begun_again && text.is_blank() {
            self.events.push(Event::BeganAgain { path: seen.path.to_path_buf() });
        }
        if text.inode != Some(identity) {
            return;
        }
        text.was = identity;
        text.recalled = false;
        text.state = if text.state == State::Open { State::Open } else { State::Closed };
        if let (true, Some(base)) = (text.is_blank(), &base) {
            // The text expected in it may have had another name.
            text.source = self.names.source(base).unwrap_or(seen.source);
            text.base = Arc::clone(base);
        }
        text.name(&seen);
        if seen.is_packed() {
            text.packed = Some(seen.stamps());
        }
        if let Some(base) = base {
            self.names.meet(&base, seen.source);
        }
    }

    /// Begins to read a text from this file, if there is something to read and room.
    fn read_from(&mut self, identity: Identity, id: FileId, size: u64, head: &[u8]) -> Opened {
        let has_room = self.open < self.settings.open_files;
        let Some(inode) = self.inodes.get_mut(&identity) else { return Opened::Unread };
        let packed = inode.seen.is_packed();
        let Some(text) = self.texts.get_mut(&id) else { return Opened::Unread };
        if text.inode != Some(identity) || text.state == State::Open {
            return Opened::Unread;
        }
        text.fingerprint.grow(head);
        text.read = text.taken.offset;
        text.size = size.max(text.read);
        if text.is_ended() || !packed && size < text.read {
            return Opened::Unread;
        }
        if !has_room {
            if packed {
                inode.view = View::Doubtful;
            }
            return Opened::Unread;
        }
        text.state = State::Open;
        text.looks_at_end = 0;
        self.open += 1;
        let from = text.taken;
        match std::mem::take(&mut text.at_end) {
            true => Opened::FromEnd(id, from),
            false => Opened::From(id, from),
        }
    }

    /// A file doesn't matter until it changes.
    fn pass(&mut self, identity: Identity) {
        let Some(inode) = self.forget_file(identity) else { return };
        for id in inode.claims.into_iter().chain(inode.text) {
            if self.texts.get(&id).is_some_and(|text| text.inode == Some(identity)) {
                self.release(id, LOOKS_FOR_COPY);
            }
        }
        self.passed.insert(identity, inode.seen.stamps());
    }

    /// A text's file is gone or has another text: the text is read from another file, or one is
    /// awaited.
    pub(crate) fn release(&mut self, id: FileId, patience_looks: u32) {
        self.dirty = true;
        let twin = self.twin(id);
        let Some(text) = self.texts.get_mut(&id) else { return };
        text.inode = twin;
        if let Some(inode) = twin.and_then(|twin| self.inodes.get_mut(&twin)) {
            text.was = inode.seen.identity();
            text.name(&inode.seen);
            inode.view = View::Doubtful;
            return;
        }
        text.patience_looks = patience_looks;
        // A file that didn't matter may be its copy or its compressed rest.
        self.passed.clear();
        if text.is_blank() && text.is_safe() && text.unread_bytes() == 0 {
            self.texts.remove(&id);
        }
    }

    /// Another file with this text, preferably not compressed.
    pub(crate) fn twin(&self, id: FileId) -> Option<Identity> {
        let inode = self.texts.get(&id)?.inode;
        let files = self.carriers.range((id, NOWHERE)..=(id, (u64::MAX, u64::MAX)));
        let others = files.filter_map(|(_, identity)| {
            let other = self.inodes.get(identity)?;
            let is_other = other.view != View::Torn && Some(*identity) != inode;
            is_other.then(|| (other.seen.is_packed(), *identity))
        });
        others.min().map(|(_, identity)| identity)
    }

    /// `bytes` were read at `from`; after that, the file had `size` bytes and this `head`. In this
    /// order, a head that fits proves what was read. An unfinished line may be read again.
    pub fn has_read(&mut self, id: FileId, from: u64, bytes: u64, size: u64, head: &[u8]) -> Step {
        let Some(text) = self.texts.get_mut(&id) else { return Step::AtEnd };
        let end = text.read.max(from + bytes);
        if size < end || !text.fingerprint.fits(head) {
            return self.begin_again(id, size, head);
        }
        text.fingerprint.grow(head);
        if end > text.read {
            text.looks_at_end = 0;
        }
        (text.read, text.size) = (end, size);
        if let Some(inode) = text.inode.and_then(|identity| self.inodes.get_mut(&identity)) {
            (inode.called, inode.unread) = (None, false);
        }
        if from + bytes < size { Step::On } else { Step::AtEnd }
    }

    /// An open file has another text now.
    fn begin_again(&mut self, id: FileId, size: u64, head: &[u8]) -> Step {
        let identity = self.texts.get_mut(&id).and_then(|text| {
            text.state = State::Closed;
            text.inode
        });
        let Some(identity) = identity else { return Step::AtEnd };
        let new = self.begin(identity, size);
        self.carry(identity, new);
        if let Some(text) = self.texts.get_mut(&new) {
            (text.state, text.size) = (State::Open, size);
            text.fingerprint = Fingerprint::of(head);
        }
        Step::BeginAgain(new)
    }
}
