//! Limits on a server's answers: their length, a budget that all clients of a process may share,
//! and refused addresses, such as link-local ones.
//!
//! The HTTP client reads complete error answers without a limit, so bytes are counted
//! below it, on arrival.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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

/// Bytes read from a connection before they are charged to the budget: few, as each connection may
/// hold this many.
const PIECE_BYTES: usize = 8 * 1024;

/// The length of an answer's start up to its status: `HTTP/1.1 200`.
const STATUS_LINE_BYTES: usize = 12;

type BoxedError = Box<dyn StdError + Send + Sync>;
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The maximum bytes of answers that all its users hold at once. Clones share it.
///
/// A user that finds no free bytes waits. Waiting users may hold parts of their answers, and
/// together the complete budget; so one of them at a time may continue beyond the budget, up to the
/// longest answer.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes: Arc<Semaphore>,
    beyond: Arc<Semaphore>,
}

impl Budget {
    /// Creates a budget of this many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { bytes: Arc::new(Semaphore::new(bytes)), beyond: Arc::new(Semaphore::new(1)) }
    }

    /// Returns the free bytes.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.bytes.available_permits()
    }

    /// Reserves all bytes that a user without any needs, and waits for them.
    ///
    /// # Errors
    /// Never, as long as the budget exists.
    pub async fn acquire_bytes(&self, bytes: u32) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.bytes.clone().acquire_many_owned(bytes).await
    }

    /// Reserves more for a user that holds a part, or lets it continue beyond the budget.
    async fn acquire_more(self, bytes: u32) -> Result<Paid, AcquireError> {
        tokio::select! {
            biased;
            paid = self.bytes.acquire_many_owned(bytes) => paid.map(Paid::Bytes),
            leave = self.beyond.acquire_owned() => leave.map(Paid::Leave),
        }
    }
}

/// How a piece was paid for.
enum Paid {
    Bytes(OwnedSemaphorePermit),
    /// Permission to continue beyond the budget.
    Leave(OwnedSemaphorePermit),
}

/// A client's limits on a server's answers and addresses. By default there are none.
#[derive(Clone, Debug, Default)]
pub struct ClientLimits {
    /// The longest answer to one statement, in bytes.
    pub response_bytes_max: Option<usize>,
    /// The budget for answers; only with a longest answer.
    pub budget: Option<Budget>,
    /// Addresses that the client does not connect to.
    pub addresses: RefusedAddresses,
}

/// The HTTP status of a server's last answer; none before the first, or if answers aren't counted.
/// All connections to the server share it: concurrent queries may read each other's status.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastStatus(Arc<AtomicU16>);

impl LastStatus {
    /// Returns the status, if there was an answer.
    pub(crate) fn get(&self) -> Option<u16> {
        Some(self.0.load(Ordering::Relaxed)).filter(|status| *status > 0)
    }

    /// Reads the status from the start of an answer.
    fn record_line(&self, line: &[u8]) {
        let number = line.get(STATUS_LINE_BYTES - 3..STATUS_LINE_BYTES);
        let number = number.and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
        if let Some(status) = number.filter(|_| line.starts_with(b"HTTP/1.")) {
            self.0.store(status, Ordering::Relaxed);
        }
    }
}

/// An answer exceeded its limit.
#[derive(Debug, thiserror::Error)]
#[error("its answer is longer than {0} bytes")]
pub(crate) struct TooLong(usize);

/// The host is a refused address, or resolves only to such addresses. The text names its kind.
#[derive(Debug, thiserror::Error)]
#[error("it resolves to {0}, to which Millrace does not connect")]
pub(crate) struct Refused(pub(crate) &'static str);

/// Which local addresses a client connects to, where another party chooses the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressRule {
    /// All.
    #[default]
    Any,
    /// All but link-local ones and clouds' metadata services.
    NoLinkLocal,
    /// None of these, and none of this machine's own.
    NoLocal,
}

/// The addresses that a client does not connect to, whatever name resolves to them. By default
/// there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedAddresses {
    /// The rule for local addresses.
    pub local: AddressRule,
    /// The address of the Kubernetes API server.
    pub api_server: Option<IpAddr>,
}

