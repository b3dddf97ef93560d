//! Reads what paths name.

use millrace_wire::protobuf::unzigzag;

use crate::edit::encode::{parse_any, put_element, store_any, store_map};
use crate::edit::memory::Ref;
use crate::edit::object::find_slot;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::eval::fields::{BucketFields, Status, fixed32, fixed64, id, numbers64, varint};
use crate::eval::json::write::{Style, put_text};
use crate::ottl::context::StatementContext;
use crate::program::text_fn::put_hex;
use crate::program::{Key, Kind, Path};
use crate::value::{Instant, Value};

/// The names of span kinds, by number.
pub(in crate::eval) const SPAN_KINDS: [(&str, &str); 6] = [
    ("Unspecified", "SPAN_KIND_UNSPECIFIED"),
    ("Internal", "SPAN_KIND_INTERNAL"),
    ("Server", "SPAN_KIND_SERVER"),
    ("Client", "SPAN_KIND_CLIENT"),
    ("Producer", "SPAN_KIND_PRODUCER"),
    ("Consumer", "SPAN_KIND_CONSUMER"),
];

/// The types of metrics that have a temporality: sum, histogram and exponential histogram.
const WITH_TEMPORALITY: [i64; 3] = [2, 3, 4];
/// The type of sums.
pub(in crate::eval) const SUM: i64 = 2;

