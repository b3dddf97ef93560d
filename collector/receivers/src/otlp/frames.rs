//! Follows HTTP/2 frames and their header blocks byte by byte without decoding them: where a block
//! ends, how long it is, and whether it adds to the header table.
//!
//! The library finds malformed input; until then only lengths are trusted here.

use std::io;

/// The client's first words.
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

/// A stream's priority in the head of a block.
const PRIORITY_BYTES: usize = 5;

/// The largest number that is followed: a table's size or a string's length far past any limit.
const NUMBER_MAX: usize = 1 << 28;

/// What a header block did to the header table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// It added an entry.
    pub(crate) added: bool,
    /// It emptied the table, before it added anything.
    pub(crate) emptied: bool,
}

/// The frames of one connection.
#[derive(Debug)]
pub(crate) struct Frames {
    at: At,
    head: [u8; HEAD_BYTES],
    /// The padding at the end of the frame.
    padding: usize,
    block: Block,
    block_bytes: usize,
    block_bytes_max: usize,
    streams: Streams,
}

/// Where in a frame the next byte is.
#[derive(Debug, Clone, Copy)]
enum At {
    /// In its head, with so many bytes read.
    Head(usize),
    /// In bytes of no concern, with so many to go.
    Rest(usize),
    /// At the length of the padding, before so many bytes of the payload.
    Padding(usize),
    /// Before a priority of so many bytes, and so many bytes of the payload behind it.
    Priority(usize, usize),
    /// In a piece of a header block, with so many bytes to go.
    Piece(usize),
}

impl Frames {
    /// At a connection's first byte, with blocks of at most `block_bytes_max`.
    pub(crate) fn new(block_bytes_max: usize) -> Self {
        Self {
            at: At::Rest(PREFACE_BYTES),
            head: [0; HEAD_BYTES],
            padding: 0,
            block: Block::default(),
            block_bytes: 0,
            block_bytes_max,
            streams: Streams::default(),
        }
    }

    /// Streams that the client has opened and nobody has ended.
    pub(crate) fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// Bytes of the header block that is being read; 0 between blocks.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.block_bytes
    }

    /// How many bytes of the frame are still to come, as far as that is known.
    pub(crate) fn left(&self) -> usize {
        match self.at {
            At::Head(_) => 0,
            At::Rest(left) | At::Padding(left) | At::Priority(_, left) | At::Piece(left) => left,
        }
    }

    /// Follows `bytes` to the end of the first header block in them: how many that were, and what
    /// the block did.
    ///
    /// # Errors
    /// When a block is too long.
    pub(crate) fn follow(&mut self, bytes: &[u8]) -> io::Result<(usize, Option<Effect>)> {
        let mut rest = bytes;
        while let Some((first, others)) = rest.split_first() {
            let taken = match self.at {
                At::Head(known) => {
                    if let Some(place) = self.head.get_mut(known) {
                        *place = *first;
                    }
                    self.at = At::Head(known + 1);
                    if known + 1 == HEAD_BYTES {
                        self.begin();
                    }
                    1
                }
                At::Rest(left) => {
                    let taken = left.min(rest.len());
                    self.at = At::Rest(left - taken);
                    taken
                }
                At::Padding(left) => {
                    self.padding = usize::from(*first);
                    self.at = self.priority(left);
                    1
                }
                At::Priority(left, piece) => {
                    let taken = left.min(rest.len());
                    self.at = At::Priority(left - taken, piece);
                    taken
                }
                At::Piece(left) => {
                    let taken = left.min(rest.len());
                    self.block_bytes += taken;
                    if self.block_bytes > self.block_bytes_max {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    rest.iter().take(taken).for_each(|byte| self.block.follow(*byte));
                    self.at = At::Piece(left - taken);
                    taken
                }
            };
            rest = rest.get(taken..).unwrap_or(others);
            if let Some(effect) = self.step() {
                return Ok((bytes.len() - rest.len(), Some(effect)));
            }
        }
        Ok((bytes.len(), None))
    }

    /// Goes on from what is done; tells a block that is.
    fn step(&mut self) -> Option<Effect> {
        if let At::Priority(0, piece) = self.at {
            self.at = At::Piece(piece);
        }
        if let At::Piece(0) = self.at {
            self.at = At::Rest(self.padding);
            let [.., flags, _, _, _, _] = self.head;
            if flags & END_HEADERS != 0 {
                if let At::Rest(0) = self.at {
                    self.at = At::Head(0);
                }
                self.block_bytes = 0;
                return Some(std::mem::take(&mut self.block).effect);
            }
        }
        if let At::Rest(0) = self.at {
            self.at = At::Head(0);
        }
        None
    }

    /// A frame's head is known.
    fn begin(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.padding = 0;
        if kind == RESET {
            self.streams.end(id_of(&self.head));
        }
        self.at = match kind {
            HEADERS => {
                self.streams.open(id_of(&self.head));
                self.block = Block::default();
                self.block_bytes = 0;
                // At a padding of no length the frame is malformed, and the library says so.
                if flags & PADDED != 0 && length > 0 {
                    At::Padding(length - 1)
                } else {
                    self.priority(length)
                }
            }
            CONTINUATION => At::Piece(length),
            _ => At::Rest(length),
        };
    }

    /// Behind the padding's length, with `left` bytes of the payload to come.
    fn priority(&mut self, left: usize) -> At {
        self.padding = self.padding.min(left);
        let left = left - self.padding;
        let [.., flags, _, _, _, _] = self.head;
        let priority = if flags & PRIORITY != 0 { PRIORITY_BYTES.min(left) } else { 0 };
        At::Priority(priority, left - priority)
    }
}