impl RefusedAddresses {
    /// Returns the kind of a refused address, with its article; `None` if it is not refused.
    #[must_use]
    pub fn refused_kind(self, address: IpAddr) -> Option<&'static str> {
        let address = connected_address(address);
        if self.local != AddressRule::Any && is_link_local(address) {
            return Some("a link-local address");
        }
        if self.local == AddressRule::NoLocal && is_loopback(address) {
            return Some("a loopback address");
        }
        let is_api_server = self.api_server.map(connected_address) == Some(address);
        is_api_server.then_some("the address of the API server")
    }
}

impl From<AddressRule> for RefusedAddresses {
    fn from(local: AddressRule) -> Self {
        Self { local, api_server: None }
    }
}

/// The prefix of IPv6 addresses that NAT64 translates to the IPv4 address in their last 32 bits.
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// Returns the address that is reached: an IPv6 address may embed an IPv4 address.
fn connected_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if address.segments().starts_with(&NAT64) => {
            Ipv4Addr::from_bits(address.to_bits() as u32).into()
        }
        address => address,
    }
}

/// Metadata services of clouds outside the link-local ranges: Alibaba's and Azure's, Amazon's and
/// Google's.
const CLOUD_V4: [Ipv4Addr; 2] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
/// Amazon's are all of `fd00:ec2::/32`: machines' metadata, pods' credentials, time.
const CLOUD_V6: [&[u16]; 2] = [&[0xfd00, 0x0ec2], &[0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254]];

/// Returns whether an address is local to this link: hosts there are infrastructure, such as a
/// cloud's metadata service (which has other addresses too).
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local() || CLOUD_V4.contains(&address),
        IpAddr::V6(address) => {
            let is_cloud = |prefix: &&[u16]| address.segments().starts_with(prefix);
            address.is_unicast_link_local() || CLOUD_V6.iter().any(is_cloud)
        }
    }
}

/// Returns whether an address is this machine's own. Linux connects 0.0.0.0 and :: to it too.
fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.octets()[0] == 0,
        IpAddr::V6(address) => address.is_loopback() || address.is_unspecified(),
    }
}

/// Resolves names, and omits addresses that the rule refuses.
#[derive(Clone)]
pub(crate) struct Resolver {
    system: GaiResolver,
    addresses: RefusedAddresses,
}

impl Resolver {
    pub(crate) fn new(limits: &ClientLimits) -> Self {
        Self { system: GaiResolver::new(), addresses: limits.addresses }
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
        let (resolving, addresses) = (self.system.call(name), self.addresses);
        Box::pin(async move {
            let (mut allowed, mut refused) = (Vec::new(), None);
            for address in resolving.await? {
                match addresses.refused_kind(address.ip()) {
                    Some(kind) => refused = Some(kind),
                    None => allowed.push(address),
                }
            }
            match refused.filter(|_| allowed.is_empty()) {
                Some(kind) => Err(Refused(kind).into()),
                None => Ok(allowed.into_iter()),
            }
        })
    }
}

/// Opens connections that count incoming bytes, but none to an address that the rule refuses.
#[derive(Clone)]
pub(crate) struct Counting<C> {
    connector: C,
    limits: ClientLimits,
    status: LastStatus,
}

