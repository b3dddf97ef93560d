//! Writes positions: the document of all texts and names.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::checkpoint::{CheckpointBody, CheckpointEntry, NAME, PackedEntry, seal_document};
use crate::machine::Tail;
use crate::scan::inode::{Inode, InodeId};
use crate::text::FileText;
use crate::text::position::Position;

impl Tail {
    /// The document to write, if it changed since the last call.
    pub fn changed_checkpoint(&mut self) -> Option<Vec<u8>> {
        self.advance_names(&self.unsure_names());
        std::mem::take(&mut self.dirty).then(|| write(self))
    }

    /// Records that the last document couldn't be written: the next call of
    /// [`Self::changed_checkpoint`] returns one.
    pub fn checkpoint_failed(&mut self) {
        self.dirty = true;
    }
}

/// Writes the positions of all texts and names.
fn write(tail: &Tail) -> Vec<u8> {
    let mut body =
        CheckpointBody { begun: tail.begun.iter().cloned().collect(), ..CheckpointBody::default() };
    let unknown = tail.inodes.iter();
    let unknown =
        unknown.filter_map(|(identity, inode)| Some((unknown_in(tail, inode)?, *identity)));
    let unknown: Vec<(FileText, InodeId)> = unknown.collect();
    body.files.reserve_exact(tail.texts.len() + unknown.len());
    for text in tail.texts.values() {
        let inode = text.inode.and_then(|identity| tail.inodes.get(&identity));
        let is_packed = match inode {
            Some(inode) => inode.observed.is_packed() && inode.text.is_some(),
            None => text.packed.is_some(),
        };
        let of = entry_of(tail, text, text.inode.unwrap_or(text.last_file));
        if is_packed {
            let stamps = text.packed.unwrap_or_default();
            body.packed.push((of, PackedEntry { end: text.end, stamps }));
        } else {
            body.files.push(of);
        }
    }
    body.files.extend(unknown.iter().map(|(text, identity)| entry_of(tail, text, *identity)));
    let mut bases: HashSet<&Path> = unknown.iter().map(|(text, _)| &*text.base).collect();
    bases.extend(tail.texts.values().map(|text| &*text.base));
    let others = tail.names.iter().filter(|(path, _)| !bases.contains(&***path));
    body.names = others.map(|(path, of)| (path.to_string_lossy(), of.stamp)).collect();
    body.files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    body.packed.sort_unstable_by(|(one, _), (other, _)| one.path.cmp(&other.path));
    body.names.sort_unstable();
    seal_document(NAME, &body)
}

fn entry_of<'t>(tail: &Tail, text: &'t FileText, (device, inode): InodeId) -> CheckpointEntry<'t> {
    CheckpointEntry {
        device,
        inode,
        fingerprint: text.fingerprint,
        position: text.committed.to_record(),
        stamp: tail.names.stamp_of(&text.base),
        path: text.path.to_string_lossy(),
        base: (text.base != text.path).then(|| text.base.to_string_lossy()),
    }
}

/// Returns an entry for a file that was observed under a name that is read, and not identified
/// since: all of it must be read, under any later name.
fn unknown_in(tail: &Tail, inode: &Inode) -> Option<FileText> {
    let (source, path) = inode.called.as_ref()?;
    let mut had = inode.claims.iter().chain(&inode.text);
    if had.any(|id| tail.texts.get(id).is_some_and(|text| text.is_blank())) {
        return None;
    }
    let from = Position::from_offset(inode.at_end.unwrap_or_default());
    Some(FileText::new(*source, Arc::clone(path), inode.observed.file_identity(), from))
}
