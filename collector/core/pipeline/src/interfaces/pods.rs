//! The interface between the reader of containers' files and the watches of this node's pods and of
//! namespaces.
//!
//! The reader queries by a file's path, never waits here, and knows no Kubernetes client.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_config::StackTraces;

/// The known facts about a pod. Immutable: a change creates another value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodInfo {
    /// Resource attributes, all with names below `k8s.`: labels, annotations, node, owner.
    pub attributes: Vec<(String, String)>,
    /// How its annotations request its logs to be read, for all containers.
    pub reading: Reading,
    /// The same for single containers, by name. These take precedence.
    pub containers: BTreeMap<String, Reading>,
}

impl PodInfo {
    /// Returns how a container's logs are to be read.
    #[must_use]
    pub fn container_reading(&self, container: &str) -> Reading {
        let Reading { logs: pod_logs, parser, multiline } = self.reading.clone();
        let own = self.containers.get(container).cloned().unwrap_or_default();
        Reading {
            logs: own.logs.or(pod_logs),
            parser: own.parser.or(parser),
            multiline: own.multiline.or(multiline),
        }
    }
}

/// How logs are to be read, by annotation. Absent values use the receiver's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Whether the logs are read.
    pub logs: Option<LogReading>,
    /// The parser of a record's text.
    pub parser: Option<TextParser>,
    /// The rule that joins lines into one record.
    pub multiline: Option<PodMultiline>,
}

/// Whether logs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogReading {
    /// The logs are read.
    On,
    /// The logs are read into no records.
    Off,
}

/// The parser of a record's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextParser {
    /// No parser: the text is the body.
    None,
    /// A JSON object.
    Json,
    /// `name=value` pairs.
    Logfmt,
}

/// The rule that joins lines into one record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodMultiline {
    /// Each line is a record.
    None,
    /// A runtime's stack trace and the line before it are one record.
    Traces(StackTraces),
    /// A line that matches this regular expression begins a record.
    Start(String),
}

/// Finds pods in memory.
pub trait PodLookup: Send + Sync {
    /// Returns a different number after each change of the possible answers of [`PodLookup::find`].
    fn version(&self) -> u64;

    /// Returns the pod whose log directory has this uid, namespace and name; `None` if no known pod
    /// matches all three.
    fn find_pod(&self, uid: &str, namespace: &str, name: &str) -> Option<Arc<PodInfo>>;
}

/// The namespaces that a selector chooses, as far as known. One side publishes them, the other
/// reads them; neither waits.
#[derive(Debug, Default)]
pub struct Namespaces(Mutex<Option<Arc<HashSet<String>>>>);

impl Namespaces {
    /// Replaces the chosen namespaces.
    pub fn set_chosen(&self, chosen: HashSet<String>) {
        *self.lock() = Some(Arc::new(chosen));
    }

    /// Returns the chosen namespaces; `None` while they aren't known.
    #[must_use]
    pub fn chosen(&self) -> Option<Arc<HashSet<String>>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<HashSet<String>>>> {
        // Each change under the lock is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
