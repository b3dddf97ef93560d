//! Divided ranges: batches of which parts were refused for their rows, and how they are read again.
//!
//! A refused batch is read again through the ordinary path, cut at boundaries that follow from its
//! range alone. Of these pieces only the refused parts are sent: the others are stored. A piece is
//! an ordinary range with its own tokens, so a repeated one is dropped like any insert. A
//! refused piece is divided again, down to single messages.
//!
//! Commits name the divisions alongside the promised ranges, and a piece is sent only once a commit
//! has named it: so the next owner divides exactly as this one did. A division is forgotten once
//! its range is committed.

use std::fmt::Write as _;

use crate::range::{MAX_PIECES, OffsetRange};

/// The most refused parts of a batch that a commit names. A batch rarely has more than one table
/// and two days. If more are refused, their messages become dead letters.
pub const MAX_REFUSED_PARTS: usize = 16;

/// The most bytes of all divisions in the metadata of a commit: what [`crate::MAX_OPEN_RANGES`]
/// leaves of 4,096 bytes.
pub(crate) const MAX_DIVISIONS_BYTES: usize = 761;

/// The most bytes of one division and of its divided pieces around one offset. The division: five
/// separators and signs of one byte, a table and a day of 8 digits for each of 16 parts with two
/// separators, and two numbers of 16 digits: 3 + 32 + 16 x 18 = 323. The pieces: at most 15 inside
/// of each other, the n-th with n digits, two separators and 4 digits: 15 x 6 + 120 = 210.
const MAX_CHAIN_BYTES: usize = 533;

/// The most bytes of divisions at which a range is divided that isn't the first open one. Without
/// the first one no other could ever be committed, so it always has the remainder.
pub(crate) const MAX_LATER_BYTES: usize = MAX_DIVISIONS_BYTES - MAX_CHAIN_BYTES;

/// Part of a batch: its rows for one table and day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartName {
    /// The table, as a number derived from its name.
    pub table: u32,
    /// Days since 1970.
    pub day: i32,
}

/// The parts of a batch that were refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedParts {
    /// At most [`MAX_REFUSED_PARTS`], in order.
    names: Vec<PartName>,
    has_more: bool,
}

impl RefusedParts {
    /// Returns the list of these parts.
    pub fn of(names: impl IntoIterator<Item = PartName>) -> Self {
        let mut parts = Self::default();
        names.into_iter().for_each(|name| parts.insert(name));
        parts
    }

    pub(crate) fn insert(&mut self, name: PartName) {
        let Err(at) = self.names.binary_search(&name) else { return };
        if self.names.len() < MAX_REFUSED_PARTS {
            self.names.insert(at, name);
        } else {
            self.has_more = true;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether this part is in the list.
    #[must_use]
    pub fn contains(&self, name: PartName) -> bool {
        self.names.binary_search(&name).is_ok()
    }

    /// Whether more parts were refused than the list holds. It is then unknown which of the others
    /// are stored.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns the bits of the parts that are also in `others`.
    fn bits_of(&self, others: &Self) -> u16 {
        let bits = self.names.iter().enumerate().filter(|(_, name)| others.contains(**name));
        bits.fold(0, |all, (at, _)| all | 1 << at)
    }

    fn with_bits(&self, bits: u16) -> Self {
        let names = self.names.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        Self { names: names.map(|(_, name)| *name).collect(), has_more: self.has_more }
    }
}

/// A refused piece of a divided range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RefusedPiece {
    range: OffsetRange,
    /// Its refused parts, by their position in the list of the complete range.
    bits: u16,
}

impl RefusedPiece {
    /// Its place among the others: before the pieces inside of it.
    fn order(&self) -> (i64, i64) {
        (self.range.first(), -self.range.span())
    }
}

/// A range that is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    range: OffsetRange,
    parts: RefusedParts,
    /// In order; a piece is before the pieces inside of it.
    pieces: Vec<RefusedPiece>,
}

