//! Metrics that come whole, in the protobuf format: as points, like those of lines.

use crate::convert::{Converter, Place, When};
use crate::encode::{EXPONENTIAL_ATTRIBUTE, HISTOGRAM_ATTRIBUTE, SUMMARY_ATTRIBUTE};
use crate::family::Type;
use crate::group::Group;
use crate::limits::FaultKind;
use crate::line::{Format, Parser};
use crate::memory::{Hash, Kind, Seen};
use crate::native::{Native, Parts, put_exemplar};

impl Converter {
    /// Takes a number, and when it was created if that is told. The parser has its name and labels.
    pub(crate) fn plain_number(
        &mut self,
        line: &[u8],
        parser: &mut Parser,
        (value, created_unix_nano): (f64, Option<u64>),
        now_unix_nano: u64,
        place: Place<'_>,
    ) -> Result<(), FaultKind> {
        parser.sample.value = value;
        self.told_created = created_unix_nano.filter(|created| *created > 0);
        let taken = self.sample(line, parser, (Format::Protobuf, now_unix_nano), place);
        self.told_created = None;
        taken
    }

    /// Takes a histogram or summary. The parser has its name and labels.
    pub(crate) fn whole(
        &mut self,
        line: &[u8],
        parser: &Parser,
        parts: &Parts<'_>,
        now_unix_nano: u64,
        place: Place<'_>,
    ) -> Result<(), FaultKind> {
        let target = place.2;
        self.counts.samples += parts.samples();
        let Some(when) = self.when(parser.sample.time, now_unix_nano, target) else {
            self.counts.dropped += parts.samples();
            return Ok(());
        };
        let (tag, shared) = match (self.family.type_, &parts.native) {
            (Type::Summary, _) => (SUMMARY_ATTRIBUTE, 0),
            (_, None) => (HISTOGRAM_ATTRIBUTE, 1),
            (_, Some(_)) => (EXPONENTIAL_ATTRIBUTE, 2),
        };
        let mut hash = Hash::of_name(&self.family.name);
        self.put_labels(line, parser, target, (tag, None), &mut hash);
        let mut group = self.groups.spare();
        group.hash = hash.finish();
        group.text.extend_from_slice(parser.sample.identity.of(line));
        group.attributes.extend_from_slice(&self.attributes);
        if self.takes_target {
            group.attributes.extend_from_slice(&target.attributes[shared]);
        }
        let When { time_unix_nano, is_timed } = when;
        (group.time_unix_nano, group.is_timed) = (time_unix_nano, is_timed);
        group.created_unix_nano = parts.created_unix_nano.filter(|created| *created > 0);
        group.count = Some(parts.count);
        group.sum = parts.sum;
        group.lines = parts.samples();
        for (_, message) in &parts.exemplars {
            put_measured(&mut group.exemplars, message, time_unix_nano)?;
        }
        match &parts.native {
            None => {
                group.pairs.extend_from_slice(&parts.pairs);
                self.write_group(group, place);
            }
            Some(native) => self.write_native(group, native.as_ref(), place),
        }
        Ok(())
    }

    /// Writes a native histogram, unless it can't be written.
    fn write_native(
        &mut self,
        group: Group,
        native: Option<&Native>,
        (memory, pass, _, writer): Place<'_>,
    ) {
        let noted = native.and_then(|native| {
            let seen = Seen {
                hash: group.hash,
                text: &group.text,
                kind: Kind::Exponential,
                is_timed: group.is_timed,
                is_plain: false,
                time_unix_nano: group.time_unix_nano,
                value: Some(native.count as f64),
                created_unix_nano: group.created_unix_nano,
            };
            pass.note(memory, &seen).map(|known| (native, known))
        });
        let mut is_written = false;
        if let Some((native, known)) = noted {
            self.counts.added += u64::from(known.is_new);
            writer.metric(&self.family.name, Kind::Exponential, &self.family);
            let times = (known.start_unix_nano, group.time_unix_nano);
            let values = (group.sum, &group.exemplars[..]);
            is_written = writer.exponential(times, native, values, &group.attributes);
        }
        self.counts.dropped += u64::from(!is_written);
        self.groups.give_back(group);
    }
}

/// Writes an exemplar behind its length; none that is too long.
fn put_measured(out: &mut Vec<u8>, message: &[u8], time_unix_nano: u64) -> Result<(), FaultKind> {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    put_exemplar(out, message, time_unix_nano)?;
    match u16::try_from(out.len() - start - 2) {
        Ok(length) => out[start..start + 2].copy_from_slice(&length.to_le_bytes()),
        Err(_) => out.truncate(start),
    }
    Ok(())
}
