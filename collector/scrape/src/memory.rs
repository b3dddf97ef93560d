//! What is remembered of a target's series: which there were, when each began, its last value if it
//! is cumulative.
//!
//! Series lie in the order of the last body, since the next one nearly always has the same order:
//! each is compared with the one that is expected, and looked up only if that fails. Each takes 24
//! bytes and its text less what it shares with the text before: `{cpu="0",mode="` is kept once.

use hashbrown::HashTable;

/// Lengths of at most 127 take a byte.
const VARINT_BITS: u32 = 7;

/// What a series is written as, for the point that says that it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Gauge,
    Counter,
    /// A sum that may fall.
    Sum,
    Histogram,
    Summary,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Gauge, Self::Counter, Self::Sum, Self::Histogram, Self::Summary];
}

/// Said of a series whose samples have times of their own: Prometheus doesn't mark those as gone.
const TIMED: u8 = 0x80;

/// One series.
#[derive(Debug, Clone, Copy)]
struct Series {
    /// Of name and labels.
    hash: u64,
    /// When its value was 0, as far as is known.
    start_unix_nano: u64,
    /// The last value (of a histogram or summary its count), if it is cumulative.
    value: f64,
}

/// What is remembered of a target between scrapes.
#[derive(Debug, Default)]
pub struct Memory {
    series: Vec<Series>,
    names: Vec<u8>,
    /// Attributes of the resource that the target told of itself.
    pub(crate) target_info: Vec<u8>,
    /// Whether all series were said to be gone.
    pub(crate) is_marked: bool,
}

impl Memory {
    /// What it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let series = self.series.capacity() * size_of::<Series>();
        (series + self.names.capacity() + self.target_info.capacity()) as u64
    }

    /// How many series there are: a histogram or summary is one.
    #[must_use]
    pub fn series(&self) -> usize {
        self.series.len()
    }

    /// One of which all is forgotten, after all of it was said to be gone.
    pub(crate) fn emptied() -> Self {
        Self { is_marked: true, ..Self::default() }
    }

    /// The series' names, for a [`Walk`].
    pub(crate) fn names(&self) -> &[u8] {
        &self.names
    }
}

/// What a point says of its series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) hash: u64,
    /// Its name and labels, as they stand in the body.
    pub(crate) text: &'a [u8],
    pub(crate) kind: Kind,
    pub(crate) is_timed: bool,
    pub(crate) time_unix_nano: u64,
    /// The value, or count, if it is cumulative.
    pub(crate) value: Option<f64>,
    /// When it was created, if that is told.
    pub(crate) created_unix_nano: Option<u64>,
}

/// What is known of it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) start_unix_nano: u64,
    pub(crate) is_new: bool,
}

/// The series of a scrape, on the way to be the next [`Memory`].
#[derive(Debug)]
pub(crate) struct Pass {
    series: Vec<Series>,
    names: Vec<u8>,
    last: Vec<u8>,
    /// Where the next series is expected in the memory.
    expected: usize,
    /// A bit for each series of the memory that was seen.
    seen: Vec<u64>,
    seen_count: usize,
    /// Places in the memory by hash, once a series isn't where it is expected.
    places: Option<HashTable<u32>>,
    /// Hashes of series that the memory doesn't have.
    fresh: HashTable<u64>,
}

