//! A look: compares what the directories show with what is known.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use crate::inode::{Identity, Inode, Seen, View};
use crate::judge::LOOKS_AT_END;
use crate::machine::{Action, Event, Tail};
use crate::names::{nearest, unpacked};
use crate::text::{FileId, State, Text};

/// Looks after which a recorded text without a file is forgotten: 2,400 of 250 ms are the 10
/// minutes in which a volume may be mounted late.
pub(crate) const LOOKS_RECALLED: u32 = 2_400;

/// How much older than the youngest file of the last look a file may be and count as made since:
/// one minute of nanoseconds. A look at many directories takes a second, and clocks are set.
const SINCE_LOOK_NANOS: u64 = 60_000_000_000;

/// A file under a name that isn't read: the name that is read of which it derives, and whether the
/// file is younger than what is known of that.
struct Placed {
    base: Option<Arc<Path>>,
    young: bool,
}

/// Texts without a file, by the file that had them, and by inode and path: a device's number may
/// change at a boot.
type Lost = (HashMap<Identity, Vec<FileId>>, HashMap<(u64, Arc<Path>), Vec<FileId>>);

impl Tail {
    /// Takes what all directories show. Only if `complete`, when every directory could be read, is
    /// a file gone that isn't in `seen`.
    pub fn look(&mut self, seen: &[Seen], complete: bool) -> Vec<Action> {
        let chosen = self.one_name_each(seen);
        self.let_go(&chosen);
        let held = self.held();
        self.verify(&held);
        for inode in self.inodes.values_mut() {
            inode.check = false;
            inode.found_since_look &= !complete;
        }
        let lost = self.lost();
        let new = self.meet_names(&chosen);
        self.reads_rotated &= !complete || !self.paused.sources.is_empty();
        let placed = self.placed(&chosen, &lost, &new);
        let mut present = HashSet::with_capacity(chosen.len());
        for seen in &chosen {
            let identity = seen.identity();
            let place = placed.get(&identity);
            let is_known = self.inodes.contains_key(&identity);
            if !is_known && (!seen.inside && place.is_none() || !self.meet(seen, &lost)) {
                continue;
            }
            present.insert(identity);
            self.update(seen, place, !is_known);
        }
        if complete {
            self.miss(&present);
            self.age();
            let newest = chosen.iter().map(|seen| seen.modified).max();
            self.newest = newest.or(self.newest).or(Some(0));
        }
        // Also after an incomplete look: what it missed counts as new, so nothing is skipped.
        for (source, begun) in self.begun.iter_mut().enumerate() {
            *begun |= !self.paused.sources.contains(&source);
        }
        debug_assert_eq!(
            self.carriers.len(),
            self.inodes.values().filter(|inode| inode.text.is_some()).count(),
            "the index of files by text"
        );
        self.plan()
    }

