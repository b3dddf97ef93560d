//! The line that is expected: one of the series that the last scrape had at this place.
//!
//! Its text up to the value was read once, so that its labels are only copied: they are known to be
//! UTF-8, without a name twice, and its hash is remembered. Texts in the plainest form alone are
//! taken (bare names, no escapes, no blanks, no empty values, no label of the target's); all
//! others, and everything that isn't as it was, are left to be read in full.

use crate::convert::{Converter, Place, When};
use crate::encode::{NUMBER_ATTRIBUTE, put_attribute};
use crate::family::Role;
use crate::limits::Limits;
use crate::line::{Format, Label, Parser, Sample, skip_blanks};
use crate::memory::{Hash, Kind};
use crate::number::leading;

/// Whether an identity is its name and labels in the plainest form: each directly behind the one
/// before. Labels themselves are bare and without escapes.
pub(crate) fn is_plain(sample: &Sample, labels: &[Label], line: &[u8]) -> bool {
    let identity = sample.identity;
    let mut at = sample.name.span.end();
    let is_bare = !sample.name.is_escaped && sample.name.span.start() == identity.start();
    if labels.is_empty() {
        return is_bare && at == identity.end();
    }
    for (number, Label { name, value }) in labels.iter().enumerate() {
        let before = if number == 0 { b'{' } else { b',' };
        let is_next = line.get(at) == Some(&before) && name.span.start() == at + 1;
        // An equals sign and a quote.
        if !is_next || value.span.start() != name.span.end() + 2 {
            return false;
        }
        at = value.span.end() + 1;
    }
    is_bare && line.get(at) == Some(&b'}') && at + 1 == identity.end()
}

impl Converter {
    /// Takes a sample, if it is the expected one. Otherwise nothing has changed.
    #[inline]
    pub(crate) fn take_expected(
        &mut self,
        line: &[u8],
        parser: &mut Parser,
        (format, now_unix_nano, limits): (Format, u64, &Limits),
        place: Place<'_>,
    ) -> bool {
        let (memory, pass, target, writer) = place;
        let Some((form, end)) = pass.expects(line) else { return false };
        if !form.is_plain || self.counts.samples >= limits.samples {
            return false;
        }
        let Some(name_end) = self.is_point(&line[..end], form.kind, parser, format) else {
            return false;
        };
        let from = end + 1;
        let Some((value, length)) = leading(&line[from..]) else { return false };
        parser.sample.time = None;
        parser.sample.exemplar = None;
        let at = skip_blanks(line, from + length);
        if at < line.len() && !parser.rest_of_text(line, at, format) {
            return false;
        }
        let has_created = format == Format::OpenMetrics;
        let mut of_labels = Hash::default();
        let of_labels = if has_created { Some(&mut of_labels) } else { None };
        let Some(labels) = self.copy_labels(&line[name_end..end], limits.labels, of_labels) else {
            return false;
        };
        let when = self.when(parser.sample.time, now_unix_nano, target);
        let Some(when) = when.filter(|when| when.is_timed == form.is_timed) else { return false };
        self.counts.samples += 1;
        let When { time_unix_nano, .. } = when;
        let is_counter = form.kind == Kind::Counter;
        let known = pass.note_expected(memory, form, time_unix_nano, is_counter.then_some(value));
        self.counter = (is_counter && has_created).then_some(labels);
        self.takes_target = true;
        self.write_number(
            (line, &line[..name_end], value),
            (form.kind, known.start_unix_nano, time_unix_nano),
            parser,
            (target, writer),
        );
        true
    }

    /// Where the name ends, if a sample of it is a number of this kind in the family. The parser
    /// knows the name then.
    #[inline]
    fn is_point(
        &mut self,
        identity: &[u8],
        kind: Kind,
        parser: &mut Parser,
        format: Format,
    ) -> Option<usize> {
        let again = parser.same_name(identity);
        let end = match again {
            Some(end) => end,
            None => memchr::memchr(b'{', identity).unwrap_or(identity.len()),
        };
        let role = match self.last.filter(|_| again.is_some()) {
            Some(last) => last.0,
            None => self.family.role(&identity[..end], format == Format::OpenMetrics),
        };
        if role != Role::Point || self.family.kind() != kind {
            return None;
        }
        if again.is_none() {
            parser.set_name(&identity[..end]);
            self.last = Some((role, None));
        }
        Some(end)
    }

    /// Copies labels in the plainest form into attributes. Their hash if it is wanted; none if
    /// there are too many.
    #[inline]
    fn copy_labels(
        &mut self,
        text: &[u8],
        limit: usize,
        mut hash: Option<&mut Hash>,
    ) -> Option<u64> {
        self.attributes.clear();
        let (mut rest, mut count) = (text, 0);
        // Behind the opening brace, then behind each comma; the closing brace is the end.
        while rest.len() > 1 {
            count += 1;
            if count > limit {
                return None;
            }
            let name_end = until(&rest[1..], b'=')? + 1;
            let value_end = until(rest.get(name_end + 2..)?, b'"')? + name_end + 2;
            let (name, value) = (&rest[1..name_end], &rest[name_end + 2..value_end]);
            put_attribute(&mut self.attributes, NUMBER_ATTRIBUTE, name, value);
            if let Some(hash) = &mut hash {
                hash.label(name, value);
            }
            rest = &rest[value_end + 1..];
        }
        Some(hash.map_or(0, |hash| hash.since(Hash::default())))
    }
}

/// Where a byte is: texts of labels are short.
#[inline]
fn until(text: &[u8], byte: u8) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let mut at = 0;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(byte));
        // The lowest of the marked bytes is zero; those above it may be marked without being so.
        let found = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = text.get(at..)?;
    rest.iter().position(|one| *one == byte).map(|place| at + place)
}
