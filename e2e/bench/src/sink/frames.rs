//! The first bytes of each of ClickHouse's frames in a body that comes in pieces.
//!
//! Pure. Contents are passed over by the length in a frame's head.

/// Checksum (16), method (1), sizes (4 + 4).
pub(super) const FRAME_HEAD_BYTES: usize = 25;
/// The compressed size counts itself and what is behind the checksum.
const CHECKSUM_BYTES: usize = 16;
const SIZE_AT: usize = 17;
/// Kept of each frame: its head, and of its content what names a block's first column.
const KEPT_BYTES: usize = FRAME_HEAD_BYTES + 128;

/// Reads a body's frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    heads: Vec<Vec<u8>>,
    /// Of the last frame: bytes that were read, and how many it has, once its head was.
    read: usize,
    total: Option<usize>,
}

impl Frames {
    /// Takes the next piece of the body.
    pub(super) fn feed(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            if self.read == 0 {
                self.heads.push(Vec::new());
            }
            let Some(head) = self.heads.last_mut() else { return };
            let wanted = match self.total {
                None => FRAME_HEAD_BYTES - self.read,
                Some(total) => total - self.read,
            };
            let (part, rest) = piece.split_at(wanted.min(piece.len()));
            head.extend_from_slice(&part[..part.len().min(KEPT_BYTES - head.len())]);
            self.read += part.len();
            piece = rest;
            if self.total.is_none() && self.read == FRAME_HEAD_BYTES {
                let size =
                    head[SIZE_AT..].first_chunk().map_or(0, |size| u32::from_le_bytes(*size));
                self.total = Some((CHECKSUM_BYTES + size as usize).max(FRAME_HEAD_BYTES));
            }
            if self.total == Some(self.read) {
                (self.read, self.total) = (0, None);
            }
        }
    }

    /// The first bytes of each frame so far.
    pub(super) fn heads(&self) -> &[Vec<u8>] {
        &self.heads
    }
}
