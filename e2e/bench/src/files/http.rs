//! What vlagent needs around it: a server that takes its blocks and counts what is in them, and the
//! few answers of a Kubernetes API server by which it finds a node's pods, and ours their labels.
//!
//! A stand-in: it knows one node, one namespace, and the pods that were put into it; a watch gets
//! those that come later. It lives in the harness, so its work doesn't count for vlagent.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use millrace_wire::decompress::{ContentEncoding, Decompressor};
use serde_json::{Value, json};

use crate::world::account::NODE;

use super::corpus::{CONTAINER, NAMESPACE, uid_of};
use super::seen::Seen;

/// A block's bytes: vlagent's are of some 8 MiB, less when compressed.
const BLOCK_MAX_BYTES: usize = 64 << 20;
/// A client that says nothing for so long is gone.
const IDLE: Duration = Duration::from_secs(120);

struct Shared {
    seen: Arc<Seen>,
    pods: Mutex<Vec<Value>>,
    watchers: Mutex<Vec<TcpStream>>,
    ends: AtomicBool,
}

/// A running server. Dropping it closes its listener.
pub(super) struct StandIn {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<thread::JoinHandle<()>>,
}

impl StandIn {
    /// Listens on a free loopback port.
    pub(super) fn start(seen: Arc<Seen>, pods: &[String]) -> Result<Self> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port")?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared {
            seen,
            pods: Mutex::new(pods.iter().map(|name| pod(name)).collect()),
            watchers: Mutex::default(),
            ends: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let listener = thread::Builder::new()
            .name("stand-in".to_owned())
            .spawn(move || accept(&socket, &accepting))
            .context("no thread")?;
        Ok(Self { address, shared, listener: Some(listener) })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it answers, as `http://127.0.0.1:port`.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Tells those that watch of a new pod.
    pub(super) fn add_pod(&self, name: &str) {
        let pod = pod(name);
        let chunk = added(&pod);
        let mut pods = locked(&self.shared.pods);
        pods.push(pod);
        locked(&self.shared.watchers).retain_mut(|it| it.write_all(chunk.as_bytes()).is_ok());
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        // Wakes the listener, which waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pod's event, as a line of its own in a chunk.
fn added(pod: &Value) -> String {
    let event = json!({ "type": "ADDED", "object": pod });
    let line = format!("{event}\n");
    format!("{:x}\r\n{line}\r\n", line.len())
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": uid_of(name), "resourceVersion": "1",
            "labels": { "app": "shop", "tier": "backend" },
        },
        "spec": { "nodeName": NODE, "containers": [{ "name": CONTAINER }] },
        "status": {
            "podIP": "10.0.0.1",
            "containerStatuses": [
                { "name": CONTAINER, "containerID": format!("containerd://{name}") },
            ],
        },
    })
}

fn accept(socket: &TcpListener, shared: &Arc<Shared>) {
    for stream in socket.incoming() {
        if shared.ends.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        // A client that goes away or talks nonsense ends its own connection, nothing else.
        let serve = move || _ = serve(stream, &shared);
        let _ = thread::Builder::new().name("stand-in-connection".to_owned()).spawn(serve);
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE))?;
    let mut input = BufReader::with_capacity(256 << 10, stream.try_clone()?);
    let (mut decompressor, mut block) = (Decompressor::new(), Vec::new());
    while let Some((target, body)) = request(&mut input)? {
        let path = target.split('?').next().unwrap_or_default();
        if path == "/insert/native" {
            decompressor.decompress(ContentEncoding::Zstd, &body, BLOCK_MAX_BYTES, &mut block)?;
            shared.seen.take(&block);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        } else if target.contains("watch=true") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            let pods = locked(&shared.pods);
            // From the beginning: with what is there.
            if target.contains("resourceVersion=0") {
                for pod in pods.iter() {
                    stream.write_all(added(pod).as_bytes())?;
                }
            }
            // Further events are written by whoever adds a pod.
            locked(&shared.watchers).push(stream.try_clone()?);
            return Ok(());
        } else {
            let answer = answer(path, shared).map_or_else(
                || "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
                |it| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{it}", it.len()),
            );
            stream.write_all(answer.as_bytes())?;
        }
    }
    Ok(())
}

fn answer(path: &str, shared: &Shared) -> Option<String> {
    let node = json!({ "metadata": { "name": NODE } });
    let answer = match path {
        "/api/v1/nodes" => json!({ "items": [node] }),
        "/api/v1/nodes/node-1" => node,
        "/api/v1/namespaces" => json!({ "items": [{ "metadata": { "name": NAMESPACE } }] }),
        "/api/v1/pods" => json!({
            "metadata": { "resourceVersion": "1" }, "items": *locked(&shared.pods),
        }),
        _ => return None,
    };
    Some(answer.to_string())
}

/// The next request's target and body; `None` when the client has no more.
fn request(input: &mut impl BufRead) -> Result<Option<(String, Vec<u8>)>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let target = line.split(' ').nth(1).context("no target")?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        input.read_line(&mut line)?;
        let header = line.trim_end();
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>()?;
        }
    }
    anyhow::ensure!(length <= BLOCK_MAX_BYTES, "a body of {length} bytes");
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some((target, body)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::sync::Arc;

    use super::super::seen::{Seen, mark};
    use super::StandIn;

    fn exchange(server: &StandIn, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Scenario: a compressed block, a list of pods, a path nobody taught it. Guarantee: counted,
    /// answered, refused.
    #[test]
    fn blocks_are_counted_and_pods_are_listed() {
        let seen = Arc::new(Seen::new(2));
        let server = StandIn::start(Arc::clone(&seen), &["a".to_owned()]).unwrap();
        let block = zstd::stream::encode_all(mark(1).as_bytes(), 1).unwrap();
        let head =
            format!("POST /insert/native?x=1 HTTP/1.1\r\ncontent-length: {}\r\n\r\n", block.len());
        let answer = exchange(&server, &[head.as_bytes(), &block].concat());
        assert!(answer.starts_with("HTTP/1.1 200") && seen.distinct() == 1, "{answer}");
        let pods = exchange(&server, b"GET /api/v1/pods?fieldSelector=x HTTP/1.1\r\n\r\n");
        assert!(pods.contains("containerd://a"), "{pods}");
        assert!(exchange(&server, b"GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    }
}
