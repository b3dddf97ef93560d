//! A look: what the directories show, against what is known.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::file::{File, Names, Place, State};
use crate::machine::{Action, Event, FileId, Tail, gone};
use crate::packed::{Packed, unpacked_name};
use crate::position::Position;

/// Looks after which an open file that is gone, or that left its names, is at its end if none of
/// them found more: 20 looks of 250 ms are the 5 s in which a writer that was told to reopen its
/// file still writes to the old one.
const LOOKS_AT_END: u32 = 20;

/// Looks after which a file on record that wasn't seen since the start is forgotten: 2,400 looks of
/// 250 ms are 10 minutes in which a volume may be mounted late.
const LOOKS_RECALLED: u32 = 2_400;

/// Endings of files that aren't text, and aren't read. `gz` is read (`packed`).
const COMPRESSED: [&str; 7] = ["gz", "zst", "bz2", "xz", "lz4", "zip", "tmp"];

/// How a file came by a name that isn't read.
struct Rotated {
    /// The name it had.
    base: PathBuf,
    /// The youngest stamp that is known of that name.
    youngest: u64,
    /// Whether it is younger.
    is_young: bool,
}

/// A regular file that a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub path: PathBuf,
    /// The index of the source that reads this directory.
    pub source: usize,
    /// Whether the source reads files of this name. The others are told since a file may have got
    /// such a name by rotation.
    pub inside: bool,
    /// The device it is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its bytes.
    pub size: u64,
    /// A stamp that changes when it is written, and grows.
    pub modified: u64,
}

impl Seen {
    fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

impl Tail {
    /// Takes what all directories show. `complete` says that none of them could not be read: only
    /// then does it mean something that a file isn't there.
    pub fn look(&mut self, seen: &[Seen], complete: bool) -> Vec<Action> {
        let chosen = self.one_name_each(seen);
        self.part_reused(&chosen);
        self.adopt_recalled(&chosen);
        let rotated = self.rotated(&chosen);
        let mut actions = Vec::new();
        let mut opens = Vec::new();
        let mut present = HashSet::with_capacity(chosen.len());
        for seen in chosen {
            let known = self.by_identity.get(&seen.identity()).copied();
            let known = known.or_else(|| self.meet(seen, rotated.get(&seen.identity())));
            let Some(id) = known else { continue };
            present.insert(id);
            self.update(id, seen, &mut actions, &mut opens);
        }
        if complete {
            self.miss(&present, &mut actions);
            self.settle_twins();
        }
        // Also after an incomplete look: what it didn't show counts as new, and nothing is skipped.
        self.begun.fill(true);
        self.make_room(&mut opens, &mut actions);
        actions.append(&mut opens);
        actions
    }

