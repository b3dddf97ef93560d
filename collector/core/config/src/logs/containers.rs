//! The section of containers' logs.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::document::check::Checker;
use crate::document::section::section;
use crate::logs::log_records::{Multiline, Parse, RECORD_BYTES, StartAt, owned_names};
use crate::values::selector::LabelSelector;
use crate::values::units::ByteSize;

/// Most names of labels or annotations, each compared with those of a pod when it changes.
const POD_NAMES_MAX: usize = 64;

/// Most namespaces with a weight of their own: as many as may be named to be read.
const WEIGHTS_MAX: usize = 64;

section! {
    /// Standard output and error of this node's containers.
    pub struct ContainersReceiver {
        /// Directory of the kubelet's log files, laid out as
        /// `NAMESPACE_POD_UID/CONTAINER/RESTARTS.log`.
        pub directory: PathBuf = PathBuf::from("/var/log/pods"),
        /// Directory of Docker's container log files, if the kubelet's files are links to them
        /// (with cri-dockerd). No links are followed when absent.
        pub docker_directory: Option<PathBuf> = None,
        /// Where to start reading a file without a stored position.
        pub start_at: StartAt = StartAt::Beginning,
        /// Namespaces whose pods are read; all when empty.
        pub namespaces: Vec<String> = Vec::new(),
        /// Labels of the namespaces whose pods are read, as reported by the API server. Can't be
        /// combined with `namespaces`; requires `podMetadata: KubernetesApi`.
        pub namespace_selector: Option<LabelSelector> = None,
        /// Namespaces whose pods are not read.
        pub exclude_namespaces: Vec<String> = Vec::new(),
        /// Source of pods' metadata: a file's path, or the API server (labels, annotations, owners
        /// of this node's pods). The latter needs the node's name in `NODE_NAME`.
        pub pod_metadata: PodMetadata = PodMetadata::FilePath,
        /// Pod labels that become attributes: names, a prefix followed by `*`, or `*` for all; at
        /// most 64.
        pub labels: Vec<String> = owned_names(&["*"]),
        /// Pod annotations that become attributes, in the same form. Requires `podMetadata:
        /// KubernetesApi`.
        pub annotations: Vec<String> = Vec::new(),
        /// Whether pod annotations (`millrace.dev/logs`, `-parser`, `-multiline`) control how a
        /// pod's logs are read. Requires `podMetadata: KubernetesApi`.
        pub follow_annotations: bool = true,
        /// Shares of namespaces while more is written than can be sent; 1 for all others. At most
        /// 64.
        pub weights: Vec<NamespaceWeight> = Vec::new(),
        /// Rule that joins lines into one record, for pods without an annotation; each line is a
        /// record when absent.
        pub multiline: Option<Multiline> = None,
        /// How fields are parsed from a line.
        pub parse: Parse = Parse::default(),
        /// Longest line; the remainder is cut, marked and counted.
        pub max_line_bytes: ByteSize = ByteSize::kib(256),
    }
}

section! {
    /// Share of a namespace.
    pub struct NamespaceWeight {
        /// Name of the namespace.
        pub namespace: String = String::new(),
        /// Share relative to other namespaces, which have 1.
        pub weight: u8 = 1,
    }
}

/// Source of pods' metadata.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodMetadata {
    /// The path of a log file: namespace, pod and container.
    FilePath,
    /// A watch of the node's pods.
    KubernetesApi,
}

