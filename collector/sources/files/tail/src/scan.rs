//! Applies a scan: compares the observed files with the known ones.

pub(crate) mod file_check;
pub(crate) mod inode;
pub(crate) mod names;
pub(crate) mod unlisted;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use crate::machine::{Action, Tail, TailEvent, TailSource};
use crate::scan::inode::{FileId, FileObservation, Identification, Inode, InodeId, PassedFile};
use crate::scan::names::{nearest_name, unpacked_path};
use crate::scan::unlisted::UnlistedPaths;
use crate::text::patience::SCANS_AT_END;
use crate::text::{FileText, ReadState};

/// How much older than the youngest file of the last scan a file may be and still count as made
/// since: one minute of nanoseconds. A scan of many directories takes a second, and clocks are set.
const SINCE_SCAN_NANOS: u64 = 60_000_000_000;

/// A file under a name that isn't read: the name that is read from which it derives, and whether
/// the file is younger than that name's stamp.
struct RotatedName {
    base: Option<Arc<Path>>,
    young: bool,
}

/// Texts without a file, by their last file, and by inode and path: a device's number may change at
/// a boot.
type OrphanTexts = (HashMap<InodeId, Vec<FileId>>, HashMap<(u64, Arc<Path>), Vec<FileId>>);

impl Tail {
    /// Applies a scan of all directories. A file is gone if it isn't in `observations` and its last
    /// name is not `unlisted`.
    pub fn apply_scan(
        &mut self,
        observations: &[FileObservation],
        unlisted: &UnlistedPaths,
    ) -> Vec<Action> {
        self.unlisted.clone_from(unlisted);
        let chosen = self.choose_names(observations);
        self.release_paused(&chosen);
        let held = self.unsure_names();
        self.advance_names(&held);
        for inode in self.inodes.values_mut() {
            (inode.check, inode.listed) = (false, false);
            inode.found_since_scan &= unlisted.is_near(&inode.observed.path);
        }
        let lost = self.orphan_texts();
        let new = self.add_names(&chosen);
        self.reads_rotated &= !unlisted.is_empty() || !self.paused.sources.is_empty();
        let placed = self.match_rotated(&chosen, &lost, &new);
        let mut present = HashSet::with_capacity(chosen.len());
        for observation in &chosen {
            let identity = observation.file_identity();
            let rotated_name = placed.get(&identity);
            let is_known = self.inodes.contains_key(&identity);
            if !is_known
                && (!observation.inside && rotated_name.is_none()
                    || !self.add_file(observation, &lost))
            {
                continue;
            }
            present.insert(identity);
            self.update_file(observation, rotated_name, !is_known);
        }
        if !unlisted.is_everything() {
            self.remove_missing(&present, unlisted);
            self.age_orphans(unlisted);
            let newest = chosen.iter().map(|observation| observation.modified).max();
            let before = self.newest.or(newest);
            self.newest = if unlisted.is_empty() { newest.or(before) } else { before }.or(Some(0));
        }
        // This happens after an incomplete scan too: missed files count as new, so nothing is
        // skipped.
        for (index, source) in self.settings.sources.iter().enumerate() {
            if !self.paused.sources.contains(&index) && !has_begun(source, &self.begun) {
                self.begun.extend(source.names.iter().cloned());
            }
        }
        debug_assert_eq!(
            self.carriers.len(),
            self.inodes.values().filter(|inode| inode.text.is_some()).count(),
            "the index of files by text"
        );
        self.plan_actions()
    }

