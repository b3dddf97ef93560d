//! An API server that costs next to nothing, for `API=standin`: what the operator does by itself,
//! where a real API server would be what holds it (docs/internals/operator-performance.md).
//!
//! It speaks HTTP/1.1 on loopback, in one namespace: get, list in pages, watch, create, replace,
//! server-side apply by one manager, merge and JSON patches, delete. Every answer takes
//! `LATENCY_MS`, as those of a server that writes to a disk do. It neither validates nor defaults
//! nor authenticates, keeps no events, and collects no garbage; of the controllers it has those of
//! DaemonSets, which finds no node, and of StatefulSets, whose pods are ready at once.

mod status_fields;
mod store;
mod workloads;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub(crate) use status_fields::{FieldChanges, StatusChanges};
use store::{Query, Refused, Store, Watcher};

/// A real watch ends after some minutes, and clients come back.
const WATCH_FOR_DEFAULT: Duration = Duration::from_secs(290);

/// A running server. It ends with the process; its kubeconfig is removed when dropped.
pub(crate) struct StandIn {
    kubeconfig: PathBuf,
    server: Arc<Server>,
}

struct Server {
    store: Arc<Store>,
    latency: Duration,
    requests: Mutex<Requests>,
}

/// How many requests of each kind were answered, by verb and resource.
pub(crate) type Requests = BTreeMap<String, u64>;

impl StandIn {
    /// Listens on a free port and writes a kubeconfig for it.
    ///
    /// # Errors
    /// No port, or nowhere to write.
    pub(crate) async fn start(latency: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port")?;
        let address = listener.local_addr()?;
        let kubeconfig = write_kubeconfig(address)?;
        let server = Arc::new(Server { store: Store::new(), latency, requests: Mutex::default() });
        let router = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { kubeconfig, server })
    }

    /// Reads answered so far, pages of lists among them; the beginnings of watches are none, and
    /// leases are left out.
    pub(crate) fn reads(&self) -> u64 {
        let is_read = |it: &str| it.starts_with("get ") || it.starts_with("list ");
        self.requests().iter().filter(|(what, _)| is_read(what)).map(|(_, count)| count).sum()
    }

    /// Requests answered so far, without leases and beginnings of watches.
    pub(crate) fn requests(&self) -> Requests {
        let mut all = self.server.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.retain(|what, _| !what.ends_with(" leases") && !what.starts_with("watch "));
        all
    }

    /// Which fields of statuses were changed since the last call.
    pub(crate) fn take_status_changes(&self) -> StatusChanges {
        self.server.store.take_status_changes()
    }

    /// The kubeconfig by which the operator and the bench find it.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client of it.
    ///
    /// # Errors
    /// When the kubeconfig is gone.
    pub(crate) async fn client(&self) -> Result<kube::Client> {
        let file = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await?;
        Ok(kube::Client::try_from(config)?)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

fn write_kubeconfig(address: SocketAddr) -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("operator-bench-{}.json", std::process::id()));
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "standin",
        "clusters": [{"name": "standin", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "standin", "user": {}}],
        "contexts": [{"name": "standin", "context": {"cluster": "standin", "user": "standin"}}],
    });
    std::fs::write(&path, text.to_string())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

async fn answer(
    State(server): State<Arc<Server>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    tokio::time::sleep(server.latency).await;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let query = Query::read(
        uri.query().unwrap_or(""),
        text(header::ACCEPT).contains("PartialObjectMetadata"),
    );
    let path = uri.path();
    server.count(&method, path, &query);
    if method == Method::GET && query.watch {
        return watch(server.store.watch(path, query));
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let outcome = match method {
        Method::GET => server.store.read(path, &query),
        Method::POST if query.dry_run => Ok(body),
        Method::POST => server.store.create(path, body),
        Method::PUT => server.store.replace(path, body),
        Method::DELETE => server.store.remove(path),
        Method::PATCH => match text(header::CONTENT_TYPE) {
            kind if kind.contains("apply-patch") => server.store.apply(path, &query, &body),
            kind if kind.contains("json-patch") => server.store.set_status(path, &body),
            _ => server.store.merge(path, &body),
        },
        _ => Err(Refused { code: 405, reason: "MethodNotAllowed" }),
    };
    match outcome {
        Ok(value) => json_answer(StatusCode::OK, &value),
        Err(Refused { code, reason }) => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": format!("{reason}: {path}"), "reason": reason, "code": code});
            json_answer(StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST), &status)
        }
    }
}

impl Server {
    fn count(&self, method: &Method, path: &str, query: &Query) {
        let of_collection = store::is_collection(path);
        let (verb, resource) = match *method {
            Method::GET if query.watch => ("watch", path.rsplit('/').next()),
            Method::GET if of_collection => ("list", path.rsplit('/').next()),
            Method::GET => ("get", path.rsplit('/').nth(1)),
            Method::POST => ("create", path.rsplit('/').next()),
            _ if path.ends_with("/status") => ("write", Some("status")),
            _ => ("write", path.rsplit('/').nth(1)),
        };
        let what = format!("{verb} {}", resource.unwrap_or_default());
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry(what).or_default() += 1;
    }
}

fn json_answer(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// One line of JSON for each event, until the time of a watch is over.
fn watch(watcher: Watcher) -> Response {
    let end = tokio::time::Instant::now() + watcher.lasts().unwrap_or(WATCH_FOR_DEFAULT);
    let lines = stream::unfold(watcher, move |mut watcher| async move {
        let lines = tokio::time::timeout_at(end, watcher.next()).await.ok()?;
        Some((Ok::<_, Infallible>(Bytes::from(lines)), watcher))
    });
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response()
}
