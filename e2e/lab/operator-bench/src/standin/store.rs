//! What the stand-in keeps: objects by path, one version for all, and what happened lately to each
//! collection, from which watches are fed.
//!
//! A watch that comes too late for what happened is told so (410), as by a real server.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use millrace_operator::ownership::applied_state;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::status_fields::{StatusChanges, record_difference};
use super::workloads;

/// What a collection remembers of what happened; values are shared with the objects themselves.
const HISTORY_MAX: usize = 65_536;
/// The controllers of workloads look this much later.
const CONTROLLER_TAKES: Duration = Duration::from_millis(20);
/// Events a watch is given at once.
const LINES_MAX: usize = 64;

/// Why a request isn't carried out.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) code: u16,
    pub(super) reason: &'static str,
}

const NOT_FOUND: Refused = Refused { code: 404, reason: "NotFound" };
const EXISTS: Refused = Refused { code: 409, reason: "AlreadyExists" };
const CONFLICT: Refused = Refused { code: 409, reason: "Conflict" };
const INVALID: Refused = Refused { code: 422, reason: "Invalid" };

/// What a request asks for beside its path.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) watch: bool,
    pub(super) dry_run: bool,
    manager: String,
    labels: Vec<(String, String)>,
    limit: usize,
    /// The last name of the page before.
    after: String,
    since: u64,
    lasts: Option<Duration>,
    metadata_only: bool,
}

struct Happened {
    version: u64,
    what: &'static str,
    object: Arc<Value>,
}

struct Collection {
    objects: BTreeMap<String, Arc<Value>>,
    happened: VecDeque<Happened>,
    /// The newest version in it.
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    version: u64,
    collections: HashMap<String, Collection>,
}

/// All objects.
pub(super) struct Store {
    state: Mutex<State>,
    /// Which fields of statuses were changed by writes.
    status_changes: Mutex<StatusChanges>,
    /// Itself, for the controllers of workloads.
    itself: Weak<Self>,
}

/// One watch of a collection.
pub(super) struct Watcher {
    store: Arc<Store>,
    collection: String,
    query: Query,
    newest: watch::Receiver<u64>,
}

