//! Views over spans, events and links.

use crate::error::Fault;
use crate::otlp::common::{KeyValues, Repeated, skip_other};
use crate::protobuf::{Cursor, FIXED32, FIXED64, LENGTH, VARINT, tag};

/// A span. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span<'a> {
    /// 16 bytes, or none.
    pub trace_id: &'a [u8],
    /// 8 bytes, or none.
    pub span_id: &'a [u8],
    /// W3C trace state, as sent.
    pub trace_state: &'a [u8],
    /// 8 bytes, or none for a root span.
    pub parent_span_id: &'a [u8],
    /// Operation name.
    pub name: &'a [u8],
    /// `SpanKind` by number.
    pub kind: i32,
    /// Start.
    pub start_time_unix_nano: u64,
    /// End.
    pub end_time_unix_nano: u64,
    /// `StatusCode` by number.
    pub status_code: i32,
    /// Status message.
    pub status_message: &'a [u8],
    /// Attributes.
    pub attributes: KeyValues<'a>,
    /// Events: each an [`Event`] message.
    pub events: Repeated<'a>,
    /// Links: each a [`Link`] message.
    pub links: Repeated<'a>,
}

impl<'a> Span<'a> {
    /// Reads a `Span` message; attributes, events and links are not looked into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const TRACE_ID: u32 = tag(1, LENGTH);
        const SPAN_ID: u32 = tag(2, LENGTH);
        const TRACE_STATE: u32 = tag(3, LENGTH);
        const PARENT_SPAN_ID: u32 = tag(4, LENGTH);
        const NAME: u32 = tag(5, LENGTH);
        const KIND: u32 = tag(6, VARINT);
        const START: u32 = tag(7, FIXED64);
        const END: u32 = tag(8, FIXED64);
        const ATTRIBUTES: u32 = tag(9, LENGTH);
        const DROPPED_ATTRIBUTES: u32 = tag(10, VARINT);
        const EVENTS: u32 = tag(11, LENGTH);
        const DROPPED_EVENTS: u32 = tag(12, VARINT);
        const LINKS: u32 = tag(13, LENGTH);
        const DROPPED_LINKS: u32 = tag(14, VARINT);
        const STATUS: u32 = tag(15, LENGTH);
        const FLAGS: u32 = tag(16, FIXED32);
        let mut cursor = Cursor::new(message);
        let mut span = Self::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(span);
            };
            match tag {
                TRACE_ID => span.trace_id = cursor.bytes()?,
                SPAN_ID => span.span_id = cursor.bytes()?,
                TRACE_STATE => span.trace_state = cursor.bytes()?,
                PARENT_SPAN_ID => span.parent_span_id = cursor.bytes()?,
                NAME => span.name = cursor.bytes()?,
                KIND => span.kind = cursor.varint()? as i32,
                START => span.start_time_unix_nano = cursor.fixed64()?,
                END => span.end_time_unix_nano = cursor.fixed64()?,
                ATTRIBUTES => {
                    cursor.bytes()?;
                    span.attributes.extend(tag, message, before, cursor.rest());
                }
                EVENTS => {
                    cursor.bytes()?;
                    span.events.extend(tag, message, before, cursor.rest());
                }
                LINKS => {
                    cursor.bytes()?;
                    span.links.extend(tag, message, before, cursor.rest());
                }
                STATUS => span.merge_status(cursor.bytes()?)?,
                DROPPED_ATTRIBUTES | DROPPED_EVENTS | DROPPED_LINKS | FLAGS => cursor.skip(tag)?,
                other => skip_other(&mut cursor, other, 0x1_fffe)?,
            }
        }
    }

    fn merge_status(&mut self, message: &'a [u8]) -> Result<(), Fault> {
        const MESSAGE: u32 = tag(2, LENGTH);
        const CODE: u32 = tag(3, VARINT);
        let mut cursor = Cursor::new(message);
        while let Some(tag) = cursor.tag()? {
            match tag {
                MESSAGE => self.status_message = cursor.bytes()?,
                CODE => self.status_code = cursor.varint()? as i32,
                other => skip_other(&mut cursor, other, 0b1100)?,
            }
        }
        Ok(())
    }
}

/// Something that happened during a span.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    /// When, in nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// Its name.
    pub name: &'a [u8],
    /// Attributes.
    pub attributes: KeyValues<'a>,
}

impl<'a> Event<'a> {
    /// Reads an `Event` message; attributes are not looked into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const TIME: u32 = tag(1, FIXED64);
        const NAME: u32 = tag(2, LENGTH);
        const ATTRIBUTES: u32 = tag(3, LENGTH);
        const DROPPED: u32 = tag(4, VARINT);
        let mut cursor = Cursor::new(message);
        let mut event = Self::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(event);
            };
            match tag {
                TIME => event.time_unix_nano = cursor.fixed64()?,
                NAME => event.name = cursor.bytes()?,
                ATTRIBUTES => {
                    cursor.bytes()?;
                    event.attributes.extend(tag, message, before, cursor.rest());
                }
                DROPPED => cursor.skip(tag)?,
                other => skip_other(&mut cursor, other, 0b1_1110)?,
            }
        }
    }
}

/// A reference to another span.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link<'a> {
    /// 16 bytes, or none.
    pub trace_id: &'a [u8],
    /// 8 bytes, or none.
    pub span_id: &'a [u8],
    /// W3C trace state, as sent.
    pub trace_state: &'a [u8],
    /// Attributes.
    pub attributes: KeyValues<'a>,
}

impl<'a> Link<'a> {
    /// Reads a `Link` message; attributes are not looked into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const TRACE_ID: u32 = tag(1, LENGTH);
        const SPAN_ID: u32 = tag(2, LENGTH);
        const TRACE_STATE: u32 = tag(3, LENGTH);
        const ATTRIBUTES: u32 = tag(4, LENGTH);
        const DROPPED: u32 = tag(5, VARINT);
        const FLAGS: u32 = tag(6, FIXED32);
        let mut cursor = Cursor::new(message);
        let mut link = Self::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(link);
            };
            match tag {
                TRACE_ID => link.trace_id = cursor.bytes()?,
                SPAN_ID => link.span_id = cursor.bytes()?,
                TRACE_STATE => link.trace_state = cursor.bytes()?,
                ATTRIBUTES => {
                    cursor.bytes()?;
                    link.attributes.extend(tag, message, before, cursor.rest());
                }
                DROPPED | FLAGS => cursor.skip(tag)?,
                other => skip_other(&mut cursor, other, 0b111_1110)?,
            }
        }
    }
}