impl Pass {
    pub(crate) fn new(memory: &Memory) -> Self {
        Self {
            series: Vec::with_capacity(memory.series.len()),
            names: Vec::with_capacity(memory.names.len()),
            last: Vec::new(),
            expected: 0,
            seen: vec![0; memory.series.len().div_ceil(64)],
            seen_count: 0,
            places: None,
            fresh: HashTable::new(),
        }
    }

    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let places = self.places.as_ref().map_or(0, HashTable::allocation_size);
        let series = self.series.capacity() * size_of::<Series>();
        let tables = places + self.fresh.allocation_size() + self.seen.capacity() * 8;
        (series + self.names.capacity() + tables) as u64
    }

    pub(crate) fn names(&self) -> &[u8] {
        &self.names
    }

    /// Notes a series. None if it was there before in this scrape.
    #[inline]
    pub(crate) fn note(&mut self, memory: &Memory, seen: &Seen<'_>) -> Option<Known> {
        let old = match self.find(memory, seen.hash) {
            Found::Old(series) => Some(series),
            Found::New => None,
            Found::Again => return None,
        };
        let began = match (old, seen.value) {
            (Some(old), Some(value)) if value >= old.value => old.start_unix_nano,
            (Some(old), None) => old.start_unix_nano,
            // It is new, or was reset.
            _ => seen.time_unix_nano,
        };
        let created = seen.created_unix_nano.filter(|created| *created <= seen.time_unix_nano);
        let start_unix_nano = created.unwrap_or(began);
        let value = seen.value.unwrap_or_default();
        self.series.push(Series { hash: seen.hash, start_unix_nano, value });
        self.put_name(seen);
        Some(Known { start_unix_nano, is_new: old.is_none() })
    }

    /// Gives the series that was noted last another beginning. It is known after its point where a
    /// counter's time of creation follows the counter.
    pub(crate) fn created(&mut self, created_unix_nano: u64) {
        if let Some(series) = self.series.last_mut() {
            series.start_unix_nano = created_unix_nano;
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
        self.expected = place + 1;
        let (word, bit) = (&mut self.seen[place / 64], 1 << (place % 64));
        if *word & bit != 0 {
            return Found::Again;
        }
        *word |= bit;
        self.seen_count += 1;
        Found::Old(memory.series[place])
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
        if self.fresh.find(hash, |known| *known == hash).is_some() {
            return Found::Again;
        }
        self.fresh.insert_unique(hash, hash, |known| *known);
        Found::New
    }

    #[inline]
    fn put_name(&mut self, seen: &Seen<'_>) {
        let shared = shared_prefix(&self.last, seen.text);
        let rest = &seen.text[shared..];
        put_length(&mut self.names, shared);
        put_length(&mut self.names, rest.len());
        let kind = seen.kind as u8;
        self.names.push(if seen.is_timed { kind | TIMED } else { kind });
        self.names.extend_from_slice(rest);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
    }

    /// Whether each series of the memory was there.
    pub(crate) fn has_all(&self, memory: &Memory) -> bool {
        self.seen_count == memory.series.len()
    }

    /// Whether the series at a place of the memory was there.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.seen.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Puts it in the memory's place.
    pub(crate) fn replace(self, memory: &mut Memory, target_info: Vec<u8>) {
        let Self { mut series, mut names, .. } = self;
        series.shrink_to_fit();
        names.shrink_to_fit();
        *memory = Memory { series, names, target_info, is_marked: false };
    }
}

enum Found {
    Old(Series),
    New,
    Again,
}

/// A way through names.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    at: usize,
    place: usize,
    text: Vec<u8>,
}

/// A series on the way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    /// Its place.
    pub(crate) place: usize,
    pub(crate) kind: Kind,
    pub(crate) is_timed: bool,
}

impl Walk {
    /// The next one; its text is [`Walk::text`] then.
    pub(crate) fn next(&mut self, names: &[u8]) -> Option<Named> {
        let shared = take_length(names, &mut self.at)?;
        let length = take_length(names, &mut self.at)?;
        let flags = *names.get(self.at)?;
        let rest = names.get(self.at + 1..self.at + 1 + length)?;
        self.at += 1 + length;
        self.text.truncate(shared);
        self.text.extend_from_slice(rest);
        let place = self.place;
        self.place += 1;
        let kind = *Kind::ALL.get(usize::from(flags & !TIMED))?;
        Some(Named { place, kind, is_timed: flags & TIMED != 0 })
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }
}

#[inline]
fn put_length(out: &mut Vec<u8>, length: usize) {
    millrace_wire::protobuf::put_varint(out, length as u64);
}

fn take_length(names: &[u8], at: &mut usize) -> Option<usize> {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = *names.get(*at)?;
        *at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(length);
        }
        shift += VARINT_BITS;
    }
}

/// How many bytes two texts begin with in common.
#[inline]
fn shared_prefix(one: &[u8], other: &[u8]) -> usize {
    let end = one.len().min(other.len());
    let mut at = 0;
    while let (Some(a), Some(b)) = (one[at..].first_chunk::<8>(), other[at..].first_chunk::<8>()) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return at + differ.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < end && one[at] == other[at] {
        at += 1;
    }
    at
}

/// The hash of a series: of its name, and of its labels in any order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    /// Of a name.
    #[inline]
    pub(crate) fn of_name(name: &[u8]) -> Self {
        Self(hash_of(name, 1))
    }

    /// Adds a label.
    #[inline]
    pub(crate) fn label(&mut self, name: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_add(hash_of(value, hash_of(name, 2)));
    }

    /// What was added since.
    #[inline]
    pub(crate) fn since(self, before: Self) -> u64 {
        self.0.wrapping_sub(before.0)
    }

    #[inline]
    pub(crate) fn finish(self) -> u64 {
        mix(self.0)
    }
}

#[inline]
fn hash_of(text: &[u8], seed: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::fast::FixedState::with_seed(seed).build_hasher();
    hasher.write(text);
    hasher.finish()
}

/// Splitmix64's last steps.
#[inline]
const fn mix(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
#[path = "../tests/unit/memory.rs"]
mod tests;
