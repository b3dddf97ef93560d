//! The OTLP receiver's section: listeners, TLS and the limits on what clients may do.

use std::net::{Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::document::check::Checker;
use crate::document::section::section;
use crate::process::Admin;
use crate::record_times::RecordTimes;
use crate::values::secret::SecretFile;
use crate::values::units::ByteSize;

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

impl Checker<'_> {
    /// Checks the receiver's section. `admin` has a listener too.
    pub(crate) fn check_otlp(&mut self, admin: &Admin, otlp: &OtlpReceiver) {
        self.check_otlp_limits(&otlp.limits);
        let RecordTimes { past_days, future_hours } = otlp.record_times;
        self.check_record_times("receivers.otlp.recordTimes", past_days, future_hours);
        self.check_listeners(admin, otlp);
    }

    fn check_otlp_limits(&mut self, limits: &OtlpLimits) {
        let OtlpLimits {
            grpc_message_bytes,
            http_body_bytes,
            header_list_bytes,
            concurrent_streams,
            connections,
            handshake_seconds,
            header_read_seconds,
            answer_seconds,
            request_seconds,
            idle_seconds,
        } = limits;
        let field = |name: &str| format!("receivers.otlp.limits.{name}");
        // 128 MiB: beyond it one request could fill a small process's budget.
        let body = ByteSize::kib(1)..=ByteSize::mib(128);
        self.check_range(&field("grpcMessageBytes"), *grpc_message_bytes, body.clone());
        self.check_range(&field("httpBodyBytes"), *http_body_bytes, body);
        let headers = ByteSize::kib(1)..=ByteSize::mib(1);
        self.check_range(&field("headerListBytes"), *header_list_bytes, headers);
        self.check_range(&field("concurrentStreams"), *concurrent_streams, 1..=10_000);
        self.check_range(&field("connections"), *connections, 1..=100_000);
        self.check_range(&field("handshakeSeconds"), *handshake_seconds, 1..=300);
        self.check_range(&field("headerReadSeconds"), *header_read_seconds, 1..=300);
        self.check_range(&field("answerSeconds"), *answer_seconds, 1..=600);
        self.check_range(&field("requestSeconds"), *request_seconds, 1..=600);
        self.check_range(&field("idleSeconds"), *idle_seconds, 1..=3600);
    }

    fn check_listeners(&mut self, admin: &Admin, otlp: &OtlpReceiver) {
        let OtlpReceiver { grpc, http, limits: _, record_times: _ } = otlp;
        if !grpc.enabled && !http.enabled {
            self.add_problem(
                "receivers.otlp",
                "grpc and http are both disabled: enable at least one of them",
            );
        }
        let mut used_addresses = vec![(admin.address, "admin.address")];
        let listeners = [
            (grpc.enabled, grpc.address, "receivers.otlp.grpc.address"),
            (http.enabled, http.address, "receivers.otlp.http.address"),
        ];
        for (enabled, address, field) in listeners {
            // With port 0 the system assigns a free one, so it never clashes.
            if !enabled || address.port() == 0 {
                continue;
            }
            if let Some((_, other)) =
                used_addresses.iter().rev().find(|(other, _)| listeners_clash(*other, address))
            {
                self.add_problem(field, format!("{address} is also {other}: use another port"));
            }
            used_addresses.push((address, field));
        }
    }
}

/// Whether only one of two listeners could be bound: all interfaces have each one's ports.
fn listeners_clash(one: SocketAddr, other: SocketAddr) -> bool {
    let all = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (all || one.ip() == other.ip())
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use super::{GrpcListener, HttpListener, OtlpLimits, OtlpReceiver, ServerTls};
    use crate::document::round_trip::{size, textual};
    use crate::record_times::RecordTimes;
    use crate::values::secret::arbitrary::file;
    use proptest::option;
    use proptest::prelude::{Strategy, any};

    pub(crate) fn otlp() -> impl Strategy<Value = OtlpReceiver> {
        let tls = || {
            option::of((file(), file(), option::of(file())).prop_map(
                |(cert_file, key_file, client_ca_file)| ServerTls {
                    cert_file,
                    key_file,
                    client_ca_file,
                },
            ))
        };
        let grpc = (any::<bool>(), any::<std::net::SocketAddr>(), tls());
        let http = (any::<bool>(), any::<std::net::SocketAddr>(), tls());
        let limits = (size(), size(), size(), any::<[u32; 7]>());
        (grpc, http, limits).prop_map(
            |(grpc, http, (grpc_bytes, http_bytes, header_bytes, numbers))| {
                let [streams, connections, handshake, header, answer, request, idle] = numbers;
                OtlpReceiver {
                    // A flow label or scope id has no place in text, so it can't come back from it.
                    grpc: GrpcListener { enabled: grpc.0, address: textual(grpc.1), tls: grpc.2 },
                    http: HttpListener { enabled: http.0, address: textual(http.1), tls: http.2 },
                    limits: OtlpLimits {
                        grpc_message_bytes: grpc_bytes,
                        http_body_bytes: http_bytes,
                        header_list_bytes: header_bytes,
                        concurrent_streams: streams,
                        connections,
                        handshake_seconds: handshake,
                        header_read_seconds: header,
                        answer_seconds: answer,
                        request_seconds: request,
                        idle_seconds: idle,
                    },
                    record_times: RecordTimes { past_days: streams, future_hours: idle },
                }
            },
        )
    }
}
