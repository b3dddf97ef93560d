//! Writes what paths name.

use millrace_wire::protobuf::{FIXED32, FIXED64, LENGTH, VARINT, field_tag, put_varint};

use crate::edit::encode::{Members, field_len, load_map, parse_any, store_any};
use crate::edit::memory::Ref;
use crate::edit::object::{find_slot, put_slot};
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::eval::fields::read::{SPAN_KINDS, SUM};
use crate::eval::fields::{BucketFields, Status};
use crate::ottl::context::StatementContext;
use crate::program::{Kind, Path};
use crate::value::Value;

/// The longest tag and varint together.
const NUMBER_BYTES: usize = 16;

impl Machine<'_> {
    /// Sets an attribute, the body or a member of them to an `AnyValue` message.
    pub(in crate::eval) fn write_any(&mut self, path: &Path, any: Ref) -> Result<(), RuleFailure> {
        let is_structure = matches!(self.memory.get(any).first(), Some(0x2a | 0x32));
        self.has_new_structure |= is_structure || path.keys.len() > 1;
        let index = path.context.index();
        if path.kind == Kind::Body {
            let body = self.objects[index].field(path.numbers[0]).unwrap_or_default();
            let body = if path.keys.is_empty() {
                any
            } else {
                match parse_any(&self.memory, body)? {
                    Value::Map(_) | Value::List(_) => self.with_nested(body, &path.keys, any)?,
                    other => return Err(RuleFailure::NotIndexable { found: other.type_name() }),
                }
            };
            self.has_new_structure |= !path.keys.is_empty();
            return self.put_bytes(index, path.numbers[0], body);
        }
        let Some((key, keys)) = path.keys.split_first() else { return Ok(()) };
        let key = self.text_key(key)?;
        let any = if keys.is_empty() {
            any
        } else {
            let slots = &self.objects[index].slots;
            let known = find_slot(&self.memory, slots, key).map(|position| slots[position].value);
            self.with_nested(known.unwrap_or_default(), keys, any)?
        };
        let object = &mut self.objects[index];
        put_slot(&self.memory, &mut object.slots, key, any);
        object.is_changed = true;
        Ok(())
    }

    /// Sets a field.
    pub(in crate::eval) fn write(&mut self, path: &Path, value: Value) -> Result<(), RuleFailure> {
        if matches!(path.kind, Kind::Body) || !path.keys.is_empty() {
            let any = store_any(&mut self.memory, value)?;
            return self.write_any(path, any);
        }
        let index = path.context.index();
        let number = path.numbers[self.objects[index].shape];
        if number == 0 && path.context == StatementContext::DataPoint {
            return Err(RuleFailure::Field);
        }
        match (path.kind, value) {
            (Kind::Map, Value::Map(map)) => self.put_map(index, map),
            (Kind::Map, Value::Nil) => self.put_map(index, Ref::EMPTY),
            (Kind::Text, Value::Str(text)) => self.put_bytes(index, number, text),
            (Kind::BodyText, Value::Str(_)) => {
                let any = store_any(&mut self.memory, value)?;
                self.put_bytes(index, number, any)
            }
            (Kind::SchemaUrl, Value::Str(url)) => {
                self.objects[index].schema_url = url;
                self.objects[index].is_schema_url_changed = true;
                Ok(())
            }
            (Kind::Uint32, Value::Int(int)) => {
                self.put_number(index, number, VARINT, u64::from(int as u32))
            }
            (Kind::Int32, Value::Int(int)) => {
                self.put_number(index, number, VARINT, i64::from(int as i32).cast_unsigned())
            }
            (Kind::Sint32, Value::Int(int)) => {
                self.put_number(index, number, VARINT, zigzag(int as i32))
            }
            (Kind::Fixed32, Value::Int(int)) => {
                self.put_number(index, number, FIXED32, u64::from(int as u32))
            }
            (Kind::Flags, Value::Int(int)) => {
                let flags = u32::try_from(int)
                    .map_err(|_| RuleFailure::Argument("the number doesn't fit into 32 bits"))?;
                self.put_number(index, number, FIXED32, u64::from(flags))
            }
            (Kind::Fixed64 | Kind::TimeNanos, Value::Int(int)) => {
                self.put_number(index, number, FIXED64, int.cast_unsigned())
            }
            (Kind::Time, Value::Time(time)) => {
                self.put_number(index, number, FIXED64, time.unix_nanos().cast_unsigned())
            }
            (Kind::Double, Value::Double(double)) => {
                self.put_number(index, number, FIXED64, double.to_bits())
            }
            (Kind::TraceId, Value::TraceId(id)) => self.put_id(index, number, &id),
            (Kind::SpanId, Value::SpanId(id)) => self.put_id(index, number, &id),
            _ => self.write_other(path, number, value),
        }
    }

    /// Sets the fields that few rules set.
    #[inline(never)]
    fn write_other(&mut self, path: &Path, number: u32, value: Value) -> Result<(), RuleFailure> {
        let index = path.context.index();
        match (path.kind, value) {
            (Kind::TraceIdText, Value::Str(text)) => {
                let id: [u8; 16] = decode_hex(self.memory.get(text))?;
                self.put_id(index, number, &id)
            }
            (Kind::SpanIdText, Value::Str(text)) => {
                let id: [u8; 8] = decode_hex(self.memory.get(text))?;
                self.put_id(index, number, &id)
            }
            (Kind::SpanKindText | Kind::SpanKindName, Value::Str(text)) => {
                let name = self.memory.text(text)?;
                let is_short = path.kind == Kind::SpanKindText;
                let kind = SPAN_KINDS
                    .iter()
                    .position(|(short, long)| name == if is_short { *short } else { *long })
                    .ok_or(RuleFailure::Text("a span kind"))?;
                self.put_number(index, number, VARINT, kind as u64)
            }
            (Kind::StatusCode, Value::Int(code)) => {
                let mut status = Status::read(&self.memory, self.objects[index].field(number))?;
                status.code = i64::from(code as i32).cast_unsigned();
                self.put_status(index, number, status)
            }
            (Kind::StatusMessage, Value::Str(message)) => {
                let mut status = Status::read(&self.memory, self.objects[index].field(number))?;
                status.message = message;
                self.put_status(index, number, status)
            }
            (Kind::Temporality, Value::Int(int)) => match self.metric_type {
                2..=4 => {
                    let bits = i64::from(int as i32).cast_unsigned();
                    self.put_number(StatementContext::Data.index(), number, VARINT, bits)
                }
                _ => Ok(()),
            },
            (Kind::Monotonic, Value::Bool(truth)) => match self.metric_type {
                SUM => self.put_number(
                    StatementContext::Data.index(),
                    number,
                    VARINT,
                    u64::from(truth),
                ),
                _ => Ok(()),
            },
            (Kind::ValueDouble, Value::Double(double)) => {
                self.objects[index].remove_fields(6);
                self.put_number(index, number, FIXED64, double.to_bits())
            }
            (Kind::ValueInt, Value::Int(int)) => {
                self.objects[index].remove_fields(4);
                self.put_number(index, number, FIXED64, int.cast_unsigned())
            }
            (_, value) => self.write_buckets(path, number, value),
        }
    }

    /// Sets the buckets of a histogram.
    fn write_buckets(&mut self, path: &Path, number: u32, value: Value) -> Result<(), RuleFailure> {
        let index = path.context.index();
        match (path.kind, value) {
            (Kind::BucketCounts | Kind::Bounds, Value::List(list)) => {
                let numbers = self.list_bits(list, path.kind == Kind::Bounds)?;
                let packed: Vec<u8> = numbers.iter().flat_map(|bits| bits.to_le_bytes()).collect();
                let packed = self.memory.store(&packed)?;
                self.objects[index].remove_fields(number);
                self.put_bytes(index, number, packed)
            }
            (Kind::BucketsOffset, Value::Int(offset)) => {
                let mut buckets =
                    BucketFields::read(&self.memory, self.objects[index].field(number))?;
                buckets.offset = i64::from(offset as i32);
                self.put_buckets(index, number, &buckets)
            }
            (Kind::BucketsCounts, Value::List(list)) => {
                let mut buckets =
                    BucketFields::read(&self.memory, self.objects[index].field(number))?;
                buckets.counts = self.list_bits(list, false)?;
                self.put_buckets(index, number, &buckets)
            }
            (kind, value) => {
                Err(RuleFailure::Type { expected: accepted(kind), found: value.type_name() })
            }
        }
    }

    fn put_map(&mut self, index: usize, map: Ref) -> Result<(), RuleFailure> {
        self.has_new_structure = true;
        let object = &mut self.objects[index];
        object.slots.clear();
        object.is_changed = true;
        Ok(load_map(&self.memory, map, &mut object.slots)?)
    }

    /// Sets a length-prefixed field.
    pub(in crate::eval) fn put_bytes(
        &mut self,
        index: usize,
        number: u32,
        bytes: Ref,
    ) -> Result<(), RuleFailure> {
        let full = self.store_field(number, bytes)?;
        let value = full.part(full.len() - bytes.len(), bytes.len());
        self.objects[index].put_field(number, full, value);
        Ok(())
    }

    /// Writes a length-prefixed field with its tag.
    pub(in crate::eval) fn store_field(
        &mut self,
        number: u32,
        bytes: Ref,
    ) -> Result<Ref, RuleFailure> {
        self.memory.reserve(NUMBER_BYTES + field_len(bytes.len()))?;
        let mark = self.memory.mark();
        self.memory.put_varint(u64::from(field_tag(number, LENGTH)));
        self.memory.put_varint(bytes.len() as u64);
        self.memory.put_ref(bytes);
        Ok(self.memory.since(mark))
    }

    fn put_id(&mut self, index: usize, number: u32, id: &[u8]) -> Result<(), RuleFailure> {
        let id = self.memory.store(id)?;
        self.put_bytes(index, number, id)
    }

    fn put_number(
        &mut self,
        index: usize,
        number: u32,
        wire_type: u32,
        bits: u64,
    ) -> Result<(), RuleFailure> {
        self.memory.reserve(NUMBER_BYTES)?;
        let mark = self.memory.mark();
        self.memory.put_varint(u64::from(field_tag(number, wire_type)));
        let value_mark = self.memory.mark();
        match wire_type {
            FIXED32 => self.memory.put(&(bits as u32).to_le_bytes()),
            FIXED64 => self.memory.put(&bits.to_le_bytes()),
            _ => self.memory.put_varint(bits),
        }
        let value = self.memory.since(value_mark);
        self.objects[index].put_field(number, self.memory.since(mark), value);
        Ok(())
    }

    fn put_status(&mut self, index: usize, number: u32, status: Status) -> Result<(), RuleFailure> {
        let content = self.store_status(status)?;
        self.put_bytes(index, number, content)
    }

    /// Writes the content of a span's status.
    pub(in crate::eval) fn store_status(&mut self, status: Status) -> Result<Ref, RuleFailure> {
        const MESSAGE: u8 = field_tag(2, LENGTH) as u8;
        const CODE: u8 = field_tag(3, VARINT) as u8;
        self.memory.reserve(NUMBER_BYTES + field_len(status.message.len()))?;
        let mark = self.memory.mark();
        if !status.message.is_empty() {
            self.memory.put_byte(MESSAGE);
            self.memory.put_varint(status.message.len() as u64);
            self.memory.put_ref(status.message);
        }
        if status.code != 0 {
            self.memory.put_byte(CODE);
            self.memory.put_varint(status.code);
        }
        Ok(self.memory.since(mark))
    }

    fn put_buckets(
        &mut self,
        index: usize,
        number: u32,
        buckets: &BucketFields,
    ) -> Result<(), RuleFailure> {
        let mut counts = Vec::new();
        buckets.counts.iter().for_each(|count| put_varint(&mut counts, *count));
        let mut content = vec![field_tag(1, VARINT) as u8];
        put_varint(&mut content, zigzag(buckets.offset as i32));
        content.push(field_tag(2, LENGTH) as u8);
        put_varint(&mut content, counts.len() as u64);
        content.extend_from_slice(&counts);
        let content = self.memory.store(&content)?;
        self.put_bytes(index, number, content)
    }

    /// Returns the bits of a list's numbers, all of which have the same type.
    fn list_bits(&self, list: Ref, is_double: bool) -> Result<Vec<u64>, RuleFailure> {
        let mut bits = Vec::new();
        let mut members = Members::new(&self.memory, list);
        while let Some(any) = members.next_member()? {
            bits.push(match (parse_any(&self.memory, any)?, is_double) {
                (Value::Double(double), true) => double.to_bits(),
                (Value::Int(int), false) => int.cast_unsigned(),
                (other, _) => {
                    let expected = if is_double { "double" } else { "int" };
                    return Err(RuleFailure::Type { expected, found: other.type_name() });
                }
            });
        }
        Ok(bits)
    }
}