    /// One name of each file: a name that is read before others, the known one before others.
    fn one_name_each<'s>(&self, seen: &'s [Seen]) -> Vec<&'s Seen> {
        let mut chosen: Vec<&Seen> = Vec::with_capacity(seen.len());
        let mut at: HashMap<(u64, u64), usize> = HashMap::with_capacity(seen.len());
        for one in seen {
            let Some(index) = at.get(&one.identity()).copied() else {
                at.insert(one.identity(), chosen.len());
                chosen.push(one);
                continue;
            };
            let before = chosen[index];
            let known = self.by_identity.get(&one.identity()).and_then(|id| self.path(*id));
            let better = one.inside && (!before.inside || known == Some(one.path.as_path()));
            if better {
                chosen[index] = one;
            }
        }
        chosen
    }

    /// Where an inode was a text's and is a compressed file's now, or the other way round, the file
    /// that had it is gone: often a text's, as its inode is free once it is compressed.
    fn part_reused(&mut self, chosen: &[&Seen]) {
        for seen in chosen {
            let Some(id) = self.by_identity.get(&seen.identity()).copied() else { continue };
            let is_packed = !seen.inside && unpacked_name(&seen.path).is_some();
            if self.files.get(&id).is_some_and(|file| file.packed.is_some() != is_packed) {
                self.part(id);
            }
        }
    }

    /// Gives files on record their device's new number: it may be another after the machine has
    /// started again. The fingerprint tells at the opening whether they are the same.
    fn adopt_recalled(&mut self, chosen: &[&Seen]) {
        if self.recalled.is_empty() {
            return;
        }
        for seen in chosen {
            if self.by_identity.contains_key(&seen.identity()) {
                continue;
            }
            let Some(id) = self.recalled.remove(&(seen.inode, seen.path.clone())) else { continue };
            let Some(file) = self.files.get_mut(&id) else { continue };
            if self.by_identity.get(&file.identity()) == Some(&id) {
                self.by_identity.remove(&file.identity());
            }
            file.device = seen.device;
            self.by_identity.insert(seen.identity(), id);
        }
    }

    /// Files with names that aren't read which came there by rotation, with the name they had:
    /// they are new, and younger than all that is known of that name. So several rotations between
    /// two looks, or while nobody looked, are all read.
    fn rotated(&mut self, chosen: &[&Seen]) -> HashMap<(u64, u64), Rotated> {
        let outside =
            |seen: &&&Seen| !seen.inside && !self.by_identity.contains_key(&seen.identity());
        let strangers: Vec<&Seen> = chosen.iter().filter(outside).copied().collect();
        let is_old = |seen: &Seen| {
            self.passed.contains(&seen.identity()) && !self.wanted.contains(&seen.identity())
        };
        let mut rotated = HashMap::new();
        if strangers.iter().any(|seen| !is_old(seen)) {
            let (bases, bereft) = (self.bases(), self.bereft());
            for seen in strangers.iter().filter(|seen| !is_old(seen)) {
                let wanted = self.wanted.contains(&seen.identity());
                let Some(folder) = seen.path.parent() else { continue };
                let unpacked = unpacked_name(&seen.path);
                let name = unpacked.as_deref().unwrap_or(&seen.path);
                let Some((base, youngest)) = bases.get(folder).and_then(|it| nearest(it, name))
                else {
                    continue;
                };
                let is_young = wanted || seen.modified >= youngest;
                let may_be_rest = bereft.contains(folder);
                if is_young || may_be_rest {
                    let base = base.to_owned();
                    rotated.insert(seen.identity(), Rotated { base, youngest, is_young });
                }
            }
        }
        let passed = strangers.iter().map(|seen| seen.identity());
        self.passed = passed.filter(|identity| !rotated.contains_key(identity)).collect();
        self.wanted.clear();
        rotated
    }

    /// The names that are read, by directory, each with the youngest stamp that is known of it.
    fn bases(&self) -> HashMap<&Path, Vec<(&Path, u64)>> {
        let mut youngest: HashMap<&Path, u64> = HashMap::new();
        for file in self.files.values() {
            let modified = youngest.entry(file.sure_base()).or_default();
            *modified = (*modified).max(file.verified);
        }
        let mut bases: HashMap<&Path, Vec<(&Path, u64)>> = HashMap::new();
        for (base, modified) in youngest {
            if let Some(folder) = base.parent() {
                bases.entry(folder).or_default().push((base, modified));
            }
        }
        bases
    }

    /// Whether rotation may have made this name of one that is read.
    pub(crate) fn is_rotated_path(&self, path: &Path) -> bool {
        let bases = self.bases();
        let of = path.parent().and_then(|folder| bases.get(folder));
        of.is_some_and(|bases| nearest(bases, path).is_some_and(|(base, _)| base != path))
    }

    /// A file that isn't known yet. None if it is of no concern.
    fn meet(&mut self, seen: &Seen, rotated: Option<&Rotated>) -> Option<FileId> {
        if !seen.inside && rotated.is_none() {
            return None;
        }
        if self.files.len() >= self.settings.known_files {
            if !std::mem::replace(&mut self.said_too_many, true) {
                self.events.push(Event::TooMany { path: seen.path.clone() });
            }
            return None;
        }
        self.said_too_many = false;
        let from_end = self.settings.sources.get(seen.source).is_some_and(|source| source.from_end);
        let first_start = self.begun.get(seen.source).is_some_and(|begun| !begun);
        let at_end = seen.inside && from_end && first_start;
        let offset = if at_end { seen.size } else { 0 };
        let from = Position::at(offset);
        let mut file = File::new(seen.source, seen.path.clone(), seen.identity(), from);
        if let Some(Rotated { base, youngest, is_young }) = rotated.filter(|_| !seen.inside) {
            file.base.clone_from(base);
            file.stranger = true;
            file.is_young = *is_young;
            file.verified = *youngest;
            if unpacked_name(&seen.path).is_some() {
                file.packed = Some(Packed::default());
            }
        }
        file.at_end = at_end;
        // To be opened at once, also when nothing is to be read: its fingerprint is wanted.
        file.suspect = true;
        Some(self.insert(file))
    }

    /// A known file was seen.
    fn update(
        &mut self,
        id: FileId,
        seen: &Seen,
        actions: &mut Vec<Action>,
        opens: &mut Vec<Action>,
    ) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let moved = file.path != seen.path;
        if moved && file.state != State::Open && file.before.is_none() {
            let (path, base) = (file.path.clone(), file.base.clone());
            file.before = Some(Names { path, base, source: file.source });
            file.suspect = true;
        }
        if file.recalled {
            self.recalled.remove(&(file.inode, file.path.clone()));
            file.recalled = false;
            file.suspect = true;
        }
        if moved {
            file.path.clone_from(&seen.path);
        }
        file.place = if seen.inside { Place::Inside } else { Place::Outside };
        if seen.inside {
            file.source = seen.source;
            file.base.clone_from(&seen.path);
        }
        if file.packed.is_some() {
            if Self::update_packed(file, seen) {
                opens.push(open(id, file));
            } else if file.state == State::Open {
                actions.push(Action::Read { file: id });
            }
            if moved {
                self.has_changed();
            }
            return;
        }
        let changed = seen.modified != file.modified || seen.size != file.size;
        file.modified = seen.modified;
        file.unsettled = file.unsettled.saturating_sub(1);
        if file.unsettled == 0 {
            self.events.extend(gone(file.path.clone(), file.take_lost()));
        }
        let mut is_news = moved;
        if !changed {
            is_news |= file.settle();
        }
        if seen.size >= file.read {
            file.size = seen.size;
        }
        let check = changed || std::mem::replace(&mut file.suspect, changed);
        match file.state {
            State::Open => rest(id, file, check, actions),
            State::Closed if check || seen.size != file.read => opens.push(open(id, file)),
            // Finished, and found again: it goes on where it ended.
            State::Finished => {
                file.state = State::Closed;
                file.suspect = true;
            }
            State::Closed | State::Opening => {}
        }
        if is_news {
            self.has_changed();
        }
    }

    /// The files that a complete look didn't find.
    fn miss(&mut self, present: &HashSet<FileId>, actions: &mut Vec<Action>) {
        let mut missing: Vec<FileId> =
            self.files.keys().filter(|id| !present.contains(id)).copied().collect();
        missing.sort_unstable();
        for id in missing {
            let Some(file) = self.files.get_mut(&id) else { continue };
            let looks = match file.place {
                Place::Unseen(looks) => looks.saturating_add(1),
                Place::Inside | Place::Outside => 1,
            };
            file.place = Place::Unseen(looks);
            file.unsettled = file.unsettled.saturating_sub(1);
            if looks == 1 {
                // What was passed by may be the rest of it, compressed.
                self.passed.clear();
            }
            match file.state {
                State::Open if file.packed.is_some() => actions.push(Action::Read { file: id }),
                State::Open => rest(id, file, true, actions),
                State::Finished => {}
                State::Closed | State::Opening => {
                    let patience = if file.recalled { LOOKS_RECALLED } else { LOOKS_AT_END };
                    if looks <= patience {
                        continue;
                    }
                    let (path, lost_bytes) = (file.path.clone(), file.unread_bytes());
                    if lost_bytes > 0 || file.recalled && !file.is_ended() {
                        self.events.push(Event::Gone { path, lost_bytes });
                    }
                    file.state = State::Finished;
                    if file.is_all_acknowledged() {
                        self.remove(id);
                    }
                }
            }
        }
    }

    /// Lets idle files be closed when more are to be opened than may be. What has no room is opened
    /// at a later look.
    fn make_room(&mut self, opens: &mut Vec<Action>, actions: &mut Vec<Action>) {
        let room = self.settings.open_files.saturating_sub(self.open);
        if opens.len() > room {
            let busy: HashSet<FileId> = actions.iter().filter_map(Action::read_file).collect();
            let mut idle: Vec<(u32, FileId)> = self
                .files
                .iter()
                .filter(|(id, _)| !busy.contains(id))
                .filter(|(_, file)| file.state == State::Open && file.place == Place::Inside)
                .filter(|(_, file)| file.looks_at_end > 0 && file.unread_bytes() == 0)
                .map(|(id, file)| (file.looks_at_end, *id))
                .collect();
            idle.sort_unstable_by(|one, other| other.cmp(one));
            idle.truncate(opens.len() - room);
            let closes = idle.into_iter().map(|(_, file)| Action::Close { file });
            let room = room + closes.len();
            actions.splice(0..0, closes);
            for action in opens.drain(room.min(opens.len())..) {
                if let Action::Open { file, .. } = action
                    && let Some(file) = self.files.get_mut(&file)
                {
                    file.suspect = true;
                }
            }
        }
        for action in opens {
            if let Action::Open { file, .. } = action
                && let Some(file) = self.files.get_mut(file)
            {
                file.state = State::Opening;
            }
        }
    }
}