/// The stream of a frame, by its head.
fn id_of(head: &[u8; HEAD_BYTES]) -> u32 {
    let [.., first, second, third, fourth] = *head;
    u32::from_be_bytes([first & 0x7f, second, third, fourth])
}

/// The streams of a connection that are open, by their frames in both directions.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: Vec<u32>,
    last: u32,
}

impl Streams {
    /// A header block came: of a new stream, or the trailers of an open one.
    fn open(&mut self, id: u32) {
        if id > self.last {
            self.last = id;
            self.open.push(id);
        }
    }

    /// A stream was reset, or its answer is written to its end.
    pub(crate) fn end(&mut self, id: u32) {
        self.open.retain(|open| *open != id);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }
}

/// The frames that a server writes: which streams they end.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    head: [u8; HEAD_BYTES],
    known: usize,
    rest: usize,
}

impl Answers {
    /// Follows `bytes` that were written, and ends the streams whose last frame is among them.
    pub(crate) fn follow(&mut self, mut bytes: &[u8], streams: &mut Streams) {
        while !bytes.is_empty() {
            let taken = if self.rest > 0 {
                let taken = self.rest.min(bytes.len());
                self.rest -= taken;
                taken
            } else {
                let taken = (HEAD_BYTES - self.known).min(bytes.len());
                for (place, byte) in self.head.iter_mut().skip(self.known).zip(bytes) {
                    *place = *byte;
                }
                self.known += taken;
                taken
            };
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.known == HEAD_BYTES && self.rest == 0 {
                self.begin(streams);
            }
        }
    }

    /// A frame's head is known; or, behind its payload, the next one's is to come.
    fn begin(&mut self, streams: &mut Streams) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.known = 0;
        self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let is_last = matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
        if is_last || kind == RESET {
            streams.end(id_of(&self.head));
        }
    }
}

/// A header block (RFC 7541), up to the next byte.
#[derive(Debug, Default)]
struct Block {
    at: Within,
    /// Strings that follow before the next header.
    strings: u8,
    effect: Effect,
}

/// Where in a header the next byte is.
#[derive(Debug, Clone, Copy, Default)]
enum Within {
    /// At its beginning.
    #[default]
    Header,
    /// In a number that goes on: what it is for, its value so far, and how far the next byte is
    /// shifted.
    Number(Number, usize, u32),
    /// At a string's length.
    Length,
    /// In a string, with so many bytes to go.
    Text(usize),
}

#[derive(Debug, Clone, Copy)]
enum Number {
    /// A whole header's place in the table.
    Indexed,
    /// A name's place in the table; 0 says that the name is written out.
    Name,
    /// The table's size from now on.
    TableSize,
    /// A string's length.
    Length,
}

impl Block {
    fn follow(&mut self, byte: u8) {
        match self.at {
            Within::Header => match byte {
                0x80.. => self.begin(Number::Indexed, byte, 7),
                0x40.. => {
                    self.effect.added = true;
                    self.begin(Number::Name, byte, 6);
                }
                0x20.. => self.begin(Number::TableSize, byte, 5),
                _ => self.begin(Number::Name, byte, 4),
            },
            Within::Length => self.begin(Number::Length, byte, 7),
            Within::Number(number, value, shift) => {
                let more = usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(NUMBER_MAX);
                let value = value.saturating_add(more).min(NUMBER_MAX);
                if byte & 0x80 == 0 {
                    self.end(number, value);
                } else {
                    self.at = Within::Number(number, value, shift.saturating_add(7));
                }
            }
            Within::Text(left) => self.text(left - 1),
        }
    }

    /// A number with a prefix of so many bits.
    fn begin(&mut self, number: Number, byte: u8, bits: u8) {
        let mask = (1_u8 << bits) - 1;
        if byte & mask == mask {
            self.at = Within::Number(number, usize::from(mask), 0);
        } else {
            self.end(number, usize::from(byte & mask));
        }
    }

    fn end(&mut self, number: Number, value: usize) {
        match number {
            Number::Indexed => self.at = Within::Header,
            Number::Name => {
                self.strings = if value == 0 { 2 } else { 1 };
                self.at = Within::Length;
            }
            Number::TableSize => {
                self.effect.emptied |= value == 0 && !self.effect.added;
                self.at = Within::Header;
            }
            Number::Length => self.text(value),
        }
    }

    fn text(&mut self, left: usize) {
        if left > 0 {
            self.at = Within::Text(left);
            return;
        }
        self.strings = self.strings.saturating_sub(1);
        self.at = if self.strings > 0 { Within::Length } else { Within::Header };
    }
}

#[cfg(test)]
#[path = "../../tests/unit/otlp/frames.rs"]
mod tests;
