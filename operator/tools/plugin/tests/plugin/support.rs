//! An API server in memory, a pipeline on it, and the comparison with committed texts.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clap::Parser;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use millrace_plugin::args::Cli;
use millrace_plugin::command::{self, CommandOutput, CommandSession};
use millrace_plugin::error::Error;
use millrace_plugin::gather::Cluster;
use millrace_plugin::render::Palette;
use serde_json::{Value, json};

/// The namespace of the tests' pipelines.
pub(crate) const NAMESPACE: &str = "obs";
/// The time of all tests.
const NOW: &str = "2026-11-26T12:00:00Z";

/// The run of all tests' records.
pub(crate) const RUN: u64 = 0x5eed_0000_0000_00a1;

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    metrics: BTreeMap<String, VecDeque<String>>,
    logs: BTreeMap<String, String>,
    forbidden: Vec<(Method, String)>,
    conflict: Option<String>,
    asked: Vec<(Method, String)>,
    taken: Vec<(String, Value)>,
    refusal: Option<(usize, u16, Value)>,
}

/// The server; clones share their objects.
#[derive(Clone, Default)]
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
}

impl Server {
    /// Stores an object by its kind and name.
    pub(crate) fn put(&self, object: Value) {
        let path = path(&object);
        self.state.lock().unwrap().objects.insert(path, object);
    }

    /// Changes an object.
    pub(crate) fn edit(&self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let path = path(&json!({"kind": kind, "metadata": {"name": name}}));
        let mut state = self.state.lock().unwrap();
        change(state.objects.get_mut(&path).unwrap_or_else(|| panic!("no {path}")));
    }

    /// Returns the present state of an object.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        let path = path(&json!({"kind": kind, "metadata": {"name": name}}));
        self.state.lock().unwrap().objects[&path].clone()
    }

    /// Sets a pod's answers on its admin port, one text after the other; the last one stays.
    pub(crate) fn metrics(&self, pod: &str, texts: &[String]) {
        let texts = texts.iter().cloned().collect();
        self.state.lock().unwrap().metrics.insert(pod.to_owned(), texts);
    }

    /// Sets a pod's log.
    pub(crate) fn log(&self, pod: &str, text: &str) {
        self.state.lock().unwrap().logs.insert(pod.to_owned(), text.to_owned());
    }

    /// Answers 403 to requests whose path contains `part`.
    pub(crate) fn forbid(&self, method: Method, part: &str) {
        self.state.lock().unwrap().forbidden.push((method, part.to_owned()));
    }

    /// Answers 409 to an apply that doesn't force.
    pub(crate) fn conflict(&self, message: &str) {
        self.state.lock().unwrap().conflict = Some(message.to_owned());
    }

    /// Returns the requests that edges accepted so far: the pod with its port, and the request.
    pub(crate) fn taken(&self) -> Vec<(String, Value)> {
        self.state.lock().unwrap().taken.clone()
    }

    /// Makes edges accept this many requests and refuse the next ones with this code and body.
    pub(crate) fn refuse_after(&self, requests: usize, code: u16, body: Value) {
        self.state.lock().unwrap().refusal = Some((requests, code, body));
    }

    /// Returns all requests so far.
    pub(crate) fn asked(&self) -> Vec<(Method, String)> {
        self.state.lock().unwrap().asked.clone()
    }

    /// Runs a command line.
    pub(crate) async fn run(&self, line: &[&str]) -> Result<CommandOutput, Error> {
        let cli = Cli::try_parse_from([&["kubectl-millrace"][..], line].concat()).unwrap();
        if let Some(answer) = command::without_cluster(&cli) {
            return answer;
        }
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let namespace = cli.cluster.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned());
        let cluster = Cluster::new(kube::Client::new(service, "default"), namespace);
        let now = || NOW.parse::<Timestamp>().unwrap();
        let (run, progress) = (|| RUN, |_: &str| {});
        let session = CommandSession { cluster, palette: Palette::PLAIN, now, run, progress };
        command::run(&session, &cli).await
    }

    pub(crate) async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let mut state = self.state.lock().unwrap();
        state.asked.push((parts.method.clone(), path.clone()));
        let denied = |(method, part): &(Method, String)| {
            *method == parts.method && path.contains(part.as_str())
        };
        if state.forbidden.iter().any(denied) {
            let message = "x is forbidden: User \"jane\" cannot do this";
            return status(403, "Forbidden", message);
        }
        if parts.method == Method::PATCH {
            return state.patch(&path, &query, &body);
        }
        if parts.method == Method::POST {
            return state.take(&path, &body);
        }
        state.read(&path, &query)
    }
}

impl State {
    /// Answers OTLP as an edge, through the proxy.
    fn take(&mut self, path: &str, body: &[u8]) -> Response<Body> {
        let at = path.split("/pods/").nth(1).and_then(|it| it.split_once("/proxy/v1/"));
        let Some((pod, _signal)) = at else {
            return status(404, "NotFound", "no such path");
        };
        if let Some((_, code, refusal)) =
            self.refusal.as_ref().filter(|(requests, ..)| self.taken.len() >= *requests)
        {
            return answer(*code, refusal);
        }
        self.taken.push((pod.to_owned(), serde_json::from_slice(body).unwrap()));
        answer(200, &json!({"partialSuccess": {}}))
    }

