//! The file: a Collector's configuration, or an OpenTelemetryCollector with one, as text or as
//! structure.

use serde::Deserialize;
use serde_norway::Value;

use crate::tree::{Node, ValuePath};

/// The kind of that operator's object.
const KIND: &str = "OpenTelemetryCollector";

/// Why a file can't be converted.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not YAML.
    #[error("it is not YAML: {0}")]
    Yaml(#[from] serde_norway::Error),
    /// The configuration within an object is not YAML.
    #[error("spec.config is not YAML: {0}")]
    Inner(serde_norway::Error),
    /// It has no configuration.
    #[error(
        "it is not a Collector's configuration: use a file with receivers, exporters and service, \
         or an OpenTelemetryCollector with spec.config"
    )]
    Nothing,
    /// It has several configurations.
    #[error("it has {0} Collectors: convert each from its own file")]
    Several(usize),
    /// It has no pipelines.
    #[error("service.pipelines is empty: no part of the configuration is used")]
    NoPipelines,
    /// It has no signals of Millrace's.
    #[error("no pipeline has traces, logs or metrics: Millrace has no other signals")]
    NoSignals,
    /// The caller's name can't be a pipeline's.
    #[error(
        "{0:?} can't be a pipeline's name: write lower-case letters, digits and '-', starting with a \
         letter, at most 30 characters"
    )]
    Name(String),
}

/// The content of a file.
#[derive(Debug)]
pub(crate) struct InputFile {
    /// Documents other than the converted one, each with its path.
    pub(crate) others: Vec<(ValuePath, Value)>,
    /// The document.
    pub(crate) document: Value,
    /// The configuration, where an object has it as text.
    inner: Option<Value>,
}

impl InputFile {
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
            .map(|(index, _)| index)
            .collect();
        let index = match found[..] {
            [] => return Err(Unreadable::Nothing),
            [one] => one,
            [..] => return Err(Unreadable::Several(found.len())),
        };
        let document = documents.remove(index);
        let others = documents.into_iter().enumerate();
        let others = others.map(|(number, value)| {
            let kind = value.get("kind").and_then(Value::as_str).unwrap_or("document");
            (ValuePath::from_keys(&[&format!("{kind} {} in the same file", number + 1)]), value)
        });
        let inner = match config_of(&document).and_then(Value::as_str) {
            Some(text) => {
                let mut value: Value = serde_norway::from_str(text).map_err(Unreadable::Inner)?;
                value.apply_merge().map_err(Unreadable::Inner)?;
                Some(value)
            }
            None => None,
        };
        Ok(Self { others: others.collect(), document, inner })
    }

    /// Returns the object around the configuration, if there is one.
    pub(crate) fn collector_object(&self) -> Option<Node<'_>> {
        let node = Node { path: ValuePath::default(), value: &self.document };
        is_object(&self.document).then_some(node)
    }

    /// Returns the configuration.
    pub(crate) fn configuration(&self) -> Node<'_> {
        match (&self.inner, config_of(&self.document)) {
            (Some(inner), _) => {
                Node { path: ValuePath::from_keys(&["spec", "config"]), value: inner }
            }
            (None, Some(inner)) => {
                Node { path: ValuePath::from_keys(&["spec", "config"]), value: inner }
            }
            (None, None) => Node { path: ValuePath::default(), value: &self.document },
        }
    }

    /// Returns all leaves of the file.
    pub(crate) fn leaf_paths(&self) -> Vec<ValuePath> {
        let mut leaves = self.configuration().leaf_paths();
        if let Some(object) = self.collector_object() {
            let config = ValuePath::from_keys(&["spec", "config"]);
            leaves.extend(object.leaf_paths().into_iter().filter(|leaf| !config.covers(leaf)));
        }
        for (path, value) in &self.others {
            leaves.extend(Node { path: path.clone(), value }.leaf_paths());
        }
        leaves
    }
}

fn is_object(value: &Value) -> bool {
    value.get("kind").and_then(Value::as_str) == Some(KIND)
}

fn config_of(value: &Value) -> Option<&Value> {
    if is_object(value) { value.get("spec")?.get("config") } else { None }
}

fn is_configuration(value: &Value) -> bool {
    value.get("kind").is_none() && value.get("service").is_some()
}
