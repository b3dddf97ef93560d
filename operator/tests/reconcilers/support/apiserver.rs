//! An API server in memory: get, list by label, server-side apply, status, delete, events.
//!
//! It keeps what matters for reconcilers honest: uids, resource versions that move only when an
//! object changes, generations that move only with the spec, fields that a manager no longer
//! applies are removed, and every write is recorded. It does not validate, default or watch.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Map, Value, json};

/// A request that changed something, or tried to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) method: String,
    pub(crate) path: String,
}

/// Answers a request with an error instead of doing it.
pub(crate) type Fault = Box<dyn FnMut(&Method, &str) -> Option<u16> + Send>;

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Stored>,
    last_version: u64,
    writes: Vec<Write>,
    events: Vec<Value>,
    fault: Option<Fault>,
}

struct Stored {
    value: Value,
    /// What each manager applied last.
    applied: BTreeMap<String, Value>,
}

/// The server; clones share their objects.
#[derive(Clone, Default)]
pub(crate) struct ApiServer {
    state: Arc<Mutex<State>>,
}

impl ApiServer {
    /// A client of this server.
    pub(crate) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    /// Puts an object there as a user would: a change of the spec is a new generation.
    pub(crate) fn put(&self, path: &str, mut value: Value) {
        let mut state = self.state.lock().unwrap();
        let old = state.objects.remove(path);
        let applied = old.as_ref().map(|old| old.applied.clone()).unwrap_or_default();
        let old = old.map(|stored| stored.value);
        state.complete(path, old.as_ref(), &mut value);
        state.objects.insert(path.to_owned(), Stored { value, applied });
    }

    /// Changes an object as a user would.
    pub(crate) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.get(path).unwrap_or_else(|| panic!("{path} does not exist"));
        change(&mut value);
        self.put(path, value);
    }

    /// The object at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).map(|stored| stored.value.clone())
    }

    /// Removes an object as a user would.
    pub(crate) fn delete(&self, path: &str) {
        let removed = self.state.lock().unwrap().objects.remove(path);
        assert!(removed.is_some(), "{path} does not exist");
    }

    /// Paths of all objects.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.state.lock().unwrap().objects.keys().cloned().collect()
    }

    /// The writes since the last call, events aside.
    pub(crate) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.state.lock().unwrap().writes)
    }

    /// The reasons of all events since the last call.
    pub(crate) fn take_event_reasons(&self) -> Vec<String> {
        let events = std::mem::take(&mut self.state.lock().unwrap().events);
        events.iter().map(|event| event["reason"].as_str().unwrap_or("").to_owned()).collect()
    }

    /// Answers some requests with errors from now on; `None` stops it.
    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        self.state.lock().unwrap().fault = fault;
    }

    /// Everything that counts as state: objects without what differs between two equal runs.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, Value> {
        let state = self.state.lock().unwrap();
        let strip = |stored: &Stored| {
            let mut value = stored.value.clone();
            for field in ["resourceVersion", "uid", "generation"] {
                value["metadata"].as_object_mut().unwrap().remove(field);
            }
            value
        };
        state.objects.iter().map(|(path, stored)| (path.clone(), strip(stored))).collect()
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or("").to_owned();
        let accept = parts.headers.get("accept").and_then(|v| v.to_str().ok()).unwrap_or("");
        let metadata_only = accept.contains("PartialObjectMetadata");
        let mut state = self.state.lock().unwrap();
        let fault = state.fault.as_mut().and_then(|fault| fault(&parts.method, &path));
        if let Some(code) = fault {
            return failure(code, "made to fail");
        }
        if path.contains("/events") {
            if parts.method == Method::POST {
                state.events.push(body.clone());
            }
            return success(&body);
        }
        let answer = match parts.method {
            Method::GET => state.read(&path, &query, metadata_only),
            Method::PATCH => state.patch(&path, &query, body),
            Method::POST => state.create(&path, body),
            Method::PUT => state.replace(&path, body),
            Method::DELETE => state.remove(&path),
            ref other => panic!("{other} is not served here"),
        };
        match answer {
            Ok(value) => success(&value),
            Err(code) => failure(code, &path),
        }
    }
}

