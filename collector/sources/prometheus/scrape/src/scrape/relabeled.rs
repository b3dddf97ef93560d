//! Applies a job's metric rules to samples: each line is rewritten as the target would have written
//! the resulting series, and converted like any other.
//!
//! - Rules see the metric's name as `__name__`, the target's labels with `job` and `instance`, and
//!   labels of the line, as in Prometheus.
//! - Rules that only keep or drop by `__name__` don't rewrite lines.
//! - A renamed line keeps its type, as long as it keeps the type's suffix (`_bucket`, `_sum`,
//!   `_total`): `foo_bucket`, `foo_sum` and `foo_count` that become `bar_...` are the histogram
//!   `bar`.
//! - If a rule changes `job` or `instance`, the label becomes an attribute of the point. The
//!   resource remains the target's.

use crate::limits::FaultKind;
use crate::otlp::convert::{Converter, ScrapeContext};
use crate::otlp::encode::unescaped_text;
use crate::otlp::family::{Family, SampleRole, Type};
use crate::parse::line::{BodyFormat, LineKind, LineParser, is_label_name, is_metric_name};
use crate::relabel::{LabelSet, RelabelScratch};
use crate::scrape::{Scrape, ScrapeBuffers};
use crate::targets::target::TargetAttributes;

const NAME: &str = "__name__";
const TARGET_INFO: &str = "target_info";

/// The state of metric rules.
#[derive(Debug, Default)]
pub(super) struct RelabelState {
    /// Whether the rules retain the last name's samples; `None` before the first name.
    accepts_name: Option<bool>,
    labels: LabelSet,
    scratch: RelabelScratch,
    buffers: [Vec<u8>; 2],
    text: String,
    /// The rewritten line.
    pub(super) line: Vec<u8>,
    pub(super) parser: LineParser,
    /// The converter of renamed lines: the body's own family stays open.
    pub(super) renamed: Converter,
    /// A series of the protobuf format, as a line.
    pub(super) series: Vec<u8>,
}

/// The outcome of rules for a line.
pub(super) enum RelabelOutcome {
    Dropped,
    AsItIs,
    /// The line is in [`RelabelState::line`], with or without another name.
    Written {
        is_renamed: bool,
    },
}

impl RelabelState {
    pub(super) fn held_bytes(&self) -> usize {
        let lines = self.line.capacity() + self.series.capacity();
        self.labels.held_bytes() + lines + self.renamed.held_bytes()
    }

    /// Applies the rules to a sample.
    pub(super) fn apply_rules(
        &mut self,
        line: &[u8],
        parser: &LineParser,
        target: &TargetAttributes,
    ) -> Result<RelabelOutcome, FaultKind> {
        let Self { labels, scratch, buffers: [one, other], .. } = self;
        let rules = target.metric_rules();
        let sample = &parser.sample;
        let name = text_of(unescaped_text(sample.name, line, one))?;
        let known = self.accepts_name.filter(|_| sample.is_same_name);
        let accepts_name = known.unwrap_or_else(|| rules.accepts_name(name));
        self.accepts_name = Some(accepts_name);
        if !accepts_name {
            return Ok(RelabelOutcome::Dropped);
        }
        if rules.are_of_names() {
            return Ok(RelabelOutcome::AsItIs);
        }
        labels.clear();
        labels.push(NAME, name);
        let mut buffer = std::mem::take(&mut self.text);
        for label in &parser.labels {
            buffer.clear();
            buffer.push_str(text_of(unescaped_text(label.name, line, other))?);
            labels.push(&buffer, text_of(unescaped_text(label.value, line, other))?);
        }
        self.text = buffer;
        labels.sort();
        target.add_to(labels).map_err(|_| FaultKind::Relabeled)?;
        let is_accepted =
            rules.apply_label_rules(labels, scratch).map_err(|_| FaultKind::Relabeled)?;
        if !is_accepted || labels.is_empty() {
            return Ok(RelabelOutcome::Dropped);
        }
        let is_renamed = labels.get(NAME) != name;
        self.write(target)?;
        // The rest of the line is unchanged: value, time, exemplar.
        self.line.extend_from_slice(&line[sample.identity.end()..]);
        Ok(RelabelOutcome::Written { is_renamed })
    }