impl Machine<'_> {
    /// Reads a path.
    pub(in crate::eval) fn read(&mut self, path: &Path) -> Result<Value, RuleFailure> {
        let object = &self.objects[path.context.index()];
        let number = path.numbers[object.shape];
        let memory = &self.memory;
        Ok(match path.kind {
            Kind::Map if path.keys.is_empty() => return self.attributes_map(path.context),
            Kind::Map => match self.read_any(path)? {
                Some(any) => parse_any(&self.memory, any)?,
                None => Value::Nil,
            },
            Kind::Body => {
                let body = object.field(number).unwrap_or_default();
                return self.body_member(body, &path.keys);
            }
            Kind::Text => Value::Str(object.field(number).unwrap_or_default()),
            Kind::Int32 => Value::Int(i64::from(varint(memory, object.field(number))? as i32)),
            Kind::TimeNanos => {
                let nanos = fixed64(memory, self.point_field(path, number))?;
                Value::Int(nanos.cast_signed())
            }
            Kind::Time => {
                let nanos = fixed64(memory, self.point_field(path, number))?;
                Value::Time(Instant::from_nanos(nanos.cast_signed()))
            }
            Kind::TraceId => Value::TraceId(id(memory, object.field(number))),
            Kind::SpanId => Value::SpanId(id(memory, object.field(number))),
            Kind::Uint32 => Value::Int(i64::from(varint(memory, object.field(number))? as u32)),
            Kind::Fixed32 | Kind::Flags => {
                Value::Int(i64::from(fixed32(memory, object.field(number))?))
            }
            _ => return self.read_other(path),
        })
    }

    fn point_field(&self, path: &Path, number: u32) -> Option<Ref> {
        self.objects[path.context.index()].field(number)
    }

    /// Reads the fields that few rules read.
    #[inline(never)]
    fn read_other(&mut self, path: &Path) -> Result<Value, RuleFailure> {
        let object = &self.objects[path.context.index()];
        let number = path.numbers[object.shape];
        let memory = &self.memory;
        if number == 0 && path.context == StatementContext::DataPoint {
            return Ok(Value::Nil);
        }
        let field = object.field(number);
        Ok(match path.kind {
            Kind::BodyText => return self.body_text(field),
            Kind::TraceIdText => return self.hex(&id::<16>(memory, field)),
            Kind::SpanIdText => return self.hex(&id::<8>(memory, field)),
            Kind::SpanKindText | Kind::SpanKindName => {
                let index = varint(memory, field)? as i32;
                let names = usize::try_from(index).ok().and_then(|index| SPAN_KINDS.get(index));
                let (short, long) = names.copied().unwrap_or_default();
                let name = if path.kind == Kind::SpanKindText { short } else { long };
                Value::Str(self.memory.store(name.as_bytes())?)
            }
            Kind::StatusCode => Value::Int(i64::from(Status::read(memory, field)?.code as i32)),
            Kind::StatusMessage => Value::Str(Status::read(memory, field)?.message),
            Kind::SchemaUrl => Value::Str(object.schema_url),
            Kind::EventIndex => Value::Int(self.event_index as i64),
            Kind::MetricType => Value::Int(self.metric_type),
            Kind::Temporality if WITH_TEMPORALITY.contains(&self.metric_type) => {
                let data = &self.objects[StatementContext::Data.index()];
                Value::Int(i64::from(varint(memory, data.field(number))? as i32))
            }
            Kind::Monotonic if self.metric_type == SUM => {
                let data = &self.objects[StatementContext::Data.index()];
                Value::Bool(varint(memory, data.field(number))? != 0)
            }
            Kind::Fixed64 | Kind::ValueInt => Value::Int(fixed64(memory, field)?.cast_signed()),
            Kind::Double | Kind::ValueDouble => {
                Value::Double(f64::from_bits(fixed64(memory, field)?))
            }
            Kind::Sint32 => Value::Int(i64::from(unzigzag(varint(memory, field)?) as i32)),
            Kind::BucketsOffset => Value::Int(BucketFields::read(memory, field)?.offset),
            Kind::BucketsCounts => {
                let counts = BucketFields::read(memory, field)?.counts;
                return self.number_list(&counts, |count| Value::Int(count.cast_signed()));
            }
            Kind::BucketCounts => {
                let counts = self.numbers(path.context, number)?;
                return self.number_list(&counts, |count| Value::Int(count.cast_signed()));
            }
            Kind::Bounds => {
                let bounds = self.numbers(path.context, number)?;
                return self.number_list(&bounds, |bits| Value::Double(f64::from_bits(bits)));
            }
            Kind::Messages => Value::Messages(object.count(number)),
            Kind::TraceStateKey => return self.trace_state_member(path),
            _ => Value::Nil,
        })
    }

    /// Reads an attribute as its `AnyValue` message; `None` if there is none.
    pub(in crate::eval) fn read_any(&mut self, path: &Path) -> Result<Option<Ref>, RuleFailure> {
        let Some((key, keys)) = path.keys.split_first() else { return Ok(None) };
        let key = self.text_key(key)?;
        let slots = &self.objects[path.context.index()].slots;
        let Some(position) = find_slot(&self.memory, slots, key) else { return Ok(None) };
        let any = slots[position].value;
        if keys.is_empty() { Ok(Some(any)) } else { self.nested(any, keys) }
    }

    /// Returns the text of a key.
    #[inline]
    pub(in crate::eval) fn text_key(&mut self, key: &Key) -> Result<Ref, RuleFailure> {
        match key {
            Key::Text(text) => Ok(*text),
            Key::Index(_) => Err(RuleFailure::KeyType),
            Key::Computed(expr) => match self.eval(expr)? {
                Value::Str(text) => Ok(text),
                _ => Err(RuleFailure::KeyType),
            },
        }
    }

    /// Returns all attributes as a map.
    fn attributes_map(&mut self, context: StatementContext) -> Result<Value, RuleFailure> {
        store_map(&mut self.memory, &self.objects[context.index()].slots).map(Value::Map)
    }

    fn body_member(&mut self, body: Ref, keys: &[Key]) -> Result<Value, RuleFailure> {
        let value = parse_any(&self.memory, body)?;
        if keys.is_empty() {
            return Ok(value);
        }
        if !matches!(value, Value::Map(_) | Value::List(_)) {
            return Err(RuleFailure::NotIndexable { found: value.type_name() });
        }
        match self.nested(body, keys)? {
            Some(any) => Ok(parse_any(&self.memory, any)?),
            None => Ok(Value::Nil),
        }
    }

    fn body_text(&mut self, field: Option<Ref>) -> Result<Value, RuleFailure> {
        let body = parse_any(&self.memory, field.unwrap_or_default())?;
        match body {
            Value::Str(text) => Ok(Value::Str(text)),
            Value::Nil => Ok(Value::Str(Ref::EMPTY)),
            other => match self.text_of(other, Style::ATTRIBUTES) {
                // Without a text for infinity in JSON, the Collector has no text at all.
                Err(RuleFailure::Text(_)) => Ok(Value::Str(Ref::EMPTY)),
                text => text.map(Value::Str),
            },
        }
    }

    /// Writes a value as text.
    pub(in crate::eval) fn text_of(
        &mut self,
        value: Value,
        style: Style,
    ) -> Result<Ref, RuleFailure> {
        let mut out = std::mem::take(&mut self.buffers.text);
        out.clear();
        let written = put_text(&self.memory, value, style, &mut out);
        let stored = written.and_then(|()| self.memory.store(&out));
        self.buffers.text = out;
        stored
    }

    fn hex(&mut self, bytes: &[u8]) -> Result<Value, RuleFailure> {
        let mut out = Vec::with_capacity(2 * bytes.len());
        put_hex(bytes, &mut out);
        self.memory.store(&out).map(Value::Str)
    }

    fn numbers(&self, context: StatementContext, number: u32) -> Result<Vec<u64>, RuleFailure> {
        let fields = &self.objects[context.index()].fields;
        let occurrences = fields.iter().filter(|field| field.number == number);
        let occurrences = occurrences.map(|field| (field.full, field.value));
        Ok(numbers64(&self.memory, occurrences)?)
    }

    fn number_list(
        &mut self,
        numbers: &[u64],
        value: impl Fn(u64) -> Value,
    ) -> Result<Value, RuleFailure> {
        let first = self.buffers.refs.len();
        for number in numbers {
            let any = store_any(&mut self.memory, value(*number))?;
            self.buffers.refs.push(any);
        }
        let mark = self.memory.mark();
        for any in self.buffers.refs.drain(first..) {
            put_element(&mut self.memory, any)?;
        }
        Ok(Value::List(self.memory.since(mark)))
    }

    /// Reads a member of a trace state: empty if it has none, nil if it isn't valid.
    fn trace_state_member(&mut self, path: &Path) -> Result<Value, RuleFailure> {
        let object = &self.objects[path.context.index()];
        let state = object.field(path.numbers[0]).unwrap_or_default();
        let Some(Key::Text(key)) = path.keys.first() else { return Ok(Value::Nil) };
        let (text, key) = (self.memory.text(state)?, self.memory.text(*key)?);
        let mut found = Ref::EMPTY;
        for member in text.split(',').map(str::trim).filter(|member| !member.is_empty()) {
            let Some((name, value)) = member.split_once('=') else { return Ok(Value::Nil) };
            if name == key {
                found = state.locate(text.as_bytes(), value.as_bytes());
            }
        }
        Ok(Value::Str(found))
    }
}
