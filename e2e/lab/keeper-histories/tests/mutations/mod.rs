//! Ways to make a right history wrong. Each finds a place where it breaks its rule for certain, or
//! leaves the history alone and says so.

use millrace_keeper_histories::{
    Change, Fired, History, Key, Operation, Outcome, Refusal, Rule, Seen, Session, Stamp, Task,
    Value, WatchId, WatchKind, Zxid,
};

use crate::model::{EPHEMERAL, Random};

type Mutation = fn(&mut History, &mut Random) -> Option<()>;

/// Every mutation, with the rule that it breaks.
pub(crate) const ALL: &[(&str, Rule, Mutation)] = &[
    ("a read sees what nobody wrote", Rule::Data, invented),
    ("two reads of a transaction differ", Rule::Data, altered),
    ("a write goes before one that had ended", Rule::LinearizableWrites, overtaken),
    ("a refused create succeeds", Rule::LinearizableWrites, made_twice),
    ("a version that was not there is accepted", Rule::LinearizableWrites, wrong_version),
    ("a read after sync is stale", Rule::SyncedReads, stale_after_sync),
    ("a session's writes change places", Rule::SessionOrder, disordered),
    ("a session's reads go back", Rule::SequentialReads, backwards),
    ("a session misses its own write", Rule::SequentialReads, own_write_missed),
    ("parts of a write have two numbers", Rule::Together, torn_number),
    ("one part of a write is seen", Rule::Together, torn_view),
    ("a refused part is seen", Rule::Together, torn_refusal),
    ("a watch fires twice", Rule::WatchOnce, fired_twice),
    ("notifications change places", Rule::WatchOrder, told_backwards),
    ("a notification comes late", Rule::WatchBeforeData, told_late),
    ("a notification is lost", Rule::WatchBeforeData, never_told),
    ("an ephemeral node stays", Rule::Ephemerals, stays),
    ("an ephemeral node goes early", Rule::Ephemerals, goes_early),
];

/// A read that was answered, by its place.
struct Read {
    place: usize,
    session: Session,
    key: Key,
    begun: Stamp,
    ended: Stamp,
    seen: Option<Seen>,
}

fn reads(history: &History) -> Vec<Read> {
    let mut reads: Vec<Read> = history
        .operations
        .iter()
        .enumerate()
        .filter_map(|(place, operation)| match (&operation.task, &operation.outcome) {
            (Task::Read { key, .. }, Outcome::Read(seen)) => Some(Read {
                place,
                session: operation.session,
                key: *key,
                begun: operation.begun,
                ended: operation.ended?,
                seen: *seen,
            }),
            _ => None,
        })
        .collect();
    reads.sort_by_key(|read| read.begun);
    reads
}

/// Single writes that were answered with a number: place, key, value, number.
fn singles(history: &History) -> Vec<(usize, Key, Value, Zxid)> {
    let numbered = history.operations.iter().enumerate().filter_map(|(place, operation)| {
        match (operation.writes(), &operation.outcome) {
            ([write], Outcome::Written(parts)) => {
                Some((place, write.key, write.change.value()?, (*parts.first()?)?))
            }
            _ => None,
        }
    });
    numbered.collect()
}