const fn zigzag(number: i32) -> u64 {
    ((number << 1) ^ (number >> 31)) as u32 as u64
}

pub(in crate::eval) fn decode_hex<const N: usize>(text: &[u8]) -> Result<[u8; N], RuleFailure> {
    const EXPECTED: RuleFailure = RuleFailure::Text("an id in hexadecimal digits");
    let mut id = [0; N];
    if text.len() != 2 * N {
        return Err(EXPECTED);
    }
    for (byte, pair) in id.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |character: u8| char::from(character).to_digit(16).ok_or(EXPECTED);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Ok(id)
}

/// Returns the type that a field takes.
const fn accepted(kind: Kind) -> &'static str {
    match kind {
        Kind::Map => "map",
        Kind::Text
        | Kind::BodyText
        | Kind::TraceIdText
        | Kind::SpanIdText
        | Kind::SpanKindText
        | Kind::SpanKindName
        | Kind::StatusMessage
        | Kind::SchemaUrl => "string",
        Kind::Double | Kind::ValueDouble => "double",
        Kind::Time => "time",
        Kind::TraceId => "trace id",
        Kind::SpanId => "span id",
        Kind::Monotonic => "bool",
        Kind::BucketCounts | Kind::Bounds | Kind::BucketsCounts => "list",
        _ => "int",
    }
}
