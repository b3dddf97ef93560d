//! The series of a running scrape, which become the next [`SeriesMemory`].
//!
//! As long as they are those of the last scrape in the same order, only their values are stored:
//! the rest is the memory's. So a body of a million counters takes 8 MB in addition to its memory,
//! one of gauges only a bit for each.

use hashbrown::HashTable;

use crate::memory::names::{NameEncoder, NameIterator, SeriesEntry, SeriesFlags};
use crate::memory::series::{SeriesList, SeriesState, replace_behind};
use crate::memory::start_time::start_time;
use crate::memory::{SeriesMemory, SeriesObservation, SeriesStart};

/// The most bytes of a list that are retained for the next scrape, of any target: those of 16,384
/// counters.
const RETAINED_BYTES: usize = 16 * 1024 * (size_of::<u64>() + size_of::<SeriesState>());

#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// The number of series at the beginning that equal the memory's first ones.
    unchanged_series: usize,
    /// The values of those with a start time.
    values: Vec<f64>,
    /// Of those, the ones that restarted: their index among them and the start, in order.
    begun: Vec<(u32, u64)>,
    /// The series after them.
    series: SeriesList,
    /// The length of the memory's texts of the unchanged series.
    unchanged_bytes: usize,
    /// The texts of the series after them.
    names: NameEncoder,
    /// Whether all series so far are unchanged.
    is_unchanged: bool,
    /// The index in the memory of the expected series.
    expected: usize,
    /// The series that `walk` is at: the expected one, or a later one.
    next: Option<SeriesEntry>,
    walk: NameIterator,
    /// A bit for each series of the memory that was observed.
    observed: Vec<u64>,
    observed_count: usize,
    /// Indexes in the memory by hash, built once a series isn't the expected one.
    index_by_hash: Option<HashTable<u32>>,
    /// Series that the memory doesn't have: indexes in the list, by hash.
    fresh: HashTable<u32>,
}

impl Pass {
    /// Begins a scrape.
    pub(crate) fn begin_scrape(&mut self, memory: &SeriesMemory) {
        self.unchanged_series = 0;
        self.values.clear();
        self.values.reserve_exact(memory.series.begun().len());
        self.begun.clear();
        self.series.clear();
        self.unchanged_bytes = 0;
        self.names.clear();
        self.is_unchanged = true;
        self.expected = 0;
        self.walk.rewind();
        self.next = self.walk.next([&memory.names, &[]]);
        self.observed.clear();
        self.observed.resize(memory.series.len().div_ceil(64), 0);
        self.observed_count = 0;
        self.index_by_hash = None;
        self.fresh.clear();
    }

