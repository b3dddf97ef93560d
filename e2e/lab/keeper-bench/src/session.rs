//! One session under load: it keeps requests under way, matches replies with them, and counts. A
//! session whose connection breaks opens another. It decides nothing about what is asked.
//!
//! All of it is one state machine on one thread: a wake-up reads what is there, makes as many
//! requests as have room, and writes them at once.

mod alarm;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Interval, MissedTickBehavior};

use crate::session::alarm::Alarm;
use crate::shared::Shared;
use crate::source::Source;
use crate::source::pace::Due;
use crate::tally::{Outcome, Tally, Window};
use crate::wire::{
    CONNECTION_LOSS, Connection, DialError, Head, Malformed, NO_NODE, Notification,
    OPERATION_TIMEOUT, PING_XID, REPLY_BYTES_MAX, Reader, Request, WATCH_XID, WatchMode, frame,
    multi_error,
};
use crate::workload::Kind;

/// Replies are read into this much first; it grows to the longest.
const INBOX_BYTES: usize = 16 << 10;
/// Between attempts to open a session.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);
/// How often time limits and silence are looked at.
const TICK_MAX: Duration = Duration::from_secs(1);
/// Requests that aren't the workload's began at no time, so they aren't measured.
const UNMEASURED: u64 = 0;

/// A request under way.
#[derive(Debug, Clone, Copy)]
struct Pending {
    xid: i32,
    kind: Kind,
    watch: bool,
    /// When it was sent, or due.
    began: u64,
    sent: u64,
}

/// Why the state machine stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Nothing more is to be asked, and all is answered.
    Done,
    /// The session has had its share of operations.
    Spent,
    /// With the error that its requests are counted under.
    Lost(i32),
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It makes requests.
    Load,
    /// It makes no more; those under way are answered.
    Finish,
    /// It takes notifications, for as long as others may cause them.
    Linger,
}

/// What sessions of one thread have in common.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tally: RefCell<Tally>,
    pub(crate) window: Window,
}

/// A session, open and not yet loaded.
#[derive(Debug)]
pub(crate) struct Session {
    nth: usize,
    connection: Connection,
    source: Source,
    /// Watches to set when it begins.
    watches: Vec<(String, WatchMode)>,
    /// Measured operations that it may still begin.
    quota: u64,
    alarm: Alarm,
}

impl Session {
    pub(crate) async fn open(
        shared: &Shared,
        nth: usize,
        source: Source,
        watches: Vec<(String, WatchMode)>,
        quota: u64,
    ) -> Result<Self, DialError> {
        let mut connection = Connection::open(&shared.access, nth).await?;
        let server = || shared.access.servers[nth % shared.access.servers.len()].clone();
        let alarm = Alarm::new().map_err(|cause| DialError::Reach { server: server(), cause })?;
        for (path, mode) in &watches {
            let set = connection.call(&Request::AddWatch { path, mode: *mode }).await;
            set.map_err(|cause| DialError::Refused { server: server(), cause })?;
        }
        Ok(Self { nth, connection, source, watches, quota, alarm })
    }

    /// Makes its load, and returns once nothing of it is under way.
    pub(crate) async fn run(mut self, thread: Rc<Thread>, go: u64) {
        self.source.start(go);
        thread.tally.borrow_mut().watches_set += self.watches.len() as u64;
        let mut driver = Driver::new(self, thread);
        loop {
            match driver.until_stopped().await {
                Stop::Done => break,
                Stop::Spent => driver.close().await,
                Stop::Lost(code) => driver.lose(code),
            }
            if !driver.reopen().await {
                break;
            }
        }
        driver.linger().await;
        driver.close().await;
    }
}

/// A session with what it has under way.
struct Driver {
    session: Session,
    thread: Rc<Thread>,
    phase: Phase,
    measuring: bool,
    under_way: VecDeque<Pending>,
    out: Vec<u8>,
    written: usize,
    inbox: Vec<u8>,
    /// What of the inbox is read and not yet taken.
    unread: (usize, usize),
    xid: i32,
    last_sent: u64,
    /// Operations left of this session, if sessions are short.
    left: u64,
    tick: Interval,
}