impl Division {
    /// Returns the division of a range that has no divided pieces yet.
    #[must_use]
    pub fn new(range: OffsetRange, parts: RefusedParts) -> Self {
        Self { range, parts, pieces: Vec::new() }
    }

    /// The offsets of the batch.
    #[must_use]
    pub fn range(&self) -> OffsetRange {
        self.range
    }

    /// Returns the smallest divided range around an offset, and its refused parts.
    fn innermost(&self, offset: i64) -> Option<RefusedPiece> {
        let outermost = RefusedPiece { range: self.range, bits: u16::MAX };
        let mut all = std::iter::once(&outermost).chain(&self.pieces);
        all.rfind(|piece| piece.range.contains(offset)).copied()
    }

    fn piece_at(&self, offset: i64) -> Option<OffsetRange> {
        let around = self.innermost(offset)?.range;
        if self.parts.has_more {
            // Each message with unlisted parts becomes a dead letter, so it is cut alone.
            return OffsetRange::new(offset, offset + 1).ok();
        }
        around.piece_at(offset)
    }

    fn add_piece(&mut self, range: OffsetRange, parts: &RefusedParts) {
        let piece = RefusedPiece { range, bits: self.parts.bits_of(parts) };
        let found = self.pieces.binary_search_by_key(&piece.order(), RefusedPiece::order);
        if let Err(at) = found {
            self.pieces.insert(at, piece);
        }
    }

    /// Writes the division as it appears in the metadata of a commit of `committed`.
    fn write(&self, committed: i64, text: &mut String) {
        let Self { range, parts, pieces } = self;
        // Writing to a String can't fail. The commit may be inside of the range.
        let _ = write!(text, ";{:x}-{:x}", range.next() - committed, range.span());
        for PartName { table, day } in &parts.names {
            let _ = write!(text, "!{table:x}.{day:x}");
        }
        if parts.has_more {
            text.push('+');
        }
        for RefusedPiece { range: piece, bits } in pieces {
            text.push('~');
            let mut around = *range;
            while around != *piece
                && let Some(inner) = around.piece_at(piece.first()).filter(|it| *it != around)
            {
                let _ = write!(text, "{:x}", around.index_of(inner));
                around = inner;
            }
            let _ = write!(text, ".{bits:x}");
        }
    }

    /// Reads a division that [`Division::write`] wrote, without its first separator. The caller
    /// compares what it writes again with the text.
    fn read(committed: i64, text: &str) -> Option<Self> {
        let (text, pieces) = text.split_once('~').map_or((text, None), |(a, b)| (a, Some(b)));
        let (text, has_more) = text.strip_suffix('+').map_or((text, false), |text| (text, true));
        let (numbers, names) = text.split_once('!')?;
        let (ahead, span) = numbers.split_once('-')?;
        let next = committed.checked_add(i64::from_str_radix(ahead, 16).ok()?)?;
        let first = next.checked_sub(i64::from_str_radix(span, 16).ok()?)?;
        let range = OffsetRange::new(first, next).ok().filter(|range| range.next() > committed)?;
        let names = names.split('!').map(|name| {
            let (table, day) = name.split_once('.')?;
            let table = u32::from_str_radix(table, 16).ok()?;
            let day = u32::from_str_radix(day, 16).ok()?.cast_signed();
            Some(PartName { table, day })
        });
        let names = names.collect::<Option<Vec<_>>>()?;
        let mut division = Self::new(range, RefusedParts { names: Vec::new(), has_more });
        names.into_iter().for_each(|name| division.parts.insert(name));
        for piece in pieces.into_iter().flat_map(|pieces| pieces.split('~')) {
            let (path, bits) = piece.split_once('.')?;
            let mut around = range;
            for digit in path.chars() {
                let index = i64::from(digit.to_digit(MAX_PIECES as u32)?);
                around = around.piece_at(around.first_of_piece(index))?;
            }
            let bits = u16::from_str_radix(bits, 16).ok()?;
            let is_listed =
                division.parts.with_bits(bits).names.len() == bits.count_ones() as usize;
            let is_divisible = around.span() > 1 && around != range && !has_more;
            let piece = RefusedPiece { range: around, bits };
            let is_next = division.pieces.last().is_none_or(|last| last.order() < piece.order());
            let is_ours = bits > 0 && is_listed && is_divisible && is_next;
            if !is_ours || around.next() <= committed {
                return None;
            }
            division.pieces.push(piece);
        }
        Some(division)
    }
}

