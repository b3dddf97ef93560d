//! Sections about the process itself: probes and metrics, memory, shutdown.

use std::net::{Ipv6Addr, SocketAddr};

use crate::section::section;
use crate::units::ByteSize;

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
