//! Walks metrics and their data points.

use millrace_wire::protobuf::LENGTH;

use crate::edit::memory::Ref;
use crate::edit::segments::Mark;
use crate::ottl::context::StatementContext;
use crate::walk::units::Verdict;
use crate::walk::{FIRST, FieldReader, MessageFrame, RecordFate, Stop, Tally, Walk};

/// The fields with a metric's data, as bits by number.
const DATA: u64 = 1 << 5 | 1 << 7 | 1 << 9 | 1 << 10 | 1 << 11;
/// The fields of a metric's data that aren't points: temporality and monotonicity.
const OWN: u64 = 1 << 2 | 1 << 3;

/// Returns the shape of the points in a field with a metric's data.
pub(super) const fn shape(tag: u32) -> Option<usize> {
    if tag & 7 != LENGTH {
        return None;
    }
    match tag >> 3 {
        5 | 7 => Some(0),
        9 => Some(1),
        10 => Some(2),
        11 => Some(3),
        _ => None,
    }
}

/// Returns the type of a metric with a field, as `METRIC_DATA_TYPE_*`.
const fn metric_type(number: u32) -> i64 {
    match number {
        5 => 1,
        7 => 2,
        9 => 3,
        10 => 4,
        11 => 5,
        _ => 0,
    }
}

impl Walk<'_> {
    pub(super) fn metric(&mut self, metric: MessageFrame) -> Result<RecordFate, Stop> {
        let mark = self.segments.open();
        let changes = self.changes;
        let is_used = self.pass.fields(StatementContext::Metric).is_used;
        if is_used {
            self.open_metric(metric.content)?;
            match self.run_units(StatementContext::Metric)? {
                Verdict::Retained => {}
                Verdict::Dropped { rule } => {
                    let records = self.count_records(StatementContext::Metric, metric.content)?;
                    self.note_drop(rule, records);
                    self.segments.rewind(mark);
                    return Ok(RecordFate::Dropped);
                }
                Verdict::OverLimit => {
                    self.open_metric(metric.content)?;
                    self.redact_over_limit(StatementContext::Metric)?;
                }
            }
        }
        let own = self.is_own_written(StatementContext::Metric).then(|| self.segments.open());
        let pending_bytes = self.pending_bytes;
        let mut tally = Tally::default();
        let mut reader = FieldReader::new(metric.content);
        while let Some((tag, message)) = reader.next_field(&self.machine)? {
            match shape(tag) {
                Some(shape) => tally.note(self.data(message, shape)?),
                None if own.is_none() => self.segments.push(message.full),
                None => self.pending_bytes += message.full.len(),
            }
        }
        self.pending_bytes = pending_bytes;
        if tally.is_emptied() {
            self.segments.rewind(mark);
            return Ok(RecordFate::Dropped);
        }
        if let Some(own) = own {
            self.fill_metric(metric.content, own)?;
        }
        self.close(metric, mark, changes);
        Ok(RecordFate::Retained)
    }

    fn open_metric(&mut self, content: Ref) -> Result<(), Stop> {
        self.open(StatementContext::Metric, content, 0, DATA)?;
        let metric = &self.machine.objects[StatementContext::Metric.index()];
        let is_data = |number: u32| number > 0 && DATA >> number & 1 == 1;
        let data = metric.fields.iter().rev().find(|field| is_data(field.number)).copied();
        self.machine.metric_type = data.map_or(0, |data| metric_type(data.number));
        let content = data.map_or(Ref::EMPTY, |data| data.value);
        if self.pass.fields(StatementContext::Data).is_used {
            let object = &mut self.machine.objects[StatementContext::Data.index()];
            object.clear(0, 0);
            object.read(&self.machine.memory, content, OWN)?;
        }
        Ok(())
    }

    /// Writes a metric's fields other than its data at the position that was left for them.
    fn fill_metric(&mut self, content: Ref, own: Mark) -> Result<(), Stop> {
        let context = StatementContext::Metric;
        let (mut sealed, received_bytes) = self.seal_metric(content)?;
        if !self.verify_shared(context, (sealed.len(), received_bytes), content) {
            self.open_metric(content)?;
            self.redact_over_limit(context)?;
            (sealed, _) = self.seal_metric(content)?;
        }
        self.segments.fill(own, sealed);
        self.changes += u64::from(self.machine.objects[context.index()].is_changed);
        Ok(())
    }

    /// Returns a metric's fields other than its data as one range, and how long they were when they
    /// were received.
    fn seal_metric(&mut self, content: Ref) -> Result<(Ref, usize), Stop> {
        let is_changed = self.machine.objects[StatementContext::Metric.index()].is_changed;
        let part = self.segments.open();
        let mut received_bytes = 0;
        let mut reader = FieldReader::new(content);
        while let Some((tag, message)) = reader.next_field(&self.machine)? {
            if shape(tag).is_none() {
                received_bytes += message.full.len();
                if !is_changed {
                    self.segments.push(message.full);
                }
            }
        }
        if is_changed {
            let object = &self.machine.objects[StatementContext::Metric.index()];
            object.emit(&mut self.machine.memory, self.segments, DATA);
        }
        Ok((self.segments.seal(&mut self.machine.memory, part), received_bytes))
    }

    /// Walks a metric's data.
    fn data(&mut self, data: MessageFrame, shape: usize) -> Result<RecordFate, Stop> {
        let has_points = !self.pass.units(StatementContext::DataPoint).is_empty();
        let is_changed = self.pass.fields(StatementContext::Data).is_written
            && self.machine.objects[StatementContext::Data.index()].is_changed;
        // A point's rules may change the data after some of its points have been written.
        let may_change =
            is_changed || (has_points && self.pass.fields(StatementContext::Data).is_written);
        if !has_points && !may_change {
            self.segments.push(data.full);
            return Ok(RecordFate::Retained);
        }
        let mark = self.segments.open();
        let changes = self.changes;
        let own = may_change.then(|| self.segments.open());
        let pending_bytes = self.pending_bytes;
        let mut tally = Tally::default();
        let mut reader = FieldReader::new(data.content);
        while let Some((tag, message)) = reader.next_field(&self.machine)? {
            if tag == u32::from(FIRST) && has_points {
                tally.note(self.leaf(StatementContext::DataPoint, message, shape)?);
            } else if tag == u32::from(FIRST) || own.is_none() || !is_own(tag) {
                self.segments.push(message.full);
            } else {
                self.pending_bytes += message.full.len();
            }
        }
        self.pending_bytes = pending_bytes;
        if tally.is_emptied() {
            self.segments.rewind(mark);
            return Ok(RecordFate::Dropped);
        }
        if let Some(own) = own {
            self.fill_data(own);
        }
        self.close(data, mark, changes);
        Ok(RecordFate::Retained)
    }

    /// Writes the fields of a metric's data that aren't points.
    fn fill_data(&mut self, own: Mark) {
        let part = self.segments.open();
        let object = &self.machine.objects[StatementContext::Data.index()];
        let is_changed = object.is_changed;
        let fields = object.fields.iter().filter(|field| field.number > 0);
        fields.for_each(|field| self.segments.push(field.full));
        let sealed = self.segments.seal(&mut self.machine.memory, part);
        self.segments.fill(own, sealed);
        self.changes += u64::from(is_changed);
    }
}

const fn is_own(tag: u32) -> bool {
    tag >> 3 < u64::BITS && OWN >> (tag >> 3) & 1 == 1
}
