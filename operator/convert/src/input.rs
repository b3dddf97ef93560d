//! The file: a Collector's configuration, or an OpenTelemetryCollector with one, as text or as
//! structure.

use serde::Deserialize;
use serde_norway::Value;

use crate::tree::{Node, Path};

/// The kind of that operator's object.
const KIND: &str = "OpenTelemetryCollector";

/// A file that can't be converted.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is no YAML.
    #[error("it is no YAML: {0}")]
    Yaml(#[from] serde_norway::Error),
    /// The configuration within an object is no YAML.
    #[error("spec.config is no YAML: {0}")]
    Inner(serde_norway::Error),
    /// Nothing that this tool knows.
    #[error(
        "it has no Collector's configuration: write a file with receivers, exporters and service, \
         or an OpenTelemetryCollector with spec.config"
    )]
    Nothing,
    /// More than one.
    #[error("it has {0} Collectors: write one into a file of its own, and convert each")]
    Several(usize),
    /// Nothing runs.
    #[error("service.pipelines has no pipeline: nothing of the configuration is in use")]
    NoPipelines,
    /// Nothing that Millrace has.
    #[error("no pipeline is of traces, logs or metrics: Millrace has no other signals")]
    NoSignals,
    /// A name of the caller's that can't be a pipeline's.
    #[error(
        "{0:?} can't be a pipeline's name: write lower-case letters, digits and '-', starting with a \
         letter, at most 30 characters"
    )]
    Name(String),
}

/// What was found in a file.
#[derive(Debug)]
pub(crate) struct Input {
    /// Documents beside the one that is converted, each with its path.
    pub(crate) others: Vec<(Path, Value)>,
    /// The document.
    pub(crate) document: Value,
    /// The configuration, where an object has it as text.
    inner: Option<Value>,
}

impl Input {
    /// Reads a file.
    pub(crate) fn read(text: &str) -> Result<Self, Unreadable> {
        let mut documents = Vec::new();
        for document in serde_norway::Deserializer::from_str(text) {
            let mut value = Value::deserialize(document)?;
            value.apply_merge()?;
            documents.push(value);
        }
        documents.retain(|value| !value.is_null());
        let found: Vec<usize> = documents
            .iter()
            .enumerate()
            .filter(|(_, value)| is_object(value) || is_configuration(value))
            .map(|(place, _)| place)
            .collect();
        let place = match found[..] {
            [] => return Err(Unreadable::Nothing),
            [one] => one,
            [..] => return Err(Unreadable::Several(found.len())),
        };
        let document = documents.remove(place);
        let others = documents.into_iter().enumerate();
        let others = others.map(|(number, value)| {
            let kind = value.get("kind").and_then(Value::as_str).unwrap_or("document");
            (Path::of(&[&format!("{kind} beside it, {}", number + 1)]), value)
        });
        let inner = match config(&document).and_then(Value::as_str) {
            Some(text) => {
                let mut value: Value = serde_norway::from_str(text).map_err(Unreadable::Inner)?;
                value.apply_merge().map_err(Unreadable::Inner)?;
                Some(value)
            }
            None => None,
        };
        Ok(Self { others: others.collect(), document, inner })
    }

    /// The object around the configuration, if there is one.
    pub(crate) fn object(&self) -> Option<Node<'_>> {
        let node = Node { path: Path::default(), value: &self.document };
        is_object(&self.document).then_some(node)
    }

    /// The configuration.
    pub(crate) fn configuration(&self) -> Node<'_> {
        match (&self.inner, config(&self.document)) {
            (Some(inner), _) => Node { path: Path::of(&["spec", "config"]), value: inner },
            (None, Some(inner)) => Node { path: Path::of(&["spec", "config"]), value: inner },
            (None, None) => Node { path: Path::default(), value: &self.document },
        }
    }

    /// All leaves of the file.
    pub(crate) fn leaves(&self) -> Vec<Path> {
        let mut leaves = self.configuration().leaves();
        if let Some(object) = self.object() {
            let config = Path::of(&["spec", "config"]);
            leaves.extend(object.leaves().into_iter().filter(|leaf| !config.covers(leaf)));
        }
        for (path, value) in &self.others {
            leaves.extend(Node { path: path.clone(), value }.leaves());
        }
        leaves
    }
}

fn is_object(value: &Value) -> bool {
    value.get("kind").and_then(Value::as_str) == Some(KIND)
}

fn config(value: &Value) -> Option<&Value> {
    if is_object(value) { value.get("spec")?.get("config") } else { None }
}

fn is_configuration(value: &Value) -> bool {
    value.get("kind").is_none() && value.get("service").is_some()
}
