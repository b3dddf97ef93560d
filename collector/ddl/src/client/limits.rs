//! What is taken from a server: answers up to a length, out of a budget that all clients of a
//! process may share; and whom it may be asked at: never a link-local address, if so told.
//!
//! The HTTP client under us reads error answers whole and has no limit of its own, so bytes are
//! counted where they come in, below it.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll, ready};

use hyper::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

/// Bytes taken from a connection before they are paid for: few, as each connection may hold so
/// many.
const PIECE_BYTES: usize = 8 * 1024;

/// What an answer begins with up to its status: `HTTP/1.1 200`.
const STATUS_LINE_BYTES: usize = 12;

type BoxedError = Box<dyn StdError + Send + Sync>;
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Bytes of answers that all who share it hold at once. Clones share it.
///
/// Who finds none left waits. Some who wait may hold a part of their answer, and all of them
/// together everything; so one of them at a time may go on beyond the budget, up to the longest
/// answer.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes: Arc<Semaphore>,
    beyond: Arc<Semaphore>,
}

impl Budget {
    /// So many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { bytes: Arc::new(Semaphore::new(bytes)), beyond: Arc::new(Semaphore::new(1)) }
    }

    /// Bytes that nobody holds.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.available_permits()
    }

    /// Takes all that somebody needs who holds nothing; waits for it.
    ///
    /// # Errors
    /// Never, as long as the budget is there.
    pub async fn take(&self, bytes: u32) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.bytes.clone().acquire_many_owned(bytes).await
    }

    /// Takes more for somebody who holds a part, or lets him go on without.
    async fn take_more(self, bytes: u32) -> Result<Paid, AcquireError> {
        tokio::select! {
            biased;
            paid = self.bytes.acquire_many_owned(bytes) => paid.map(Paid::Bytes),
            leave = self.beyond.acquire_owned() => leave.map(Paid::Leave),
        }
    }
}

/// What a piece was paid with.
enum Paid {
    Bytes(OwnedSemaphorePermit),
    /// Leave to go on beyond the budget.
    Leave(OwnedSemaphorePermit),
}

/// What a client takes from a server, and where it asks. Everything, anywhere, unless said.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The longest answer to one statement, in bytes.
    pub answer_bytes_max: Option<usize>,
    /// What answers are taken out of; only with a longest answer.
    pub budget: Option<Budget>,
    /// Link-local addresses, such as a cloud's metadata service, are not connected to.
    pub refuses_link_local: bool,
}

/// The HTTP status of a server's last answer; none before, and of answers that aren't counted. All
/// connections to the server share it: who asks it several things at once may see another's.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastStatus(Arc<AtomicU16>);

impl LastStatus {
    /// The number, if there was an answer.
    pub(crate) fn get(&self) -> Option<u16> {
        Some(self.0.load(Ordering::Relaxed)).filter(|status| *status > 0)
    }

    /// Takes the number out of the beginning of an answer.
    fn note(&self, line: &[u8]) {
        let number = line.get(STATUS_LINE_BYTES - 3..STATUS_LINE_BYTES);
        let number = number.and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
        if let Some(status) = number.filter(|_| line.starts_with(b"HTTP/1.")) {
            self.0.store(status, Ordering::Relaxed);
        }
    }
}

/// An answer was longer than it may be.
#[derive(Debug, thiserror::Error)]
#[error("its answer is longer than {0} bytes")]
pub(crate) struct TooLong(usize);

/// The host is a link-local address, or resolves to such alone.
#[derive(Debug, thiserror::Error)]
#[error("it resolves to a link-local address, which is not connected to")]
pub(crate) struct LinkLocal;

/// Whether an address is of this link alone: hosts there are infrastructure, such as a cloud's
/// metadata service (which has a unique-local address too, in IPv6).
#[must_use]
pub fn is_link_local(address: IpAddr) -> bool {
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254);
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address == METADATA,
    }
}

/// Resolves names, and leaves link-local addresses out if so told.
#[derive(Clone)]
pub(crate) struct Resolver {
    system: GaiResolver,
    refuses_link_local: bool,
}

impl Resolver {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { system: GaiResolver::new(), refuses_link_local: limits.refuses_link_local }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxedError;
    type Future = Boxed<Result<Self::Response, BoxedError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxedError>> {
        self.system.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (asked, refuses) = (self.system.call(name), self.refuses_link_local);
        Box::pin(async move {
            let all: Vec<SocketAddr> = asked.await?.collect();
            let left: Vec<SocketAddr> =
                all.iter().copied().filter(|it| !refuses || !is_link_local(it.ip())).collect();
            match left.is_empty() && !all.is_empty() {
                true => Err(LinkLocal.into()),
                false => Ok(left.into_iter()),
            }
        })
    }
}

/// Makes connections that count what comes in; none to a link-local address, if so told.
#[derive(Clone)]
pub(crate) struct Counting<C> {
    connector: C,
    limits: Limits,
    status: LastStatus,
}

impl<C> Counting<C> {
    pub(crate) fn new(connector: C, limits: Limits, status: LastStatus) -> Self {
        Self { connector, limits, status }
    }
}