    /// Writes name and labels as a target would.
    fn write(&mut self, target: &TargetAttributes) -> Result<(), FaultKind> {
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
            // The resource has these labels already; for `target_info` it has all of the target's.
            if name == NAME || target.has_resource_label(name, value, is_info) {
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

    /// Begins the family of a renamed line. The original family's type applies if the line keeps
    /// the type's suffix; a native histogram has none.
    pub(super) fn begin_renamed(
        &mut self,
        (before, is_native): (&[u8], bool),
        (own, format): (&Family, BodyFormat),
        (memory, pass, target, writer): ScrapeContext<'_>,
    ) -> &mut Converter {
        let (renamed, name) = (&mut self.renamed, self.labels.get(NAME).as_bytes());
        let is_own = is_native
            || own.role_of(before, format == BodyFormat::OpenMetrics) != SampleRole::Foreign;
        let ending = before.strip_prefix(&own.name[..]).filter(|_| is_own);
        let base = ending.and_then(|ending| name.strip_suffix(ending));
        let (base, type_) = match base.filter(|base| !base.is_empty()) {
            Some(base) => (base, own.type_),
            None => (name, Type::Unknown),
        };
        if renamed.family.name != base || renamed.family.type_ != type_ {
            renamed.end_family(memory, pass, target, writer);
            renamed.family.begin_family(base);
            if type_ != Type::Unknown {
                renamed.family.copy_metadata(own);
            }
        }
        renamed
    }
}

impl Scrape<'_> {
    /// Converts a line of a target with metric rules.
    #[inline(never)]
    pub(super) fn convert_relabeled(&mut self, line: &[u8]) -> Result<(), FaultKind> {
        let read = self.buffers.parser.read(line, self.format)?;
        if read != LineKind::Sample {
            return self.apply_metadata(line, read);
        }
        let fate = self.relabeled.apply_rules(line, &self.buffers.parser, self.target)?;
        let counts = &mut self.buffers.converter.counts;
        if matches!(fate, RelabelOutcome::Dropped) {
            counts.samples += 1;
            counts.removed += 1;
            return Ok(());
        }
        if counts.samples - counts.removed >= self.limits.samples {
            counts.samples += 1;
            self.line_over_limit.get_or_insert(self.line);
            return Ok(());
        }
        if let RelabelOutcome::Written { is_renamed } = fate {
            return self.convert_rewritten(line, is_renamed);
        }
        let Self { memory, target, limits, format, buffers, .. } = self;
        let ScrapeBuffers { parser, converter, pass, writer, .. } = &mut **buffers;
        if parser.labels.len() > limits.labels {
            return Err(FaultKind::Labels(limits.labels));
        }
        let at = (*format, self.time_unix_nano);
        converter.convert_sample(line, parser, at, (memory, pass, target, writer))
    }

    /// Converts a rewritten line.
    fn convert_rewritten(&mut self, before: &[u8], is_renamed: bool) -> Result<(), FaultKind> {
        let Self { memory, relabeled, target, buffers, .. } = self;
        let ScrapeBuffers { parser: own_parser, converter, pass, writer, .. } = &mut **buffers;
        let at = (self.format, self.time_unix_nano);
        let line = std::mem::take(&mut relabeled.line);
        let mut parser = std::mem::take(&mut relabeled.parser);
        let outcome = parser.read(&line, self.format).and_then(|_| {
            if parser.labels.len() > self.limits.labels {
                return Err(FaultKind::Labels(self.limits.labels));
            }
            // The two converters alternate: neither knows the other's last line.
            parser.sample.is_same_name = false;
            let context = (&**memory, pass, target.without_labels(), writer);
            if !is_renamed {
                relabeled.renamed.forget_counter();
                return converter.convert_sample(&line, &parser, at, context);
            }
            converter.forget_counter();
            let name = own_parser.sample.name.span.slice_of(before);
            let (memory, pass, target, writer) = context;
            let own = (&converter.family, at.0);
            let context = (memory, &mut *pass, target, &mut *writer);
            let renamed = relabeled.begin_renamed((name, false), own, context);
            renamed.convert_sample(&line, &parser, at, (memory, pass, target, writer))
        });
        converter.merge_counts(&mut relabeled.renamed);
        (relabeled.line, relabeled.parser) = (line, parser);
        outcome
    }

    /// Ends the family of renamed lines.
    pub(super) fn end_renamed(&mut self) {
        let Self { memory, target, relabeled, buffers, .. } = self;
        let ScrapeBuffers { converter, pass, writer, .. } = &mut **buffers;
        if !target.metric_rules().is_empty() {
            relabeled.renamed.end_family(memory, pass, target.without_labels(), writer);
            converter.merge_counts(&mut relabeled.renamed);
        }
    }
}

/// Returns a part of a line as text: lines are UTF-8, and so are their parts, with or without
/// escapes.
fn text_of(part: &[u8]) -> Result<&str, FaultKind> {
    std::str::from_utf8(part).map_err(|_| FaultKind::NotText)
}

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
