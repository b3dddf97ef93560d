//! The OTLP receiver's section: listeners, TLS and the limits on what clients may do.

use std::net::{Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::record_times::RecordTimes;
use crate::secret::SecretFile;
use crate::section::section;
use crate::units::ByteSize;

section! {
    /// OTLP receiver over gRPC and HTTP, with protobuf and (HTTP only) JSON.
    pub struct OtlpReceiver {
        /// The gRPC listener, port 4317 by default.
        pub grpc: GrpcListener = GrpcListener::default(),
        /// The HTTP listener, port 4318 by default.
        pub http: HttpListener = HttpListener::default(),
        /// Limits for clients.
        pub limits: OtlpLimits = OtlpLimits::default(),
        /// Accepted record times. Other records are rejected, and the client gets OTLP's partial
        /// success.
        pub record_times: RecordTimes = RecordTimes::default(),
    }
}

section! {
    /// The gRPC listener.
    pub struct GrpcListener {
        /// Whether the listener is enabled.
        pub enabled: bool = true,
        /// Listen address. The default is all interfaces, for IPv6 and IPv4, or for IPv4 only on a
        /// machine without IPv6.
        pub address: SocketAddr = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 4317)),
        /// TLS; plaintext when absent.
        pub tls: Option<ServerTls> = None,
    }
}

section! {
    /// The HTTP listener.
    pub struct HttpListener {
        /// Whether the listener is enabled.
        pub enabled: bool = true,
        /// Listen address. The default is all interfaces, for IPv6 and IPv4, or for IPv4 only on a
        /// machine without IPv6.
        pub address: SocketAddr = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 4318)),
        /// TLS; plaintext when absent.
        pub tls: Option<ServerTls> = None,
    }
}

/// TLS of a server.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerTls {
    /// Certificate chain in PEM, leaf first.
    pub cert_file: SecretFile,
    /// Private key in PEM.
    pub key_file: SecretFile,
    /// CA certificates in PEM that client certificates must be signed by. If set, a client
    /// certificate is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<SecretFile>,
}

section! {
    /// Limits for clients, per listener. The defaults follow the recommendations of OTLP.
    pub struct OtlpLimits {
        /// Longest gRPC message, before and after decompression (OTLP recommends 4 MiB). The
        /// default is lower if the memory budget can't hold the message with its copies.
        pub grpc_message_bytes: ByteSize = ByteSize::mib(4),
        /// Longest HTTP body, before and after decompression (OTLP recommends 20 MiB). The default
        /// is lower if the memory budget can't hold the body with its copies.
        pub http_body_bytes: ByteSize = ByteSize::mib(20),
        /// Longest list of request headers, each counted with 32 additional bytes (8 KiB is usual
        /// for gRPC).
        pub header_list_bytes: ByteSize = ByteSize::kib(8),
        /// Concurrent requests on one HTTP/2 connection.
        pub concurrent_streams: u32 = 100,
        /// Concurrent connections on one listener; further ones wait in the kernel's queue. Open
        /// connections may use half of the memory budget.
        pub connections: u32 = 8192,
        /// Timeout of a connection's TLS handshake, in seconds.
        pub handshake_seconds: u32 = 10,
        /// Timeout of a request's headers, in seconds.
        pub header_read_seconds: u32 = 10,
        /// Timeout for the answer to a client that doesn't state its timeout, in seconds from the
        /// end of the body: HTTP, and gRPC without `grpc-timeout`. Records not sent by then are
        /// withdrawn, and the client is answered to retry. The exporters of SDKs time out after 10
        /// s.
        pub answer_seconds: u32 = 9,
        /// Timeout of a complete request, body and answer, in seconds; also for gRPC clients with a
        /// longer `grpc-timeout`. Clients with a shorter `grpc-timeout` are answered when 90 % of
        /// it has passed.
        pub request_seconds: u32 = 30,
        /// Timeout of a connection without requests, in seconds.
        pub idle_seconds: u32 = 60,
    }
}

impl OtlpLimits {
    /// The longest request that any listener takes, in bytes.
    #[must_use]
    pub fn longest_bytes(&self) -> u64 {
        self.grpc_message_bytes.get().max(self.http_body_bytes.get())
    }
}