impl<C, S> Service<Uri> for Counting<C>
where
    C: Service<Uri, Response = S>,
    C::Future: Send + 'static,
    C::Error: Into<BoxedError>,
{
    type Response = Counted<S>;
    type Error = BoxedError;
    type Future = Boxed<Result<Counted<S>, BoxedError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxedError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        // An address is not resolved; by now it has its usual form, however it was written.
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']);
        if self.limits.refuses_link_local && host.parse().is_ok_and(is_link_local) {
            return Box::pin(async { Err(LinkLocal.into()) });
        }
        let (limits, status) = (self.limits.clone(), self.status.clone());
        let connecting = self.connector.call(to);
        Box::pin(async move {
            let stream = connecting.await.map_err(Into::into)?;
            Ok(Counted::new(stream, limits, status))
        })
    }
}

/// A connection whose bytes are counted from one request to the next.
pub(crate) struct Counted<S> {
    stream: S,
    limits: Limits,
    status: LastStatus,
    /// The first bytes of the answer.
    line: Vec<u8>,
    /// Bytes of the answer so far.
    answered: usize,
    /// What was paid for them; given back when the next request is sent.
    paid: Option<OwnedSemaphorePermit>,
    leave: Option<OwnedSemaphorePermit>,
    paying: Option<Boxed<Result<Paid, AcquireError>>>,
    /// What came in and was not handed on yet, from `taken` on.
    piece: Vec<u8>,
    taken: usize,
}

impl<S> Counted<S> {
    fn new(stream: S, limits: Limits, status: LastStatus) -> Self {
        Self {
            stream,
            limits,
            status,
            line: Vec::new(),
            answered: 0,
            paid: None,
            leave: None,
            paying: None,
            piece: Vec::new(),
            taken: 0,
        }
    }

    /// Looks at the status of the answer, once it has come in.
    fn note_status(&mut self) {
        let missing = STATUS_LINE_BYTES - self.line.len();
        if missing > 0 {
            self.line.extend(self.piece.iter().take(missing));
            self.status.note(&self.line);
        }
    }

    /// Waits until the piece is paid for.
    fn poll_paid(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(paying) = &mut self.paying else { return Poll::Ready(Ok(())) };
        let paid = ready!(paying.as_mut().poll(cx)).map_err(io::Error::other)?;
        self.paying = None;
        match (paid, &mut self.paid) {
            (Paid::Leave(leave), _) => self.leave = Some(leave),
            (Paid::Bytes(more), Some(paid)) => paid.merge(more),
            (Paid::Bytes(first), paid @ None) => *paid = Some(first),
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Read + Unpin> Read for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(most) = this.limits.answer_bytes_max else {
            return Pin::new(&mut this.stream).poll_read(cx, into);
        };
        if this.taken == this.piece.len() {
            this.taken = 0;
            this.piece.resize(PIECE_BYTES, 0);
            let mut read = ReadBuf::new(&mut this.piece);
            let came = Pin::new(&mut this.stream).poll_read(cx, read.unfilled());
            let length = read.filled().len();
            this.piece.truncate(if came.is_ready() { length } else { 0 });
            ready!(came)?;
            this.note_status();
            this.answered = this.answered.saturating_add(length);
            if this.answered > most {
                return Poll::Ready(Err(io::Error::other(TooLong(most))));
            }
            let price = u32::try_from(length).unwrap_or(u32::MAX);
            let is_free = price == 0 || this.leave.is_some();
            let budget = this.limits.budget.clone().filter(|_| !is_free);
            let holds_some = this.paid.is_some();
            this.paying = budget.map(|budget| -> Boxed<_> {
                match holds_some {
                    true => Box::pin(budget.take_more(price)),
                    false => Box::pin(async move { budget.take(price).await.map(Paid::Bytes) }),
                }
            });
        }
        ready!(this.poll_paid(cx))?;
        let length = into.remaining().min(this.piece.len() - this.taken);
        into.put_slice(&this.piece[this.taken..this.taken + length]);
        this.taken += length;
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The next request: the answer to the one before is done with.
        self.answered = 0;
        self.line.clear();
        self.paid = None;
        self.leave = None;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: Connection> Connection for Counted<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two hold the whole budget, and each needs more to be done. Guarantee: one goes on
    /// beyond it, the other once the first is done.
    #[tokio::test]
    async fn those_who_hold_everything_and_wait_do_not_wait_for_ever() {
        let budget = Budget::new(2);
        let (first, second) = (budget.take(1).await.unwrap(), budget.take(1).await.unwrap());
        let mut rests = Box::pin(budget.clone().take_more(1));
        let leave = budget.clone().take_more(1).await.unwrap();
        assert!(matches!(leave, Paid::Leave(_)));
        let waits = tokio::time::timeout(std::time::Duration::from_millis(10), &mut rests);
        assert!(waits.await.is_err(), "one at a time");
        drop((leave, first));
        assert!(rests.await.is_ok());
        drop(second);
        assert_eq!(budget.left(), 2);
    }

    /// Scenario: addresses of each kind. Guarantee: those of a link, and a cloud's metadata service
    /// in any spelling, are told from all others.
    #[test]
    fn link_local_addresses_are_told_in_any_spelling() {
        for text in ["169.254.169.254", "::ffff:169.254.1.2", "fe80::1", "fd00:ec2::254"] {
            assert!(is_link_local(text.parse().unwrap()), "{text}");
        }
        for text in ["10.0.0.1", "127.0.0.1", "192.168.1.1", "::1", "fd00::1", "2001:db8::1"] {
            assert!(!is_link_local(text.parse().unwrap()), "{text}");
        }
    }
}
