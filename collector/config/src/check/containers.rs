//! Judges the settings of containers' files.

use super::{Judge, RECORD_BYTES};
use crate::ContainersReceiver;

impl Judge<'_> {
    pub(super) fn containers(&mut self, containers: &ContainersReceiver) {
        let ContainersReceiver {
            directory,
            docker_directory,
            start_at: _,
            namespaces: _,
            namespace_selector: _,
            exclude_namespaces: _,
            watch_pods,
            labels,
            annotations,
            follow_annotations: _,
            weights: _,
            multiline,
            parse,
            max_line_bytes,
        } = containers;
        self.weights(containers);
        self.namespace_selector(containers);
        self.pod_names("receivers.containers.labels", labels);
        self.pod_names("receivers.containers.annotations", annotations);
        if !watch_pods && !annotations.is_empty() {
            self.say(
                "receivers.containers.annotations",
                "the API server isn't asked about pods: write `watchPods: true`",
            );
        }
        self.multiline("receivers.containers.multiline", multiline.as_ref());
        self.parse("receivers.containers.parse", parse);
        self.absolute("receivers.containers.directory", directory);
        if let Some(directory) = docker_directory {
            self.absolute("receivers.containers.dockerDirectory", directory);
        }
        self.range("receivers.containers.maxLineBytes", *max_line_bytes, RECORD_BYTES);
    }

    fn namespace_selector(&mut self, containers: &ContainersReceiver) {
        let field = "receivers.containers.namespaceSelector";
        let Some(selector) = &containers.namespace_selector else { return };
        for (part, message) in selector.faults() {
            self.say(&format!("{field}{part}"), message);
        }
        if !containers.watch_pods {
            self.say(field, "the API server isn't asked: write `watchPods: true`");
        }
        if !containers.namespaces.is_empty() {
            self.say(field, "`namespaces` names them already: write one of both");
        }
    }
}
