//! A pod that writes numbered lines to its standard output, for the kubelet to rotate, and the
//! query that finds them where they are stored. The cluster's tests and the demo share it.

use serde_json::{Value, json};

use crate::cluster::node::NODE_NAME;

/// The pod's name; what it writes is told by its uid.
pub const POD: &str = "writer";
/// A line without its number: what is left of it has this length.
const PAD_CHARS: usize = 200;

/// How much is written, and how fast.
#[derive(Debug, Clone, Copy)]
pub struct Numbered {
    /// Lines in all.
    pub lines: u64,
    /// Lines that are written at once.
    pub burst: u64,
    /// Between two bursts, as `sleep` takes it.
    pub pause_seconds: &'static str,
}

/// The pod's lines that are in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Different ones.
    pub different: u64,
    /// Of these, with the pod's label and the node.
    pub labeled: u64,
    /// All of them.
    pub rows: u64,
}

impl Numbered {
    /// The pod. The collector's image has no shell, so it takes the node's. It stays for a while, so
    /// that its files can be listed, and doesn't begin again.
    #[must_use]
    pub fn pod(&self, namespace: &str, image: &str) -> Value {
        let Self { lines, burst, pause_seconds } = self;
        let script = format!(
            "i=0; while [ $i -lt {lines} ]; do printf 'line %07d {pad}\\n' $i; i=$((i+1)); \
             [ $((i % {burst})) -ne 0 ] || /node/sleep {pause_seconds}; done; exec /node/sleep 600",
            pad = "x".repeat(PAD_CHARS),
        );
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": POD, "namespace": namespace, "labels": {"purpose": "numbers"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "restartPolicy": "Never",
                "containers": [{
                    "name": "numbers", "image": image, "imagePullPolicy": "Never",
                    "command": ["/node/dash", "-c", script],
                    "securityContext": {"runAsUser": 0},
                    "volumeMounts": [
                        {"name": "node", "mountPath": "/node", "readOnly": true},
                        {"name": "logs", "mountPath": "/logs", "readOnly": true},
                    ],
                }],
                "volumes": [
                    {"name": "node", "hostPath": {"path": "/usr/bin"}},
                    {"name": "logs", "hostPath": {"path": "/var/log/pods"}},
                ],
            },
        })
    }
}

/// Asks for [`Stored`] of the pod with this uid.
#[must_use]
pub fn query(database: &str, namespace: &str, uid: &str) -> String {
    format!(
        "SELECT uniqExact(Body), \
         uniqExactIf(Body, ResourceAttributes['k8s.pod.label.purpose'] = 'numbers' AND \
         ResourceAttributes['k8s.node.name'] = '{NODE_NAME}'), count() \
         FROM {database}.otel_logs \
         WHERE ResourceAttributes['k8s.pod.name'] = '{POD}' \
         AND ResourceAttributes['k8s.pod.uid'] = '{uid}' \
         AND ResourceAttributes['k8s.namespace.name'] = '{namespace}' \
         AND ResourceAttributes['k8s.container.name'] = 'numbers' \
         AND match(Body, '^line [0-9]{{7}} x{{{PAD_CHARS}}}$')"
    )
}

impl Stored {
    /// What [`query`] answered.
    #[must_use]
    pub fn read(answer: &str) -> Option<Self> {
        let mut numbers = answer.split_whitespace().map(|number| number.parse().ok());
        let mut next = || numbers.next()?;
        Some(Self { different: next()?, labeled: next()?, rows: next()? })
    }
}

/// What kubectl is to run to list the pod's log files on the node: the one being written and the
/// rotated ones that the kubelet keeps.
#[must_use]
pub fn list_files(namespace: &str) -> [String; 8] {
    let list = format!("echo /logs/{namespace}_{POD}_*/numbers/*");
    ["-n", namespace, "exec", POD, "--", "/node/dash", "-c", &list].map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::Stored;

    /// Scenario: an answer as the engine gives it, one that is cut, one that is a refusal.
    /// Guarantee: the first is read, the others are none.
    #[test]
    fn an_answer_of_three_numbers_is_read() {
        let stored = Stored { different: 5, labeled: 4, rows: 6 };
        assert_eq!(Stored::read("5\t4\t6\n"), Some(stored));
        assert_eq!(Stored::read("5\t4\n"), None);
        assert_eq!(Stored::read("Code: 60. DB::Exception"), None);
    }
}
