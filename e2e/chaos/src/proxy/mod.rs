//! A TCP proxy that misbehaves on request: what a network does to connections, without root.
//!
//! Each connection is two pumps, one for each direction. What a mode holds back is held, not lost:
//! the sender's own buffers fill, and the bytes go on when the mode ends, as after a partition. It
//! knows no protocol; [`http`] does.

pub mod http;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Read at a time. Two pumps of a connection hold one each; connections are a few dozen.
const BUFFER_BYTES: usize = 16 * 1024;
/// A throttled pump writes at most this at a time, so that slow is slow and not in bursts.
const THROTTLED_PIECE_BYTES: usize = 512;
/// A target on this machine takes a connection at once, or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// What happens to bytes and connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Every connection is reset, and so is each new one.
    Cut,
    /// Connections are accepted and stay open; no byte passes.
    BlackHole,
    /// What clients send arrives; what is answered doesn't.
    OnlyToServer,
    /// What the server sends arrives; what clients send doesn't.
    OnlyToClient,
    /// Each piece arrives this much later.
    Delay(Duration),
    /// Each direction of each connection gets this much.
    Throttle {
        /// Bytes in a second; at least 1.
        bytes_per_second: u64,
    },
}

/// The way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

impl Mode {
    fn passes(self, direction: Direction) -> bool {
        match self {
            Self::Cut | Self::BlackHole => false,
            Self::OnlyToServer => direction == Direction::ToServer,
            Self::OnlyToClient => direction == Direction::ToClient,
            Self::Pass | Self::Delay(_) | Self::Throttle { .. } => true,
        }
    }
}

/// A running proxy. It ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    connections: Arc<AtomicU64>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free loopback port and forwards to `target`, which need not be there yet.
    ///
    /// # Errors
    /// When there is no port.
    pub fn start(runtime: &Handle, target: SocketAddr) -> Result<Self> {
        let bound = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = bound.context("no port for a proxy")?;
        let address = listener.local_addr().context("no port for a proxy")?;
        let (mode, modes) = watch::channel(Mode::Pass);
        let connections = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&connections);
        let accepting = runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(client, target, modes.clone()));
            }
        });
        Ok(Self { address, mode, connections, accepting })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens, for open connections too.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        // Pumps see that nobody can change the mode any more.
        self.mode.send_replace(Mode::Cut);
    }
}

async fn serve(client: TcpStream, target: SocketAddr, mut modes: watch::Receiver<Mode>) {
    let cut = |stream: &TcpStream| {
        // The next drop resets instead of closing.
        let _ = stream.set_zero_linger();
    };
    // A connection that is opened while nothing passes to the server waits for it.
    let settled = |mode: &Mode| *mode == Mode::Cut || mode.passes(Direction::ToServer);
    let mode = modes.wait_for(settled).await.map_or(Mode::Cut, |mode| *mode);
    if mode == Mode::Cut {
        cut(&client);
        return;
    }
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(target)).await;
    let Ok(Ok(server)) = connected else {
        cut(&client);
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let mut there = Pump {
        from: client_read,
        to: server_write,
        way: Direction::ToServer,
        modes: modes.clone(),
    };
    let mut back = Pump {
        from: server_read,
        to: client_write,
        way: Direction::ToClient,
        modes: modes.clone(),
    };
    // One direction that breaks breaks the other.
    let both = async { tokio::try_join!(there.run(), back.run()).is_ok() };
    let in_good_order = tokio::select! {
        ended = both => ended,
        _ = modes.wait_for(|mode| *mode == Mode::Cut) => false,
    };
    if !in_good_order {
        for Pump { from, to, .. } in [there, back] {
            cut(from.as_ref());
            // Its drop would close in good order first.
            to.forget();
        }
    }
}

struct Pump {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    way: Direction,
    modes: watch::Receiver<Mode>,
}

impl Pump {
    /// Carries bytes until the sender closes in good order.
    async fn run(&mut self) -> Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match self.from.read(&mut buffer).await? {
                0 => return Ok(self.to.shutdown().await?),
                count => {
                    carry(&mut self.to, &mut self.modes, self.way, &buffer[..count]).await?;
                }
            }
        }
    }
}

/// Writes `bytes` as the modes allow, piece by piece.
async fn carry(
    to: &mut OwnedWriteHalf,
    modes: &mut watch::Receiver<Mode>,
    way: Direction,
    bytes: &[u8],
) -> Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let mode = *modes.wait_for(|mode| mode.passes(way)).await?;
        let (piece, pause) = match mode {
            Mode::Throttle { bytes_per_second } => {
                let piece = rest.len().min(THROTTLED_PIECE_BYTES);
                let seconds = piece as f64 / bytes_per_second.max(1) as f64;
                (piece, Duration::from_secs_f64(seconds))
            }
            Mode::Delay(delay) => (rest.len(), delay),
            _ => (rest.len(), Duration::ZERO),
        };
        if !pause.is_zero() {
            // Over early when the mode changes: what was slow is then fast again.
            let _ = tokio::time::timeout(pause, modes.wait_for(|now| *now != mode)).await;
            if !modes.borrow().passes(way) {
                continue;
            }
        }
        to.write_all(&rest[..piece]).await?;
        rest = &rest[piece..];
    }
    Ok(())
}
