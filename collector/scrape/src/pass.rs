//! The series of a scrape, on the way to be the next [`Memory`].
//!
//! As long as they are those of the last scrape in the same order, nothing but their values is
//! written: the rest is the memory's. So a body of a million counters takes 8 MB beside what is
//! remembered of it, one of gauges nothing but a bit for each.

use hashbrown::HashTable;

use crate::memory::{Known, Memory, Seen};
use crate::names::{Form, Named, Names, Walk};
use crate::series::{Begun, List, replace_behind};

/// Most bytes of a list that are kept for the next scrape, of whichever target: those of 16,384
/// counters.
const KEPT_BYTES: usize = 16 * 1024 * (size_of::<u64>() + size_of::<Begun>());

#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// How many series at the beginning are the memory's first ones.
    kept_series: usize,
    /// Values of those of them that have a beginning.
    values: Vec<f64>,
    /// Of those the ones that began anew: place among them and beginning, in order.
    begun: Vec<(u32, u64)>,
    /// The series behind them.
    series: List,
    /// Bytes of the memory's texts that are those of the first series.
    kept: usize,
    /// Texts of those behind them.
    names: Names,
    /// Whether all series so far were where they had been.
    is_kept: bool,
    /// Where the next series is expected in the memory.
    expected: usize,
    /// It, or one behind it.
    next: Option<Named>,
    walk: Walk,
    /// A bit for each series of the memory that was seen.
    seen: Vec<u64>,
    seen_count: usize,
    /// Places in the memory by hash, once a series isn't where it is expected.
    places: Option<HashTable<u32>>,
    /// Series that the memory doesn't have: places in the list, by hash.
    fresh: HashTable<u32>,
}

