//! Tracks HTTP/2 frames and header blocks byte by byte without decoding them: where a block ends,
//! how long it is, and whether it adds to the header table.
//!
//! The library rejects malformed input; until then this code relies on lengths only.

use std::io;

/// The length of the client's preface.
const PREFACE_BYTES: usize = 24;

const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The length of a stream's priority at the start of a block.
const PRIORITY_BYTES: usize = 5;

/// The largest number that is decoded: a table size or a string length far past any limit.
const NUMBER_MAX: usize = 1 << 28;

/// The effect of a header block on the header table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HeaderEffect {
    /// The block added an entry.
    pub(crate) added: bool,
    /// The block emptied the table before it added anything.
    pub(crate) emptied: bool,
}

/// The frames of one connection.
#[derive(Debug)]
pub(crate) struct Frames {
    at: FrameState,
    head: [u8; HEAD_BYTES],
    /// The length of the padding at the end of the frame.
    padding: usize,
    block: HeaderBlock,
    block_bytes: usize,
    block_bytes_max: usize,
    streams: Streams,
}

/// The position of the next byte in a frame.
#[derive(Debug, Clone, Copy)]
enum FrameState {
    /// In the frame's head, with this many bytes read.
    Head(usize),
    /// In bytes that are skipped, with this many left.
    Skipping(usize),
    /// At the padding's length, with this many payload bytes after it.
    Padding(usize),
    /// Before a priority of this many bytes, then this many payload bytes.
    Priority(usize, usize),
    /// In a piece of a header block, with this many bytes left.
    Piece(usize),
}

impl Frames {
    /// Starts at a connection's first byte. Blocks may have at most `block_bytes_max`.
    pub(crate) fn new(block_bytes_max: usize) -> Self {
        Self {
            at: FrameState::Skipping(PREFACE_BYTES),
            head: [0; HEAD_BYTES],
            padding: 0,
            block: HeaderBlock::default(),
            block_bytes: 0,
            block_bytes_max,
            streams: Streams::default(),
        }
    }

    /// Returns the open streams.
    pub(crate) fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// Returns the bytes of the header block that is being read; 0 between blocks.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns how many bytes of the frame are still to come, as far as known.
    pub(crate) fn remaining_bytes(&self) -> usize {
        match self.at {
            FrameState::Head(_) => 0,
            FrameState::Skipping(left)
            | FrameState::Padding(left)
            | FrameState::Priority(_, left)
            | FrameState::Piece(left) => left,
        }
    }

    /// Follows `bytes` to the end of the first header block in them. Returns how many bytes that
    /// were, and the block's effect.
    ///
    /// # Errors
    /// The block is too long.
    pub(crate) fn follow_bytes(
        &mut self,
        bytes: &[u8],
    ) -> io::Result<(usize, Option<HeaderEffect>)> {
        let mut rest = bytes;
        while let Some((first, others)) = rest.split_first() {
            let consumed = match self.at {
                FrameState::Head(known) => {
                    if let Some(slot) = self.head.get_mut(known) {
                        *slot = *first;
                    }
                    self.at = FrameState::Head(known + 1);
                    if known + 1 == HEAD_BYTES {
                        self.begin_frame();
                    }
                    1
                }
                FrameState::Skipping(left) => {
                    let consumed = left.min(rest.len());
                    self.at = FrameState::Skipping(left - consumed);
                    consumed
                }
                FrameState::Padding(left) => {
                    self.padding = usize::from(*first);
                    self.at = self.at_priority(left);
                    1
                }
                FrameState::Priority(left, piece) => {
                    let consumed = left.min(rest.len());
                    self.at = FrameState::Priority(left - consumed, piece);
                    consumed
                }
                FrameState::Piece(left) => {
                    let consumed = left.min(rest.len());
                    self.block_bytes += consumed;
                    if self.block_bytes > self.block_bytes_max {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    rest.iter().take(consumed).for_each(|byte| self.block.follow_byte(*byte));
                    self.at = FrameState::Piece(left - consumed);
                    consumed
                }
            };
            rest = rest.get(consumed..).unwrap_or(others);
            if let Some(effect) = self.advance_state() {
                return Ok((bytes.len() - rest.len(), Some(effect)));
            }
        }
        Ok((bytes.len(), None))
    }

    /// Moves to the next state, and returns the effect of a block that is complete.
    fn advance_state(&mut self) -> Option<HeaderEffect> {
        if let FrameState::Priority(0, piece) = self.at {
            self.at = FrameState::Piece(piece);
        }
        if let FrameState::Piece(0) = self.at {
            self.at = FrameState::Skipping(self.padding);
            let [.., flags, _, _, _, _] = self.head;
            if flags & END_HEADERS != 0 {
                if let FrameState::Skipping(0) = self.at {
                    self.at = FrameState::Head(0);
                }
                self.block_bytes = 0;
                return Some(std::mem::take(&mut self.block).effect);
            }
        }
        if let FrameState::Skipping(0) = self.at {
            self.at = FrameState::Head(0);
        }
        None
    }

    /// Starts the frame whose head was read.
    fn begin_frame(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.padding = 0;
        if kind == RESET {
            self.streams.end_stream(id_of(&self.head));
        }
        self.at = match kind {
            HEADERS => {
                self.streams.open_stream(id_of(&self.head));
                self.block = HeaderBlock::default();
                self.block_bytes = 0;
                // A frame of length 0 with padding is malformed, and the library rejects it.
                if flags & PADDED != 0 && length > 0 {
                    FrameState::Padding(length - 1)
                } else {
                    self.at_priority(length)
                }
            }
            CONTINUATION => FrameState::Piece(length),
            _ => FrameState::Skipping(length),
        };
    }

    /// Returns the state after the padding's length, with `left` payload bytes to come.
    fn at_priority(&mut self, left: usize) -> FrameState {
        self.padding = self.padding.min(left);
        let left = left - self.padding;
        let [.., flags, _, _, _, _] = self.head;
        let priority = if flags & PRIORITY != 0 { PRIORITY_BYTES.min(left) } else { 0 };
        FrameState::Priority(priority, left - priority)
    }
}

/// Returns the stream id in a frame's head.
fn id_of(head: &[u8; HEAD_BYTES]) -> u32 {
    let [.., first, second, third, fourth] = *head;
    u32::from_be_bytes([first & 0x7f, second, third, fourth])
}

/// The open streams of a connection, by its frames in both directions.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: Vec<u32>,
    last: u32,
}

