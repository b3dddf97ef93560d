//! Cutting a request at record boundaries.
//!
//! What surrounds a record (its resource, its scope, a metric's name) is repeated in each
//! part that holds records of that group. Groups without records are left out.

use crate::error::{Fault, WireError};
use crate::otlp::descriptor::{Kind, Message, request};
use crate::protobuf::{Cursor, put_varint, varint_len};
use crate::signal::Signal;

/// One part of a split request: itself a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The request's bytes.
    pub bytes: Vec<u8>,
    /// Records in it, at least 1.
    pub records: u64,
}

/// Cuts `request_bytes` into requests of at most `max_bytes` each, in order, filling each as far as
/// it goes.
///
/// A single record that doesn't fit even alone, with its resource and scope, is a part of its own
/// that is longer than `max_bytes`: what to do with it is the caller's decision. So is a group that
/// doesn't fit and whose surroundings (resource, scope, a metric's name) take more than half of
/// `max_bytes`: it isn't cut, because a megabyte repeated around each of a million empty records
/// would be a terabyte. A request without records gives no part.
///
/// The parts together are at most about four times as long as the request: what is repeated takes
/// no more than half of a part, and two neighbours never fit into one.
///
/// # Errors
/// The request is malformed on the way to its records. Run [`super::check`] first for the records
/// themselves.
pub fn split(
    signal: Signal,
    request_bytes: &[u8],
    max_bytes: usize,
) -> Result<Vec<Part>, WireError> {
    let mut splitter = Splitter { max_bytes, ..Splitter::default() };
    match splitter.group(request(signal), request_bytes) {
        Ok(()) => {
            splitter.cut();
            Ok(splitter.parts)
        }
        Err(fault) => Err(WireError::locate(signal, request_bytes, fault)),
    }
}

/// A container that is open: its tag, the fields that aren't records or groups, and what was put
/// in.
#[derive(Default)]
struct Level {
    tag: u32,
    header: Vec<u8>,
    body: Vec<u8>,
}

#[derive(Default)]
struct Splitter {
    max_bytes: usize,
    /// Open containers, outermost first. Six at most: resource, scope, metric, data.
    levels: Vec<Level>,
    /// Finished containers of the part being filled.
    body: Vec<u8>,
    records: u64,
    /// Inside a group that stays whole.
    whole: bool,
    parts: Vec<Part>,
}

impl Splitter {
    fn group(&mut self, message: &Message, bytes: &[u8]) -> Result<(), Fault> {
        let mut cursor = Cursor::new(bytes);
        loop {
            let start = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(());
            };
            match message.field(tag >> 3).map(|field| field.kind) {
                Some(Kind::Group(inner)) => {
                    let value = cursor.bytes()?;
                    let header = header(inner, value)?;
                    let whole = !self.whole && self.is_mostly_header(header.len());
                    if whole {
                        self.make_room_for_whole(tag, inner, value)?;
                        self.whole = true;
                    }
                    self.levels.push(Level { tag, header, body: Vec::new() });
                    self.group(inner, value)?;
                    self.close();
                    self.whole &= !whole;
                }
                Some(Kind::Record(_)) => {
                    cursor.bytes()?;
                    self.record(&start[..start.len() - cursor.rest().len()]);
                }
                _ => cursor.skip(tag)?,
            }
        }
    }

    /// Adds a record, tag and length included, to the innermost container.
    fn record(&mut self, record: &[u8]) {
        if !self.whole && self.records > 0 && self.len_with(record.len()) > self.max_bytes {
            self.cut();
        }
        if let Some(level) = self.levels.last_mut() {
            level.body.extend_from_slice(record);
            self.records += 1;
        }
    }

    /// Whether a group's header, with those around it, would take more than half of each part.
    fn is_mostly_header(&self, header_bytes: usize) -> bool {
        let around: usize = self.levels.iter().map(|level| level.header.len()).sum();
        around + header_bytes > self.max_bytes / 2
    }

    /// Ends the part if a group that stays whole doesn't fit behind what is in it: what came before
    /// must not share the fate of a part that is too long.
    fn make_room_for_whole(
        &mut self,
        tag: u32,
        inner: &Message,
        value: &[u8],
    ) -> Result<(), Fault> {
        let length = wrapped_len(tag, kept_len(inner, value)?);
        if self.records > 0 && self.len_with(length) > self.max_bytes {
            self.cut();
        }
        Ok(())
    }

    /// Length of the part if it ended after `more` further bytes in the innermost container.
    fn len_with(&self, more: usize) -> usize {
        let open = self.levels.iter().rev().fold(more, |inner, level| {
            wrapped_len(level.tag, level.header.len() + level.body.len() + inner)
        });
        self.body.len() + open
    }

    /// Ends the innermost container, which is left out if it holds no records.
    fn close(&mut self) {
        let Some(Level { tag, header, body }) = self.levels.pop() else {
            return;
        };
        let outer = self.levels.last_mut().map_or(&mut self.body, |outer| &mut outer.body);
        wrap(outer, tag, &header, &body);
    }

    /// Ends the part; the containers open now go on in the next one.
    fn cut(&mut self) {
        for index in (0..self.levels.len()).rev() {
            let body = std::mem::take(&mut self.levels[index].body);
            let (before, from) = self.levels.split_at_mut(index);
            let outer = before.last_mut().map_or(&mut self.body, |outer| &mut outer.body);
            wrap(outer, from[0].tag, &from[0].header, &body);
        }
        if self.records > 0 {
            let bytes = std::mem::take(&mut self.body);
            self.parts.push(Part { bytes, records: self.records });
            self.records = 0;
        }
    }
}

pub(super) fn wrap(outer: &mut Vec<u8>, tag: u32, header: &[u8], body: &[u8]) {
    if !body.is_empty() {
        put_varint(outer, u64::from(tag));
        put_varint(outer, (header.len() + body.len()) as u64);
        outer.extend_from_slice(header);
        outer.extend_from_slice(body);
    }
}

/// Length of a field: its tag, the length of its value, and the value.
fn wrapped_len(tag: u32, value_bytes: usize) -> usize {
    varint_len(u64::from(tag)) + varint_len(value_bytes as u64) + value_bytes
}

/// Length that a container will have in the parts if it isn't cut: groups without records left out.
fn kept_len(message: &Message, bytes: &[u8]) -> Result<usize, Fault> {
    let mut length = 0;
    let mut cursor = Cursor::new(bytes);
    loop {
        let start = cursor.rest();
        let Some(tag) = cursor.tag()? else {
            return Ok(length);
        };
        if let Some(Kind::Group(inner)) = message.field(tag >> 3).map(|field| field.kind) {
            let value = cursor.bytes()?;
            let kept = kept_len(inner, value)?;
            // Nothing but a header means that there is no record in it.
            if kept > header(inner, value)?.len() {
                length += wrapped_len(tag, kept);
            }
        } else {
            cursor.skip(tag)?;
            length += start.len() - cursor.rest().len();
        }
    }
}

/// The fields of a container that are neither groups nor records, unknown ones included.
pub(super) fn header(message: &Message, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut header = Vec::new();
    let mut cursor = Cursor::new(bytes);
    loop {
        let start = cursor.rest();
        let Some(tag) = cursor.tag()? else {
            return Ok(header);
        };
        cursor.skip(tag)?;
        let kind = message.field(tag >> 3).map(|field| field.kind);
        if !matches!(kind, Some(Kind::Group(_) | Kind::Record(_))) {
            header.extend_from_slice(&start[..start.len() - cursor.rest().len()]);
        }
    }
}