impl Pass {
    /// Begins anew, with nothing seen.
    pub(crate) fn begin(&mut self, memory: &Memory) {
        self.kept_series = 0;
        self.values.clear();
        self.values.reserve_exact(memory.series.begun().len());
        self.begun.clear();
        self.series.clear();
        self.kept = 0;
        self.names.begin();
        self.is_kept = true;
        self.expected = 0;
        self.walk.restart();
        self.next = self.walk.next([&memory.names, &[]]);
        self.seen.clear();
        self.seen.resize(memory.series.len().div_ceil(64), 0);
        self.seen_count = 0;
        self.places = None;
        self.fresh.clear();
    }

    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let places = self.places.as_ref().map_or(0, HashTable::allocation_size);
        let series = self.series.bytes()
            + self.values.capacity() * size_of::<f64>()
            + self.begun.capacity() * size_of::<(u32, u64)>();
        let tables = places + self.fresh.allocation_size() + self.seen.capacity() * 8;
        (series + self.names.held_bytes() + tables) as u64
    }

    /// Gives back what most scrapes don't need.
    pub(crate) fn trim(&mut self) {
        self.places = None;
        self.series.trim(KEPT_BYTES);
        if self.values.capacity() * size_of::<f64>() > KEPT_BYTES {
            self.values = Vec::new();
        }
        if self.begun.capacity() * size_of::<(u32, u64)>() > KEPT_BYTES {
            self.begun = Vec::new();
        }
        self.names.trim(KEPT_BYTES);
        if self.seen.capacity() * 8 > KEPT_BYTES {
            self.seen = Vec::new();
        }
        if self.fresh.allocation_size() > KEPT_BYTES {
            self.fresh = HashTable::new();
        }
    }

    /// The texts of all series so far, one part behind the other.
    pub(crate) fn names<'a>(&'a self, memory: &'a Memory) -> [&'a [u8]; 2] {
        [&memory.names[..self.kept], &self.names.bytes]
    }

    /// What is known of the series that is expected, if a line begins with its text and a blank,
    /// and where that is.
    #[inline]
    pub(crate) fn expects(&self, line: &[u8]) -> Option<(Form, usize)> {
        let next = self.next.filter(|next| next.place == self.expected)?;
        let text = self.walk.text();
        let is_it = line.get(text.len()) == Some(&b' ') && line[..text.len()] == *text;
        (is_it && !self.has(next.place)).then_some((next.form, text.len()))
    }

    /// Notes the series that is expected.
    #[inline]
    pub(crate) fn note_expected(
        &mut self,
        memory: &Memory,
        form: Form,
        time_unix_nano: u64,
        value: Option<f64>,
    ) -> Known {
        let place = self.expected;
        self.see(place);
        self.is_kept &= place == self.kept_series;
        let old = match (form.kind.has_beginning(), self.is_kept) {
            (false, _) => None,
            (true, true) => memory.series.begun().get(self.values.len()).copied(),
            (true, false) => memory.series.begun_at(place),
        };
        let start_unix_nano = start(old, value, time_unix_nano);
        let begun = Begun { start_unix_nano, value: value.unwrap_or_default() };
        if self.is_kept {
            self.keep(old, begun);
        } else {
            self.names.put(self.walk.text(), form);
            self.series.push(memory.series.hashes()[place], form.kind, begun);
        }
        self.next = self.walk.next([&memory.names, &[]]);
        Known { start_unix_nano, is_new: false }
    }

    /// Notes a series. None if it was there before in this scrape.
    #[inline]
    pub(crate) fn note(&mut self, memory: &Memory, seen: &Seen<'_>) -> Option<Known> {
        let place = match self.find(memory, seen.hash) {
            Found::Old(place) => Some(place),
            Found::New => None,
            Found::Again => return None,
        };
        let old = place.and_then(|place| memory.series.begun_at(place));
        let began = start(old, seen.value, seen.time_unix_nano);
        let created = seen.created_unix_nano.filter(|created| *created <= seen.time_unix_nano);
        let start_unix_nano = created.unwrap_or(began);
        let begun = Begun { start_unix_nano, value: seen.value.unwrap_or_default() };
        let form = Form { kind: seen.kind, is_timed: seen.is_timed, is_plain: seen.is_plain };
        self.is_kept &= place == Some(self.kept_series)
            && self.next.is_some_and(|next| Some(next.place) == place && next.form == form)
            && self.walk.text() == seen.text;
        if self.is_kept {
            self.keep(old, begun);
        } else {
            self.names.put(seen.text, form);
            self.series.push(seen.hash, seen.kind, begun);
        }
        while self.next.is_some_and(|next| next.place < self.expected) {
            self.next = self.walk.next([&memory.names, &[]]);
        }
        Some(Known { start_unix_nano, is_new: place.is_none() })
    }

    /// Notes that a series is where it was. What was known is none of those without a beginning.
    #[inline]
    fn keep(&mut self, old: Option<Begun>, begun: Begun) {
        self.kept = self.walk.at();
        self.kept_series += 1;
        let Some(old) = old else { return };
        if begun.start_unix_nano != old.start_unix_nano {
            self.begun.push((self.values.len() as u32, begun.start_unix_nano));
        }
        self.values.push(begun.value);
    }

    /// Gives the counter that was noted last another beginning. It is known after its point where
    /// the time of creation follows the counter.
    pub(crate) fn created(&mut self, memory: &Memory, created_unix_nano: u64) {
        if !self.series.is_empty() {
            self.series.restart_last(created_unix_nano);
            return;
        }
        let last = self.kept_series.checked_sub(1);
        let Some(old) = last.and_then(|last| memory.series.begun_at(last)) else { return };
        let place = self.values.len() - 1;
        if self.begun.last().is_some_and(|(last, _)| *last as usize == place) {
            self.begun.pop();
        }
        if old.start_unix_nano != created_unix_nano {
            self.begun.push((place as u32, created_unix_nano));
        }
    }

    #[inline]
    fn find(&mut self, memory: &Memory, hash: u64) -> Found {
        let place = match memory.series.hashes().get(self.expected) {
            Some(expected) if *expected == hash => self.expected,
            _ => match self.look_up(memory, hash) {
                Some(place) => place,
                None => return self.find_fresh(hash),
            },
        };
        if self.has(place) {
            self.expected = place + 1;
            return Found::Again;
        }
        self.see(place);
        Found::Old(place)
    }

    #[inline]
    fn see(&mut self, place: usize) {
        self.seen[place / 64] |= 1 << (place % 64);
        self.seen_count += 1;
        self.expected = place + 1;
    }

    #[inline(never)]
    fn look_up(&mut self, memory: &Memory, hash: u64) -> Option<usize> {
        if memory.series.is_empty() {
            return None;
        }
        let hashes = memory.series.hashes();
        let places = self.places.get_or_insert_with(|| {
            let mut places = HashTable::with_capacity(hashes.len());
            for (place, hash) in hashes.iter().enumerate() {
                places.insert_unique(*hash, place as u32, |place| hashes[*place as usize]);
            }
            places
        });
        places.find(hash, |place| hashes[*place as usize] == hash).map(|place| *place as usize)
    }

    fn find_fresh(&mut self, hash: u64) -> Found {
        let Self { fresh, series, .. } = self;
        let hashes = series.hashes();
        if fresh.find(hash, |place| hashes[*place as usize] == hash).is_some() {
            return Found::Again;
        }
        // It is put there next.
        fresh.insert_unique(hash, hashes.len() as u32, |place| hashes[*place as usize]);
        Found::New
    }

    /// Whether each series of the memory was there.
    pub(crate) fn has_all(&self, memory: &Memory) -> bool {
        self.seen_count == memory.series.len()
    }

    /// Whether the series at a place of the memory was there.
    #[inline]
    pub(crate) fn has(&self, place: usize) -> bool {
        self.seen.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Puts it in the memory's place.
    pub(crate) fn replace(&mut self, memory: &mut Memory, target_info: Vec<u8>) {
        let begun = memory.series.begun_mut();
        for (begun, value) in begun.iter_mut().zip(&self.values) {
            begun.value = *value;
        }
        for (place, start_unix_nano) in &self.begun {
            begun[*place as usize].start_unix_nano = *start_unix_nano;
        }
        let kept = (self.kept_series, self.values.len());
        memory.series.replace_behind(kept, &mut self.series, KEPT_BYTES);
        replace_behind(&mut memory.names, self.kept, &mut self.names.bytes, KEPT_BYTES);
        memory.target_info = target_info;
        memory.is_marked = false;
    }
}

/// When a series began, as far as is known: with its first scrape, or the first one after a reset.
#[inline]
fn start(old: Option<Begun>, value: Option<f64>, time_unix_nano: u64) -> u64 {
    match (old, value) {
        (Some(old), Some(value)) if value >= old.value => old.start_unix_nano,
        (Some(old), None) => old.start_unix_nano,
        _ => time_unix_nano,
    }
}

enum Found {
    /// At this place of the memory.
    Old(usize),
    New,
    Again,
}
