//! `kubectl millrace` as a user runs it, against a pipeline that works: the program itself, its exit
//! code, its JSON, and a bundle without the passwords of the pipeline's Secrets.

use std::process::Command;

use millrace_e2e::binaries;
use millrace_e2e::cluster::{Cluster, Spoken};
use millrace_e2e::pipeline::{NAME, Pipeline, Wish};
use millrace_stack::Stack;
use serde_json::Value;

fn millrace(stack: &Stack, namespace: &str, args: &[&str]) -> Spoken {
    let output = Command::new(binaries::path("kubectl-millrace").unwrap())
        .arg("--kubeconfig")
        .arg(stack.kubeconfig())
        .args(["-n", namespace])
        .args(args)
        .output()
        .unwrap();
    Spoken {
        ok: output.status.success(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Scenario: a pipeline that is Ready, asked from outside of the cluster. Guarantee: `status` takes it
/// for healthy and has figures that came through the API server's proxy, `why` has the sizing
/// decision, `plan` of the stored pipeline changes nothing, and a bundle has the pipeline and its
/// pods' logs, and neither password. A test record sent through the API server's proxy is found as a
/// row from a gateway's pod, and so is each of a small load, once.
#[test]
fn the_plugin_tells_of_a_pipeline_that_works() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let pipeline = Pipeline::apply(&stack, &cluster, "plugin", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    let namespace = pipeline.namespace.name.as_str();

    let status = millrace(&stack, namespace, &["status", NAME, "-o", "json"]);
    assert!(status.ok && status.err.is_empty(), "{} {}", status.out, status.err);
    let report: Value = serde_json::from_str(&status.out).unwrap();
    let told = &report["pipelines"][0];
    assert_eq!((&told["name"], &told["ready"]), (&NAME.into(), &"True".into()), "{told:#}");
    assert_eq!(told["gaps"], Value::Array(Vec::new()), "{told:#}");
    assert_eq!(told["paths"][0]["edges"][0]["inPerSecond"], 0.0, "{told:#}");
    let pods = told["podList"].as_array().unwrap();
    assert!(pods.iter().all(|pod| pod["memoryBytes"].as_u64().is_some()), "{told:#}");

    let why = millrace(&stack, namespace, &["why"]);
    assert!(why.ok && why.out.starts_with("GatewayPool "), "{} {}", why.out, why.err);

    let kubectl = stack.tool("kubectl").unwrap();
    let kubectl = ["--kubectl", kubectl.to_str().unwrap(), "-o", "json"];
    let send = millrace(&stack, namespace, &[&["send", NAME][..], &kubectl].concat());
    assert!(send.ok, "{} {}", send.out, send.err);
    let sent: Value = serde_json::from_str(&send.out).unwrap();
    assert_eq!((&sent["found"], &sent["inKafka"]), (&1.into(), &"yes".into()), "{sent:#}");
    let load = ["verify", NAME, "--records", "250"];
    let verify = millrace(&stack, namespace, &[&load[..], &kubectl].concat());
    assert!(verify.ok, "{} {}", verify.out, verify.err);
    let sent: Value = serde_json::from_str(&verify.out).unwrap();
    assert_eq!((&sent["found"], &sent["repeated"]), (&250.into(), &0.into()), "{sent:#}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pipeline.json");
    let mut stored = cluster.get(namespace, "telemetrypipeline", NAME).unwrap();
    for field in ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"] {
        stored["metadata"].as_object_mut().unwrap().remove(field);
    }
    std::fs::write(&file, stored.to_string()).unwrap();
    let plan = millrace(&stack, namespace, &["plan", "-f", file.to_str().unwrap()]);
    assert!(plan.ok && plan.out.contains("would not change"), "{} {}", plan.out, plan.err);

    let bundle = folder.path().join("bundle.tar");
    let made = millrace(&stack, namespace, &["bundle", "--file", bundle.to_str().unwrap()]);
    assert!(made.ok, "{} {}", made.out, made.err);
    let bytes = std::fs::read(&bundle).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has(&format!("millrace/objects/telemetrypipeline-{NAME}.json")));
    assert!(has("millrace/logs/") && has("millrace/metrics/"));
    for secret in [stack.kafka_password_file(), stack.clickhouse_password_file()] {
        let password = std::fs::read_to_string(secret).unwrap();
        assert!(!has(password.trim()), "a password is in the bundle");
    }
}
