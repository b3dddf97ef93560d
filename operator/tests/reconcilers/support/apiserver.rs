//! An API server in memory: get, list by label and page, server-side apply, merge patches, JSON
//! patches of statuses, delete with finalizers and preconditions, events.
//!
//! It keeps what matters for reconcilers honest: uids, resource versions that move only when an
//! object changes, generations that move only with the spec, fields that a manager no longer
//! applies are removed, fields that someone else changes are no longer their manager's (what a
//! manager applied has the operator's own form, which a test holds against a real server's), every
//! write is recorded, and every state an object had is logged, which is
//! what watches are made of. It does not validate or default.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use millrace_operator::ownership::applied_state;
use serde_json::{Map, Value, json};

/// A request that changed something, or tried to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) method: String,
    pub(crate) path: String,
}

/// Answers a request with an error instead of doing it.
pub(crate) type Fault = Box<dyn FnMut(&Method, &str) -> Option<u16> + Send>;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is done and answered.
    Do,
    /// It is not done, and answered by this code.
    Refuse(u16),
    /// It is done, and its answer is lost.
    Lose,
    /// Whoever asked dies before it is done.
    DieBefore,
    /// Whoever asked dies before the answer.
    DieAfter,
}

/// What a patch's body is.
#[derive(Clone, Copy, Debug)]
enum PatchKind {
    Apply,
    Merge,
    Strategic,
    Json,
}

/// Decides on each request: what becomes of it, and for how many turns of the others it waits.
pub(crate) type Judge = Box<dyn FnMut(&Method, &str) -> (Verdict, u32) + Send>;

/// A state an object came into; no value: it is gone.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) path: Arc<str>,
    pub(crate) value: Option<Arc<Value>>,
    /// A write by a client, not by a user or a controller of the cluster.
    pub(crate) by_client: bool,
}