impl Driver {
    fn new(session: Session, thread: Rc<Thread>) -> Self {
        let timeout = session.connection.timeout.min(thread.shared.terms.operation_timeout);
        let mut tick =
            tokio::time::interval((timeout / 4).clamp(Duration::from_millis(5), TICK_MAX));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            phase: Phase::Load,
            measuring: false,
            under_way: VecDeque::with_capacity(thread.shared.terms.pipeline),
            out: Vec::new(),
            written: 0,
            inbox: vec![0; INBOX_BYTES],
            unread: (0, 0),
            xid: 0,
            last_sent: thread.shared.now(),
            left: thread.shared.terms.session_operations.unwrap_or(u64::MAX),
            tick,
            session,
            thread,
        }
    }

    async fn until_stopped(&mut self) -> Stop {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        loop {
            let mut moved = false;
            if let Err(stop) = self.fill() {
                return Poll::Ready(stop);
            }
            match self.poll_write(cx) {
                Ok(wrote) => moved |= wrote,
                Err(_) => return Poll::Ready(Stop::Lost(CONNECTION_LOSS)),
            }
            match self.poll_read(cx) {
                Ok(read) => moved |= read,
                Err(_) => return Poll::Ready(Stop::Lost(CONNECTION_LOSS)),
            }
            if self.under_way.is_empty() && self.written == self.out.len() {
                match self.phase {
                    Phase::Finish => return Poll::Ready(Stop::Done),
                    Phase::Load if self.left == 0 => return Poll::Ready(Stop::Spent),
                    _ => {}
                }
            }
            while self.tick.poll_tick(cx).is_ready() {
                moved = true;
                if self.is_overdue() {
                    return Poll::Ready(Stop::Lost(OPERATION_TIMEOUT));
                }
                self.ping();
            }
            match self.session.alarm.poll(cx) {
                Poll::Ready(Ok(())) => moved = true,
                Poll::Ready(Err(_)) => return Poll::Ready(Stop::Lost(CONNECTION_LOSS)),
                Poll::Pending => {}
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    /// Makes requests while there is room.
    fn fill(&mut self) -> Result<(), Stop> {
        if self.phase != Phase::Load {
            return Ok(());
        }
        let thread = self.thread.clone();
        let (terms, now) = (&thread.shared.terms, thread.shared.now());
        let window = thread.window;
        while self.under_way.len() < terms.pipeline && self.left > 0 {
            let began = match self.session.source.due() {
                Due::AtOnce => now,
                Due::At(due) => due,
                Due::Never => u64::MAX,
            };
            let late = |at| window.end.is_some_and(|end| at >= end);
            if late(began) || late(now) || began == u64::MAX || thread.shared.is_stopped() {
                self.phase = Phase::Finish;
                if let Some(end) = window.end {
                    thread.tally.borrow_mut().unsent += self.session.source.overdue(end);
                }
                return Ok(());
            }
            if began > now {
                let set = self.session.alarm.set(began, began - now);
                return set.map_err(|_| Stop::Lost(CONNECTION_LOSS));
            }
            if began >= window.start {
                if self.session.quota == 0 {
                    self.phase = Phase::Finish;
                    return Ok(());
                }
                if !self.measuring {
                    self.measuring = true;
                    self.session.source.begin_measuring();
                }
                self.session.quota -= 1;
            }
            self.left -= 1;
            self.xid = self.xid.checked_add(1).unwrap_or(1);
            let notes = thread.shared.changes.as_ref().map(|changes| (changes, now));
            let made = self.session.source.make(&mut self.out, self.xid, notes);
            let Some(made) = made else { continue };
            self.last_sent = now;
            let (kind, watch) = (made.kind, made.watch);
            self.under_way.push_back(Pending { xid: self.xid, kind, watch, began, sent: now });
        }
        Ok(())
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut moved = false;
        while self.written < self.out.len() {
            let stream = Pin::new(&mut self.session.connection.stream);
            match stream.poll_write(cx, &self.out[self.written..])? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => {
                    self.written += count;
                    moved = true;
                }
                Poll::Pending => break,
            }
        }
        if self.written > 0 && self.written == self.out.len() {
            self.thread.shared.bytes_sent(self.written);
            self.out.clear();
            self.written = 0;
        }
        if moved {
            // Only TLS holds anything back.
            let stream = Pin::new(&mut self.session.connection.stream);
            if let Poll::Ready(flushed) = stream.poll_flush(cx) {
                flushed?;
            }
        }
        Ok(moved)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut buffer = ReadBuf::new(&mut self.inbox[self.unread.1..]);
        match Pin::new(&mut self.session.connection.stream).poll_read(cx, &mut buffer)? {
            Poll::Pending => return Ok(false),
            Poll::Ready(()) => {}
        }
        let count = buffer.filled().len();
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.unread.1 += count;
        self.thread.shared.bytes_received(count);
        self.take_frames().map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(true)
    }

    /// Takes every whole message out of the inbox, and makes room for the next.
    fn take_frames(&mut self) -> Result<(), Malformed> {
        let now = self.thread.shared.now();
        let inbox = std::mem::take(&mut self.inbox);
        let (mut start, end) = self.unread;
        let mut needed = 0;
        let (mut ended, mut failed) = (0, 0);
        let mut tally = self.thread.tally.borrow_mut();
        let result = loop {
            let Some(head) = inbox[start..end].first_chunk() else { break Ok(()) };
            let length = usize::try_from(i32::from_be_bytes(*head)).unwrap_or(usize::MAX);
            if length > REPLY_BYTES_MAX {
                break Err(Malformed);
            }
            let Some(message) = inbox[start..end].get(4..4 + length) else {
                needed = 4 + length;
                break Ok(());
            };
            start += 4 + length;
            match take_message(message, now, &mut self.under_way, &mut tally, &self.thread.shared) {
                Ok(Some(error)) => {
                    ended += 1;
                    failed += u64::from(error);
                }
                Ok(None) => {}
                Err(malformed) => break Err(malformed),
            }
        };
        drop(tally);
        self.thread.shared.progress.add(ended, failed);
        self.inbox = inbox;
        self.inbox.copy_within(start..end, 0);
        self.unread = (0, end - start);
        if needed > self.inbox.len() || self.unread.1 == self.inbox.len() {
            self.inbox.resize(needed.max(self.inbox.len() * 2), 0);
        }
        result
    }

    /// The oldest request has waited too long.
    fn is_overdue(&self) -> bool {
        let limit = self.thread.shared.terms.operation_timeout;
        let now = self.thread.shared.now();
        self.under_way
            .front()
            .is_some_and(|oldest| Duration::from_nanos(now.saturating_sub(oldest.sent)) > limit)
    }

    /// Keeps a silent session alive.
    fn ping(&mut self) {
        let now = self.thread.shared.now();
        let silent = Duration::from_nanos(now.saturating_sub(self.last_sent));
        if silent > self.session.connection.timeout / 3 {
            frame(&mut self.out, PING_XID, &Request::Ping);
            self.last_sent = now;
        }
    }

    /// Everything under way has failed with the connection.
    fn lose(&mut self, code: i32) {
        let now = self.thread.shared.now();
        let mut tally = self.thread.tally.borrow_mut();
        tally.lost += 1;
        self.thread.shared.progress.add(0, self.under_way.len() as u64);
        for pending in self.under_way.drain(..) {
            tally.record(pending.kind, pending.began, now, Outcome::Lost(code));
        }
    }

    /// Opens the next session, at another server if one fails. False: the run is over before.
    async fn reopen(&mut self) -> bool {
        self.under_way.clear();
        self.out.clear();
        (self.written, self.unread) = (0, (0, 0));
        let shared = self.thread.shared.clone();
        let mut server = self.session.nth;
        while self.phase == Phase::Load && !shared.is_stopped() {
            let began = shared.now();
            let over = self.thread.window.end.is_some_and(|end| began >= end);
            if over || self.session.quota == 0 || self.session.source.due() == Due::Never {
                break;
            }
            let opened = Connection::open(&shared.access, server).await;
            let outcome = match &opened {
                Ok(_) => Outcome::Replied(0),
                Err(_) => Outcome::Lost(CONNECTION_LOSS),
            };
            self.thread.tally.borrow_mut().record(Kind::Connect, began, shared.now(), outcome);
            if let Ok(connection) = opened {
                self.session.connection = connection;
                self.session.source.begin_session();
                self.left = shared.terms.session_operations.unwrap_or(u64::MAX);
                self.last_sent = shared.now();
                self.set_watches();
                return true;
            }
            server += 1;
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
        if self.phase == Phase::Load
            && let Some(end) = self.thread.window.end
        {
            self.thread.tally.borrow_mut().unsent += self.session.source.overdue(end);
        }
        false
    }

    /// A request that isn't the workload's.
    fn ask(&mut self, request: &Request<'_>, watch: bool) {
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        frame(&mut self.out, self.xid, request);
        let (kind, began, sent) = (Kind::Sync, UNMEASURED, self.thread.shared.now());
        self.last_sent = sent;
        self.under_way.push_back(Pending { xid: self.xid, kind, watch, began, sent });
    }

    /// Sets the watches that stay.
    fn set_watches(&mut self) {
        for (path, mode) in std::mem::take(&mut self.session.watches) {
            self.ask(&Request::AddWatch { path: &path, mode }, true);
            self.session.watches.push((path, mode));
        }
    }

    /// Waits until every session has ended its load, then asks for one thing more: a server sends
    /// a watch's notification before the reply to what is asked after the change. So every
    /// notification is counted.
    async fn linger(&mut self) {
        let shared = self.thread.shared.clone();
        shared.session_ended();
        if !shared.terms.watching {
            return;
        }
        self.phase = Phase::Linger;
        tokio::select! {
            () = shared.all_ended() => {}
            _ = poll_fn(|cx| self.poll(cx)) => return,
        }
        self.ask(&Request::Sync { path: &shared.terms.root }, false);
        self.ask(&Request::Exists { path: &shared.terms.root, watch: false }, false);
        self.phase = Phase::Finish;
        self.until_stopped().await;
    }

    /// Ends the session, so that the server need not wait for its time to run out.
    async fn close(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Finish);
        self.ask(&Request::Close, false);
        // A server that is gone has nothing to be told.
        self.until_stopped().await;
        self.phase = phase;
    }
}

/// Some if it was the reply to a request under way: whether with an error that isn't ignored.
fn take_message(
    message: &[u8],
    now: u64,
    under_way: &mut VecDeque<Pending>,
    tally: &mut Tally,
    shared: &Shared,
) -> Result<Option<bool>, Malformed> {
    let mut reader = Reader::new(message);
    let head = Head::read(&mut reader)?;
    match head.xid {
        WATCH_XID => {
            let notification = Notification::read(&mut reader)?;
            if notification.is_change {
                let changes = shared.changes.as_ref();
                let age = changes.and_then(|changes| changes.age(notification.path, now));
                tally.watch_fired(now, age);
                shared.progress.watch_fired();
            }
            return Ok(None);
        }
        PING_XID => return Ok(None),
        _ => {}
    }
    let pending = under_way.pop_front().ok_or(Malformed)?;
    if pending.xid != head.xid {
        return Err(Malformed);
    }
    let mut error = head.error;
    if error == 0 && pending.kind.is_multi() {
        error = multi_error(&mut reader)?.unwrap_or(0);
    }
    // A watch on a node that isn't there waits for it to come.
    if pending.watch && (error == 0 || (pending.kind == Kind::Exists && error == NO_NODE)) {
        tally.watch_set(if pending.began == UNMEASURED { now } else { pending.began });
    }
    if pending.began == UNMEASURED {
        return Ok(None);
    }
    tally.record(pending.kind, pending.began, now, Outcome::Replied(error));
    Ok(Some(error != 0 && !shared.terms.ignore.contains(&error)))
}