impl Store {
    /// An empty store.
    pub(super) fn new() -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            state: Mutex::default(),
            status_changes: Mutex::default(),
            itself: itself.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read(&self, path: &str, query: &Query) -> Result<Value, Refused> {
        let mut state = self.lock();
        if let Some(object) = state.get(path) {
            return Ok(query.shown(&object));
        }
        if !is_collection(path) {
            return Err(NOT_FOUND);
        }
        let version = state.version;
        let all = &state.collection(path).objects;
        let from = if query.after.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(query.after.clone())
        };
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let mut rest = all.range((from, Bound::Unbounded));
        let selected = rest.by_ref().filter(|(_, it)| query.selects(it)).take(limit);
        let page: Vec<(&String, &Arc<Value>)> = selected.collect();
        let items: Vec<Value> = page.iter().map(|(_, it)| query.shown(it)).collect();
        let last = page.last().filter(|_| rest.next().is_some());
        // The first page's version goes with all of them: what happens meanwhile is watched.
        let version = if query.since == 0 { version } else { query.since };
        let next = last.map_or_else(String::new, |(name, _)| format!("{version}.{name}"));
        Ok(json!({"kind": "List", "apiVersion": "v1", "items": items,
            "metadata": {"resourceVersion": version.to_string(), "continue": next}}))
    }

    pub(super) fn create(&self, path: &str, mut body: Value) -> Result<Value, Refused> {
        if path.ends_with("/events") {
            return Ok(body);
        }
        let name = body["metadata"]["name"].as_str().ok_or(INVALID)?.to_owned();
        let path = format!("{path}/{name}");
        let mut state = self.lock();
        if state.get(&path).is_some() {
            return Err(EXISTS);
        }
        // Whoever creates an object owns what it has, beside those who apply to it.
        body["metadata"]["managedFields"] = json!([{"manager": "creator", "operation": "Update"}]);
        if path.contains("/pods/") {
            body["status"] = workloads::trial_status(&body);
        }
        Ok(self.keep(&mut state, &path, body))
    }

    pub(super) fn replace(&self, path: &str, body: Value) -> Result<Value, Refused> {
        let mut state = self.lock();
        let old = state.get(path).ok_or(NOT_FOUND)?;
        let version = &body["metadata"]["resourceVersion"];
        if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
            return Err(CONFLICT);
        }
        Ok(self.keep(&mut state, path, body))
    }

    /// Server-side apply: where nobody else writes, what was applied is all there is. What others
    /// wrote stays, and what is no longer applied beside them.
    pub(super) fn apply(&self, path: &str, query: &Query, body: &Value) -> Result<Value, Refused> {
        let mut state = self.lock();
        let mut value = body.clone();
        let mut managers = vec![json!({"manager": query.manager,
            "operation": "Apply", "apiVersion": body["apiVersion"], "fieldsType": "FieldsV1",
            "fieldsV1": applied_state::to_managed_fields(body)})];
        if let Some(old) = state.get(path) {
            value["status"] = old["status"].clone();
            let entries = old["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
            let is_ours = |entry: &Value| entry["manager"] == query.manager.as_str();
            let alone = matches!(entries.as_slice(), [only] if is_ours(only));
            if !alone {
                value = (*old).clone();
                merge(&mut value, body);
                managers.extend(entries.into_iter().filter(|entry| !is_ours(entry)));
            }
        }
        value["metadata"]["managedFields"] = managers.into();
        Ok(self.keep(&mut state, path, value))
    }

    /// A merge patch; containers are merged by their names. Whoever else writes takes all fields.
    pub(super) fn merge(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        if path.contains("/events/") {
            return Ok(body.clone());
        }
        let mut state = self.lock();
        let mut value = (*state.get(path).ok_or(NOT_FOUND)?).clone();
        merge(&mut value, body);
        value["metadata"]["managedFields"] = json!([]);
        Ok(self.keep(&mut state, path, value))
    }

    /// The JSON patch of a status as the operator writes it: a test of the uid and the status.
    pub(super) fn set_status(&self, path: &str, operations: &Value) -> Result<Value, Refused> {
        let path = path.strip_suffix("/status").ok_or(INVALID)?;
        let mut state = self.lock();
        let old = state.get(path).ok_or(NOT_FOUND)?;
        let mut value = (*old).clone();
        for operation in operations.as_array().ok_or(INVALID)? {
            let at = operation["path"].as_str().unwrap_or("");
            match operation["op"].as_str() {
                Some("test") if value.pointer(at) == Some(&operation["value"]) => {}
                Some("add") if at == "/status" => value["status"] = operation["value"].clone(),
                _ => return Err(INVALID),
            }
        }
        let mut changes = self.status_changes.lock().unwrap_or_else(PoisonError::into_inner);
        record_difference(&mut changes, &old["status"], &value["status"]);
        drop(changes);
        Ok(self.keep(&mut state, path, value))
    }

    /// The fields of statuses that were changed since the last call.
    pub(super) fn take_status_changes(&self) -> StatusChanges {
        std::mem::take(&mut *self.status_changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn remove(&self, path: &str) -> Result<Value, Refused> {
        let (collection, name) = parts(path);
        let mut state = self.lock();
        let old = state.get(path).ok_or(NOT_FOUND)?;
        let mut last = (*old).clone();
        state.version += 1;
        last["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.collection(collection).objects.remove(name);
        state.tell(collection, "DELETED", Arc::new(last));
        Ok((*old).clone())
    }

    /// Watches a collection from the version that was asked for.
    pub(super) fn watch(self: &Arc<Self>, collection: &str, query: Query) -> Watcher {
        let mut newest = self.lock().collection(collection).newest.subscribe();
        newest.mark_changed();
        Watcher { store: self.clone(), collection: collection.to_owned(), query, newest }
    }

    /// Stores what an object is now, unless that is what it was.
    fn keep(&self, state: &mut State, path: &str, mut value: Value) -> Value {
        let (collection, name) = parts(path);
        let old = state.get(path);
        let namespace = collection.rsplit('/').nth(1).unwrap_or_default();
        let empty = json!({});
        let known = old.as_ref().map_or(&empty, |old| &old["metadata"]);
        let is_new_spec = old.as_ref().is_none_or(|old| old["spec"] != value["spec"]);
        let metadata = &mut value["metadata"];
        metadata["name"] = name.into();
        metadata["namespace"] = namespace.into();
        let next = state.version + 1;
        metadata["uid"] = match known["uid"].as_str() {
            Some(uid) => uid.into(),
            None => format!("00000000-0000-4000-8000-{next:012}").into(),
        };
        metadata["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        let generation = known["generation"].as_i64().unwrap_or(0);
        metadata["generation"] = (generation + i64::from(is_new_spec)).into();
        metadata["resourceVersion"] = known["resourceVersion"].clone();
        if old.as_deref() == Some(&value) {
            return value;
        }
        state.version = next;
        value["metadata"]["resourceVersion"] = next.to_string().into();
        let object = Arc::new(value.clone());
        state.collection(collection).objects.insert(name.to_owned(), object.clone());
        state.tell(collection, if old.is_some() { "MODIFIED" } else { "ADDED" }, object);
        if is_new_spec
            && (collection.ends_with("/daemonsets") || collection.ends_with("/statefulsets"))
        {
            self.wake_controller(path.to_owned());
        }
        value
    }

    fn wake_controller(&self, path: String) {
        let Some(store) = self.itself.upgrade() else { return };
        tokio::spawn(async move {
            tokio::time::sleep(CONTROLLER_TAKES).await;
            store.observe_workload(&path);
        });
    }

    /// What the controller of a workload finds and makes.
    fn observe_workload(&self, path: &str) {
        let mut state = self.lock();
        let Some(old) = state.get(path) else { return };
        let mut value = (*old).clone();
        if path.contains("/daemonsets/") {
            value["status"] = workloads::daemon_set_status(&old);
        } else {
            value["status"] = workloads::stateful_set_status(&old);
            let namespace = path.rsplit('/').nth(2).unwrap_or_default();
            for (name, pod) in workloads::stateful_set_pods(&old) {
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
                self.keep(&mut state, &path, pod);
            }
        }
        self.keep(&mut state, path, value);
    }
}

impl State {
    fn collection(&mut self, path: &str) -> &mut Collection {
        self.collections.entry(path.to_owned()).or_insert_with(|| Collection {
            objects: BTreeMap::new(),
            happened: VecDeque::new(),
            newest: watch::Sender::new(0),
        })
    }

    fn get(&self, path: &str) -> Option<Arc<Value>> {
        let (collection, name) = parts(path);
        self.collections.get(collection)?.objects.get(name).cloned()
    }

    fn tell(&mut self, collection: &str, what: &'static str, object: Arc<Value>) {
        let version = self.version;
        let collection = self.collection(collection);
        if collection.happened.len() == HISTORY_MAX {
            collection.happened.pop_front();
        }
        collection.happened.push_back(Happened { version, what, object });
        collection.newest.send_replace(version);
    }
}

impl Watcher {
    /// How long it was asked to last.
    pub(super) fn lasts(&self) -> Option<Duration> {
        self.query.lasts
    }

    /// Waits for what happens next; some lines of JSON, one for each event.
    pub(super) async fn next(&mut self) -> String {
        loop {
            if self.newest.changed().await.is_err() {
                return std::future::pending().await;
            }
            let lines = self.lines();
            if !lines.is_empty() {
                return lines;
            }
        }
    }

    fn lines(&mut self) -> String {
        let mut events: Vec<(&'static str, Arc<Value>)> = Vec::new();
        {
            let mut state = self.store.lock();
            let happened = &state.collection(&self.collection).happened;
            let oldest = happened.front().map_or(0, |it| it.version);
            if happened.len() == HISTORY_MAX && self.query.since < oldest {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "message": "too old resource version", "reason": "Expired", "code": 410});
                return format!("{}\n", json!({"type": "ERROR", "object": status}));
            }
            let from = happened.partition_point(|it| it.version <= self.query.since);
            for it in happened.range(from..).take(LINES_MAX) {
                self.query.since = it.version;
                events.push((it.what, it.object.clone()));
            }
            if from + events.len() < happened.len() {
                self.newest.mark_changed();
            }
        }
        let selected = events.iter().filter(|(_, object)| self.query.selects(object));
        let line = |(what, object): &(&str, Arc<Value>)| {
            format!("{}\n", json!({"type": what, "object": self.query.shown(object)}))
        };
        selected.map(line).collect()
    }
}

impl Query {
    /// Reads a query; `metadata_only` comes from what the client accepts.
    pub(super) fn read(text: &str, metadata_only: bool) -> Self {
        let mut query = Self { metadata_only, ..Self::default() };
        for pair in text.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/");
            match key {
                "watch" => query.watch = value == "true" || value == "1",
                "dryRun" => query.dry_run = true,
                "fieldManager" => query.manager = value,
                "limit" => query.limit = value.parse().unwrap_or(0),
                "resourceVersion" => query.since = value.parse().unwrap_or(0),
                "timeoutSeconds" => query.lasts = value.parse().ok().map(Duration::from_secs),
                "labelSelector" => {
                    let wanted = value.split(',').filter_map(|one| one.split_once('='));
                    query.labels = wanted.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
                }
                "continue" => {
                    let (version, name) = value.split_once('.').unwrap_or(("0", ""));
                    (query.since, query.after) = (version.parse().unwrap_or(0), name.to_owned());
                }
                _ => {}
            }
        }
        query
    }

    fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|(key, value)| labels[key] == **value)
    }

    fn shown(&self, object: &Value) -> Value {
        if !self.metadata_only {
            return object.clone();
        }
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"]})
    }
}

/// The collection and the name in it.
fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or((path, ""))
}

/// `.../namespaces/{namespace}/{kind}` and nothing after it.
pub(super) fn is_collection(path: &str) -> bool {
    path.rsplit('/').nth(2) == Some("namespaces")
}

/// RFC 7396, but for lists of things with names, which are merged by them.
fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(value), Value::Object(patch)) => {
            for (key, patch) in patch {
                if patch.is_null() {
                    value.remove(key);
                } else {
                    merge(value.entry(key.clone()).or_insert(Value::Null), patch);
                }
            }
        }
        (Value::Array(items), Value::Array(patches))
            if patches.iter().all(|patch| patch["name"].is_string()) =>
        {
            for patch in patches {
                if let Some(item) = items.iter_mut().find(|item| item["name"] == patch["name"]) {
                    merge(item, patch);
                }
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}
