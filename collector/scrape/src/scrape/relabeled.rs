//! Samples under a job's rules for metrics: each line becomes the line that the target would have
//! written had it named the series so, and is converted like any other.
//!
//! - Rules see the metric's name as `__name__`, the target's labels with `job` and `instance`, and
//!   labels of the line, as Prometheus' rules do.
//! - Rules that only keep or drop by `__name__` change no line: it is taken as it stands, or not.
//! - A line that gets another name keeps its type, as long as it keeps what its type puts behind
//!   the name (`_bucket`, `_sum`, `_total`): `foo_bucket`, `foo_sum` and `foo_count` that become
//!   `bar_...` are the histogram `bar`.
//! - A rule that changes `job` or `instance` makes it an attribute of the point. The resource is
//!   the target's.

use crate::convert::{Converter, Place};
use crate::encode::plain;
use crate::family::{Family, Role, Type};
use crate::limits::FaultKind;
use crate::line::{Format, Line, Parser, is_label_name, is_metric_name};
use crate::relabel::{Labels, Scratch};
use crate::scrape::{Buffers, Scrape};
use crate::target::Target;

const NAME: &str = "__name__";
const TARGET_INFO: &str = "target_info";

/// What rules for metrics work with.
#[derive(Debug, Default)]
pub(super) struct Relabeled {
    /// Whether samples of the last name are kept by it, once a name was read.
    keeps_name: Option<bool>,
    labels: Labels,
    scratch: Scratch,
    buffers: [Vec<u8>; 2],
    text: String,
    /// The line as it would have been written.
    pub(super) line: Vec<u8>,
    pub(super) parser: Parser,
    /// For lines with another name: the body's family stays open beside theirs.
    pub(super) renamed: Converter,
    /// A series of the protobuf format, as a line.
    pub(super) series: Vec<u8>,
}

/// What becomes of a line.
pub(super) enum Fate {
    Dropped,
    AsItIs,
    /// It is in [`Relabeled::line`]; whether its name is another one.
    Written {
        is_renamed: bool,
    },
}

impl Relabeled {
    pub(super) fn held_bytes(&self) -> usize {
        let lines = self.line.capacity() + self.series.capacity();
        self.labels.bytes() + lines + self.renamed.held_bytes()
    }

    /// Applies the rules to a sample.
    pub(super) fn apply(
        &mut self,
        line: &[u8],
        parser: &Parser,
        target: &Target,
    ) -> Result<Fate, FaultKind> {
        let Self { labels, scratch, buffers: [one, other], .. } = self;
        let rules = target.metric_rules();
        let sample = &parser.sample;
        let name = text_of(plain(sample.name, line, one))?;
        let known = self.keeps_name.filter(|_| sample.is_name_again);
        let keeps_name = known.unwrap_or_else(|| rules.keeps_name(name));
        self.keeps_name = Some(keeps_name);
        if !keeps_name {
            return Ok(Fate::Dropped);
        }
        if rules.are_of_names() {
            return Ok(Fate::AsItIs);
        }
        labels.clear();
        labels.push(NAME, name);
        let mut buffer = std::mem::take(&mut self.text);
        for label in &parser.labels {
            buffer.clear();
            buffer.push_str(text_of(plain(label.name, line, other))?);
            labels.push(&buffer, text_of(plain(label.value, line, other))?);
        }
        self.text = buffer;
        labels.sort();
        target.add_to(labels).map_err(|_| FaultKind::Relabeled)?;
        let is_kept = rules.apply(labels, scratch).map_err(|_| FaultKind::Relabeled)?;
        if !is_kept || labels.is_empty() {
            return Ok(Fate::Dropped);
        }
        let is_renamed = labels.get(NAME) != name;
        self.write(target)?;
        // What follows name and labels stays: value, time, exemplar.
        self.line.extend_from_slice(&line[sample.identity.end()..]);
        Ok(Fate::Written { is_renamed })
    }

    /// Writes name and labels as a target would.
    fn write(&mut self, target: &Target) -> Result<(), FaultKind> {
        let Self { labels, line, .. } = self;
        line.clear();
        let name = labels.get(NAME);
        let is_bare = is_metric_name(name.as_bytes());
        if name.is_empty() {
            return Err(FaultKind::RelabeledName);
        }
        if is_bare {
            line.extend_from_slice(name.as_bytes());
            line.push(b'{');
        } else {
            line.push(b'{');
            put_quoted(line, name);
            line.push(b',');
        }
        let is_info = name == TARGET_INFO;
        for (name, value) in labels.iter() {
            if name.is_empty() {
                return Err(FaultKind::RelabeledName);
            }
            // These are attributes of the resource already; of what describes the target, all of
            // the target's are.
            if name == NAME || target.tells(name, value, is_info) {
                continue;
            }
            if is_label_name(name.as_bytes()) {
                line.extend_from_slice(name.as_bytes());
            } else {
                put_quoted(line, name);
            }
            line.push(b'=');
            put_quoted(line, value);
            line.push(b',');
        }
        line.push(b'}');
        Ok(())
    }