    fn read(&mut self, path: &str, query: &str) -> Response<Body> {
        if let Some(pod) = path.split("/pods/").nth(1).and_then(|it| it.strip_suffix("/log")) {
            return match self.logs.get(pod) {
                Some(text) => plain(text),
                None => status(400, "BadRequest", "the container has no log"),
            };
        }
        if let Some(pod) = path.split("/pods/").nth(1).and_then(|it| it.split_once(":9464/proxy")) {
            let Some(texts) = self.metrics.get_mut(pod.0) else {
                return status(503, "ServiceUnavailable", "error trying to reach service: refused");
            };
            let text = texts.front().cloned().unwrap_or_default();
            if texts.len() > 1 {
                texts.pop_front();
            }
            return plain(&text);
        }
        if let Some(object) = self.objects.get(path) {
            return answer(200, object);
        }
        let last = path.rsplit('/').next().unwrap_or_default();
        if is_collection(last) {
            return answer(200, &self.list(path, query));
        }
        let mut body = json!({"kind": "Status", "code": 404, "reason": "NotFound",
            "status": "Failure", "message": format!("{last} not found")});
        body["details"] = json!({"name": last});
        answer(404, &body)
    }

    fn list(&self, path: &str, query: &str) -> Value {
        let selector = query.split('&').find_map(|part| part.strip_prefix("labelSelector="));
        let selector = selector.unwrap_or_default().replace("%2F", "/").replace("%3D", "=");
        let wanted: Vec<(String, String)> = selector
            .replace("%2C", ",")
            .split(',')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let (root, kind) = path.rsplit_once('/').unwrap();
        let items = self.objects.iter().filter(|(at, object)| {
            let (place, _) = at.rsplit_once('/').unwrap();
            let of_kind = match root.contains("/namespaces/") {
                true => place == path,
                false => place.starts_with(root) && place.ends_with(&format!("/{kind}")),
            };
            let labels = &object["metadata"]["labels"];
            of_kind && wanted.iter().all(|(key, value)| labels[key] == json!(value))
        });
        let items: Vec<&Value> = items.map(|(_, object)| object).collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items})
    }

    fn patch(&mut self, path: &str, query: &str, body: &[u8]) -> Response<Body> {
        let body: Value = serde_json::from_slice(body).unwrap();
        let dry = query.contains("dryRun=All");
        if let (Some(message), true, false) = (&self.conflict, dry, query.contains("force=true")) {
            return status(409, "Conflict", message);
        }
        let old = self.objects.get(path).cloned();
        let mut new = old.unwrap_or_else(|| body.clone());
        if dry {
            // Server-side apply by the spec's only manager stores the file's spec.
            new["spec"] = body["spec"].clone();
            new["metadata"]["namespace"] = json!(NAMESPACE);
            return answer(200, &new);
        }
        for (key, value) in body["spec"].as_object().unwrap() {
            match value.is_null() {
                true => drop(new["spec"].as_object_mut().unwrap().remove(key)),
                false => new["spec"][key] = value.clone(),
            }
        }
        self.objects.insert(path.to_owned(), new.clone());
        answer(200, &new)
    }
}

fn is_collection(word: &str) -> bool {
    KINDS.iter().any(|(_, _, plural)| *plural == word)
}

const MILLRACE: &str = "/apis/millrace.dev/v1alpha1";
const KINDS: [(&str, &str, &str); 14] = [
    ("TelemetryPipeline", MILLRACE, "telemetrypipelines"),
    ("TelemetryTopic", MILLRACE, "telemetrytopics"),
    ("TelemetrySchema", MILLRACE, "telemetryschemas"),
    ("EdgePool", MILLRACE, "edgepools"),
    ("GatewayPool", MILLRACE, "gatewaypools"),
    ("Pod", "/api/v1", "pods"),
    ("Event", "/api/v1", "events"),
    ("Service", "/api/v1", "services"),
    ("ConfigMap", "/api/v1", "configmaps"),
    ("Deployment", "/apis/apps/v1", "deployments"),
    ("StatefulSet", "/apis/apps/v1", "statefulsets"),
    ("DaemonSet", "/apis/apps/v1", "daemonsets"),
    ("PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets"),
    ("HorizontalPodAutoscaler", "/apis/autoscaling/v2", "horizontalpodautoscalers"),
];

fn path(object: &Value) -> String {
    let (kind, name) =
        (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE);
    let (_, root, plural) = KINDS.iter().find(|(one, _, _)| *one == kind).unwrap();
    format!("{root}/namespaces/{namespace}/{plural}/{name}")
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(body).unwrap());
    Response::builder().status(code).body(body).unwrap()
}

fn plain(text: &str) -> Response<Body> {
    Response::new(Body::from(text.to_owned().into_bytes()))
}

fn status(code: u16, reason: &str, message: &str) -> Response<Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                      "reason": reason, "message": message});
    answer(code, &body)
}

/// Compares a text with a committed file.
pub(crate) fn golden(name: &str, text: &str) {
    let path = golden_path(name);
    if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{} differs; GOLDEN=write writes it anew:\n{text}", path.display());
}

/// Returns the path of such a file.
pub(crate) fn golden_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/plugin/golden").join(name)
}
