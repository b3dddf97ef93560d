//! Views of spans, events and links.

use crate::error::WireFault;
use crate::otlp::common::{KeyValues, Repeated};
use crate::otlp::walk::walk;

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
    /// The span's result.
    pub status: Status<'a>,
    /// Attributes.
    pub attributes: KeyValues<'a>,
    /// Events: each an [`Event`] message.
    pub events: Repeated<'a>,
    /// Links: each a [`Link`] message.
    pub links: Repeated<'a>,
}

impl<'a> Span<'a> {
    /// Reads a `Span` message without parsing attributes, events and links.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut span = Self::default();
        walk! { message => span {
            1 bytes trace_id,
            2 bytes span_id,
            3 bytes trace_state,
            4 bytes parent_span_id,
            5 bytes name,
            6 int32 kind,
            7 fixed64 start_time_unix_nano,
            8 fixed64 end_time_unix_nano,
            9 repeated attributes,
            10 skip_varint,
            11 repeated events,
            12 skip_varint,
            13 repeated links,
            14 skip_varint,
            15 merge status,
            16 skip_fixed32,
        } }
        Ok(span)
    }
}

/// The result of a span.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status<'a> {
    /// `StatusCode` by number.
    pub code: i32,
    /// The message, usually empty.
    pub message: &'a [u8],
}

impl<'a> Status<'a> {
    #[inline]
    fn merge(&mut self, message: &'a [u8]) -> Result<(), WireFault> {
        walk! { message => self { 2 bytes message, 3 int32 code } }
        Ok(())
    }
}

/// An event during a span.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    /// The event's time, in nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// Its name.
    pub name: &'a [u8],
    /// Attributes.
    pub attributes: KeyValues<'a>,
}

impl<'a> Event<'a> {
    /// Reads an `Event` message without parsing attributes.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut event = Self::default();
        walk! { message => event {
            1 fixed64 time_unix_nano,
            2 bytes name,
            3 repeated attributes,
            4 skip_varint,
        } }
        Ok(event)
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
    /// Reads a `Link` message without parsing attributes.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut link = Self::default();
        walk! { message => link {
            1 bytes trace_id,
            2 bytes span_id,
            3 bytes trace_state,
            4 repeated attributes,
            5 skip_varint,
            6 skip_fixed32,
        } }
        Ok(link)
    }
}