fn is_no_text(path: &Path) -> bool {
    COMPRESSED.contains(&path.extension().and_then(OsStr::to_str).unwrap_or_default())
}

fn open(id: FileId, file: &File) -> Action {
    let (path, source) = (file.path.clone(), file.source);
    Action::Open { file: id, path, source, packed: file.packed.is_some() }
}

/// The name of which rotation made `name`, with its youngest stamp: if there are several, one that
/// is the beginning of it (`app.log` of `app.log.1`), the shortest of those, or else the longest.
fn nearest<'b>(bases: &[(&'b Path, u64)], name: &Path) -> Option<(&'b Path, u64)> {
    if is_no_text(name) {
        return None;
    }
    let length = |base: &Path| base.as_os_str().len();
    let begins = |base: &Path| {
        let rest = name.as_os_str().as_encoded_bytes();
        rest.strip_prefix(base.as_os_str().as_encoded_bytes())
            .is_some_and(|rest| rest.first().is_none_or(|next| matches!(next, b'.' | b'-' | b'_')))
    };
    let whole = bases.iter().filter(|(base, _)| begins(base));
    let by_stem = || bases.iter().filter(|(base, _)| is_rotated_name(base, name));
    whole
        .min_by_key(|(base, _)| length(base))
        .or_else(|| by_stem().max_by_key(|(base, _)| length(base)))
        .copied()
}

