//! Sections about the process itself: probes and metrics, memory, shutdown.

use std::net::{Ipv6Addr, SocketAddr};

use crate::section::section;
use crate::units::ByteSize;

section! {
    /// The listener for `/livez`, `/readyz` and `/metrics`.
    pub struct Admin {
        /// Where it listens: on all interfaces by default, for IPv6 and IPv4, or for IPv4 alone
        /// where there is nothing else.
        pub address: SocketAddr = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 9464)),
    }
}

section! {
    /// How much memory records in flight may take.
    pub struct Memory {
        /// The memory the process may use in all. When absent it is read from the cgroup, and
        /// where no cgroup sets one, 1 GiB is assumed. At least 64 MiB.
        pub limit_bytes: Option<ByteSize> = None,
        /// The share of it that records in flight may take, in percent, 10 to 80. The rest is for
        /// code, client libraries and what the allocator keeps.
        pub budget_percent: u8 = 50,
    }
}

section! {
    /// How a shutdown goes.
    pub struct Shutdown {
        /// The time between the signal and the end, in seconds, 1 to 600. A pod's grace period must
        /// be longer by a few seconds.
        pub deadline_seconds: u32 = 25,
        /// How much of that time goes by, in seconds, between saying "not ready" and taking no more
        /// requests: 0 to 60, and less than the deadline. Where clients are routed by readiness,
        /// as in Kubernetes, they are elsewhere by then. For collectors with `receivers.otlp`.
        pub announce_seconds: u32 = 0,
    }
}