    /// Begins the family of a line with a new name. The type of the line's own family holds for it,
    /// if it keeps what the type puts behind the name; a native histogram has nothing there.
    pub(super) fn begin_renamed(
        &mut self,
        (before, is_native): (&[u8], bool),
        (own, format): (&Family, Format),
        (memory, pass, target, writer): Place<'_>,
    ) -> &mut Converter {
        let (renamed, name) = (&mut self.renamed, self.labels.get(NAME).as_bytes());
        let is_own = is_native || own.role(before, format == Format::OpenMetrics) != Role::Foreign;
        let ending = before.strip_prefix(&own.name[..]).filter(|_| is_own);
        let base = ending.and_then(|ending| name.strip_suffix(ending));
        let (base, type_) = match base.filter(|base| !base.is_empty()) {
            Some(base) => (base, own.type_),
            None => (name, Type::Unknown),
        };
        if renamed.family.name != base || renamed.family.type_ != type_ {
            renamed.end_family(memory, pass, target, writer);
            renamed.family.begin(base);
            if type_ != Type::Unknown {
                renamed.family.take_metadata(own);
            }
        }
        renamed
    }
}

impl Scrape<'_> {
    /// Takes a line of a target that has rules for metrics.
    #[inline(never)]
    pub(super) fn take_relabeled(&mut self, line: &[u8]) -> Result<(), FaultKind> {
        let read = self.buffers.parser.read(line, self.format)?;
        if read != Line::Sample {
            return self.take_metadata(line, read);
        }
        let fate = self.relabeled.apply(line, &self.buffers.parser, self.target)?;
        let counts = &mut self.buffers.converter.counts;
        if matches!(fate, Fate::Dropped) {
            counts.samples += 1;
            counts.removed += 1;
            return Ok(());
        }
        if counts.samples - counts.removed >= self.limits.samples {
            counts.samples += 1;
            self.line_over.get_or_insert(self.line);
            return Ok(());
        }
        if let Fate::Written { is_renamed } = fate {
            return self.take_written(line, is_renamed);
        }
        let Self { memory, target, limits, format, buffers, .. } = self;
        let Buffers { parser, converter, pass, writer, .. } = &mut **buffers;
        if parser.labels.len() > limits.labels {
            return Err(FaultKind::Labels(limits.labels));
        }
        let at = (*format, self.time_unix_nano);
        converter.sample(line, parser, at, (memory, pass, target, writer))
    }

    /// Takes the line that rules made of one.
    fn take_written(&mut self, before: &[u8], is_renamed: bool) -> Result<(), FaultKind> {
        let Self { memory, relabeled, target, buffers, .. } = self;
        let Buffers { parser: own_parser, converter, pass, writer, .. } = &mut **buffers;
        let at = (self.format, self.time_unix_nano);
        let line = std::mem::take(&mut relabeled.line);
        let mut parser = std::mem::take(&mut relabeled.parser);
        let taken = parser.read(&line, self.format).and_then(|_| {
            if parser.labels.len() > self.limits.labels {
                return Err(FaultKind::Labels(self.limits.labels));
            }
            // Two converters take turns: neither knows what the other's last line was.
            parser.sample.is_name_again = false;
            let place = (&**memory, pass, target.bare(), writer);
            if !is_renamed {
                relabeled.renamed.interrupt();
                return converter.sample(&line, &parser, at, place);
            }
            converter.interrupt();
            let name = own_parser.sample.name.span.of(before);
            let (memory, pass, target, writer) = place;
            let own = (&converter.family, at.0);
            let place = (memory, &mut *pass, target, &mut *writer);
            let renamed = relabeled.begin_renamed((name, false), own, place);
            renamed.sample(&line, &parser, at, (memory, pass, target, writer))
        });
        converter.take_counts(&mut relabeled.renamed);
        (relabeled.line, relabeled.parser) = (line, parser);
        taken
    }

    /// Writes what is open of renamed lines.
    pub(super) fn end_renamed(&mut self) {
        let Self { memory, target, relabeled, buffers, .. } = self;
        let Buffers { converter, pass, writer, .. } = &mut **buffers;
        if !target.metric_rules().is_empty() {
            relabeled.renamed.end_family(memory, pass, target.bare(), writer);
            converter.take_counts(&mut relabeled.renamed);
        }
    }
}

/// Lines are UTF-8; so are their parts, whatever their escapes.
fn text_of(part: &[u8]) -> Result<&str, FaultKind> {
    std::str::from_utf8(part).map_err(|_| FaultKind::NotText)
}

/// Writes a text in quotes.
fn put_quoted(line: &mut Vec<u8>, text: &str) {
    line.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'\\' => line.extend_from_slice(br"\\"),
            b'"' => line.extend_from_slice(br#"\""#),
            b'\n' => line.extend_from_slice(br"\n"),
            byte => line.push(byte),
        }
    }
    line.push(b'"');
}
