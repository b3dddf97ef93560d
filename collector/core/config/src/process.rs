//! Sections about the process itself: probes and metrics, memory, shutdown, positions.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use crate::document::check::Checker;
use crate::document::section::section;
use crate::values::units::ByteSize;

section! {
    /// The listener for `/livez`, `/readyz` and `/metrics`.
    pub struct Admin {
        /// Listen address. The default is all interfaces, for IPv6 and IPv4, or for IPv4 only on a
        /// machine without IPv6.
        pub address: SocketAddr = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 9464)),
    }
}

section! {
    /// Memory that records in flight may use.
    pub struct Memory {
        /// Memory limit of the process, at least 64 MiB. When absent, it is read from the cgroup;
        /// without a cgroup limit, 1 GiB is assumed.
        pub limit_bytes: Option<ByteSize> = None,
        /// Share of the memory limit that records in flight may use, in percent, 10 to 80. The
        /// remainder is for code, client libraries and the allocator.
        pub budget_percent: u8 = 50,
    }
}

section! {
    /// Behavior at shutdown.
    pub struct Shutdown {
        /// Time between the signal and the end of the process, in seconds, 1 to 600. A pod's grace
        /// period must be a few seconds longer.
        pub deadline_seconds: u32 = 25,
        /// Time between reporting "not ready" and refusing new requests, in seconds: 0 to 60, and
        /// less than the deadline. During this time Kubernetes and load balancers route clients
        /// elsewhere. For collectors with `receivers.otlp`.
        pub announce_seconds: u32 = 0,
    }
}

section! {
    /// Where the read positions in files and in the kernel log are stored.
    pub struct Positions {
        /// Directory for this process alone, which outlives it.
        pub directory: PathBuf = PathBuf::from("/var/lib/millrace/positions"),
    }
}

impl Checker<'_> {
    pub(crate) fn check_memory(&mut self, memory: &Memory) {
        let Memory { limit_bytes, budget_percent } = memory;
        if let Some(limit) = limit_bytes {
            let top = ByteSize::bytes(1 << 50);
            self.check_range("memory.limitBytes", *limit, ByteSize::mib(64)..=top);
        }
        self.check_range("memory.budgetPercent", *budget_percent, 10..=80);
    }

    pub(crate) fn check_shutdown(&mut self, shutdown: &Shutdown) {
        /// Longer than any load balancer should take to follow readiness.
        const ANNOUNCE_SECONDS_MAX: u32 = 60;
        let Shutdown { deadline_seconds, announce_seconds } = shutdown;
        self.check_range("shutdown.deadlineSeconds", *deadline_seconds, 1..=600);
        let longest = ANNOUNCE_SECONDS_MAX.min(deadline_seconds.saturating_sub(1));
        self.check_range("shutdown.announceSeconds", *announce_seconds, 0..=longest);
    }

    /// Nobody is routed to a gateway: its announcement would only be time lost.
    pub(crate) fn check_announce(&mut self, shutdown: &Shutdown) {
        if shutdown.announce_seconds > 0 {
            self.add_problem(
                "shutdown.announceSeconds",
                "a gateway has no clients that follow its readiness: remove the field",
            );
        }
    }
}