    /// Chooses one name for each file: preferably one that is read, then the known one.
    fn choose_names<'s>(&self, observations: &'s [FileObservation]) -> Vec<&'s FileObservation> {
        let mut chosen: Vec<&FileObservation> = Vec::with_capacity(observations.len());
        let mut at: HashMap<InodeId, usize> = HashMap::with_capacity(observations.len());
        for one in observations {
            let Some(index) = at.get(&one.file_identity()).copied() else {
                at.insert(one.file_identity(), chosen.len());
                chosen.push(one);
                continue;
            };
            let before = chosen[index];
            let known = self.inodes.get(&one.file_identity()).map(|inode| &inode.observed.path);
            if one.inside && (!before.inside || known == Some(&one.path)) {
                chosen[index] = one;
            }
        }
        chosen
    }

    /// The names with a file whose text is uncertain. Until it is known, their stamps don't
    /// advance.
    pub(crate) fn unsure_names(&self) -> HashSet<Arc<Path>> {
        let unsure = self.inodes.values().filter(|inode| inode.is_unsure());
        unsure.flat_map(Inode::base_names).cloned().collect()
    }

    /// Advances stamps of names: a text that is read as far as the last scan showed is the youngest
    /// known of its name, once a complete scan began after the text was found. Only such a scan
    /// shows all older files.
    pub(crate) fn advance_names(&mut self, held: &HashSet<Arc<Path>>) {
        for (identity, inode) in &self.inodes {
            let text = inode.text.and_then(|id| self.texts.get(&id));
            let Some(text) = text.filter(|text| text.inode == Some(*identity)) else { continue };
            let is_read =
                if inode.observed.is_packed() { text.is_ended() } else { text.unread_bytes() == 0 };
            let is_sure = !inode.found_since_scan && !inode.is_unsure();
            if is_read && is_sure && !held.contains(&text.base) {
                self.dirty |= self.names.advance_stamp(&text.base, inode.observed.modified);
            }
        }
    }

    fn orphan_texts(&self) -> OrphanTexts {
        let (mut by_identity, mut by_path) = OrphanTexts::default();
        for (id, text) in self.texts.iter().filter(|(_, text)| text.inode.is_none()) {
            by_identity.entry(text.last_file).or_default().push(*id);
            by_path.entry((text.last_file.1, Arc::clone(&text.path))).or_default().push(*id);
        }
        (by_identity, by_path)
    }

    /// Selects the relevant files under names that aren't read: known ones; those that rotation
    /// made and that are younger than the name's stamp or, if the name is `new`, as young as the
    /// last scan's files; those that may have a lost text. So several rotations between two scans,
    /// or while the process was off, are all read.
    fn match_rotated(
        &mut self,
        chosen: &[&FileObservation],
        lost: &OrphanTexts,
        new: &HashSet<Arc<Path>>,
    ) -> HashMap<InodeId, RotatedName> {
        let since_scan = self.newest.unwrap_or_default().saturating_sub(SINCE_SCAN_NANOS);
        let is_passed = |observation: &FileObservation| {
            let passed = self.passed.get(&observation.file_identity());
            passed.is_some_and(|it| *it == PassedFile::of_observation(observation))
        };
        let (mut passed, mut placed) = (HashMap::new(), HashMap::new());
        let mut folders = None;
        let orphans = self.texts.values().filter(|text| text.inode.is_none());
        let bereft: HashSet<&Path> = orphans.filter_map(|text| text.base.parent()).collect();
        for observation in chosen.iter().filter(|observation| !observation.inside) {
            let identity = observation.file_identity();
            let known = self.inodes.get(&identity);
            if known.is_some_and(|inode| inode.observed.path == observation.path) {
                continue;
            }
            if known.is_none() && is_passed(observation) {
                passed.insert(identity, PassedFile::of_observation(observation));
                continue;
            }
            let folders = folders.get_or_insert_with(|| self.names.by_folder());
            let base = nearest_name(folders, &observation.path);
            let young = base.is_some_and(|(base, stamp)| {
                observation.modified >= if new.contains(base) { since_scan } else { stamp }
            });
            let may_be_rest =
                base.is_some() && observation.path.parent().is_some_and(|it| bereft.contains(it));
            if known.is_some() || young || may_be_rest || is_orphan(lost, observation) {
                let base = base.map(|(base, _)| Arc::clone(base));
                placed.insert(identity, RotatedName { base, young });
            } else {
                passed.insert(identity, PassedFile::of_observation(observation));
            }
        }
        self.passed = passed;
        placed
    }

    /// Adds names before the files that may derive from them are identified, and returns those that
    /// are new since the last scan. If all positions were lost, none counts as new: every file that
    /// rotation made of a name is younger than its stamp.
    fn add_names(&mut self, chosen: &[&FileObservation]) -> HashSet<Arc<Path>> {
        let mut new = HashSet::new();
        for observation in chosen.iter().filter(|observation| observation.inside) {
            let has_scanned = self.newest.is_some() && self.is_begun(observation);
            if (self.reads_rotated || has_scanned)
                && self.names.add_name(&observation.path, observation.source)
            {
                self.dirty = true;
                if !self.reads_rotated {
                    new.insert(Arc::clone(&observation.path));
                }
            }
        }
        new
    }

    /// Whether a file that isn't known is new, and not one of a first start.
    fn is_begun(&self, observation: &FileObservation) -> bool {
        let source = self.settings.sources.get(observation.source);
        observation.is_begun || source.is_none_or(|source| has_begun(source, &self.begun))
    }

    /// Adds an unknown file. Returns false if the limit is reached. The next file of a rotated log
    /// is exempt, as the log would stop there otherwise: until the former file is read there are
    /// two for each name.
    fn add_file(&mut self, observation: &FileObservation, lost: &OrphanTexts) -> bool {
        let known_files = self.settings.known_files;
        let is_full = self.inodes.len() >= known_files;
        let is_next = observation.inside && self.names.is_used(&observation.path);
        if is_full && !(is_next && self.inodes.len() < 2 * known_files) {
            if !std::mem::replace(&mut self.has_reported_full, true) {
                self.events.push(TailEvent::TooMany { path: observation.path.to_path_buf() });
            }
            return false;
        }
        self.has_reported_full &= is_full;
        let identity = observation.file_identity();
        let from_end =
            self.settings.sources.get(observation.source).is_some_and(|source| source.from_end);
        let first_start = !self.is_begun(observation);
        let at_end = (observation.inside && from_end && first_start).then_some(observation.size);
        let mut inode = Inode {
            observed: FileObservation {
                path: self.names.shared_path(&observation.path),
                ..observation.clone()
            },
            base: None,
            text: None,
            claims: Vec::new(),
            view: Identification::Doubtful,
            changed: false,
            check: true,
            young: false,
            called: None,
            unread: false,
            found_since_scan: false,
            at_first_start: first_start,
            at_end,
            present: true,
            listed: true,
        };
        let had = lost.0.get(&identity);
        let had = had.or_else(|| lost.1.get(&(observation.inode, Arc::clone(&observation.path))));
        for id in had.into_iter().flatten() {
            let Some(text) = self.texts.get_mut(id).filter(|text| text.inode.is_none()) else {
                continue;
            };
            (text.inode, text.last_file) = (Some(identity), identity);
            text.state = ReadState::Closed;
            inode.claims.push(*id);
            if observation.is_packed()
                && text.is_ended()
                && text.packed == Some(observation.size_and_stamp())
            {
                inode.view = Identification::Identified;
            }
        }
        if inode.view == Identification::Identified {
            inode.text = inode.claims.pop();
            self.carriers.extend(inode.text.map(|id| (id, identity)));
        }
        self.inodes.insert(identity, inode);
        true
    }

    /// Updates a known file from a scan.
    fn update_file(
        &mut self,
        observation: &FileObservation,
        rotated_name: Option<&RotatedName>,
        is_new: bool,
    ) {
        let identity = observation.file_identity();
        let Some(inode) = self.inodes.get_mut(&identity) else { return };
        let moved = inode.observed.path != observation.path;
        let before = std::mem::replace(
            &mut inode.changed,
            inode.observed.size_and_stamp() != observation.size_and_stamp(),
        );
        inode.changed |= is_new;
        inode.check = inode.changed || before;
        (inode.present, inode.listed) = (true, true);
        let path = if moved {
            self.names.shared_path(&observation.path)
        } else {
            Arc::clone(&inode.observed.path)
        };
        inode.observed = FileObservation { path: Arc::clone(&path), ..observation.clone() };
        if observation.inside {
            self.dirty |= self.names.add_name(&path, observation.source);
            inode.base = Some(path);
        } else if let Some(RotatedName { base, young }) = rotated_name {
            inode.base.clone_from(base);
            inode.young = *young;
        }
        let own = inode.text.and_then(|id| self.texts.get_mut(&id));
        let mut own = own.filter(|text| text.inode == Some(identity));
        let is_open = own.as_ref().is_some_and(|text| text.state == ReadState::Open);
        let is_packed = observation.is_packed();
        let unsure = if is_packed { inode.changed && !is_new } else { inode.check || moved };
        if !is_open && unsure {
            inode.view = Identification::Doubtful;
        }
        inode.unread |= is_open && inode.changed;
        if observation.inside && (inode.view == Identification::Doubtful || inode.unread) {
            inode.called = Some((observation.source, Arc::clone(&inode.observed.path)));
            self.dirty |= is_new || moved || !before;
        }
        if let Some(text) = own.as_mut().filter(|_| inode.view == Identification::Identified) {
            if moved {
                text.set_name(&inode.observed);
                self.dirty = true;
            }
            text.recalled = false;
            if !is_packed && observation.size >= text.read {
                text.size = observation.size;
            }
        }
    }

    /// Handles the files that a scan didn't find.
    fn remove_missing(&mut self, present: &HashSet<InodeId>, unlisted: &UnlistedPaths) {
        let mut missing = HashSet::new();
        for (identity, inode) in &mut self.inodes {
            if present.contains(identity) || unlisted.covers_path(&inode.observed.path) {
                continue;
            }
            // It may have been written before it was removed.
            inode.unread |= std::mem::replace(&mut inode.present, false);
            let text = inode.text.and_then(|id| self.texts.get(&id));
            let is_open = text
                .is_some_and(|text| text.state == ReadState::Open && text.inode == Some(*identity));
            if !is_open {
                missing.insert(*identity);
            }
        }
        if missing.is_empty() {
            return;
        }
        for identity in &missing {
            self.forget_file(*identity);
        }
        let of = |text: &FileText| text.inode.is_some_and(|inode| missing.contains(&inode));
        let bereft = self.texts.iter().filter(|(_, text)| of(text)).map(|(id, _)| *id);
        for id in bereft.collect::<Vec<_>>() {
            self.release_text(id, SCANS_AT_END);
        }
    }

    /// Ages texts without a file, unless a file that isn't identified may have them.
    fn age_orphans(&mut self, unlisted: &UnlistedPaths) {
        let mut held: HashSet<Cow<'_, Path>> = HashSet::new();
        for inode in self.inodes.values().filter(|inode| inode.view == Identification::Doubtful) {
            held.extend(inode.base_names().map(|name| Cow::Borrowed(&**name)));
            if inode.observed.is_packed() {
                // A rotated file whose own name is read is compressed next to itself.
                held.insert(unpacked_path(&inode.observed.path).into());
            }
        }
        let skipped = std::mem::take(&mut self.skipped_scans);
        let mut over = Vec::new();
        for (id, text) in &mut self.texts {
            let is_held = held.contains(&*text.base)
                || self.paused.has_text(text)
                || unlisted.covers_text(text);
            if text.inode.is_some() || text.state == ReadState::Finished || is_held {
                continue;
            }
            // Skipped scans don't count as the last ones.
            let long = text.patience_scans.saturating_sub(SCANS_AT_END + 1);
            text.patience_scans = text.patience_scans.saturating_sub(1 + skipped.min(long));
            if text.patience_scans == 0 {
                text.state = ReadState::Finished;
                over.push(*id);
            }
        }
        for id in over {
            self.report_lost(id);
            self.remove_if_finished(id);
        }
        let bases = self.inodes.values().filter_map(|inode| inode.base.as_deref());
        let used = bases.chain(self.texts.values().map(|text| &*text.base)).collect();
        self.names.evict_unused(&used, 1 + skipped, self.settings.known_files);
    }

    /// Plans the actions for the existing files.
    fn plan_actions(&mut self) -> Vec<Action> {
        let (mut rests, mut opens) = (Vec::new(), Vec::new());
        for (identity, inode) in &self.inodes {
            let text = inode.text.and_then(|id| Some((id, self.texts.get_mut(&id)?)));
            let text = text.filter(|(_, text)| text.inode == Some(*identity));
            let should_open = match text {
                Some((id, text)) if text.state == ReadState::Open => {
                    rests.extend(next_action(id, text, inode).map(|action| (id, action)));
                    continue;
                }
                Some((_, text)) if inode.view == Identification::Identified => {
                    !inode.observed.is_packed() && text.unread_bytes() > 0
                }
                _ => inode.view == Identification::Doubtful,
            };
            if should_open && inode.present && inode.listed {
                opens.push(*identity);
            }
        }
        rests.sort_unstable_by_key(|(id, _)| *id);
        let mut actions = rests.into_iter().map(|(_, action)| action).collect();
        // Files under names that are read are opened first, compressed ones last: those may be made
        // of the others.
        opens.sort_by_cached_key(|identity| {
            let observed = self.inodes.get(identity).map(|inode| &inode.observed);
            observed.map(|observed| {
                (observed.is_packed(), !observed.inside, Arc::clone(&observed.path))
            })
        });
        self.plan_idle_closes(&mut opens, &mut actions);
        actions.extend(opens.iter().filter_map(|identity| self.open_action(*identity)));
        actions
    }

    fn open_action(&self, identity: InodeId) -> Option<Action> {
        let Inode { observed, .. } = self.inodes.get(&identity)?;
        let (path, source) = (Arc::clone(&observed.path), observed.source);
        Some(Action::Open { file: identity, path, source, packed: observed.is_packed() })
    }

    /// Closes idle files when more must be opened than the limit allows. Files above the limit are
    /// opened at a later scan; files that must only be identified are exempt.
    fn plan_idle_closes(&self, opens: &mut Vec<InodeId>, actions: &mut Vec<Action>) {
        let is_known = |identity: &&InodeId| {
            self.inodes.get(identity).is_some_and(|inode| {
                inode.observed.inside || inode.text.is_some() || !inode.claims.is_empty()
            })
        };
        let needed = opens.iter().filter(is_known).count();
        let mut room = self.settings.open_files.saturating_sub(self.open);
        if needed > room {
            let busy: HashSet<FileId> = actions.iter().filter_map(Action::read_file).collect();
            let is_inside = |text: &FileText| {
                let inode = text.inode.and_then(|identity| self.inodes.get(&identity));
                inode.is_some_and(|inode| inode.present && inode.observed.inside)
            };
            let mut idle: Vec<(u32, FileId)> = self
                .texts
                .iter()
                .filter(|(id, text)| text.state == ReadState::Open && !busy.contains(id))
                .filter(|(_, text)| text.scans_at_end > 0 && text.unread_bytes() == 0)
                .filter(|(_, text)| is_inside(text))
                .map(|(id, text)| (text.scans_at_end, *id))
                .collect();
            idle.sort_unstable_by(|one, other| other.cmp(one));
            idle.truncate(needed - room);
            room += idle.len();
            actions.splice(0..0, idle.into_iter().map(|(_, file)| Action::Close { file }));
        }
        opens.retain(|identity| {
            let inode = self.inodes.get(identity);
            let is_doubtful = inode.is_some_and(|inode| inode.view == Identification::Doubtful);
            let fits = room > 0;
            room = room.saturating_sub(1);
            is_doubtful || fits
        });
    }
}

fn has_begun(source: &TailSource, begun: &BTreeSet<String>) -> bool {
    source.names.iter().all(|name| begun.contains(name))
}

fn is_orphan((by_identity, by_path): &OrphanTexts, observation: &FileObservation) -> bool {
    by_identity.contains_key(&observation.file_identity())
        || by_path.contains_key(&(observation.inode, Arc::clone(&observation.path)))
}

/// Returns the action for an open file: read it, finish it after a while at its end, or nothing.
fn next_action(id: FileId, text: &mut FileText, inode: &Inode) -> Option<Action> {
    let at_end = text.unread_bytes() == 0;
    if at_end {
        text.scans_at_end = text.scans_at_end.saturating_add(1);
    }
    if inode.present && inode.observed.inside {
        return (inode.check || !at_end).then_some(Action::Read { file: id });
    }
    if !inode.observed.is_packed() && at_end && text.scans_at_end > SCANS_AT_END {
        return Some(Action::Finish { file: id });
    }
    Some(Action::Read { file: id })
}