/// An open file: whether it is to be read, and whether it has rested long enough to be finished.
fn rest(id: FileId, file: &mut File, check: bool, actions: &mut Vec<Action>) {
    let at_end = file.unread_bytes() == 0;
    if at_end {
        file.looks_at_end = file.looks_at_end.saturating_add(1);
    }
    if file.place == Place::Inside {
        if check || !at_end {
            actions.push(Action::Read { file: id });
        }
    } else if at_end && file.looks_at_end > LOOKS_AT_END {
        actions.push(Action::Finish { file: id });
    } else {
        actions.push(Action::Read { file: id });
    }
}

/// Whether a name is one that rotation makes of `base`: the same directory, the base's name up to
/// its last dot, then a dot, a dash, an underscore or a digit. Compressed files are none.
pub(crate) fn is_rotated_name(base: &Path, path: &Path) -> bool {
    if base == path || base.parent() != path.parent() || is_no_text(path) {
        return false;
    }
    let (Some(stem), Some(name)) = (base.file_stem(), path.file_name()) else { return false };
    let rest = name.as_encoded_bytes().strip_prefix(stem.as_encoded_bytes());
    let next = rest.and_then(<[u8]>::first);
    next.is_some_and(|next| matches!(next, b'.' | b'-' | b'_') || next.is_ascii_digit())
}
