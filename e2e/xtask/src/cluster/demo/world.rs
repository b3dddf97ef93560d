//! What the demo's pipeline finds in its namespace: log-ins as Secrets, and Kafka and ClickHouse
//! behind Services, so that the sample is applied exactly as it is committed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use millrace_stack::Stack;
use serde_json::{Value, json};

use crate::shell;

/// The broker's port and the engine's HTTP port, on the node's address.
const SERVERS: [(&str, u16); 2] = [("kafka", 9092), ("clickhouse", 8123)];

/// Namespace, Secrets, Services, then the sample.
pub(super) fn apply(stack: &Stack, namespace: &str) -> Result<()> {
    let kafka = (stack.kafka_user_file(), stack.kafka_password_file());
    let clickhouse = (stack.clickhouse_user_file(), stack.clickhouse_password_file());
    let mut documents = vec![json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace,
            // The pool on nodes mounts their folder of logs.
            "labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
    })];
    documents.push(secret(namespace, "kafka-user", &kafka)?);
    documents.push(secret(namespace, "clickhouse-user", &clickhouse)?);
    for (name, port) in SERVERS {
        documents.extend(service(namespace, name, port, &stack.node_ip().to_string()));
    }
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    stack.apply(&texts.join("\n---\n"))?;
    let sample = shell::root().join("manifests/samples/demo.yaml");
    Ok(stack.apply(&read(&sample)?)?)
}

/// A query that a user may try, without the password in it.
pub(super) fn query(stack: &Stack) -> String {
    format!(
        "curl -s -u \"$(cat {}):$(cat {})\" '{}/' --data-binary \\\n    \
         'select ServiceName, count(), avg(Duration) from otel.otel_traces group by 1 limit 5'",
        stack.clickhouse_user_file().display(),
        stack.clickhouse_password_file().display(),
        stack.clickhouse_url(),
    )
}

fn secret(namespace: &str, name: &str, (user, password): &(PathBuf, PathBuf)) -> Result<Value> {
    Ok(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": {"username": read(user)?.trim(), "password": read(password)?.trim()},
    }))
}

/// A Service without a selector, and the address behind it.
fn service(namespace: &str, name: &str, port: u16, address: &str) -> [Value; 2] {
    let ports = json!([{"name": name, "port": port, "protocol": "TCP"}]);
    let of_service = json!({"kubernetes.io/service-name": name});
    [
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"ports": ports},
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": namespace, "labels": of_service},
            "addressType": "IPv4", "ports": ports,
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        }),
    ]
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
