//! A view over log records.

use crate::error::Fault;
use crate::otlp::common::{AnyValue, KeyValues, skip_other};
use crate::protobuf::{Cursor, FIXED32, FIXED64, LENGTH, VARINT, tag};

/// A log record. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// When it happened; 0 if its source didn't say.
    pub time_unix_nano: u64,
    /// When it was seen by a collector; 0 if unknown.
    pub observed_time_unix_nano: u64,
    /// `SeverityNumber`: 0 (unspecified) to 24.
    pub severity_number: i32,
    /// Severity as its source spells it.
    pub severity_text: &'a [u8],
    /// Name of the event, if the record is one.
    pub event_name: &'a [u8],
    /// The message: any value.
    pub body: AnyValue<'a>,
    /// W3C trace flags in the low 8 bits.
    pub flags: u32,
    /// 16 bytes, or none.
    pub trace_id: &'a [u8],
    /// 8 bytes, or none.
    pub span_id: &'a [u8],
    /// Attributes.
    pub attributes: KeyValues<'a>,
}

impl<'a> LogRecord<'a> {
    /// Reads a `LogRecord` message; attributes are not looked into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const TIME: u32 = tag(1, FIXED64);
        const SEVERITY_NUMBER: u32 = tag(2, VARINT);
        const SEVERITY_TEXT: u32 = tag(3, LENGTH);
        const BODY: u32 = tag(5, LENGTH);
        const ATTRIBUTES: u32 = tag(6, LENGTH);
        const DROPPED: u32 = tag(7, VARINT);
        const FLAGS: u32 = tag(8, FIXED32);
        const TRACE_ID: u32 = tag(9, LENGTH);
        const SPAN_ID: u32 = tag(10, LENGTH);
        const OBSERVED: u32 = tag(11, FIXED64);
        const EVENT_NAME: u32 = tag(12, LENGTH);
        let mut cursor = Cursor::new(message);
        let mut record = Self::empty();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(record);
            };
            match tag {
                TIME => record.time_unix_nano = cursor.fixed64()?,
                OBSERVED => record.observed_time_unix_nano = cursor.fixed64()?,
                SEVERITY_NUMBER => record.severity_number = cursor.varint()? as i32,
                SEVERITY_TEXT => record.severity_text = cursor.bytes()?,
                EVENT_NAME => record.event_name = cursor.bytes()?,
                BODY => record.body = AnyValue::parse(cursor.bytes()?)?,
                FLAGS => record.flags = cursor.fixed32()?,
                TRACE_ID => record.trace_id = cursor.bytes()?,
                SPAN_ID => record.span_id = cursor.bytes()?,
                ATTRIBUTES => {
                    cursor.bytes()?;
                    record.attributes.extend(tag, message, before, cursor.rest());
                }
                DROPPED => cursor.skip(tag)?,
                other => skip_other(&mut cursor, other, 0b1_1111_1110_1110)?,
            }
        }
    }

    fn empty() -> Self {
        Self {
            time_unix_nano: 0,
            observed_time_unix_nano: 0,
            severity_number: 0,
            severity_text: &[],
            event_name: &[],
            body: AnyValue::Empty,
            flags: 0,
            trace_id: &[],
            span_id: &[],
            attributes: KeyValues::default(),
        }
    }
}