impl Streams {
    /// Records a header block: of a new stream, or the trailers of an open one.
    fn open_stream(&mut self, id: u32) {
        if id > self.last {
            self.last = id;
            self.open.push(id);
        }
    }

    /// Records that a stream was reset, or that its answer is completely written.
    pub(crate) fn end_stream(&mut self, id: u32) {
        self.open.retain(|open| *open != id);
    }

    /// Returns the number of open streams.
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }
}

/// Tracks the frames that a server writes, and which streams they end.
#[derive(Debug, Default)]
pub(crate) struct ResponseFrames {
    head: [u8; HEAD_BYTES],
    known: usize,
    remaining: usize,
}

impl ResponseFrames {
    /// Follows the written `bytes`, and ends the streams whose last frame is among them.
    pub(crate) fn follow_written(&mut self, mut bytes: &[u8], streams: &mut Streams) {
        while !bytes.is_empty() {
            let consumed = if self.remaining > 0 {
                let consumed = self.remaining.min(bytes.len());
                self.remaining -= consumed;
                consumed
            } else {
                let consumed = (HEAD_BYTES - self.known).min(bytes.len());
                for (slot, byte) in self.head.iter_mut().skip(self.known).zip(bytes) {
                    *slot = *byte;
                }
                self.known += consumed;
                consumed
            };
            bytes = bytes.get(consumed..).unwrap_or_default();
            if self.known == HEAD_BYTES && self.remaining == 0 {
                self.begin_frame(streams);
            }
        }
    }

    /// Starts the frame whose head is known, or expects the next head after its payload.
    fn begin_frame(&mut self, streams: &mut Streams) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.known = 0;
        self.remaining = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let is_last = matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
        if is_last || kind == RESET {
            streams.end_stream(id_of(&self.head));
        }
    }
}

/// A header block (RFC 7541), parsed up to the next byte.
#[derive(Debug, Default)]
struct HeaderBlock {
    at: HeaderState,
    /// The number of strings that follow before the next header.
    strings: u8,
    effect: HeaderEffect,
}

/// The position of the next byte in a header.
#[derive(Debug, Clone, Copy, Default)]
enum HeaderState {
    /// At its beginning.
    #[default]
    Header,
    /// In a multi-byte number: its purpose, its value so far, and the next byte's shift.
    Number(HpackInteger, usize, u32),
    /// At a string's length.
    Length,
    /// In a string, with this many bytes left.
    Text(usize),
}

#[derive(Debug, Clone, Copy)]
enum HpackInteger {
    /// The table index of a complete header.
    Indexed,
    /// The table index of a name; 0 means that the name is a literal.
    Name,
    /// The new size of the table.
    TableSize,
    /// A string's length.
    Length,
}

impl HeaderBlock {
    fn follow_byte(&mut self, byte: u8) {
        match self.at {
            HeaderState::Header => match byte {
                0x80.. => self.begin_number(HpackInteger::Indexed, byte, 7),
                0x40.. => {
                    self.effect.added = true;
                    self.begin_number(HpackInteger::Name, byte, 6);
                }
                0x20.. => self.begin_number(HpackInteger::TableSize, byte, 5),
                _ => self.begin_number(HpackInteger::Name, byte, 4),
            },
            HeaderState::Length => self.begin_number(HpackInteger::Length, byte, 7),
            HeaderState::Number(number, value, shift) => {
                let more = usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(NUMBER_MAX);
                let value = value.saturating_add(more).min(NUMBER_MAX);
                if byte & 0x80 == 0 {
                    self.end_number(number, value);
                } else {
                    self.at = HeaderState::Number(number, value, shift.saturating_add(7));
                }
            }
            HeaderState::Text(left) => self.skip_text(left - 1),
        }
    }

    /// Begins a number with a prefix of `bits` bits.
    fn begin_number(&mut self, number: HpackInteger, byte: u8, bits: u8) {
        let mask = (1_u8 << bits) - 1;
        if byte & mask == mask {
            self.at = HeaderState::Number(number, usize::from(mask), 0);
        } else {
            self.end_number(number, usize::from(byte & mask));
        }
    }

    fn end_number(&mut self, number: HpackInteger, value: usize) {
        match number {
            HpackInteger::Indexed => self.at = HeaderState::Header,
            HpackInteger::Name => {
                self.strings = if value == 0 { 2 } else { 1 };
                self.at = HeaderState::Length;
            }
            HpackInteger::TableSize => {
                self.effect.emptied |= value == 0 && !self.effect.added;
                self.at = HeaderState::Header;
            }
            HpackInteger::Length => self.skip_text(value),
        }
    }

    fn skip_text(&mut self, left: usize) {
        if left > 0 {
            self.at = HeaderState::Text(left);
            return;
        }
        self.strings = self.strings.saturating_sub(1);
        self.at = if self.strings > 0 { HeaderState::Length } else { HeaderState::Header };
    }
}

#[cfg(test)]
mod tests;