impl<C> Counting<C> {
    pub(crate) fn new(connector: C, limits: ClientLimits, status: LastStatus) -> Self {
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
        // The connector does not resolve an address; it has its canonical form by now.
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']);
        let addresses = self.limits.addresses;
        if let Some(kind) = host.parse().ok().and_then(|it| addresses.refused_kind(it)) {
            return Box::pin(async move { Err(Refused(kind).into()) });
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
    limits: ClientLimits,
    status: LastStatus,
    /// The first bytes of the answer.
    line: Vec<u8>,
    /// Bytes of the answer so far.
    answered: usize,
    /// The budget's permit for them; the next request releases it.
    paid: Option<OwnedSemaphorePermit>,
    leave: Option<OwnedSemaphorePermit>,
    paying: Option<Boxed<Result<Paid, AcquireError>>>,
    /// Bytes read and not handed on yet, from `consumed` on.
    piece: Vec<u8>,
    consumed: usize,
}

impl<S> Counted<S> {
    fn new(stream: S, limits: ClientLimits, status: LastStatus) -> Self {
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
            consumed: 0,
        }
    }

    /// Reads the answer's status, once it has arrived.
    fn read_status(&mut self) {
        let missing = STATUS_LINE_BYTES - self.line.len();
        if missing > 0 {
            self.line.extend(self.piece.iter().take(missing));
            self.status.record_line(&self.line);
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
        let Some(most) = this.limits.response_bytes_max else {
            return Pin::new(&mut this.stream).poll_read(cx, into);
        };
        if this.consumed == this.piece.len() {
            this.consumed = 0;
            this.piece.resize(PIECE_BYTES, 0);
            let mut read = ReadBuf::new(&mut this.piece);
            let came = Pin::new(&mut this.stream).poll_read(cx, read.unfilled());
            let length = read.filled().len();
            this.piece.truncate(if came.is_ready() { length } else { 0 });
            ready!(came)?;
            this.read_status();
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
                    true => Box::pin(budget.acquire_more(price)),
                    false => {
                        Box::pin(async move { budget.acquire_bytes(price).await.map(Paid::Bytes) })
                    }
                }
            });
        }
        ready!(this.poll_paid(cx))?;
        let length = into.remaining().min(this.piece.len() - this.consumed);
        into.put_slice(&this.piece[this.consumed..this.consumed + length]);
        this.consumed += length;
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // This is the next request, so the previous answer is complete.
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

    /// Scenario: two users hold the complete budget, and each needs more to finish. Guarantee: one
    /// continues beyond it, the other once the first has finished.
    #[tokio::test]
    async fn those_who_hold_everything_and_wait_do_not_wait_for_ever() {
        let budget = Budget::new(2);
        let (first, second) =
            (budget.acquire_bytes(1).await.unwrap(), budget.acquire_bytes(1).await.unwrap());
        let mut rests = Box::pin(budget.clone().acquire_more(1));
        let leave = budget.clone().acquire_more(1).await.unwrap();
        assert!(matches!(leave, Paid::Leave(_)));
        let waits = tokio::time::timeout(std::time::Duration::from_millis(10), &mut rests);
        assert!(waits.await.is_err(), "one at a time");
        drop((leave, first));
        assert!(rests.await.is_ok());
        drop(second);
        assert_eq!(budget.free_bytes(), 2);
    }

    /// Scenario: addresses of each kind, against each rule. Guarantee: link-local addresses, a
    /// cloud's metadata service and this machine are refused in any spelling by the rules for them,
    /// and no other address is.
    #[test]
    fn addresses_are_refused_by_their_rule_in_any_spelling() {
        use AddressRule::{Any, NoLinkLocal, NoLocal};
        let link = [
            "169.254.169.254",
            "::ffff:169.254.1.2",
            "64:ff9b::169.254.1.2",
            "fe80::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
        ];
        let clouds = ["100.100.100.200", "168.63.129.16", "fd20:ce::254"];
        let machine = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"];
        let others = ["10.0.0.1", "192.168.1.1", "fd00::1", "2001:db8::1", "100.64.0.1"];
        let refused = |rule: AddressRule, all: &[&str]| {
            let refused = RefusedAddresses::from(rule);
            all.iter().filter(|it| refused.refused_kind(it.parse().unwrap()).is_some()).count()
        };
        for (addresses, by_link_local, by_local) in
            [(&link[..], 6, 6), (&clouds, 3, 3), (&machine, 0, 6), (&others, 0, 0)]
        {
            let counts = [Any, NoLinkLocal, NoLocal].map(|rule| refused(rule, addresses));
            assert_eq!(counts, [0, by_link_local, by_local], "{addresses:?}");
        }
    }

    /// Scenario: the API server's address in its spellings, and its neighbour. Guarantee: each
    /// spelling is refused, and the neighbour is not.
    #[test]
    fn the_api_server_is_refused_in_any_spelling() {
        for api_server in ["10.96.0.1", "::ffff:10.96.0.1"] {
            let api_server = Some(api_server.parse().unwrap());
            let refused = RefusedAddresses { api_server, ..RefusedAddresses::default() };
            for (address, expected) in [
                ("10.96.0.1", true),
                ("::ffff:10.96.0.1", true),
                ("64:ff9b::10.96.0.1", true),
                ("10.96.0.2", false),
            ] {
                let kind = refused.refused_kind(address.parse().unwrap());
                assert_eq!(kind.is_some(), expected, "{address}");
            }
        }
    }
}