    /// Returns its size in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        let index_bytes = self.index_by_hash.as_ref().map_or(0, HashTable::allocation_size);
        let series = self.series.held_bytes()
            + self.values.capacity() * size_of::<f64>()
            + self.begun.capacity() * size_of::<(u32, u64)>();
        let tables = index_bytes + self.fresh.allocation_size() + self.observed.capacity() * 8;
        (series + self.names.held_bytes() + tables) as u64
    }

    /// Frees memory that most scrapes don't need.
    pub(crate) fn release_excess(&mut self) {
        self.index_by_hash = None;
        self.series.release_excess(RETAINED_BYTES);
        if self.values.capacity() * size_of::<f64>() > RETAINED_BYTES {
            self.values = Vec::new();
        }
        if self.begun.capacity() * size_of::<(u32, u64)>() > RETAINED_BYTES {
            self.begun = Vec::new();
        }
        self.names.release_excess(RETAINED_BYTES);
        if self.observed.capacity() * 8 > RETAINED_BYTES {
            self.observed = Vec::new();
        }
        if self.fresh.allocation_size() > RETAINED_BYTES {
            self.fresh = HashTable::new();
        }
    }

    /// Returns the texts of all series so far, as consecutive slices.
    pub(crate) fn series_texts<'a>(&'a self, memory: &'a SeriesMemory) -> [&'a [u8]; 2] {
        [&memory.names[..self.unchanged_bytes], &self.names.bytes]
    }

    /// Returns the form of the expected series and the end of its text, if a line begins with that
    /// text and a blank.
    #[inline]
    pub(crate) fn match_expected(&self, line: &[u8]) -> Option<(SeriesFlags, usize)> {
        let next = self.next.filter(|next| next.index == self.expected)?;
        let text = self.walk.text();
        let is_it = line.get(text.len()) == Some(&b' ') && line[..text.len()] == *text;
        (is_it && !self.has_series(next.index)).then_some((next.form, text.len()))
    }

    /// Records the expected series.
    #[inline]
    pub(crate) fn record_expected(
        &mut self,
        memory: &SeriesMemory,
        form: SeriesFlags,
        time_unix_nano: u64,
        value: Option<f64>,
    ) -> SeriesStart {
        let index = self.expected;
        self.mark_observed(index);
        self.is_unchanged &= index == self.unchanged_series;
        let old = match (form.kind.has_beginning(), self.is_unchanged) {
            (false, _) => None,
            (true, true) => memory.series.begun().get(self.values.len()).copied(),
            (true, false) => memory.series.begun_at(index),
        };
        let start_unix_nano = start_time(old, value, time_unix_nano);
        let begun = SeriesState { start_unix_nano, value: value.unwrap_or_default() };
        if self.is_unchanged {
            self.record_unchanged(old, begun);
        } else {
            self.names.append_text(self.walk.text(), form);
            self.series.push(memory.series.hashes()[index], form.kind, begun);
        }
        self.next = self.walk.next([&memory.names, &[]]);
        SeriesStart { start_unix_nano, is_new: false }
    }

    /// Records a series; `None` if this scrape already had it.
    #[inline]
    pub(crate) fn record_series(
        &mut self,
        memory: &SeriesMemory,
        observation: &SeriesObservation<'_>,
    ) -> Option<SeriesStart> {
        let index = match self.find_series(memory, observation.hash) {
            SeriesMatch::Old(index) => Some(index),
            SeriesMatch::New => None,
            SeriesMatch::Duplicate => return None,
        };
        let old = index.and_then(|index| memory.series.begun_at(index));
        let began = start_time(old, observation.value, observation.time_unix_nano);
        let created =
            observation.created_unix_nano.filter(|created| *created <= observation.time_unix_nano);
        let start_unix_nano = created.unwrap_or(began);
        let begun = SeriesState { start_unix_nano, value: observation.value.unwrap_or_default() };
        let form = SeriesFlags {
            kind: observation.kind,
            is_timed: observation.is_timed,
            is_plain: observation.is_plain,
        };
        self.is_unchanged &= index == Some(self.unchanged_series)
            && self.next.is_some_and(|next| Some(next.index) == index && next.form == form)
            && self.walk.text() == observation.text;
        if self.is_unchanged {
            self.record_unchanged(old, begun);
        } else {
            self.names.append_text(observation.text, form);
            self.series.push(observation.hash, observation.kind, begun);
        }
        while self.next.is_some_and(|next| next.index < self.expected) {
            self.next = self.walk.next([&memory.names, &[]]);
        }
        Some(SeriesStart { start_unix_nano, is_new: index.is_none() })
    }

    /// Records a series as unchanged. `old` is `None` for one without a start time.
    #[inline]
    fn record_unchanged(&mut self, old: Option<SeriesState>, begun: SeriesState) {
        self.unchanged_bytes = self.walk.offset();
        self.unchanged_series += 1;
        let Some(old) = old else { return };
        if begun.start_unix_nano != old.start_unix_nano {
            self.begun.push((self.values.len() as u32, begun.start_unix_nano));
        }
        self.values.push(begun.value);
    }

    /// Sets the start of the last recorded counter. It is known only after its point if the
    /// creation time follows the counter.
    pub(crate) fn set_created(&mut self, memory: &SeriesMemory, created_unix_nano: u64) {
        if !self.series.is_empty() {
            self.series.restart_last(created_unix_nano);
            return;
        }
        let last = self.unchanged_series.checked_sub(1);
        let Some(old) = last.and_then(|last| memory.series.begun_at(last)) else { return };
        let index = self.values.len() - 1;
        if self.begun.last().is_some_and(|(last, _)| *last as usize == index) {
            self.begun.pop();
        }
        if old.start_unix_nano != created_unix_nano {
            self.begun.push((index as u32, created_unix_nano));
        }
    }

    #[inline]
    fn find_series(&mut self, memory: &SeriesMemory, hash: u64) -> SeriesMatch {
        let index = match memory.series.hashes().get(self.expected) {
            Some(expected) if *expected == hash => self.expected,
            _ => match self.find_in_memory(memory, hash) {
                Some(index) => index,
                None => return self.find_fresh(hash),
            },
        };
        if self.has_series(index) {
            self.expected = index + 1;
            return SeriesMatch::Duplicate;
        }
        self.mark_observed(index);
        SeriesMatch::Old(index)
    }

    #[inline]
    fn mark_observed(&mut self, index: usize) {
        self.observed[index / 64] |= 1 << (index % 64);
        self.observed_count += 1;
        self.expected = index + 1;
    }

    #[inline(never)]
    fn find_in_memory(&mut self, memory: &SeriesMemory, hash: u64) -> Option<usize> {
        if memory.series.is_empty() {
            return None;
        }
        let hashes = memory.series.hashes();
        let table = self.index_by_hash.get_or_insert_with(|| {
            let mut table = HashTable::with_capacity(hashes.len());
            for (index, hash) in hashes.iter().enumerate() {
                table.insert_unique(*hash, index as u32, |index| hashes[*index as usize]);
            }
            table
        });
        table.find(hash, |index| hashes[*index as usize] == hash).map(|index| *index as usize)
    }

    fn find_fresh(&mut self, hash: u64) -> SeriesMatch {
        let Self { fresh, series, .. } = self;
        let hashes = series.hashes();
        if fresh.find(hash, |index| hashes[*index as usize] == hash).is_some() {
            return SeriesMatch::Duplicate;
        }
        // The caller appends the series at this index.
        fresh.insert_unique(hash, hashes.len() as u32, |index| hashes[*index as usize]);
        SeriesMatch::New
    }

    /// Whether every series of the memory was observed.
    pub(crate) fn has_all(&self, memory: &SeriesMemory) -> bool {
        self.observed_count == memory.series.len()
    }

    /// Whether the series at an index of the memory was observed.
    #[inline]
    pub(crate) fn has_series(&self, index: usize) -> bool {
        self.observed.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Replaces the memory's series with this scrape's.
    pub(crate) fn replace_memory(&mut self, memory: &mut SeriesMemory, target_info: Vec<u8>) {
        let begun = memory.series.begun_mut();
        for (begun, value) in begun.iter_mut().zip(&self.values) {
            begun.value = *value;
        }
        for (index, start_unix_nano) in &self.begun {
            begun[*index as usize].start_unix_nano = *start_unix_nano;
        }
        let unchanged = (self.unchanged_series, self.values.len());
        memory.series.replace_behind(unchanged, &mut self.series, RETAINED_BYTES);
        replace_behind(
            &mut memory.names,
            self.unchanged_bytes,
            &mut self.names.bytes,
            RETAINED_BYTES,
        );
        memory.target_info = target_info;
        memory.is_marked = false;
    }
}

enum SeriesMatch {
    /// The series at this index of the memory.
    Old(usize),
    New,
    Duplicate,
}
