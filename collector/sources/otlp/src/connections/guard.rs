//! Bounds HTTP/2 as it comes off the socket, before the library reads it.
//!
//! The library bounds a header list's content, not the memory that it retains: every unfinished
//! block may have six frames, paths in the header table retain the buffers they were read into, and
//! everything on the socket is read before one request is handled. Here frames and header blocks
//! are followed without being decoded, and limited by [`BLOCK_FACTOR`], a [`TableReservation`] and
//! a [`PollQuota`].
//!
//! `collector/tests/hostile` measured the library's limits alone, in a process with 128 MiB:
//! without a [`PollQuota`] long trailers took 43 MiB (10 with it), and 27 where it counts bytes but
//! no heads; without a [`TableReservation`] 30 connections took 31 MiB (15), 0.9 each; without the
//! limit of a block 60 connections took 12 MiB (4). A reservation that follows the open streams
//! allows three times as many idle connections as one that covers their maximum.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connections::connection_budget::{HEADS_PER_POLL, Http2Reservation, TableReservation};
use crate::connections::frames::{Frames, ResponseFrames};

/// The limit of a header block's length on the wire, as a multiple of the longest header list. A
/// list is longer than its block, except where text is written in the longest codes; past the
/// list's own limit a request is still answered with 431.
const BLOCK_FACTOR: usize = 2;

/// The bytes read in one turn: no buffer's reservation covers them until the requests' tasks have
/// run.
const POLL_BYTES: usize = 32 * 1024;

/// The bytes read at once past the end of the current frame.
const STEP_BYTES: usize = 2 * 1024;

/// The longest header block of a stream that found no budget. It fits into the read buffer that
/// each connection has. The usual clients' blocks have a few hundred bytes.
const SHORT_BLOCK_BYTES: usize = 4 * 1024;

/// Counts what a connection has read since it was last polled. Each poll begins a new turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct PollQuota {
    heads: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl PollQuota {
    /// Begins a turn: all requests read so far have been handled.
    pub(crate) fn reset_quota(&self) {
        self.heads.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    fn is_exhausted(&self) -> bool {
        self.heads.load(Ordering::Relaxed) >= HEADS_PER_POLL
            || self.bytes.load(Ordering::Relaxed) >= POLL_BYTES
    }
}

/// A stream from which HTTP/2 is read.
pub(crate) struct GuardedStream<S> {
    stream: S,
    quota: PollQuota,
    frames: Frames,
    responses: ResponseFrames,
    reservation: Http2Reservation,
    table: TableReservation,
}

impl<S> GuardedStream<S> {
    /// Wraps a stream. `list_bytes` is the longest header list accepted.
    pub(crate) fn new(
        stream: S,
        quota: PollQuota,
        list_bytes: usize,
        room: Http2Reservation,
        table: TableReservation,
    ) -> Self {
        let frames = Frames::new(list_bytes.saturating_mul(BLOCK_FACTOR));
        Self {
            stream,
            quota,
            frames,
            responses: ResponseFrames::default(),
            reservation: room,
            table,
        }
    }

    /// Follows the bytes that were read.
    fn follow_read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.quota.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        while !bytes.is_empty() {
            let (read, block) = self.frames.follow_bytes(bytes)?;
            bytes = bytes.get(read..).unwrap_or_default();
            let Some(block) = block else { continue };
            self.quota.heads.fetch_add(1, Ordering::Relaxed);
            if block.emptied {
                self.table.release_all();
            }
            if block.added && !self.table.add_block() {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
        }
        let streams = self.frames.streams().open_count();
        let is_long = self.frames.unfinished_bytes() > SHORT_BLOCK_BYTES;
        if self.reservation.cover_streams(streams)
            || (self.reservation.can_refuse(streams) && !is_long)
        {
            Ok(())
        } else {
            Err(io::ErrorKind::QuotaExceeded.into())
        }
    }

    /// Follows the bytes that were written.
    fn follow_written(&mut self, bytes: &[u8]) {
        let streams = self.frames.streams();
        self.responses.follow_written(bytes, streams);
        // Shrinking to fewer streams can't fail.
        let _ = self.reservation.cover_streams(streams.open_count());
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.quota.is_exhausted() {
            // Poll again at once, after the tasks that already wait.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let most = buffer.remaining().min(this.frames.remaining_bytes() + STEP_BYTES);
        let mut step = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut this.stream).poll_read(context, &mut step))?;
        let read = step.filled().len();
        this.follow_read(step.filled())?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.follow_written(bytes.get(..written).unwrap_or_default());
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
            let part = left.min(slice.len());
            self.follow_written(slice.get(..part).unwrap_or_default());
            left -= part;
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