/// Every pair of reads that satisfies a rule, one of them by chance.
fn pair(
    history: &History,
    random: &mut Random,
    fits: impl Fn(&Read, &Read) -> bool,
) -> Option<(usize, usize)> {
    let reads = reads(history);
    let mut pairs = Vec::new();
    for first in &reads {
        let later = reads.iter().filter(|second| second.begun > first.begun);
        pairs.extend(later.filter(|second| fits(first, second)).map(|s| (first.place, s.place)));
    }
    pick(random, &pairs)
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> Option<T> {
    (!of.is_empty()).then(|| of[random.below(of.len() as u64) as usize])
}

fn see(history: &mut History, place: usize, seen: Option<Seen>) {
    history.operations[place].outcome = Outcome::Read(seen);
}

fn invented(history: &mut History, random: &mut Random) -> Option<()> {
    let reads: Vec<_> = reads(history).iter().filter_map(|r| Some((r.place, r.seen?))).collect();
    let (place, seen) = pick(random, &reads)?;
    see(history, place, Some(Seen { value: Value(u64::MAX), ..seen }));
    Some(())
}

fn altered(history: &mut History, random: &mut Random) -> Option<()> {
    let (place, _) = pair(history, random, |first, second| {
        first.seen.is_some() && first.seen == second.seen && first.key == second.key
    })?;
    let Outcome::Read(Some(seen)) = history.operations[place].outcome else { return None };
    see(history, place, Some(Seen { version: seen.version + 1, ..seen }));
    Some(())
}

/// A write gets a number before that of one of its node that had ended before it began. Nobody may
/// have read it, or the number would be known twice.
fn overtaken(history: &mut History, random: &mut Random) -> Option<()> {
    let singles = singles(history);
    let read = |value| reads(history).iter().any(|r| r.seen.is_some_and(|s| s.value == value));
    let mut places = Vec::new();
    for (first, key, _, zxid) in &singles {
        for (second, of, value, _) in &singles {
            let ended = history.operations[*first].ended?;
            let after = history.operations[*second].begun > ended;
            let plain = !EPHEMERAL.contains(&key.0);
            if after && plain && of == key && !read(*value) {
                places.push((*second, Zxid(zxid.0 - 1)));
            }
        }
    }
    let (place, zxid) = pick(random, &places)?;
    history.operations[place].outcome = Outcome::Written(vec![Some(zxid)]);
    Some(())
}

/// The only writes between which a refused one could have come had ended, or not begun.
fn quiet(history: &History, operation: &Operation) -> bool {
    let key = operation.writes()[0].key;
    let end = operation.ended.unwrap_or(Stamp::MAX);
    !history.operations.iter().any(|other| {
        let lost = matches!(other.outcome, Outcome::Unknown);
        let overlaps = other.begun < end && other.ended.is_none_or(|at| at > operation.begun);
        other != operation
            && other.writes().iter().any(|write| write.key == key)
            && (lost || overlaps)
    })
}

fn refused(history: &History, why: Refusal) -> Vec<usize> {
    let places = history.operations.iter().enumerate().filter(|(_, operation)| {
        let plain = |key: Key| !EPHEMERAL.contains(&key.0);
        let single = operation.writes().len() == 1 && plain(operation.writes()[0].key);
        single
            && operation.outcome == Outcome::Refused { part: 0, why }
            && quiet(history, operation)
    });
    places.map(|(place, _)| place).collect()
}

fn made_twice(history: &mut History, random: &mut Random) -> Option<()> {
    let place = pick(random, &refused(history, Refusal::NodeExists))?;
    history.operations[place].outcome = Outcome::Written(vec![None]);
    Some(())
}

fn wrong_version(history: &mut History, random: &mut Random) -> Option<()> {
    let places: Vec<usize> = refused(history, Refusal::NoNode)
        .into_iter()
        .chain(refused(history, Refusal::BadVersion))
        .collect();
    let place = pick(random, &places)?;
    history.operations[place].outcome = Outcome::Written(vec![None]);
    Some(())
}

/// A read of a session that has just synced sees what another read saw of an earlier write, though a
/// later one had ended before the `sync` began.
fn stale_after_sync(history: &mut History, random: &mut Random) -> Option<()> {
    let all = reads(history);
    let mut places = Vec::new();
    for read in all.iter().filter(|read| !EPHEMERAL.contains(&read.key.0)) {
        let synced = history.operations.iter().filter(|sync| {
            sync.session == read.session
                && sync.outcome == Outcome::Synced
                && sync.begun < read.begun
        });
        let Some(sync) = synced.map(|sync| sync.begun).max() else { continue };
        for (place, key, _, zxid) in singles(history) {
            let ended = history.operations[place].ended?;
            let older = all.iter().filter(|old| old.key == key && old.ended < sync);
            let older = older.filter_map(|old| old.seen).filter(|seen| seen.mzxid < zxid);
            if key == read.key && ended < sync {
                places.extend(older.map(|seen| (read.place, seen)));
            }
        }
    }
    let (place, seen) = pick(random, &places)?;
    see(history, place, Some(seen));
    Some(())
}

fn disordered(history: &mut History, random: &mut Random) -> Option<()> {
    let singles = singles(history);
    let mut places = Vec::new();
    for (first, _, _, one) in &singles {
        for (second, _, _, two) in &singles {
            let same = history.operations[*first].session == history.operations[*second].session;
            if same && one < two {
                places.push((*first, *one, *second, *two));
            }
        }
    }
    let (first, one, second, two) = pick(random, &places)?;
    history.operations[first].outcome = Outcome::Written(vec![Some(two)]);
    history.operations[second].outcome = Outcome::Written(vec![Some(one)]);
    Some(())
}

fn is_single(history: &History, seen: Seen) -> bool {
    singles(history).iter().any(|(_, _, value, _)| *value == seen.value)
}

fn backwards(history: &mut History, random: &mut Random) -> Option<()> {
    let (first, second) = pair(history, random, |first, second| {
        let later = first.seen.zip(second.seen);
        let later = later.is_some_and(|(a, b)| a.mzxid < b.mzxid && is_single(history, b));
        later && first.session == second.session && first.key == second.key
    })?;
    let one = history.operations[first].outcome.clone();
    let two = std::mem::replace(&mut history.operations[second].outcome, one);
    history.operations[first].outcome = two;
    Some(())
}

fn own_write_missed(history: &mut History, random: &mut Random) -> Option<()> {
    let all = reads(history);
    let mut places = Vec::new();
    for (place, key, _, zxid) in singles(history) {
        let writer = &history.operations[place];
        let later = all.iter().filter(|read| {
            read.session == writer.session && read.key == key && read.begun > writer.begun
        });
        for read in later {
            let older = all.iter().filter(|old| old.key == key && old.ended < read.begun);
            let older = older.filter_map(|old| old.seen).filter(|seen| seen.mzxid < zxid);
            places.extend(older.map(|seen| (read.place, seen)));
        }
    }
    // The last write before the read is single: a missed one of several is another rule's.
    places.retain(|(place, _)| {
        let read = &history.operations[*place];
        let several = |other: &&Operation| other.writes().len() > 1 && other.begun < read.begun;
        let Task::Read { key, .. } = read.task else { return false };
        let mut several = history.operations.iter().filter(several);
        !several.any(|other| other.writes().iter().any(|write| write.key == key))
    });
    let (place, seen) = pick(random, &places)?;
    see(history, place, Some(seen));
    Some(())
}

fn torn_number(history: &mut History, random: &mut Random) -> Option<()> {
    let numbered = |operation: &Operation| match &operation.outcome {
        Outcome::Written(parts) => parts.len() > 1 && parts.iter().all(Option::is_some),
        _ => false,
    };
    let places = history.operations.iter().enumerate().filter(|(_, one)| numbered(one));
    let place = pick(random, &places.map(|(place, _)| place).collect::<Vec<_>>())?;
    if let Outcome::Written(parts) = &mut history.operations[place].outcome {
        parts[1] = parts[1].map(|zxid| Zxid(zxid.0 + 1));
    }
    Some(())
}

/// A session saw one part, and then another node as it was before.
fn torn_view(history: &mut History, random: &mut Random) -> Option<()> {
    let all = reads(history);
    let (_, second) = pair(history, random, |first, second| {
        let both = first.seen.zip(second.seen);
        let together = both.is_some_and(|(a, b)| a.mzxid == b.mzxid) && first.key != second.key;
        let older = |old: &Read| {
            old.key == second.key
                && old.ended < second.begun
                && old.seen.zip(second.seen).is_some_and(|(old, now)| old.mzxid < now.mzxid)
        };
        together && first.session == second.session && all.iter().any(older)
    })?;
    let now = all.iter().find(|read| read.place == second)?;
    let older = all.iter().filter(|old| old.key == now.key && old.ended < now.begun);
    let older = older.filter_map(|old| old.seen).filter(|old| old.mzxid < now.seen.unwrap().mzxid);
    let seen = pick(random, &older.collect::<Vec<_>>())?;
    see(history, second, Some(seen));
    Some(())
}

fn torn_refusal(history: &mut History, random: &mut Random) -> Option<()> {
    let mut places = Vec::new();
    for operation in &history.operations {
        let refused = matches!(operation.outcome, Outcome::Refused { .. });
        let writes = operation.writes();
        if let (true, true, Some(ended)) = (refused, writes.len() > 1, operation.ended) {
            for (write, value) in writes.iter().filter_map(|w| Some((w, w.change.value()?))) {
                let later = reads(history).into_iter().filter(|read| read.begun > ended);
                let later = later.filter(|read| read.key == write.key);
                places.extend(later.filter_map(|read| Some((read.place, read.seen?, value))));
            }
        }
    }
    let (place, seen, value) = pick(random, &places)?;
    see(history, place, Some(Seen { value, ..seen }));
    Some(())
}

fn kind(history: &History, watch: WatchId) -> Option<(Session, WatchKind)> {
    history.operations.iter().find_map(|operation| match operation.task {
        Task::Read { watch: Some((id, kind)), .. } if id == watch => {
            Some((operation.session, kind))
        }
        _ => None,
    })
}

fn fired_twice(history: &mut History, random: &mut Random) -> Option<()> {
    let once = |fired: &&Fired| {
        kind(history, fired.watch).is_some_and(|(_, kind)| kind == WatchKind::Once)
    };
    let fired: Vec<Fired> = history.fired.iter().filter(once).copied().collect();
    let again = pick(random, &fired)?;
    history.fired.push(Fired { at: again.at + 1, zxid: None, ..again });
    Some(())
}

fn told_backwards(history: &mut History, random: &mut Random) -> Option<()> {
    let mut places = Vec::new();
    for (first, one) in history.fired.iter().enumerate() {
        for (second, two) in history.fired.iter().enumerate() {
            let of = |fired: &Fired| kind(history, fired.watch).map(|(session, _)| session);
            if history.moved.iter().any(|moved| Some(moved.session) == of(one)) {
                continue;
            }
            if of(one) == of(two)
                && one.at < two.at
                && one.zxid.zip(two.zxid).is_some_and(|(a, b)| a < b)
            {
                places.push((first, second));
            }
        }
    }
    let (first, second) = pick(random, &places)?;
    let zxid = history.fired[first].zxid;
    history.fired[first].zxid = std::mem::replace(&mut history.fired[second].zxid, zxid);
    Some(())
}

fn told_late(history: &mut History, random: &mut Random) -> Option<()> {
    let mut places = Vec::new();
    for (place, fired) in history.fired.iter().enumerate() {
        let of = kind(history, fired.watch).map(|(session, _)| session);
        let later = reads(history).into_iter().filter(|read| Some(read.session) == of);
        let later = later.filter(|read| read.ended > fired.at);
        let seen =
            later.filter(|r| r.seen.zip(fired.zxid).is_some_and(|(s, zxid)| s.mzxid >= zxid));
        places.extend(seen.map(|read| (place, read.ended + 1)));
    }
    let (place, at) = pick(random, &places)?;
    history.fired[place].at = at;
    Some(())
}

fn never_told(history: &mut History, random: &mut Random) -> Option<()> {
    let mut watches = Vec::new();
    for left in &history.operations {
        let (Task::Read { key, watch: Some((watch, WatchKind::Once)) }, Outcome::Read(was)) =
            (&left.task, &left.outcome)
        else {
            continue;
        };
        let changed = |read: &Read| {
            read.session == left.session
                && read.begun > left.begun
                && read.key == *key
                && read.seen.map(|seen| seen.mzxid) != was.map(|seen| seen.mzxid)
        };
        if reads(history).iter().any(changed) {
            watches.push(*watch);
        }
    }
    let watch = pick(random, &watches)?;
    history.fired.retain(|fired| fired.watch != watch);
    Some(())
}

/// A read after `sync`, later than the time by which an owner's nodes must be gone, sees one.
fn stays(history: &mut History, random: &mut Random) -> Option<()> {
    let mut places = Vec::new();
    for ending in &history.endings {
        let Some(gone_by) = ending.gone_by else { continue };
        for (place, key, value, zxid) in singles(history) {
            let create = history.operations[place].writes()[0].change;
            let own = history.operations[place].session == ending.session;
            if !own || !matches!(create, Change::Create { ephemeral: true, .. }) {
                continue;
            }
            let seen = Seen { value, version: 0, czxid: zxid, mzxid: zxid };
            let synced = |read: &Read| {
                history.operations.iter().any(|sync| {
                    sync.session == read.session
                        && sync.outcome == Outcome::Synced
                        && sync.begun > gone_by
                        && sync.begun < read.begun
                })
            };
            let later = reads(history).into_iter().filter(|read| read.key == key && synced(read));
            places.extend(later.map(|read| (read.place, seen)));
        }
    }
    let (place, seen) = pick(random, &places)?;
    see(history, place, Some(seen));
    Some(())
}

/// A read after `sync` misses a node whose owner lives on, and which nobody deleted.
fn goes_early(history: &mut History, random: &mut Random) -> Option<()> {
    let mut places = Vec::new();
    for (place, key, value, _) in singles(history) {
        let creator = &history.operations[place];
        let (session, change) = (creator.session, creator.writes()[0].change);
        let ended = creator.ended?;
        let lives = !history.endings.iter().any(|ending| ending.session == session);
        let deleted = history.operations.iter().any(|other| {
            other
                .writes()
                .iter()
                .any(|write| write.key == key && matches!(write.change, Change::Delete { .. }))
        });
        if !lives || deleted || !matches!(change, Change::Create { ephemeral: true, .. }) {
            continue;
        }
        let synced = |read: &Read| {
            history.operations.iter().any(|sync| {
                sync.session == read.session
                    && sync.outcome == Outcome::Synced
                    && sync.begun > ended
                    && sync.begun < read.begun
            })
        };
        let later = reads(history).into_iter().filter(|read| {
            read.key == key && synced(read) && read.seen.is_some_and(|seen| seen.value == value)
        });
        places.extend(later.map(|read| read.place));
    }
    let place = pick(random, &places)?;
    see(history, place, None);
    Some(())
}
