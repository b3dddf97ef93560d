//! HTTP/2 as it comes off the socket, bounded before the library reads it.
//!
//! The library bounds a header list's content, not the memory that it keeps: every unfinished block
//! may have six frames, the entries of the header table hold on to the buffers they were read into,
//! and all that the socket has is read before one request is handled. Here frames and header blocks
//! are followed without being decoded, and limited by [`BLOCK_FACTOR`], a [`TableRoom`] and a
//! [`Turn`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{Answers, Frames};
use super::room::{HEADS_PER_TURN, Http2Room, TableRoom};

/// A header block's length on the wire, as a multiple of the longest header list. A list is longer
/// than its block, except where text is written in the longest codes; past the list's own limit a
/// request is still answered with 431.
const BLOCK_FACTOR: usize = 2;

/// Bytes that are read in one turn: until the requests' tasks have had theirs, nobody's buffer
/// covers them.
const TURN_BYTES: usize = 32 * 1024;

/// Bytes that are read at once past the end of the frame that is being read.
const STEP_BYTES: usize = 2 * 1024;

/// The longest header block of a stream that found no room: it lies within the read buffer, which a
/// connection has in any case. A usual client's have a few hundred bytes.
const SHORT_BLOCK_BYTES: usize = 4 * 1024;

/// What a connection has read since it was last polled. Whoever polls it begins a new one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn {
    heads: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl Turn {
    /// All requests read so far have been looked at.
    pub(crate) fn begin(&self) {
        self.heads.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.heads.load(Ordering::Relaxed) >= HEADS_PER_TURN
            || self.bytes.load(Ordering::Relaxed) >= TURN_BYTES
    }
}

/// A stream that HTTP/2 is read from.
pub(crate) struct Guarded<S> {
    stream: S,
    turn: Turn,
    frames: Frames,
    answers: Answers,
    room: Http2Room,
    table: TableRoom,
}

impl<S> Guarded<S> {
    /// `list_bytes` is the longest header list taken.
    pub(crate) fn new(
        stream: S,
        turn: Turn,
        list_bytes: usize,
        room: Http2Room,
        table: TableRoom,
    ) -> Self {
        let frames = Frames::new(list_bytes.saturating_mul(BLOCK_FACTOR));
        Self { stream, turn, frames, answers: Answers::default(), room, table }
    }

    /// Follows what was read.
    fn follow(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.turn.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        while !bytes.is_empty() {
            let (read, block) = self.frames.follow(bytes)?;
            bytes = bytes.get(read..).unwrap_or_default();
            let Some(block) = block else { continue };
            self.turn.heads.fetch_add(1, Ordering::Relaxed);
            if block.emptied {
                self.table.empty();
            }
            if block.added && !self.table.grow() {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
        }
        let streams = self.frames.streams().count();
        let is_long = self.frames.unfinished_bytes() > SHORT_BLOCK_BYTES;
        if self.room.follow(streams) || (self.room.bears(streams) && !is_long) {
            Ok(())
        } else {
            Err(io::ErrorKind::QuotaExceeded.into())
        }
    }

    /// Follows what was written.
    fn wrote(&mut self, bytes: &[u8]) {
        let streams = self.frames.streams();
        self.answers.follow(bytes, streams);
        // Fewer streams always have room.
        let _ = self.room.follow(streams.count());
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.turn.is_over() {
            // Again at once, after the tasks that wait already.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let most = buffer.remaining().min(this.frames.left() + STEP_BYTES);
        let mut step = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut this.stream).poll_read(context, &mut step))?;
        let read = step.filled().len();
        this.follow(step.filled())?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.wrote(bytes.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        let mut left = written;
        for slice in slices {
            let taken = left.min(slice.len());
            self.wrote(slice.get(..taken).unwrap_or_default());
            left -= taken;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
