//! Cuts a request at record boundaries.
//!
//! A record's surroundings (its resource, its scope, a metric's name) are repeated in each part
//! that holds records of that group. Groups without records are omitted.

use crate::error::{WireError, WireFault};
use crate::otlp::descriptor::{FieldKind, MessageDescriptor, request_message};
use crate::protobuf::{Cursor, put_varint, varint_len};
use crate::signal::Signal;

/// One part of a split request, itself a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPart {
    /// The request's bytes.
    pub bytes: Vec<u8>,
    /// The number of its records, at least 1.
    pub records: u64,
}

/// Cuts `request_bytes` into requests of at most `max_bytes` each, in order, each filled as far as
/// possible.
///
/// A single record that doesn't fit even alone, with its resource and scope, becomes a part longer
/// than `max_bytes`; the caller decides what to do with it. So does a group that doesn't fit and
/// whose surroundings (resource, scope, a metric's name) take more than half of `max_bytes`: it
/// isn't cut, because a megabyte repeated around each of a million empty records would be a
/// terabyte. A request without records gives no part.
///
/// The parts together are at most about four times as long as the request: repeated data takes at
/// most half of a part, and two neighbours never fit into one.
///
/// # Errors
/// If the request is malformed before its records. Run [`super::check`] first for the records
/// themselves.
pub fn split_request(
    signal: Signal,
    request_bytes: &[u8],
    max_bytes: usize,
) -> Result<Vec<SplitPart>, WireError> {
    let mut splitter = Splitter { max_bytes, ..Splitter::default() };
    match splitter.split_group(request_message(signal), request_bytes) {
        Ok(()) => {
            splitter.finish_part();
            Ok(splitter.parts)
        }
        Err(fault) => Err(WireError::from_fault(signal, request_bytes, fault)),
    }
}

/// An open container: its tag, the fields that aren't records or groups, and its content so far.
#[derive(Default)]
struct OpenContainer {
    tag: u32,
    header: Vec<u8>,
    body: Vec<u8>,
}

#[derive(Default)]
struct Splitter {
    max_bytes: usize,
    /// Open containers, outermost first. At most six: resource, scope, metric, data.
    levels: Vec<OpenContainer>,
    /// Finished containers of the part being filled.
    body: Vec<u8>,
    records: u64,
    /// Whether this is inside a group that isn't cut.
    in_atomic_group: bool,
    parts: Vec<SplitPart>,
}

impl Splitter {
    fn split_group(&mut self, message: &MessageDescriptor, bytes: &[u8]) -> Result<(), WireFault> {
        let mut cursor = Cursor::new(bytes);
        loop {
            let start = cursor.remaining();
            let Some(tag) = cursor.tag()? else {
                return Ok(());
            };
            match message.field(tag >> 3).map(|field| field.kind) {
                Some(FieldKind::Group(inner)) => {
                    let value = cursor.bytes()?;
                    let header = container_header(inner, value)?;
                    let is_atomic = !self.in_atomic_group && self.is_mostly_header(header.len());
                    if is_atomic {
                        self.cut_before_atomic(tag, inner, value)?;
                        self.in_atomic_group = true;
                    }
                    self.levels.push(OpenContainer { tag, header, body: Vec::new() });
                    self.split_group(inner, value)?;
                    self.close_container();
                    self.in_atomic_group &= !is_atomic;
                }
                Some(FieldKind::Record(_)) => {
                    cursor.bytes()?;
                    self.add_record(&start[..start.len() - cursor.remaining().len()]);
                }
                _ => cursor.skip(tag)?,
            }
        }
    }

    /// Adds a record, including tag and length, to the innermost container.
    fn add_record(&mut self, record: &[u8]) {
        if !self.in_atomic_group && self.records > 0 && self.len_with(record.len()) > self.max_bytes
        {
            self.finish_part();
        }
        if let Some(level) = self.levels.last_mut() {
            level.body.extend_from_slice(record);
            self.records += 1;
        }
    }