    /// One name for each file: preferably one that is read, then the known one.
    fn one_name_each<'s>(&self, seen: &'s [Seen]) -> Vec<&'s Seen> {
        let mut chosen: Vec<&Seen> = Vec::with_capacity(seen.len());
        let mut at: HashMap<Identity, usize> = HashMap::with_capacity(seen.len());
        for one in seen {
            let Some(index) = at.get(&one.identity()).copied() else {
                at.insert(one.identity(), chosen.len());
                chosen.push(one);
                continue;
            };
            let before = chosen[index];
            let known = self.inodes.get(&one.identity()).map(|inode| &inode.seen.path);
            if one.inside && (!before.inside || known == Some(&one.path)) {
                chosen[index] = one;
            }
        }
        chosen
    }

    /// Names with a file whose text isn't known. Later files of the name aren't its youngest known
    /// meanwhile.
    pub(crate) fn held(&self) -> HashSet<Arc<Path>> {
        let unsure = self.inodes.values().filter(|inode| inode.is_unsure());
        unsure.flat_map(Inode::names).cloned().collect()
    }

    /// A text that is read as far as the last look saw is the youngest known of its name, once a
    /// whole look began after the text was found: only that shows all that is older.
    pub(crate) fn verify(&mut self, held: &HashSet<Arc<Path>>) {
        for (identity, inode) in &self.inodes {
            let text = inode.text.and_then(|id| self.texts.get(&id));
            let Some(text) = text.filter(|text| text.inode == Some(*identity)) else { continue };
            let is_read =
                if inode.seen.is_packed() { text.is_ended() } else { text.unread_bytes() == 0 };
            let is_sure = !inode.found_since_look && !inode.is_unsure();
            if is_read && is_sure && !held.contains(&text.base) {
                self.dirty |= self.names.advance(&text.base, inode.seen.modified);
            }
        }
    }

    fn lost(&self) -> Lost {
        let (mut by_identity, mut by_place) = Lost::default();
        for (id, text) in self.texts.iter().filter(|(_, text)| text.inode.is_none()) {
            by_identity.entry(text.was).or_default().push(*id);
            by_place.entry((text.was.1, Arc::clone(&text.path))).or_default().push(*id);
        }
        (by_identity, by_place)
    }

    /// Files under names that aren't read and that matter: known ones; those that rotation made and
    /// that are younger than what is known of the name, or if the name is `new`, as young as the
    /// last look's; those that may have a lost text. So several rotations between two looks, or
    /// while the process was off, are all read.
    fn placed(
        &mut self,
        chosen: &[&Seen],
        lost: &Lost,
        new: &HashSet<Arc<Path>>,
    ) -> HashMap<Identity, Placed> {
        let since_look = self.newest.unwrap_or_default().saturating_sub(SINCE_LOOK_NANOS);
        let is_passed = |seen: &Seen| {
            self.passed.get(&seen.identity()).is_some_and(|stamps| *stamps == seen.stamps())
        };
        let (mut passed, mut placed) = (HashMap::new(), HashMap::new());
        let mut folders = None;
        let orphans = self.texts.values().filter(|text| text.inode.is_none());
        let bereft: HashSet<&Path> = orphans.filter_map(|text| text.base.parent()).collect();
        for seen in chosen.iter().filter(|seen| !seen.inside) {
            let identity = seen.identity();
            let known = self.inodes.get(&identity);
            if known.is_some_and(|inode| inode.seen.path == seen.path) {
                continue;
            }
            if known.is_none() && is_passed(seen) {
                passed.insert(identity, seen.stamps());
                continue;
            }
            let folders = folders.get_or_insert_with(|| self.names.by_folder());
            let base = nearest(folders, &seen.path);
            let young = base.is_some_and(|(base, stamp)| {
                seen.modified >= if new.contains(base) { since_look } else { stamp }
            });
            let may_be_rest =
                base.is_some() && seen.path.parent().is_some_and(|it| bereft.contains(it));
            if known.is_some() || young || may_be_rest || is_lost(lost, seen) {
                let base = base.map(|(base, _)| Arc::clone(base));
                placed.insert(identity, Placed { base, young });
            } else {
                passed.insert(identity, seen.stamps());
            }
        }
        self.passed = passed;
        placed
    }

    /// Takes in names before files that may derive from them are judged, and gives those that are
    /// new since the last look. Where all positions were lost none is new: every file that rotation
    /// made of a name is younger than what is known of it.
    fn meet_names(&mut self, chosen: &[&Seen]) -> HashSet<Arc<Path>> {
        let mut new = HashSet::new();
        for seen in chosen.iter().filter(|seen| seen.inside) {
            let is_begun = self.begun.get(seen.source).is_some_and(|begun| *begun);
            let has_looked = self.newest.is_some() && is_begun;
            if (self.reads_rotated || has_looked) && self.names.meet(&seen.path, seen.source) {
                self.dirty = true;
                if !self.reads_rotated {
                    new.insert(Arc::clone(&seen.path));
                }
            }
        }
        new
    }

    /// Adds an unknown file. False if there is no room.
    fn meet(&mut self, seen: &Seen, lost: &Lost) -> bool {
        if self.inodes.len() >= self.settings.known_files {
            if !std::mem::replace(&mut self.said_too_many, true) {
                self.events.push(Event::TooMany { path: seen.path.to_path_buf() });
            }
            return false;
        }
        self.said_too_many = false;
        let identity = seen.identity();
        let from_end = self.settings.sources.get(seen.source).is_some_and(|source| source.from_end);
        let first_start = self.begun.get(seen.source).is_some_and(|begun| !begun);
        let at_end = (seen.inside && from_end && first_start).then_some(seen.size);
        let mut inode = Inode {
            seen: Seen { path: self.names.shared(&seen.path), ..seen.clone() },
            base: None,
            text: None,
            claims: Vec::new(),
            view: View::Doubtful,
            changed: false,
            check: true,
            young: false,
            called: None,
            unread: false,
            found_since_look: false,
            at_first_start: first_start,
            at_end,
            present: true,
        };
        let had = lost.0.get(&identity);
        let had = had.or_else(|| lost.1.get(&(seen.inode, Arc::clone(&seen.path))));
        for id in had.into_iter().flatten() {
            let Some(text) = self.texts.get_mut(id).filter(|text| text.inode.is_none()) else {
                continue;
            };
            (text.inode, text.was) = (Some(identity), identity);
            text.state = State::Closed;
            inode.claims.push(*id);
            if seen.is_packed() && text.is_ended() && text.packed == Some(seen.stamps()) {
                inode.view = View::Judged;
            }
        }
        if inode.view == View::Judged {
            inode.text = inode.claims.pop();
            self.carriers.extend(inode.text.map(|id| (id, identity)));
        }
        self.inodes.insert(identity, inode);
        true
    }

    /// Takes what a look shows of a known file.
    fn update(&mut self, seen: &Seen, place: Option<&Placed>, is_new: bool) {
        let identity = seen.identity();
        let Some(inode) = self.inodes.get_mut(&identity) else { return };
        let moved = inode.seen.path != seen.path;
        let before = std::mem::replace(&mut inode.changed, inode.seen.stamps() != seen.stamps());
        inode.changed |= is_new;
        inode.check = inode.changed || before;
        inode.present = true;
        let path = if moved { self.names.shared(&seen.path) } else { Arc::clone(&inode.seen.path) };
        inode.seen = Seen { path: Arc::clone(&path), ..seen.clone() };
        if seen.inside {
            self.dirty |= self.names.meet(&path, seen.source);
            inode.base = Some(path);
        } else if let Some(Placed { base, young }) = place {
            inode.base.clone_from(base);
            inode.young = *young;
        }
        let own = inode.text.and_then(|id| self.texts.get_mut(&id));
        let mut own = own.filter(|text| text.inode == Some(identity));
        let is_open = own.as_ref().is_some_and(|text| text.state == State::Open);
        let is_packed = seen.is_packed();
        let unsure = if is_packed { inode.changed && !is_new } else { inode.check || moved };
        if !is_open && unsure {
            inode.view = View::Doubtful;
        }
        inode.unread |= is_open && inode.changed;
        if seen.inside && (inode.view == View::Doubtful || inode.unread) {
            inode.called = Some((seen.source, Arc::clone(&inode.seen.path)));
            self.dirty |= is_new || moved || !before;
        }
        if let Some(text) = own.as_mut().filter(|_| inode.view == View::Judged) {
            if moved {
                text.name(&inode.seen);
                self.dirty = true;
            }
            text.recalled = false;
            if !is_packed && seen.size >= text.read {
                text.size = seen.size;
            }
        }
    }

    /// Takes which files a complete look didn't find.
    fn miss(&mut self, present: &HashSet<Identity>) {
        let mut gone = HashSet::new();
        for (identity, inode) in &mut self.inodes {
            let was_present = std::mem::replace(&mut inode.present, present.contains(identity));
            // It may have been written before it went.
            inode.unread |= was_present && !inode.present;
            let text = inode.text.and_then(|id| self.texts.get(&id));
            let is_open =
                text.is_some_and(|text| text.state == State::Open && text.inode == Some(*identity));
            if !inode.present && !is_open {
                gone.insert(*identity);
            }
        }
        if gone.is_empty() {
            return;
        }
        for identity in &gone {
            self.forget_file(*identity);
        }
        let of = |text: &Text| text.inode.is_some_and(|inode| gone.contains(&inode));
        let bereft = self.texts.iter().filter(|(_, text)| of(text)).map(|(id, _)| *id);
        for id in bereft.collect::<Vec<_>>() {
            self.release(id, LOOKS_AT_END);
        }
    }

    /// Ages texts without a file, unless a file that isn't judged may have them.
    fn age(&mut self) {
        let mut held: HashSet<Cow<'_, Path>> = HashSet::new();
        for inode in self.inodes.values().filter(|inode| inode.view == View::Doubtful) {
            held.extend(inode.names().map(|name| Cow::Borrowed(&**name)));
            if inode.seen.is_packed() {
                // A rotated file whose own name is read is compressed beside itself.
                held.insert(unpacked(&inode.seen.path).into());
            }
        }
        let skipped = std::mem::take(&mut self.skipped_looks);
        let mut over = Vec::new();
        for (id, text) in &mut self.texts {
            let is_held = held.contains(&*text.base) || self.paused.has(text);
            if text.inode.is_some() || text.state == State::Over || is_held {
                continue;
            }
            // Skipped looks don't count for the last ones.
            let long = text.patience_looks.saturating_sub(LOOKS_AT_END + 1);
            text.patience_looks = text.patience_looks.saturating_sub(1 + skipped.min(long));
            if text.patience_looks == 0 {
                text.state = State::Over;
                over.push(*id);
            }
        }
        for id in over {
            self.say_lost(id);
            self.forget_if_over(id);
        }
        let bases = self.inodes.values().filter_map(|inode| inode.base.as_deref());
        let used = bases.chain(self.texts.values().map(|text| &*text.base)).collect();
        self.names.forget(&used, 1 + skipped, self.settings.known_files);
    }

    /// What to do with the files that are there.
    fn plan(&mut self) -> Vec<Action> {
        let (mut rests, mut opens) = (Vec::new(), Vec::new());
        for (identity, inode) in &self.inodes {
            let text = inode.text.and_then(|id| Some((id, self.texts.get_mut(&id)?)));
            let text = text.filter(|(_, text)| text.inode == Some(*identity));
            let wanted = match text {
                Some((id, text)) if text.state == State::Open => {
                    rests.extend(rest(id, text, inode).map(|action| (id, action)));
                    continue;
                }
                Some((_, text)) if inode.view == View::Judged => {
                    !inode.seen.is_packed() && text.unread_bytes() > 0
                }
                _ => inode.view == View::Doubtful,
            };
            if wanted && inode.present {
                opens.push(*identity);
            }
        }
        rests.sort_unstable_by_key(|(id, _)| *id);
        let mut actions = rests.into_iter().map(|(_, action)| action).collect();
        // Files under names that are read first, compressed ones last: those may be made of the
        // others.
        opens.sort_by_cached_key(|identity| {
            let seen = self.inodes.get(identity).map(|inode| &inode.seen);
            seen.map(|seen| (seen.is_packed(), !seen.inside, Arc::clone(&seen.path)))
        });
        self.make_room(&mut opens, &mut actions);
        actions.extend(opens.iter().filter_map(|identity| self.open_action(*identity)));
        actions
    }

    fn open_action(&self, identity: Identity) -> Option<Action> {
        let Inode { seen, .. } = self.inodes.get(&identity)?;
        let (path, source) = (Arc::clone(&seen.path), seen.source);
        Some(Action::Open { file: identity, path, source, packed: seen.is_packed() })
    }

    /// Closes idle files when more must be opened than may be. What has no room is opened at a
    /// later look; what must only be judged needs none.
    fn make_room(&self, opens: &mut Vec<Identity>, actions: &mut Vec<Action>) {
        let is_known = |identity: &&Identity| {
            self.inodes.get(identity).is_some_and(|inode| {
                inode.seen.inside || inode.text.is_some() || !inode.claims.is_empty()
            })
        };
        let wanted = opens.iter().filter(is_known).count();
        let mut room = self.settings.open_files.saturating_sub(self.open);
        if wanted > room {
            let busy: HashSet<FileId> = actions.iter().filter_map(Action::read_file).collect();
            let is_inside = |text: &Text| {
                let inode = text.inode.and_then(|identity| self.inodes.get(&identity));
                inode.is_some_and(|inode| inode.present && inode.seen.inside)
            };
            let mut idle: Vec<(u32, FileId)> = self
                .texts
                .iter()
                .filter(|(id, text)| text.state == State::Open && !busy.contains(id))
                .filter(|(_, text)| text.looks_at_end > 0 && text.unread_bytes() == 0)
                .filter(|(_, text)| is_inside(text))
                .map(|(id, text)| (text.looks_at_end, *id))
                .collect();
            idle.sort_unstable_by(|one, other| other.cmp(one));
            idle.truncate(wanted - room);
            room += idle.len();
            actions.splice(0..0, idle.into_iter().map(|(_, file)| Action::Close { file }));
        }
        opens.retain(|identity| {
            let inode = self.inodes.get(identity);
            let is_doubtful = inode.is_some_and(|inode| inode.view == View::Doubtful);
            let fits = room > 0;
            room = room.saturating_sub(1);
            is_doubtful || fits
        });
    }
}

fn is_lost((by_identity, by_place): &Lost, seen: &Seen) -> bool {
    by_identity.contains_key(&seen.identity())
        || by_place.contains_key(&(seen.inode, Arc::clone(&seen.path)))
}

/// What to do with an open file: read it, finish it after a rest, or nothing.
fn rest(id: FileId, text: &mut Text, inode: &Inode) -> Option<Action> {
    let at_end = text.unread_bytes() == 0;
    if at_end {
        text.looks_at_end = text.looks_at_end.saturating_add(1);
    }
    if inode.present && inode.seen.inside {
        return (inode.check || !at_end).then_some(Action::Read { file: id });
    }
    if !inode.seen.is_packed() && at_end && text.looks_at_end > LOOKS_AT_END {
        return Some(Action::Finish { file: id });
    }
    Some(Action::Read { file: id })
}
