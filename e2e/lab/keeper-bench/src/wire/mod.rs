//! ZooKeeper's protocol as bytes: requests, replies, a connection with its handshake. It knows no
//! workload and counts nothing.

mod connection;
mod digest;
mod errors;
mod jute;
mod reply;
mod request;
mod tls;

pub(crate) use connection::{Access, Auth, CallError, Connection, DialError, REPLY_BYTES_MAX};
pub(crate) use errors::{CONNECTION_LOSS, NO_NODE, NODE_EXISTS, OPERATION_TIMEOUT, code, name};
pub(crate) use jute::{Malformed, Reader, put_buffer, put_flag, put_int, put_long};
pub(crate) use reply::{Head, Notification, STAT_BYTES, WATCH_XID, multi_error};
pub(crate) use request::{Mode, PING_XID, Request, WatchMode, frame, multi, op, put_multi_head};
pub(crate) use tls::{Tls, TlsError, TlsFiles};