impl State {
    fn read(&self, path: &str, query: &str, metadata_only: bool) -> Result<Value, u16> {
        if let Some(stored) = self.objects.get(path) {
            return Ok(stored.value.clone());
        }
        if !is_collection(path) {
            return Err(404);
        }
        let selector = parameter(query, "labelSelector").unwrap_or_default();
        let wanted: Vec<(&str, &str)> =
            selector.split(',').filter_map(|part| part.split_once('=')).collect();
        let inside = format!("{path}/");
        let items: Vec<Value> = self
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(&inside))
            .map(|(_, stored)| stored.value.clone())
            .filter(|value| {
                wanted.iter().all(|(key, label)| value["metadata"]["labels"][*key] == **label)
            })
            .map(|value| {
                if metadata_only {
                    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                        "metadata": value["metadata"]})
                } else {
                    value
                }
            })
            .collect();
        Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
    }

    fn patch(&mut self, path: &str, query: &str, body: Value) -> Result<Value, u16> {
        self.writes.push(Write { method: "PATCH".into(), path: path.into() });
        let manager = parameter(query, "fieldManager").ok_or(400u16)?;
        let (path, status) = match path.strip_suffix("/status") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let (old, mut applied) = match self.objects.remove(path) {
            Some(stored) => (Some(stored.value), stored.applied),
            None if status => return Err(404),
            None => (None, BTreeMap::new()),
        };
        let mut value = old.clone().unwrap_or_else(|| json!({}));
        let mut wanted = body;
        if status {
            wanted = json!({"status": wanted["status"]});
        }
        if let Some(before) = applied.get(&manager) {
            remove_given_up(&mut value, before, &wanted);
        }
        merge(&mut value, &wanted);
        applied.insert(manager, wanted);
        self.complete(path, old.as_ref(), &mut value);
        self.objects.insert(path.to_owned(), Stored { value: value.clone(), applied });
        Ok(value)
    }

    fn create(&mut self, path: &str, mut body: Value) -> Result<Value, u16> {
        let name = body["metadata"]["name"].as_str().ok_or(400u16)?.to_owned();
        let path = format!("{path}/{name}");
        self.writes.push(Write { method: "POST".into(), path: path.clone() });
        if self.objects.contains_key(&path) {
            return Err(409);
        }
        self.complete(&path, None, &mut body);
        let stored = Stored { value: body.clone(), applied: BTreeMap::new() };
        self.objects.insert(path, stored);
        Ok(body)
    }

    fn replace(&mut self, path: &str, mut body: Value) -> Result<Value, u16> {
        self.writes.push(Write { method: "PUT".into(), path: path.into() });
        let old = self.objects.get(path).ok_or(404u16)?.value.clone();
        let version = &body["metadata"]["resourceVersion"];
        if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
            return Err(409);
        }
        self.complete(path, Some(&old), &mut body);
        let stored = Stored { value: body.clone(), applied: BTreeMap::new() };
        self.objects.insert(path.to_owned(), stored);
        Ok(body)
    }

    fn remove(&mut self, path: &str) -> Result<Value, u16> {
        self.writes.push(Write { method: "DELETE".into(), path: path.into() });
        self.objects.remove(path).map(|stored| stored.value).ok_or(404)
    }

    /// Fills in what a server fills in: name, uid, generation, resource version.
    fn complete(&mut self, path: &str, old: Option<&Value>, value: &mut Value) {
        let mut parts = path.rsplit('/');
        let name = parts.next().unwrap_or_default();
        let namespace = parts.nth(1).unwrap_or_default();
        self.last_version += 1;
        let version = self.last_version;
        let metadata = value["metadata"].as_object_mut().expect("metadata");
        metadata.insert("name".into(), name.into());
        metadata.insert("namespace".into(), namespace.into());
        metadata.entry("uid").or_insert_with(|| format!("uid-{version}").into());
        let generation = match old {
            None => 1,
            Some(old) => {
                let before = old["metadata"]["generation"].as_i64().unwrap_or(1);
                before + i64::from(rest_of(old) != rest_of(value))
            }
        };
        value["metadata"]["generation"] = generation.into();
        let old_version = old.map(|old| old["metadata"]["resourceVersion"].clone());
        if let Some(old_version) = old_version {
            value["metadata"]["resourceVersion"] = old_version;
            if old == Some(&*value) {
                return;
            }
        }
        value["metadata"]["resourceVersion"] = version.to_string().into();
    }
}

/// Everything but metadata and status: what a generation counts.
fn rest_of(value: &Value) -> Map<String, Value> {
    let mut rest = value.as_object().cloned().unwrap_or_default();
    rest.remove("metadata");
    rest.remove("status");
    rest
}

/// Removes what `before` applied and `now` does not; lists are taken whole.
fn remove_given_up(value: &mut Value, before: &Value, now: &Value) {
    let (Some(fields), Some(before)) = (value.as_object_mut(), before.as_object()) else { return };
    for (key, was) in before {
        match now.get(key) {
            None => {
                fields.remove(key);
            }
            Some(is) => {
                if let Some(field) = fields.get_mut(key) {
                    remove_given_up(field, was, is);
                }
            }
        }
    }
}

fn merge(value: &mut Value, wanted: &Value) {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            for (key, field) in wanted {
                if !field.is_null() {
                    merge(value.entry(key.clone()).or_insert(Value::Null), field);
                }
            }
        }
        (value, wanted) => *value = wanted.clone(),
    }
}

/// `/api/v1/namespaces/ns/things` and `/apis/g/v/namespaces/ns/things`, without a name behind it.
fn is_collection(path: &str) -> bool {
    let parts = path.trim_matches('/').split('/').count();
    parts == if path.starts_with("/api/") { 5 } else { 6 }
}

fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then(|| {
            value.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/").replace('+', " ")
        })
    })
}

fn success(value: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(value).unwrap());
    Response::builder().status(StatusCode::OK).body(body).unwrap()
}

fn failure(code: u16, message: &str) -> Response<Body> {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": message, "reason": reason, "code": code});
    let body = Body::from(serde_json::to_vec(&status).unwrap());
    Response::builder().status(code).body(body).unwrap()
}
