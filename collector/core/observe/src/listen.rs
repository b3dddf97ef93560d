//! Binds listeners for IPv6 and IPv4, where the machine has both.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

/// Binds a listener. `[::]`, which accepts both IPv6 and IPv4 clients, becomes `0.0.0.0` on a
/// machine without IPv6.
///
/// # Errors
/// If the address is in use, or the process may not use it.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    bind_either(address, TcpListener::bind).await
}

async fn bind_either<T, F>(address: SocketAddr, bind: impl Fn(SocketAddr) -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    match bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && lacks_family(&error) => {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into()).await
        }
        bound => bound,
    }
}

/// Whether the cause may be missing IPv6, which systems report with various errors.
fn lacks_family(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::{bind, bind_either};
    use std::io;
    use std::net::{Ipv4Addr, SocketAddr};
    use tokio::net::TcpStream;

    /// Scenario: the address of all interfaces, on any machine, and that of one. Guarantee: IPv4
    /// clients are accepted, and IPv6 clients where the machine has it; one address stays one.
    #[tokio::test]
    async fn both_families_reach_a_listener_on_all_interfaces() {
        let listener = bind("[::]:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            TcpStream::connect(("::1", port)).await.unwrap();
        }
        let one = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        assert_eq!(one.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
    }

    /// Scenario: a machine without IPv6, a used port, and an address of one interface. Guarantee:
    /// IPv4 is tried only for all interfaces, and never after another error.
    #[tokio::test]
    async fn without_ipv6_all_interfaces_are_those_of_ipv4() {
        let bound = async |address: &str, error: io::ErrorKind| {
            let bind = |address: SocketAddr| async move {
                if address.is_ipv6() { Err(error.into()) } else { Ok(address.to_string()) }
            };
            let bound: io::Result<String> = bind_either(address.parse().unwrap(), bind).await;
            bound.map_err(|error| error.kind())
        };
        let missing = io::ErrorKind::Unsupported;
        assert_eq!(bound("[::]:4317", missing).await, Ok("0.0.0.0:4317".to_owned()));
        assert_eq!(bound("[::1]:4317", missing).await, Err(missing));
        let taken = io::ErrorKind::AddrInUse;
        assert_eq!(bound("[::]:4317", taken).await, Err(taken));
    }
}
