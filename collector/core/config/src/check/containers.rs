//! Judges the settings of containers' files.

use super::{Checker, RECORD_BYTES};
use crate::{ContainersReceiver, PodMetadata};

impl Checker<'_> {
    pub(super) fn check_containers(&mut self, containers: &ContainersReceiver) {
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
                "annotations require a watch of pods: set `podMetadata: KubernetesAPI`",
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
                 KubernetesAPI`",
            );
        }
        if !containers.namespaces.is_empty() {
            self.add_problem(
                field,
                "namespaceSelector and `namespaces` can't be combined: remove one of them",
            );
        }
    }
}