#[derive(Default)]
struct State {
    log: Vec<Change>,
    incarnations: BTreeMap<String, u32>,
    judge: Option<Judge>,
    died: Arc<tokio::sync::Notify>,
    objects: BTreeMap<String, Stored>,
    last_version: u64,
    writes: Vec<Write>,
    events: Vec<Value>,
    fault: Option<Fault>,
    refuses_privileged: bool,
    fault_text: Option<String>,
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
        state.keep(path, Stored { value, applied }, false);
    }

    /// Changes an object as a user would.
    pub(crate) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.get(path).unwrap_or_else(|| panic!("{path} does not exist"));
        change(&mut value);
        self.put(path, value);
    }

    /// Decides on requests from now on; `None` lets all pass.
    pub(crate) fn set_judge(&self, judge: Option<Judge>) {
        self.state.lock().unwrap().judge = judge;
    }

    /// Resolves when a request's verdict was that whoever asked dies.
    pub(crate) fn died(&self) -> Arc<tokio::sync::Notify> {
        self.state.lock().unwrap().died.clone()
    }

    /// The objects whose paths are chosen.
    pub(crate) fn select(&self, chosen: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
        let state = self.state.lock().unwrap();
        let chosen = state.objects.iter().filter(|(path, _)| chosen(path));
        chosen.map(|(path, stored)| (path.clone(), stored.value.clone())).collect()
    }

    /// How many changes were logged.
    pub(crate) fn log_len(&self) -> usize {
        self.state.lock().unwrap().log.len()
    }

    /// The changes from number `from` on.
    pub(crate) fn log_since(&self, from: usize) -> Vec<Change> {
        self.state.lock().unwrap().log[from..].to_vec()
    }

    /// Deletes an object as a user would: one with finalizers is only marked.
    pub(crate) fn ask_to_delete(&self, path: &str) {
        let _ = self.state.lock().unwrap().remove(path, &Value::Null, false);
    }

    /// Removes what belonged to owners that are gone, as the garbage collector would.
    pub(crate) fn collect_garbage(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        let uids: std::collections::BTreeSet<String> = state
            .objects
            .values()
            .filter_map(|stored| Some(stored.value["metadata"]["uid"].as_str()?.to_owned()))
            .collect();
        let orphans: Vec<String> = state
            .objects
            .iter()
            .filter(|(_, stored)| {
                let owners = stored.value["metadata"]["ownerReferences"].as_array();
                // One that waits for its finalizers is not removed again and again.
                let stays = stored.value["metadata"]["deletionTimestamp"].is_null();
                stays
                    && owners.is_some_and(|owners| {
                        !owners.is_empty()
                            && !owners
                                .iter()
                                .any(|it| uids.contains(it["uid"].as_str().unwrap_or("")))
                    })
            })
            .map(|(path, _)| path.clone())
            .collect();
        for orphan in &orphans {
            let _ = state.remove(orphan, &Value::Null, false);
        }
        !orphans.is_empty()
    }

    /// The object at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).map(|stored| stored.value.clone())
    }

    /// Removes an object as a user would.
    pub(crate) fn delete(&self, path: &str) {
        let mut state = self.state.lock().unwrap();
        let removed = state.objects.remove(path);
        assert!(removed.is_some(), "{path} does not exist");
        state.gone(path, false);
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

    /// All events since the last call: reason, kind and name of what they are about, note.
    pub(crate) fn take_events(&self) -> Vec<String> {
        let events = std::mem::take(&mut self.state.lock().unwrap().events);
        let text = |event: &Value, at: &str| {
            event.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let line = |event: &Value| {
            let about = [text(event, "/regarding/kind"), text(event, "/regarding/name")];
            format!("{} {}: {}", text(event, "/reason"), about.join(" "), text(event, "/note"))
        };
        events.iter().map(line).collect()
    }

    /// Sets what requests that are made to fail are told.
    pub(crate) fn set_fault_text(&self, text: &str) {
        self.state.lock().unwrap().fault_text = Some(text.to_owned());
    }

    /// Answers some requests with errors from now on; `None` stops it.
    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        self.state.lock().unwrap().fault = fault;
    }

    /// Refuses pods with a privileged container from now on, as Pod Security does.
    pub(crate) fn refuse_privileged_pods(&self) {
        self.state.lock().unwrap().refuses_privileged = true;
    }

    /// Everything that counts as state: objects without what differs between two equal runs.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, Value> {
        let state = self.state.lock().unwrap();
        let strip = |stored: &Stored| {
            let mut value = stored.value.clone();
            // Two ways to one state may leave other owners of its fields.
            for field in ["resourceVersion", "uid", "generation", "managedFields"] {
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
        let content = parts.headers.get("content-type").and_then(|v| v.to_str().ok()).unwrap_or("");
        let patch = match content {
            content if content.contains("strategic") => PatchKind::Strategic,
            content if content.contains("merge-patch") => PatchKind::Merge,
            content if content.contains("json-patch") => PatchKind::Json,
            _ => PatchKind::Apply,
        };
        let verdict = self.judge(&parts.method, &path).await;
        if let Verdict::Refuse(code) = verdict {
            return failure(code, "made to fail");
        }
        if verdict == Verdict::DieBefore {
            return self.die().await;
        }
        let answer = self.act(&parts.method, &path, &query, metadata_only, patch, body);
        match verdict {
            Verdict::Lose => failure(504, "made to get lost"),
            Verdict::DieAfter => self.die().await,
            _ => answer,
        }
    }

    async fn judge(&self, method: &Method, path: &str) -> Verdict {
        let judged = self.state.lock().unwrap().judge.as_mut().map(|judge| judge(method, path));
        let (verdict, turns) = judged.unwrap_or((Verdict::Do, 0));
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        verdict
    }

    async fn die(&self) -> Response<Body> {
        self.died().notify_one();
        std::future::pending().await
    }

    fn act(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        metadata_only: bool,
        patch: PatchKind,
        body: Value,
    ) -> Response<Body> {
        let mut state = self.state.lock().unwrap();
        let fault = state.fault.as_mut().and_then(|fault| fault(method, path));
        if let Some(code) = fault {
            let text = state.fault_text.as_deref().unwrap_or("made to fail");
            return failure(code, text);
        }
        if path.contains("/events") && *method != Method::GET {
            if *method == Method::POST {
                state.events.push(body.clone());
            }
            return success(&body);
        }
        let answer = match *method {
            Method::GET => state.read(path, query, metadata_only),
            Method::PATCH => match patch {
                PatchKind::Merge => state.merge_patch(path, &body, merge_or_remove),
                PatchKind::Strategic => state.merge_patch(path, &body, merge_by_name),
                PatchKind::Json => state.json_patch_status(path, &body),
                PatchKind::Apply => state.patch(path, query, body),
            },
            Method::POST if state.refuses_privileged && has_privileged_container(&body) => {
                return failure(403, "forbidden: violates PodSecurity \"baseline:latest\"");
            }
            // A dry run stores nothing.
            Method::POST if query.contains("dryRun=All") => Ok(body),
            Method::POST => state.create(path, body),
            Method::PUT => state.replace(path, body),
            Method::DELETE => {
                state.writes.push(Write { method: "DELETE".into(), path: path.into() });
                state.remove(path, &body, true)
            }
            ref other => panic!("{other} is not served here"),
        };
        match answer {
            Ok(value) => success(&value),
            Err(code) => failure(code, path),
        }
    }
}

impl State {
    fn read(&self, path: &str, query: &str, metadata_only: bool) -> Result<Value, u16> {
        if let Some(stored) = self.objects.get(path) {
            return Ok(stored.value.clone());
        }
        if let Some(items) = self.everywhere(path, metadata_only) {
            let metadata = json!({"resourceVersion": self.last_version.to_string()});
            return Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": metadata,
                "items": items}));
        }
        if !is_collection(path) {
            return Err(404);
        }
        let selector = parameter(query, "labelSelector").unwrap_or_default();
        let wanted: Vec<(&str, &str)> =
            selector.split(',').filter_map(|part| part.split_once('=')).collect();
        let fields = parameter(query, "fieldSelector").unwrap_or_default();
        let fields: Vec<&str> = fields.split(',').filter(|it| !it.is_empty()).collect();
        let inside = format!("{path}/");
        // A page goes on behind the name that the one before ended with.
        let after =
            parameter(query, "continue").map_or(inside.clone(), |name| inside.clone() + &name);
        let limit = parameter(query, "limit").and_then(|limit| limit.parse().ok());
        let mut found = self
            .objects
            .range(after.clone()..)
            .take_while(|(key, _)| key.starts_with(&inside))
            .filter(|(key, stored)| {
                let labels = &stored.value["metadata"]["labels"];
                **key != after
                    && wanted.iter().all(|(key, label)| labels[*key] == **label)
                    && fields.iter().all(|field| has_field(&stored.value, field))
            })
            .peekable();
        let mut items: Vec<Value> = Vec::new();
        let mut last = "";
        while limit.is_none_or(|limit: usize| items.len() < limit)
            && let Some((key, Stored { value, .. })) = found.next()
        {
            last = &key[inside.len()..];
            items.push(match metadata_only {
                true => json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                    "metadata": value["metadata"]}),
                false => value.clone(),
            });
        }
        let more = found.peek().map(|_| last);
        let metadata = json!({"continue": more.unwrap_or_default(),
            "resourceVersion": self.last_version.to_string()});
        Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}))
    }

    /// All objects of a kind, in whatever namespace or in none; none where the path is no kind's.
    fn everywhere(&self, path: &str, metadata_only: bool) -> Option<Vec<Value>> {
        let parts = path.trim_matches('/').split('/').count();
        let (prefix, plural) = path.rsplit_once('/')?;
        if parts != if path.starts_with("/api/") { 3 } else { 4 } {
            return None;
        }
        let of_kind = self.objects.iter().filter(|(key, _)| {
            let rest = key.strip_prefix(prefix).unwrap_or_default().trim_matches('/');
            let rest: Vec<&str> = rest.split('/').collect();
            matches!(rest[..], [kind, _] | ["namespaces", _, kind, _] if kind == plural)
        });
        let items = of_kind.map(|(_, Stored { value, .. })| match metadata_only {
            true => json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": value["metadata"]}),
            false => value.clone(),
        });
        Some(items.collect())
    }

    fn patch(&mut self, path: &str, query: &str, body: Value) -> Result<Value, u16> {
        self.writes.push(Write { method: "PATCH".into(), path: path.into() });
        let manager = parameter(query, "fieldManager").ok_or(400u16)?;
        // An apply that names the object it is about makes no other.
        if !body["metadata"]["uid"].is_null() && !self.objects.contains_key(path) {
            return Err(409);
        }
        // Nor does one that names a version change another.
        let named = &body["metadata"]["resourceVersion"];
        let newest = self.objects.get(path).map(|it| &it.value["metadata"]["resourceVersion"]);
        if !named.is_null() && newest.is_some_and(|newest| newest != named) {
            return Err(409);
        }
        let (old, mut applied) = match self.objects.remove(path) {
            Some(stored) => (Some(stored.value), stored.applied),
            None => (None, BTreeMap::new()),
        };
        let mut value = old.clone().unwrap_or_else(|| json!({}));
        let wanted = body;
        if let Some(before) = applied.get(&manager) {
            remove_given_up(&mut value, before, &wanted);
            let is_checked = path.starts_with("/apis/millrace.dev/");
            if is_checked && makes_a_null(&value, before, &wanted) {
                let value = old.unwrap_or_default();
                self.objects.insert(path.to_owned(), Stored { value, applied });
                return Err(422);
            }
        }
        // Of the fields others own only this one matters here: an autoscaler's.
        if managed_by_others(&value, &manager).any(|entry| entry.to_string().contains("f:replicas"))
            && let Some(replicas) = old.as_ref().map(|old| old["spec"]["replicas"].clone())
        {
            value["spec"]["replicas"] = replicas;
        }
        merge(&mut value, &wanted);
        let entry = json!({"manager": manager, "operation": "Apply", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": applied_state::to_managed_fields(&wanted)});
        let others = managed_by_others(&value, &manager).cloned();
        let owners: Vec<Value> = others.chain([entry]).collect();
        value["metadata"]["managedFields"] = owners.clone().into();
        applied.insert(manager.clone(), wanted);
        self.complete(path, old.as_ref(), &mut value);
        // What was changed by this is whoever's who applied it.
        let others: Vec<Value> = managed_by_others(&value, &manager).cloned().collect();
        let owners: Vec<Value> = others.into_iter().chain(owners.into_iter().last()).collect();
        value["metadata"]["managedFields"] = owners.into();
        self.keep(path, Stored { value: value.clone(), applied }, true);
        Ok(value)
    }

    /// A JSON patch of a status, with tests of other fields. The body of a status has no say in
    /// metadata, as on a real server.
    fn json_patch_status(&mut self, path: &str, operations: &Value) -> Result<Value, u16> {
        self.writes.push(Write { method: "PATCH".into(), path: path.into() });
        let path = path.strip_suffix("/status").ok_or(400u16)?;
        let stored = self.objects.get(path).ok_or(404u16)?;
        let (old, applied) = (stored.value.clone(), stored.applied.clone());
        let mut value = old.clone();
        for operation in operations.as_array().ok_or(400u16)? {
            let at = operation["path"].as_str().ok_or(400u16)?;
            match operation["op"].as_str() {
                Some("test") if value.pointer(at) == Some(&operation["value"]) => {}
                Some("test") => return Err(422),
                Some("add") if at == "/status" => value["status"] = operation["value"].clone(),
                _ => return Err(400),
            }
        }
        self.complete(path, Some(&old), &mut value);
        self.keep(path, Stored { value: value.clone(), applied }, true);
        Ok(value)
    }

    /// A JSON merge patch, refused when it names another version than the newest.
    fn merge_patch(
        &mut self,
        path: &str,
        body: &Value,
        merge: fn(&mut Value, &Value),
    ) -> Result<Value, u16> {
        self.writes.push(Write { method: "PATCH".into(), path: path.into() });
        let path = path.strip_suffix("/resize").unwrap_or(path);
        let stored = self.objects.get(path).ok_or(404u16)?;
        let (old, mut applied) = (stored.value.clone(), stored.applied.clone());
        let version = &body["metadata"]["resourceVersion"];
        if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
            return Err(409);
        }
        let mut value = old.clone();
        merge(&mut value, body);
        applied.values_mut().for_each(|applied| forget_removed(applied, &value));
        self.complete(path, Some(&old), &mut value);
        let finalizers = value["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
        if finalizers == 0 && !value["metadata"]["deletionTimestamp"].is_null() {
            self.objects.remove(path);
            self.gone(path, true);
        } else {
            self.keep(path, Stored { value: value.clone(), applied }, true);
        }
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
        self.keep(&path, stored, true);
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
        self.keep(path, stored, true);
        Ok(body)
    }

    /// Deletes an object, or marks it while it has finalizers.
    fn remove(&mut self, path: &str, body: &Value, by_client: bool) -> Result<Value, u16> {
        let stored = self.objects.get(path).ok_or(404u16)?;
        let (old, applied) = (stored.value.clone(), stored.applied.clone());
        let uid = &body["preconditions"]["uid"];
        if !uid.is_null() && *uid != old["metadata"]["uid"] {
            return Err(409);
        }
        if old["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
            self.objects.remove(path);
            self.gone(path, by_client);
        } else if old["metadata"]["deletionTimestamp"].is_null() {
            let mut value = old.clone();
            value["metadata"]["deletionTimestamp"] = "2026-09-21T14:13:20Z".into();
            self.complete(path, Some(&old), &mut value);
            self.keep(path, Stored { value, applied }, by_client);
        }
        Ok(old)
    }

    /// Stores an object; a state it did not have before is logged.
    fn keep(&mut self, path: &str, stored: Stored, by_client: bool) {
        let version = |value: &Value| value["metadata"]["resourceVersion"].clone();
        let newest = self.log.iter().rev().find(|change| *change.path == *path);
        let known = newest.and_then(|change| change.value.as_deref()).map(version);
        if known.as_ref() != Some(&version(&stored.value)) {
            let value = Some(Arc::new(stored.value.clone()));
            self.log.push(Change { path: path.into(), value, by_client });
        }
        self.objects.insert(path.to_owned(), stored);
    }

    fn gone(&mut self, path: &str, by_client: bool) {
        self.log.push(Change { path: path.into(), value: None, by_client });
    }

    /// Fills in what a server fills in: name, uid, generation, resource version.
    fn complete(&mut self, path: &str, old: Option<&Value>, value: &mut Value) {
        let mut parts = path.rsplit('/');
        let name = parts.next().unwrap_or_default();
        let namespace = parts.nth(1).unwrap_or_default();
        self.last_version += 1;
        let version = self.last_version;
        if old.is_none() {
            *self.incarnations.entry(path.to_owned()).or_default() += 1;
        }
        let life = self.incarnations.get(path).copied().unwrap_or_default();
        if let Some(old) = old {
            take_over_changed(old, value);
        }
        let metadata = value["metadata"].as_object_mut().expect("metadata");
        metadata.insert("name".into(), name.into());
        metadata.insert("namespace".into(), namespace.into());
        // The same in two worlds in which it was made as often.
        metadata.entry("uid").or_insert_with(|| format!("uid-{path}-{life}").into());
        let generation = match old {
            None => 1,
            Some(old) => {
                let before = old["metadata"]["generation"].as_i64().unwrap_or(1);
                before + i64::from(!is_same_but_status(old, value))
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

/// Whether all but metadata and status is the same: what a generation counts.
fn is_same_but_status(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old == new };
    fn counted(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
        object.iter().filter(|(field, _)| *field != "metadata" && *field != "status")
    }
    counted(old).eq(counted(new))
}

/// Who else owns fields of an object.
fn managed_by_others<'a>(value: &'a Value, manager: &'a str) -> impl Iterator<Item = &'a Value> {
    let entries = value["metadata"]["managedFields"].as_array();
    entries.into_iter().flatten().filter(move |entry| entry["manager"] != *manager)
}

/// Whoever owned a field that now has another value owns it no longer.
fn take_over_changed(old: &Value, value: &mut Value) {
    let mut owners = value["metadata"]["managedFields"].take();
    for entry in owners.as_array_mut().into_iter().flatten() {
        give_up_changed(&mut entry["fieldsV1"], old, value);
    }
    if !owners.is_null() {
        value["metadata"]["managedFields"] = owners;
    }
}

/// Removes fields whose values differ. True when none is left.
fn give_up_changed(fields: &mut Value, old: &Value, new: &Value) -> bool {
    let Some(fields) = fields.as_object_mut() else { return false };
    if fields.is_empty() {
        return old != new;
    }
    fields.retain(|name, inner| {
        name == "." || !give_up_changed(inner, child(old, name), child(new, name))
    });
    fields.is_empty()
}

/// The field or the item of a list that a name of managed fields means, or null.
fn child<'a>(of: &'a Value, name: &str) -> &'a Value {
    match name.split_once(':') {
        Some(("f", field)) => &of[field],
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap();
            let is_it = |item: &&Value| {
                keys.iter().all(|(key, value)| {
                    item[key] == *value || (key == "protocol" && item[key].is_null())
                })
            };
            of.as_array().and_then(|items| items.iter().find(is_it)).unwrap_or(&Value::Null)
        }
        _ => &Value::Null,
    }
}

/// Removes what `before` applied and `now` does not; lists are taken whole.
fn remove_given_up(value: &mut Value, before: &Value, now: &Value) {
    let (Some(fields), Some(before)) = (value.as_object_mut(), before.as_object()) else { return };
    for (key, was) in before {
        match now.get(key) {
            None => {
                let Some(field) = fields.get_mut(key) else { continue };
                // Of an object only what was applied goes: the rest is others'.
                remove_given_up(field, was, &json!({}));
                let inner = was.as_object().is_some_and(|was| !was.is_empty());
                if !inner || field.as_object().is_none_or(Map::is_empty) {
                    fields.remove(key);
                }
            }
            Some(is) => {
                if let Some(field) = fields.get_mut(key) {
                    remove_given_up(field, was, is);
                }
            }
        }
    }
}

/// Whether an object of which `before` applied all fields is to be empty `now`: a server of 1.34
/// makes a null of it, which no schema here takes (kubernetes/kubernetes#135841).
fn makes_a_null(value: &Value, before: &Value, now: &Value) -> bool {
    let (Some(before), Some(now)) = (before.as_object(), now.as_object()) else { return false };
    before.iter().any(|(key, was)| {
        let Some(is) = now.get(key) else { return false };
        let is_given_up = was.as_object().is_some_and(|was| !was.is_empty()) && *is == json!({});
        (is_given_up && value[key] == json!({})) || makes_a_null(&value[key], was, is)
    })
}

/// As a JSON merge patch does: a null removes.
fn merge_or_remove(value: &mut Value, wanted: &Value) {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            for (key, field) in wanted {
                match field {
                    Value::Null => drop(value.remove(key)),
                    field => {
                        merge_or_remove(value.entry(key.clone()).or_insert(Value::Null), field)
                    }
                }
            }
        }
        (value, wanted) => *value = wanted.clone(),
    }
}

