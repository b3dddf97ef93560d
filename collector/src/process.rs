//! Process-wide parts: log, panics, signals, cores.

pub(crate) mod allocator;
pub(crate) mod export;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use millrace_observe::log;
use millrace_observe::otlp::TelemetryLayer;
use millrace_pipeline::drain::Drain;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long a part may hang after a drain's deadline: pods get at least this much more.
const PAST_DEADLINE: Duration = Duration::from_secs(3);

/// The log's filter without `RUST_LOG`.
const LOG: &str = "info";

/// Sends the log to standard error as JSON lines, and to an export if there is one. `RUST_LOG`
/// filters it; an invalid filter is ignored.
pub(crate) fn start_log(own: Option<TelemetryLayer>) {
    let filter = std::env::var("RUST_LOG").ok().filter(|text| log::is_filter(text));
    // The default is a valid filter.
    let _ = log::init_logging(filter.as_deref().unwrap_or(LOG), own);
}

/// Makes a panic on any thread end the process.
///
/// A dead thread would silently leave its work undone; a new process starts clean, and clients send
/// unconfirmed records again.
pub(crate) fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed");
        tracing::error!(thread = name, "panic: {panic}; the process ends");
        std::process::abort();
    }));
}

/// Returns the cores that the cgroup and the scheduler allow this process, at least 1.
pub(crate) fn usable_cores() -> NonZeroU16 {
    let cores = thread::available_parallelism().ok();
    cores.and_then(|cores| NonZeroU16::try_from(cores).ok()).unwrap_or(NonZeroU16::MIN)
}

/// The signals that request a process to end.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to listen for them; from now on they have no default effect.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Announces the drain at the first signal, which it records in `requested`, begins it
    /// `announce` later, and ends the process at the second.
    pub(crate) async fn drain_on_signal(
        mut self,
        drain: Drain,
        announce: Duration,
        requested: Arc<AtomicBool>,
    ) {
        let name = self.next().await;
        requested.store(true, Ordering::Release);
        let seconds = drain.remaining().as_secs();
        drain.announce();
        if !announce.is_zero() {
            tracing::info!(
                signal = name,
                seconds,
                announce_seconds = announce.as_secs(),
                "no longer ready; clients are served until they are routed elsewhere"
            );
            tokio::select! {
                () = tokio::time::sleep(announce) => {}
                // A part that can't continue began the drain.
                () = drain.wait_for_begin() => {}
                name = self.next() => return end_at_once(name),
            }
        }
        tracing::info!(signal = name, seconds = drain.remaining().as_secs(), "draining");
        drain.begin();
        end_at_once(self.next().await);
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Ends the process shortly after a drain's deadline if a part hangs. Parts give up at the deadline
/// themselves; this covers what they can't stop, such as a library's thread.
pub(crate) async fn end_past_deadline(drain: Drain) {
    drain.wait_for_begin().await;
    let limit = drain.remaining() + PAST_DEADLINE;
    // It uses a separate thread, since the runtime itself may hang.
    let waits = thread::Builder::new().name("deadline".to_owned()).spawn(move || {
        thread::sleep(limit);
        tracing::error!("a component did not stop by the deadline: ending the process without it");
        std::process::exit(1);
    });
    if let Err(error) = waits {
        tracing::warn!(%error,
            "cannot watch the shutdown deadline: a component that hangs past it keeps the process \
             running");
    }
}

fn end_at_once(signal: &str) {
    tracing::warn!(signal, "received a second signal: ending immediately");
    std::process::exit(1);
}
