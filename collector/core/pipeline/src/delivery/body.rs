//! The body of an insert: pieces of bytes that are sent one after the other.
//!
//! An insert's blocks are compressed one by one as they fill up, and each stays where it was
//! written. A single buffer would move at each growth and hold up to twice its content.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// Bytes in pieces. A clone shares them; reading one as a [`Buf`] doesn't shorten its clones.
#[derive(Clone, Debug, Default)]
pub struct InsertBody {
    /// No piece is empty.
    pieces: VecDeque<Bytes>,
    /// The length of all pieces.
    bytes: usize,
}

impl InsertBody {
    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies its bytes into one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces.iter().flatten().copied().collect()
    }
}

impl From<Vec<Vec<u8>>> for InsertBody {
    fn from(pieces: Vec<Vec<u8>>) -> Self {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).map(Bytes::from);
        let pieces: VecDeque<Bytes> = pieces.collect();
        Self { bytes: pieces.iter().map(Bytes::len).sum(), pieces }
    }
}

impl From<Vec<u8>> for InsertBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(vec![bytes])
    }
}

impl Buf for InsertBody {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], Bytes::as_ref)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = slices.len().min(self.pieces.len());
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece);
        }
        filled
    }

    /// Stops at the end: a body's reader skips only bytes that it has read from here.
    fn advance(&mut self, bytes: usize) {
        let mut left = bytes.min(self.bytes);
        self.bytes -= left;
        while let Some(first) = self.pieces.front_mut() {
            if left < first.len() {
                first.advance(left);
                return;
            }
            left -= first.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: pieces of odd lengths, also empty ones, are read in steps that end inside pieces,
    /// at their ends and behind several. Guarantee: each method of reading returns all bytes in
    /// order; a clone made before has them all.
    #[test]
    fn all_bytes_are_read_in_order_in_steps_of_any_length() {
        let pieces =
            || vec![vec![], b"one".to_vec(), b"t".to_vec(), vec![], b"three four".to_vec()];
        let whole = pieces().concat();
        for step in 1..=whole.len() {
            let mut body = InsertBody::from(pieces());
            let before = body.clone();
            let mut read = Vec::new();
            while body.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 2];
                let filled = body.chunks_vectored(&mut slices);
                let gathered: Vec<u8> = slices[..filled].iter().flat_map(|s| s.to_vec()).collect();
                assert!(gathered.starts_with(body.chunk()) && !body.chunk().is_empty());
                assert!(body.to_vec().starts_with(&gathered));
                let taken = step.min(body.remaining());
                read.extend_from_slice(&body.to_vec()[..taken]);
                body.advance(taken);
                assert_eq!(body.len(), whole.len() - read.len());
            }
            assert_eq!((&read, before.to_vec()), (&whole, whole.clone()), "step {step}");
        }
    }

    /// An empty body has nothing to read and no piece.
    #[test]
    fn a_body_without_bytes_has_nothing_to_read() {
        let body = InsertBody::from(vec![vec![], vec![]]);
        assert!(body.is_empty() && !body.has_remaining() && body.chunk().is_empty());
        assert_eq!(body.chunks_vectored(&mut [IoSlice::new(&[])]), 0);
    }
}
