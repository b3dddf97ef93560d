//! The series of a scrape, on the way to be the next [`Memory`].
//!
//! As long as they are those of the last scrape in the same order, nothing but their values is
//! written: the rest is the memory's. So a body of a million series takes 8 MB beside what is
//! remembered of it.

use hashbrown::HashTable;

use crate::memory::{Known, Memory, Seen, Series};
use crate::names::{Form, Named, Names, Walk, grow};

/// Most bytes of a list that are kept for the next scrape, of whichever target: 16,384 series.
const KEPT_BYTES: usize = 16 * 1024 * size_of::<Series>();

#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// Values of the first series, which are the memory's first ones.
    values: Vec<f64>,
    /// Those of them that began anew: place and beginning, in order.
    begun: Vec<(u32, u64)>,
    /// The series behind them.
    series: Vec<Series>,
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
        self.values.clear();
        self.values.reserve_exact(memory.series.len());
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
        let series = self.series.capacity() * size_of::<Series>()
            + self.values.capacity() * size_of::<f64>()
            + self.begun.capacity() * size_of::<(u32, u64)>();
        let tables = places + self.fresh.allocation_size() + self.seen.capacity() * 8;
        (series + self.names.held_bytes() + tables) as u64
    }

    /// Gives back what most scrapes don't need.
    pub(crate) fn trim(&mut self) {
        self.places = None;
        if self.series.capacity() * size_of::<Series>() > KEPT_BYTES {
            self.series = Vec::new();
        }
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
        let old = memory.series[place];
        self.see(place);
        let start_unix_nano = start(Some(old), value, time_unix_nano);
        let value = value.unwrap_or_default();
        if self.is_kept && place == self.values.len() {
            self.keep(old, start_unix_nano, value);
        } else {
            self.is_kept = false;
            self.names.put(self.walk.text(), form);
            self.push(Series { hash: old.hash, start_unix_nano, value });
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
        let old = place.map(|place| memory.series[place]);
        let began = start(old, seen.value, seen.time_unix_nano);
        let created = seen.created_unix_nano.filter(|created| *created <= seen.time_unix_nano);
        let start_unix_nano = created.unwrap_or(began);
        let value = seen.value.unwrap_or_default();
        let form = Form { kind: seen.kind, is_timed: seen.is_timed, is_plain: seen.is_plain };
        self.is_kept &= place == Some(self.values.len())
            && self.next.is_some_and(|next| Some(next.place) == place && next.form == form)
            && self.walk.text() == seen.text;
        match old.filter(|_| self.is_kept) {
            Some(old) => self.keep(old, start_unix_nano, value),
            None => {
                self.names.put(seen.text, form);
                self.push(Series { hash: seen.hash, start_unix_nano, value });
            }
        }
        while self.next.is_some_and(|next| next.place < self.expected) {
            self.next = self.walk.next([&memory.names, &[]]);
        }
        Some(Known { start_unix_nano, is_new: old.is_none() })
    }

    /// Notes a series that isn't where it was.
    #[inline]
    fn push(&mut self, series: Series) {
        grow(&mut self.series, 1);
        self.series.push(series);
    }

    /// Notes that a series is where it was.
    #[inline]
    fn keep(&mut self, old: Series, start_unix_nano: u64, value: f64) {
        self.kept = self.walk.at();
        if start_unix_nano != old.start_unix_nano {
            self.begun.push((self.values.len() as u32, start_unix_nano));
        }
        self.values.push(value);
    }

    /// Gives the series that was noted last another beginning. It is known after its point where a
    /// counter's time of creation follows the counter.
    pub(crate) fn created(&mut self, memory: &Memory, created_unix_nano: u64) {
        if let Some(series) = self.series.last_mut() {
            series.start_unix_nano = created_unix_nano;
            return;
        }
        let Some(place) = self.values.len().checked_sub(1) else { return };
        if self.begun.last().is_some_and(|(last, _)| *last as usize == place) {
            self.begun.pop();
        }
        if memory.series[place].start_unix_nano != created_unix_nano {
            self.begun.push((place as u32, created_unix_nano));
        }
    }

    #[inline]
    fn find(&mut self, memory: &Memory, hash: u64) -> Found {
        let place = match memory.series.get(self.expected) {
            Some(series) if series.hash == hash => self.expected,
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
        let series = &memory.series;
        let places = self.places.get_or_insert_with(|| {
            let mut places = HashTable::with_capacity(series.len());
            for (place, one) in series.iter().enumerate() {
                places.insert_unique(one.hash, place as u32, |place| series[*place as usize].hash);
            }
            places
        });
        places.find(hash, |place| series[*place as usize].hash == hash).map(|place| *place as usize)
    }

    fn find_fresh(&mut self, hash: u64) -> Found {
        let Self { fresh, series, .. } = self;
        if fresh.find(hash, |place| series[*place as usize].hash == hash).is_some() {
            return Found::Again;
        }
        // It is put there next.
        fresh.insert_unique(hash, series.len() as u32, |place| series[*place as usize].hash);
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
        for (series, value) in memory.series.iter_mut().zip(&self.values) {
            series.value = *value;
        }
        for (place, start_unix_nano) in &self.begun {
            memory.series[*place as usize].start_unix_nano = *start_unix_nano;
        }
        replace_behind(&mut memory.series, self.values.len(), &mut self.series);
        replace_behind(&mut memory.names, self.kept, &mut self.names.bytes);
        memory.target_info = target_info;
        memory.is_marked = false;
    }
}

/// Puts a list behind the first so many of another. One too long to be kept for the next scrape is
/// not copied where it can be moved.
fn replace_behind<T: Copy>(whole: &mut Vec<T>, kept: usize, rest: &mut Vec<T>) {
    if kept <= rest.len() && rest.capacity() * size_of::<T>() > KEPT_BYTES {
        let mut longer = std::mem::take(rest);
        whole.truncate(kept);
        longer.splice(0..0, whole.drain(..));
        *whole = longer;
    } else {
        whole.truncate(kept);
        whole.shrink_to(kept + rest.len());
        whole.reserve_exact(rest.len());
        whole.extend_from_slice(rest);
    }
    whole.shrink_to_fit();
}

/// When a series began, as far as is known: with its first scrape, or the first one after a reset.
#[inline]
fn start(old: Option<Series>, value: Option<f64>, time_unix_nano: u64) -> u64 {
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
