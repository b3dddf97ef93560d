//! The OTLP receiver's section: listeners, TLS and the limits on what clients may do.

use std::net::{Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::secret::SecretFile;
use crate::section::section;
use crate::units::ByteSize;

section! {
    /// OTLP in, over gRPC and HTTP, in protobuf and (HTTP only) JSON.
    pub struct OtlpReceiver {
        /// The gRPC listener, port 4317 by default.
        pub grpc: GrpcListener = GrpcListener::default(),
        /// The HTTP listener, port 4318 by default.
        pub http: HttpListener = HttpListener::default(),
        /// What clients may do.
        pub limits: OtlpLimits = OtlpLimits::default(),
    }
}

section! {
    /// The gRPC listener.
    pub struct GrpcListener {
        /// Whether it listens at all.
        pub enabled: bool = true,
        /// Where it listens: on all interfaces by default, for IPv6 and IPv4, or for IPv4 alone
        /// where there is nothing else.
        pub address: SocketAddr = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 4317)),
        /// TLS; plain text when absent.
        pub tls: Option<ServerTls> = None,
    }
}

section! {
    /// The HTTP listener.
    pub struct HttpListener {
        /// Whether it listens at all.
        pub enabled: bool = true,
        /// Where it listens: on all interfaces by default, for IPv6 and IPv4, or for IPv4 alone
        /// where there is nothing else.
        pub address: SocketAddr = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 4318)),
        /// TLS; plain text when absent.
        pub tls: Option<ServerTls> = None,
    }
}

/// TLS as a server.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerTls {
    /// The certificate chain, in PEM, leaf first.
    pub cert_file: SecretFile,
    /// The private key, in PEM.
    pub key_file: SecretFile,
    /// The authorities whose clients are let in, in PEM. When given, a client must show a
    /// certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<SecretFile>,
}

section! {
    /// What clients may do, per listener. The defaults are those OTLP and the field recommend.
    pub struct OtlpLimits {
        /// The longest gRPC message, before and after expansion (OTLP's recommended 4 MiB).
        pub grpc_message_bytes: ByteSize = ByteSize::mib(4),
        /// The longest HTTP body, before and after expansion (OTLP's recommended 20 MiB). Without
        /// Kafka the default is less where the memory budget holds no seven of them.
        pub http_body_bytes: ByteSize = ByteSize::mib(20),
        /// The longest list of request headers, each counted with 32 bytes more (gRPC's usual 8
        /// KiB).
        pub header_list_bytes: ByteSize = ByteSize::kib(8),
        /// Requests at once on one HTTP/2 connection.
        pub concurrent_streams: u32 = 100,
        /// Connections at once on one listener; more wait in the kernel's queue. Those there are
        /// have half of the memory budget.
        pub connections: u32 = 8192,
        /// The time for a connection's TLS handshake, in seconds.
        pub handshake_seconds: u32 = 10,
        /// The time for a request's headers, in seconds.
        pub header_read_seconds: u32 = 10,
        /// The time for a whole request, body and answer, in seconds.
        pub request_seconds: u32 = 30,
        /// The time a connection may stay without a request, in seconds.
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
