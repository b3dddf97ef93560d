//! Converts a line that matches the series that the last scrape had at this position.
//!
//! The series' text was parsed before, so its labels are only copied: they are known to be UTF-8
//! without duplicates, and their hash is stored. This handles only texts in the plainest form (bare
//! names, no escapes, blanks, empty values, or labels of the target). Lines that differ in any
//! other respect are left to the full parser.

use crate::limits::BodyLimits;
use crate::memory::hash::Hash;
use crate::otlp::convert::{Converter, SampleTime, ScrapeContext};
use crate::otlp::encode::{NUMBER_ATTRIBUTE, put_attribute};
use crate::otlp::family::SampleRole;
use crate::parse::line::{BodyFormat, LineParser, skip_blanks};
use crate::parse::number::parse_leading;
use crate::series_kind::SeriesKind;

impl Converter {
    /// Converts a sample if it is the expected one. Otherwise it changes nothing and returns
    /// `false`.
    #[inline]
    pub(crate) fn convert_expected(
        &mut self,
        line: &[u8],
        parser: &mut LineParser,
        (format, now_unix_nano, limits): (BodyFormat, u64, &BodyLimits),
        context: ScrapeContext<'_>,
    ) -> bool {
        let (memory, pass, target, writer) = context;
        let Some((form, end)) = pass.match_expected(line) else { return false };
        if !form.is_plain || self.counts.samples >= limits.samples {
            return false;
        }
        let Some(name_end) = self.is_point(&line[..end], form.kind, parser, format) else {
            return false;
        };
        let from = end + 1;
        let Some((value, length)) = parse_leading(&line[from..]) else { return false };
        parser.sample.time = None;
        parser.sample.exemplar = None;
        let at = skip_blanks(line, from + length);
        if at < line.len() && !parser.read_text_tail(line, at, format) {
            return false;
        }
        let has_created = format == BodyFormat::OpenMetrics;
        let mut of_labels = Hash::default();
        let of_labels = if has_created { Some(&mut of_labels) } else { None };
        let Some(labels) = self.copy_labels(&line[name_end..end], limits.labels, of_labels) else {
            return false;
        };
        let when = self.sample_time(parser.sample.time, now_unix_nano, target);
        let Some(when) = when.filter(|when| when.is_timed == form.is_timed) else { return false };
        self.counts.samples += 1;
        let SampleTime { time_unix_nano, .. } = when;
        let is_counter = form.kind == SeriesKind::Counter;
        let known = pass.record_expected(memory, form, time_unix_nano, is_counter.then_some(value));
        self.counter = (is_counter && has_created).then_some(labels);
        self.shares_target_labels = true;
        self.write_number(
            (line, &line[..name_end], value),
            (form.kind, known.start_unix_nano, time_unix_nano),
            parser,
            (target, writer),
        );
        true
    }

    /// Returns the end of the name, if its samples are numbers of this kind in the family. The
    /// parser then has the name.
    #[inline]
    fn is_point(
        &mut self,
        identity: &[u8],
        kind: SeriesKind,
        parser: &mut LineParser,
        format: BodyFormat,
    ) -> Option<usize> {
        let again = parser.same_name(identity);
        let end = match again {
            Some(end) => end,
            None => memchr::memchr(b'{', identity).unwrap_or(identity.len()),
        };
        let role = match self.last.filter(|_| again.is_some()) {
            Some(last) => last.0,
            None => self.family.role_of(&identity[..end], format == BodyFormat::OpenMetrics),
        };
        if role != SampleRole::Point || self.family.number_kind() != kind {
            return None;
        }
        if again.is_none() {
            parser.set_name(&identity[..end]);
            self.last = Some((role, None));
        }
        Some(end)
    }

    /// Copies labels in the plainest form into attributes. Returns their hash if requested; `None`
    /// if there are too many.
    #[inline]
    fn copy_labels(
        &mut self,
        text: &[u8],
        limit: usize,
        mut hash: Option<&mut Hash>,
    ) -> Option<u64> {
        self.attributes.clear();
        let (mut rest, mut count) = (text, 0);
        // Each label follows the opening brace or a comma; the closing brace is the end.
        while rest.len() > 1 {
            count += 1;
            if count > limit {
                return None;
            }
            let name_end = find_byte(&rest[1..], b'=')? + 1;
            let value_end = find_byte(rest.get(name_end + 2..)?, b'"')? + name_end + 2;
            let (name, value) = (&rest[1..name_end], &rest[name_end + 2..value_end]);
            put_attribute(&mut self.attributes, NUMBER_ATTRIBUTE, name, value);
            if let Some(hash) = &mut hash {
                hash.add_label(name, value);
            }
            rest = &rest[value_end + 1..];
        }
        Some(hash.map_or(0, |hash| hash.added_since(Hash::default())))
    }
}

/// Returns the position of a byte; it is fast for labels, which are short.
#[inline]
fn find_byte(text: &[u8], byte: u8) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let mut at = 0;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(byte));
        // The lowest marked byte is zero; higher ones may be marked wrongly.
        let found = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = text.get(at..)?;
    rest.iter().position(|one| *one == byte).map(|index| at + index)
}