    /// Whether a group's header, with the enclosing ones, would take more than half of each part.
    fn is_mostly_header(&self, header_bytes: usize) -> bool {
        let around: usize = self.levels.iter().map(|level| level.header.len()).sum();
        around + header_bytes > self.max_bytes / 2
    }

    /// Ends the part if an uncut group doesn't fit behind its content: earlier records must not
    /// become part of a request that is too long.
    fn cut_before_atomic(
        &mut self,
        tag: u32,
        inner: &MessageDescriptor,
        value: &[u8],
    ) -> Result<(), WireFault> {
        let length = wrapped_len(tag, uncut_len(inner, value)?);
        if self.records > 0 && self.len_with(length) > self.max_bytes {
            self.finish_part();
        }
        Ok(())
    }

    /// Returns the length of the part if it ended after `more` further bytes in the innermost
    /// container.
    fn len_with(&self, more: usize) -> usize {
        let open = self.levels.iter().rev().fold(more, |inner, level| {
            wrapped_len(level.tag, level.header.len() + level.body.len() + inner)
        });
        self.body.len() + open
    }

    /// Ends the innermost container, which is omitted if it holds no records.
    fn close_container(&mut self) {
        let Some(OpenContainer { tag, header, body }) = self.levels.pop() else {
            return;
        };
        let outer = self.levels.last_mut().map_or(&mut self.body, |outer| &mut outer.body);
        put_container(outer, tag, &header, &body);
    }

    /// Ends the part; the open containers continue in the next one.
    fn finish_part(&mut self) {
        for index in (0..self.levels.len()).rev() {
            let body = std::mem::take(&mut self.levels[index].body);
            let (before, from) = self.levels.split_at_mut(index);
            let outer = before.last_mut().map_or(&mut self.body, |outer| &mut outer.body);
            put_container(outer, from[0].tag, &from[0].header, &body);
        }
        if self.records > 0 {
            let bytes = std::mem::take(&mut self.body);
            self.parts.push(SplitPart { bytes, records: self.records });
            self.records = 0;
        }
    }
}

pub(super) fn put_container(outer: &mut Vec<u8>, tag: u32, header: &[u8], body: &[u8]) {
    if !body.is_empty() {
        put_varint(outer, u64::from(tag));
        put_varint(outer, (header.len() + body.len()) as u64);
        outer.extend_from_slice(header);
        outer.extend_from_slice(body);
    }
}

/// Returns the length of a field: its tag, its value's length, and the value.
fn wrapped_len(tag: u32, value_bytes: usize) -> usize {
    varint_len(u64::from(tag)) + varint_len(value_bytes as u64) + value_bytes
}

/// Returns the length of a container in the parts if it isn't cut: groups without records are
/// omitted.
fn uncut_len(message: &MessageDescriptor, bytes: &[u8]) -> Result<usize, WireFault> {
    let mut length = 0;
    let mut cursor = Cursor::new(bytes);
    loop {
        let start = cursor.remaining();
        let Some(tag) = cursor.tag()? else {
            return Ok(length);
        };
        if let Some(FieldKind::Group(inner)) = message.field(tag >> 3).map(|field| field.kind) {
            let value = cursor.bytes()?;
            let length_of_group = uncut_len(inner, value)?;
            // A group that is only a header has no records.
            if length_of_group > container_header(inner, value)?.len() {
                length += wrapped_len(tag, length_of_group);
            }
        } else {
            cursor.skip(tag)?;
            length += start.len() - cursor.remaining().len();
        }
    }
}

/// Returns the fields of a container that are neither groups nor records, including unknown ones.
pub(super) fn container_header(
    message: &MessageDescriptor,
    bytes: &[u8],
) -> Result<Vec<u8>, WireFault> {
    let mut header = Vec::new();
    let mut cursor = Cursor::new(bytes);
    loop {
        let start = cursor.remaining();
        let Some(tag) = cursor.tag()? else {
            return Ok(header);
        };
        cursor.skip(tag)?;
        let kind = message.field(tag >> 3).map(|field| field.kind);
        if !matches!(kind, Some(FieldKind::Group(_) | FieldKind::Record(_))) {
            header.extend_from_slice(&start[..start.len() - cursor.remaining().len()]);
        }
    }
}