/// What is no longer there is nobody's.
fn forget_removed(applied: &mut Value, value: &Value) {
    let Some(fields) = applied.as_object_mut() else { return };
    fields.retain(|key, _| value.get(key).is_some());
    fields.iter_mut().for_each(|(key, field)| forget_removed(field, &value[key]));
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

/// As a strategic merge patch does: lists of named things are merged by name.
fn merge_by_name(value: &mut Value, wanted: &Value) {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            for (key, field) in wanted {
                merge_by_name(value.entry(key.clone()).or_insert(Value::Null), field);
            }
        }
        (Value::Array(value), Value::Array(wanted))
            if wanted.iter().all(|it| !it["name"].is_null()) =>
        {
            for item in wanted {
                match value.iter_mut().find(|it| it["name"] == item["name"]) {
                    Some(same) => merge_by_name(same, item),
                    None => value.push(item.clone()),
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
            let value = value.replace("%3D", "=").replace("%2C", ",").replace("%21", "!");
            value.replace("%2F", "/").replace('+', " ")
        })
    })
}

/// Whether an object fulfils one part of a field selector: `spec.x=y` or `spec.x!=y`.
fn has_field(object: &Value, part: &str) -> bool {
    let (path, wanted) = part.split_once('=').unwrap();
    let is_equal = |path: &str| {
        let field = object.pointer(&format!("/{}", path.replace('.', "/")));
        field.and_then(Value::as_str).unwrap_or_default() == wanted
    };
    match path.strip_suffix('!') {
        Some(path) => !is_equal(path),
        None => is_equal(path),
    }
}

fn has_privileged_container(pod: &Value) -> bool {
    let containers = pod["spec"]["containers"].as_array();
    let mut containers = containers.into_iter().flatten();
    containers.any(|container| container["securityContext"]["privileged"] == true)
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
