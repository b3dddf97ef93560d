//! A view of log records.

use crate::error::WireFault;
use crate::otlp::common::{AnyValue, KeyValues};
use crate::otlp::walk::walk;

/// A log record. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// The event's time; 0 if its source didn't give one.
    pub time_unix_nano: u64,
    /// When a collector observed it; 0 if unknown.
    pub observed_time_unix_nano: u64,
    /// `SeverityNumber`: 0 (unspecified) to 24.
    pub severity_number: i32,
    /// The severity as its source spells it.
    pub severity_text: &'a [u8],
    /// The event's name, if the record is an event.
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
    /// Reads a `LogRecord` message without parsing attributes.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut record = Self::empty();
        walk! { message => record {
            1 fixed64 time_unix_nano,
            2 int32 severity_number,
            3 bytes severity_text,
            5 value body,
            6 repeated attributes,
            7 skip_varint,
            8 fixed32 flags,
            9 bytes trace_id,
            10 bytes span_id,
            11 fixed64 observed_time_unix_nano,
            12 bytes event_name,
        } }
        Ok(record)
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
