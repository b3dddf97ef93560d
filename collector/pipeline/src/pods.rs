//! The interface between a reader of containers' files and the watches of this node's pods and of
//! namespaces.
//!
//! The reader asks by a file's path, never waits here, and knows no Kubernetes client.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_config::Traces;

/// What is known of a pod. Immutable: a change makes another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Attributes of the resource, their names all below `k8s.`: labels, annotations, node, owner.
    pub attributes: Vec<(String, String)>,
    /// How its annotations ask for its logs to be read: those of all containers.
    pub reading: Reading,
    /// The same of single containers, by name. What is said here goes before.
    pub containers: BTreeMap<String, Reading>,
}

impl Pod {
    /// How the logs of a container are to be read.
    #[must_use]
    pub fn reading(&self, container: &str) -> Reading {
        let Reading { wanted, parser, multiline } = self.reading.clone();
        let own = self.containers.get(container).cloned().unwrap_or_default();
        Reading {
            wanted: own.wanted.or(wanted),
            parser: own.parser.or(parser),
            multiline: own.multiline.or(multiline),
        }
    }
}

/// How logs are to be read, by annotation. What is absent is as in the receiver's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Whether they are read at all.
    pub wanted: Option<Wanted>,
    /// What a record's text is taken for.
    pub parser: Option<Parser>,
    /// Which lines are one record.
    pub multiline: Option<Multiline>,
}

/// Whether logs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// They are.
    On,
    /// They become no records.
    Off,
}

/// What a record's text is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parser {
    /// Nothing: it is the body.
    None,
    /// An object of JSON.
    Json,
    /// `name=value` pairs.
    Logfmt,
}

/// Which lines are one record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Multiline {
    /// Each is one.
    None,
    /// The stack traces of a runtime are, with the line before them.
    Traces(Traces),
    /// A line that matches this regular expression begins one.
    Start(String),
}

/// Finds pods. Answers from memory.
pub trait Pods: Send + Sync {
    /// Another number after each change of what [`Pods::find`] may answer.
    fn version(&self) -> u64;

    /// The pod whose directory of logs has this uid, namespace and name; none if it isn't known,
    /// or not by all three.
    fn find(&self, uid: &str, namespace: &str, name: &str) -> Option<Arc<Pod>>;
}

/// The namespaces that a selector chooses, as far as they are known. One tells, the other asks;
/// neither waits.
#[derive(Debug, Default)]
pub struct Namespaces(Mutex<Option<Arc<HashSet<String>>>>);

impl Namespaces {
    /// These are chosen now.
    pub fn tell(&self, chosen: HashSet<String>) {
        *self.lock() = Some(Arc::new(chosen));
    }

    /// Those that are chosen; none while nobody knows.
    #[must_use]
    pub fn chosen(&self) -> Option<Arc<HashSet<String>>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<HashSet<String>>>> {
        // Each change under the lock is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
