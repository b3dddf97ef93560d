//! A server that does nothing: it answers every request at once with an empty success and keeps
//! no tree. What a tool makes against it is the tool's own speed. It checks no request and never
//! fires a watch.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::wire::{
    Head, Malformed, PING_XID, Reader, STAT_BYTES, op, put_buffer, put_flag, put_int, put_long,
    put_multi_head,
};

/// Read at once: more than the deepest pipeline of small requests has under way.
const READ_BYTES: usize = 256 << 10;
/// As ZooKeeper's own limit (`jute.maxbuffer`), with room for its framing.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// What every session is given.
const SESSION_TIMEOUT_MS: i32 = 30_000;
/// The server knows no such request.
const UNIMPLEMENTED: i32 = -6;

/// Serves connections until the task is dropped.
pub(crate) async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A client that breaks off or sends nonsense loses its connection, which is its own affair.
        tokio::spawn(async move { drop(session(stream).await) });
    }
}

async fn session(mut stream: TcpStream) -> io::Result<()> {
    let mut inbox: Vec<u8> = Vec::with_capacity(READ_BYTES);
    let mut out = Vec::with_capacity(READ_BYTES);
    let mut state = Session { greeted: false, zxid: 0 };
    loop {
        if stream.read_buf(&mut inbox).await? == 0 {
            return Ok(());
        }
        let mut start = 0;
        let mut open = true;
        while let Some(head) = inbox[start..].first_chunk() {
            let length = usize::try_from(i32::from_be_bytes(*head)).unwrap_or(usize::MAX);
            if length > REQUEST_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let Some(message) = inbox.get(start + 4..start + 4 + length) else { break };
            open &= state.answer(message, &mut out).map_err(|_| io::ErrorKind::InvalidData)?;
            start += 4 + length;
        }
        inbox.drain(..start);
        stream.write_all(&out).await?;
        out.clear();
        if !open {
            return Ok(());
        }
    }
}

struct Session {
    greeted: bool,
    zxid: i64,
}

impl Session {
    /// Appends the reply; false: the session ends after it.
    fn answer(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<bool, Malformed> {
        let start = out.len();
        put_int(out, 0);
        let open = match self.greeted {
            true => self.reply(&mut Reader::new(message), out)?,
            false => {
                self.greeted = true;
                put_int(out, 0);
                put_int(out, SESSION_TIMEOUT_MS);
                put_long(out, 1);
                put_buffer(out, &[0; 16]);
                put_flag(out, false);
                true
            }
        };
        let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(open)
    }

    fn reply(&mut self, request: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<bool, Malformed> {
        let (xid, code) = (request.int()?, request.int()?);
        self.zxid += 1;
        let error = if known(code) { 0 } else { UNIMPLEMENTED };
        let xid = if code == op::PING { PING_XID } else { xid };
        Head { xid, error }.put(out, self.zxid);
        match code {
            op::MULTI | op::MULTI_READ => multi(request, out)?,
            op::CREATE | op::SYNC => put_buffer(out, request.buffer()?),
            op::ADD_WATCH => put_int(out, 0),
            code => result(code, out),
        }
        Ok(code != op::CLOSE)
    }
}

fn known(code: i32) -> bool {
    const KNOWN: &[i32] = &[
        op::CREATE,
        op::DELETE,
        op::EXISTS,
        op::GET_DATA,
        op::SET_DATA,
        op::GET_CHILDREN,
        op::GET_CHILDREN_2,
        op::SYNC,
        op::PING,
        op::MULTI,
        op::MULTI_READ,
        op::CLOSE,
        op::AUTH,
        op::ADD_WATCH,
    ];
    KNOWN.contains(&code)
}

/// What follows the head where it doesn't depend on the request: no data, no children, a node's
/// figures all nought.
fn result(code: i32, out: &mut Vec<u8>) {
    match code {
        op::EXISTS | op::SET_DATA => out.extend([0; STAT_BYTES]),
        op::GET_DATA | op::GET_CHILDREN_2 => {
            put_int(out, 0);
            out.extend([0; STAT_BYTES]);
        }
        op::GET_CHILDREN => put_int(out, 0),
        _ => {}
    }
}

fn multi(request: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    loop {
        let code = request.int()?;
        let done = request.flag()?;
        request.int()?;
        put_multi_head(out, code, done, if done { -1 } else { 0 });
        if done {
            return Ok(());
        }
        let path = request.buffer()?;
        match code {
            op::CREATE => {
                request.buffer()?;
                for _ in 0..request.int()? {
                    request.int()?;
                    request.buffer()?;
                    request.buffer()?;
                }
                request.int()?;
                put_buffer(out, path);
            }
            op::SET_DATA => {
                request.buffer()?;
                request.int()?;
            }
            op::DELETE | op::CHECK => drop(request.int()?),
            op::GET_DATA | op::GET_CHILDREN => drop(request.flag()?),
            _ => return Err(Malformed),
        }
        result(code, out);
    }
}