/// The divisions of a partition, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Divisions(Vec<Division>);

impl Divisions {
    pub(crate) fn new(list: Vec<Division>) -> Self {
        Self(list)
    }

    pub(crate) fn list(&self) -> &[Division] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn around(&self, offset: i64) -> Option<&Division> {
        self.0.iter().find(|division| division.range.contains(offset))
    }

    /// Returns the piece in which the message at `offset` is read again.
    pub(crate) fn piece_at(&self, offset: i64) -> Option<OffsetRange> {
        self.around(offset)?.piece_at(offset)
    }

    /// Returns the parts that are refused of the piece at `offset`: all others are stored.
    pub(crate) fn refused_at(&self, offset: i64) -> Option<RefusedParts> {
        let division = self.around(offset)?;
        Some(division.parts.with_bits(division.innermost(offset)?.bits))
    }

    /// Returns where the first division behind `offset` begins.
    pub(crate) fn first_after(&self, offset: i64) -> Option<i64> {
        self.0.iter().map(|division| division.range.first()).find(|first| *first > offset)
    }

    /// Divides a range, or a piece of a divided one.
    pub(crate) fn divide(&mut self, range: OffsetRange, parts: &RefusedParts) {
        if let Some(around) = self.0.iter_mut().find(|it| it.range.contains(range.first())) {
            return around.add_piece(range, parts);
        }
        let at = self.0.partition_point(|it| it.range.first() < range.first());
        self.0.insert(at, Division::new(range, parts.clone()));
    }

    /// Forgets what ends at `offset` or before: it is done.
    pub(crate) fn forget_before(&mut self, offset: i64) {
        self.0.retain_mut(|division| {
            division.pieces.retain(|piece| piece.range.next() > offset);
            division.range.next() > offset
        });
    }

    /// Forgets the divisions that end at `low` or before, without a promised range from `promised`
    /// on: their messages are deleted. Returns the end of the last one.
    pub(crate) fn forget_deleted(&mut self, low: i64, promised: Option<i64>) -> Option<i64> {
        let is_deleted = |division: &Division| {
            let next = division.range.next();
            next <= low && promised.is_none_or(|first| next <= first)
        };
        let end = self.0.iter().rfind(|it| is_deleted(it)).map(|it| it.range.next());
        self.0.retain(|division| !is_deleted(division));
        end
    }

    /// Returns the bytes of the divisions in the metadata of a commit of `committed`.
    pub(crate) fn text_bytes(&self, committed: i64) -> usize {
        let mut text = String::new();
        write(&self.0, committed, &mut text);
        text.len()
    }
}

/// Writes divisions behind the ranges in the metadata of a commit.
pub(crate) fn write(divisions: &[Division], committed: i64, text: &mut String) {
    divisions.iter().for_each(|division| division.write(committed, text));
}

/// Reads divisions, without the first separator. `None` if they are damaged; the caller compares
/// what it writes again with the text.
pub(crate) fn read(committed: i64, text: &str) -> Option<Vec<Division>> {
    let mut divisions: Vec<Division> = Vec::new();
    for text in text.split(';') {
        let division = Division::read(committed, text)?;
        let before = divisions.last().map_or(0, |before| before.range.next());
        if division.range.first() < before {
            return None;
        }
        divisions.push(division);
    }
    Some(divisions)
}

#[cfg(test)]
mod tests;
