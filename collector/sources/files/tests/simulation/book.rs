//! Checks the guarantees: each line at least once, never altered, in order, and none repeated that
//! a document of positions already recorded as safe.

use std::collections::HashMap;

/// A line of a simulated file: text, stream, number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) text: usize,
    pub(super) stream: usize,
    pub(super) number: usize,
}

/// The complete line: its length depends on its number, from a few bytes to some thousand.
pub(super) fn line_of(id: Id) -> String {
    let Id { text, stream, number } = id;
    let mixed = (text * 31 + stream * 17 + number * 7) % 97;
    let length = if mixed == 0 { 3000 } else { mixed };
    format!("T{text:06} {stream} {number:06} {}", "x".repeat(length))
}

fn id_of(line: &str) -> Option<Id> {
    let mut words = line.strip_prefix('T')?.split(' ').map(str::parse);
    let mut next = || words.next()?.ok();
    Some(Id { text: next()?, stream: next()?, number: next()? })
}

#[derive(Debug, Default)]
struct Entry {
    /// The next number in order.
    next: usize,
    /// All lines before it were sent.
    came: usize,
    /// All lines before it are confirmed to a process that has not been killed since.
    confirmed: usize,
    /// All lines before it are confirmed in a document of positions.
    recorded: usize,
    /// Kills and failures until its last line was sent.
    troubles: u64,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    entries: HashMap<(usize, usize), Entry>,
    /// Kills and failures: only they excuse a repeat.
    pub(super) troubles: u64,
    pub(super) repeats: u64,
    pub(super) lines: u64,
}

impl Book {
    fn entry(&mut self, id: Id) -> &mut Entry {
        self.entries.entry((id.text, id.stream)).or_default()
    }

    /// Records that a line was sent. Returns its id, or the violated guarantee.
    pub(super) fn arrive(&mut self, line: &str) -> Result<Id, String> {
        let id = id_of(line).filter(|id| line_of(*id) == line);
        let id = id.ok_or_else(|| format!("altered: {line:?}"))?;
        let troubles = self.troubles;
        self.lines += 1;
        let entry = self.entry(id);
        if id.number > entry.next {
            return Err(format!("{id:?} came, and {} is the next in order", entry.next));
        }
        if id.number < entry.confirmed {
            return Err(format!("{id:?} came again; all before {} were safe", entry.confirmed));
        }
        if id.number < entry.next && entry.troubles == troubles {
            return Err(format!("{id:?} came again, and nothing had failed"));
        }
        let is_repeat = id.number < entry.came;
        entry.next = id.number + 1;
        entry.came = entry.came.max(entry.next);
        entry.troubles = troubles;
        self.repeats += u64::from(is_repeat);
        Ok(id)
    }

    pub(super) fn confirm(&mut self, id: Id) {
        let entry = self.entry(id);
        entry.confirmed = entry.confirmed.max(id.number + 1);
    }

    /// Records that positions were written.
    pub(super) fn record(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.recorded = entry.confirmed);
    }

    /// Records a kill: lines confirmed since positions were last written may be repeated.
    pub(super) fn kill(&mut self) {
        self.troubles += 1;
        self.entries.values_mut().for_each(|entry| entry.confirmed = entry.recorded);
    }

    pub(super) fn has(&self, text: usize, stream: usize, count: usize) -> bool {
        count == 0 || self.entries.get(&(text, stream)).is_some_and(|entry| entry.came >= count)
    }

    pub(super) fn all_confirmed(&self, text: usize, stream: usize, count: usize) -> bool {
        let of = self.entries.get(&(text, stream));
        count == 0 || of.is_some_and(|entry| entry.confirmed >= count)
    }
}
