//! A timer that is exact to some microseconds. The runtime's own rounds up to a millisecond, which
//! would stand in every latency of an open loop.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fd::AsFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::Receiver;

/// One timer, which rings once for each time that it is set.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// The kernel's timer, which is read like a pipe.
    timer: Receiver,
    set: Option<u64>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer: Receiver::from_owned_fd_unchecked(timer)?, set: None })
    }

    /// To ring at a moment, which is `nanoseconds` from now. Setting the same moment again is free.
    pub(crate) fn set(&mut self, moment: u64, nanoseconds: u64) -> io::Result<()> {
        if self.set == Some(moment) {
            return Ok(());
        }
        self.set = Some(moment);
        // Nought would stop it.
        let nanoseconds = nanoseconds.max(1);
        let value = Timespec {
            tv_sec: (nanoseconds / 1_000_000_000).cast_signed(),
            tv_nsec: (nanoseconds % 1_000_000_000).cast_signed(),
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &spec)?;
        Ok(())
    }

    /// Ready once it has rung; then it has to be set again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.set.is_none() {
            return Poll::Pending;
        }
        let mut count = [0; 8];
        let mut buffer = ReadBuf::new(&mut count);
        let read = std::task::ready!(Pin::new(&mut self.timer).poll_read(cx, &mut buffer));
        self.set = None;
        Poll::Ready(read)
    }
}