impl Checker<'_> {
    pub(crate) fn check_containers(&mut self, containers: &ContainersReceiver) {
        let ContainersReceiver {
            directory,
            docker_directory,
            start_at: _,
            namespaces: _,
            namespace_selector: _,
            exclude_namespaces: _,
            pod_metadata,
            labels,
            annotations,
            follow_annotations: _,
            weights: _,
            multiline,
            parse,
            max_line_bytes,
        } = containers;
        self.check_weights(containers);
        self.check_namespace_selector(containers);
        self.check_pod_names("receivers.containers.labels", labels);
        self.check_pod_names("receivers.containers.annotations", annotations);
        if *pod_metadata != PodMetadata::KubernetesApi && !annotations.is_empty() {
            self.add_problem(
                "receivers.containers.annotations",
                "annotations require a watch of pods: set `podMetadata: KubernetesApi`",
            );
        }
        self.check_multiline("receivers.containers.multiline", multiline.as_ref());
        self.check_parse("receivers.containers.parse", parse);
        self.check_absolute("receivers.containers.directory", directory);
        if let Some(directory) = docker_directory {
            self.check_absolute("receivers.containers.dockerDirectory", directory);
        }
        self.check_range("receivers.containers.maxLineBytes", *max_line_bytes, RECORD_BYTES);
    }

    fn check_namespace_selector(&mut self, containers: &ContainersReceiver) {
        let field = "receivers.containers.namespaceSelector";
        let Some(selector) = &containers.namespace_selector else { return };
        for (part, message) in selector.find_faults() {
            self.add_problem(&format!("{field}{part}"), message);
        }
        if containers.pod_metadata != PodMetadata::KubernetesApi {
            self.add_problem(
                field,
                "namespaceSelector requires a watch of the API server: set `podMetadata: \
                 KubernetesApi`",
            );
        }
        if !containers.namespaces.is_empty() {
            self.add_problem(
                field,
                "namespaceSelector and `namespaces` can't be combined: remove one of them",
            );
        }
    }

    fn check_weights(&mut self, containers: &ContainersReceiver) {
        let ContainersReceiver { namespaces, exclude_namespaces, weights, .. } = containers;
        let field = "receivers.containers.weights";
        if weights.len() > WEIGHTS_MAX {
            self.add_problem(
                field,
                format!("{} entries: use at most {WEIGHTS_MAX}", weights.len()),
            );
        }
        let mut index_by_namespace = HashMap::new();
        for (index, NamespaceWeight { namespace, weight }) in weights.iter().enumerate() {
            let field = format!("{field}[{index}]");
            self.check_range(&format!("{field}.weight"), *weight, 1..=100);
            let field = format!("{field}.namespace");
            if namespace.is_empty() {
                self.add_problem(&field, "the namespace's name is missing: set it");
            } else if let Some(other) = index_by_namespace.insert(namespace, index) {
                self.add_problem(
                    &field,
                    format!("`{namespace}` is also in weights[{other}]: remove one of them"),
                );
            } else if !namespaces.is_empty() && !namespaces.contains(namespace)
                || exclude_namespaces.contains(namespace)
            {
                let message = format!("the pods of `{namespace}` are not read: remove the weight");
                self.add_problem(&field, message);
            }
        }
    }

    /// Names of labels or annotations.
    fn check_pod_names(&mut self, field: &str, names: &[String]) {
        if names.len() > POD_NAMES_MAX {
            let number = names.len();
            self.add_problem(field, format!("{number} names: use at most {POD_NAMES_MAX}"));
        }
        let beginning = |name: &str| name.strip_suffix('*').unwrap_or(name).contains('*');
        if names.iter().any(|name| name.is_empty() || beginning(name)) {
            self.add_problem(field, "use a complete name, or a prefix followed by one `*`");
        }
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use super::{ContainersReceiver, NamespaceWeight, PodMetadata};
    use crate::document::round_trip::size;
    use crate::logs::log_records::arbitrary::{multiline, parse, start_at};
    use crate::values::selector::arbitrary::label_selector;
    use proptest::option;
    use proptest::prelude::{Strategy, any};

    pub(crate) fn containers() -> impl Strategy<Value = ContainersReceiver> {
        let names = || proptest::collection::vec("[ -~]{0,20}", 0..3);
        let named = (any::<bool>(), names(), names(), names(), names());
        let weight = ("[ -~]{0,20}", any::<u8>())
            .prop_map(|(namespace, weight)| NamespaceWeight { namespace, weight });
        let weights = proptest::collection::vec(weight, 0..3);
        let weights =
            (any::<bool>(), weights, option::of(label_selector()), option::of(multiline()));
        let folders = ("/[ -~]{0,30}", option::of("/[ -~]{0,30}"));
        (folders, start_at(), named, weights, parse(), size()).prop_map(
            |((directory, docker), start_at, named, weights, parse, max_line_bytes)| {
                ContainersReceiver {
                    directory: directory.into(),
                    docker_directory: docker.map(Into::into),
                    start_at,
                    pod_metadata: match named.0 {
                        true => PodMetadata::KubernetesApi,
                        false => PodMetadata::FilePath,
                    },
                    namespaces: named.1,
                    exclude_namespaces: named.2,
                    labels: named.3,
                    annotations: named.4,
                    follow_annotations: weights.0,
                    weights: weights.1,
                    namespace_selector: weights.2,
                    multiline: weights.3,
                    parse,
                    max_line_bytes,
                }
            },
        )
    }
}
