//! Tests requests over TLS, with authorization, through proxies and redirects, on real sockets.

mod authorization;
mod encryption;
mod server;
mod ways;
