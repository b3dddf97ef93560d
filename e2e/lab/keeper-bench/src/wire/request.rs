//! Requests as frames: a length, the request's number (xid), its code and its fields.

use super::jute::{put_buffer, put_flag, put_int};

/// Codes of requests (`ZooDefs.OpCode` in ZooKeeper's source).
pub(crate) mod op {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const GET_CHILDREN_2: i32 = 12;
    pub(crate) const PING: i32 = 11;
    pub(crate) const CHECK: i32 = 13;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const MULTI_READ: i32 = 22;
    pub(crate) const CLOSE: i32 = -11;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const SASL: i32 = 102;
    pub(crate) const ADD_WATCH: i32 = 106;
    /// Of a result in a multi: it failed.
    pub(crate) const ERROR: i32 = -1;
}

/// The number that pings have, both ways.
pub(crate) const PING_XID: i32 = -2;
/// Every permission, for everybody.
const PERMISSIONS_ALL: i32 = 31;
/// Any version of a node will do.
const ANY_VERSION: i32 = -1;

/// How long a node lives, and whether the server numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) ephemeral: bool,
    pub(crate) sequential: bool,
}

impl Mode {
    pub(crate) const PERSISTENT: Self = Self { ephemeral: false, sequential: false };

    fn flags(self) -> i32 {
        i32::from(self.ephemeral) | i32::from(self.sequential) << 1
    }
}

/// What a watch that stays reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchMode {
    /// Changes of the node and of its list of children.
    Persistent,
    /// Changes of the node and of every node below it.
    Recursive,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Request<'a> {
    Create {
        path: &'a str,
        data: &'a [u8],
        mode: Mode,
    },
    Delete {
        path: &'a str,
    },
    Set {
        path: &'a str,
        data: &'a [u8],
    },
    Get {
        path: &'a str,
        watch: bool,
    },
    Exists {
        path: &'a str,
        watch: bool,
    },
    List {
        path: &'a str,
        watch: bool,
    },
    /// Only in a multi: the node has to be there.
    Check {
        path: &'a str,
    },
    Sync {
        path: &'a str,
    },
    AddWatch {
        path: &'a str,
        mode: WatchMode,
    },
    Ping,
    Close,
    Auth {
        scheme: &'a str,
        secret: &'a [u8],
    },
    Sasl {
        token: &'a [u8],
    },
}

impl Request<'_> {
    fn code(&self) -> i32 {
        match self {
            Self::Create { .. } => op::CREATE,
            Self::Delete { .. } => op::DELETE,
            Self::Set { .. } => op::SET_DATA,
            Self::Get { .. } => op::GET_DATA,
            Self::Exists { .. } => op::EXISTS,
            Self::List { .. } => op::GET_CHILDREN,
            Self::Check { .. } => op::CHECK,
            Self::Sync { .. } => op::SYNC,
            Self::AddWatch { .. } => op::ADD_WATCH,
            Self::Ping => op::PING,
            Self::Close => op::CLOSE,
            Self::Auth { .. } => op::AUTH,
            Self::Sasl { .. } => op::SASL,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Create { path, data, mode } => {
                put_buffer(out, path.as_bytes());
                put_buffer(out, data);
                put_int(out, 1);
                put_int(out, PERMISSIONS_ALL);
                put_buffer(out, b"world");
                put_buffer(out, b"anyone");
                put_int(out, mode.flags());
            }
            Self::Delete { path } | Self::Check { path } => {
                put_buffer(out, path.as_bytes());
                put_int(out, ANY_VERSION);
            }
            Self::Set { path, data } => {
                put_buffer(out, path.as_bytes());
                put_buffer(out, data);
                put_int(out, ANY_VERSION);
            }
            Self::Get { path, watch }
            | Self::Exists { path, watch }
            | Self::List { path, watch } => {
                put_buffer(out, path.as_bytes());
                put_flag(out, watch);
            }
            Self::Sync { path } => put_buffer(out, path.as_bytes()),
            Self::AddWatch { path, mode } => {
                put_buffer(out, path.as_bytes());
                put_int(out, i32::from(mode == WatchMode::Recursive));
            }
            Self::Ping | Self::Close => {}
            Self::Auth { scheme, secret } => {
                put_int(out, 0);
                put_buffer(out, scheme.as_bytes());
                put_buffer(out, secret);
            }
            Self::Sasl { token } => put_buffer(out, token),
        }
    }
}

/// Appends one request.
pub(crate) fn frame(out: &mut Vec<u8>, xid: i32, request: &Request<'_>) {
    let start = begin(out, xid, request.code());
    request.put(out);
    end(out, start);
}

/// A multi that is being written: requests of one kind, all reads or all writes.
#[derive(Debug)]
pub(crate) struct Multi<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

/// Begins a multi: of reads, or of writes that take place together or not at all.
pub(crate) fn multi(out: &mut Vec<u8>, xid: i32, reads: bool) -> Multi<'_> {
    let start = begin(out, xid, if reads { op::MULTI_READ } else { op::MULTI });
    Multi { out, start }
}

impl Multi<'_> {
    pub(crate) fn add(&mut self, request: &Request<'_>) {
        put_multi_head(self.out, request.code(), false, -1);
        request.put(self.out);
    }

    pub(crate) fn end(self) {
        put_multi_head(self.out, -1, true, -1);
        end(self.out, self.start);
    }
}

/// What stands before each part of a multi, and at its end.
pub(crate) fn put_multi_head(out: &mut Vec<u8>, code: i32, done: bool, error: i32) {
    put_int(out, code);
    put_flag(out, done);
    put_int(out, error);
}

/// Where the frame begins; its length follows in `end`.
fn begin(out: &mut Vec<u8>, xid: i32, code: i32) -> usize {
    let start = out.len();
    put_int(out, 0);
    put_int(out, xid);
    put_int(out, code);
    start
}

fn end(out: &mut [u8], start: usize) {
    let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
    if let Some(head) = out[start..].first_chunk_mut() {
        *head = length.to_be_bytes();
    }
}
