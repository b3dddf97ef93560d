//! Tests of the program itself, by a kubeconfig, against the same API server behind a socket:
//! output streams, exit codes, colours, and the program that `dead-letters` runs.

use std::process::Output;

use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinHandle;

use crate::plugin::support::Server;
use crate::plugin::writes::healthy;

/// The server behind a socket, its kubeconfig, and a temporary folder.
struct Served {
    folder: TempDir,
    serving: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Served {
    async fn new(server: Server) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = move |request: axum::extract::Request| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes().to_vec();
                let request = http::Request::from_parts(parts, kube::client::Body::from(body));
                server.answer(request).await.map(axum::body::Body::new)
            }
        };
        let app = axum::Router::new().fallback(answer);
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c",
                          "context": {"cluster": "k", "user": "u", "namespace": "obs"}}],
        });
        std::fs::write(folder.path().join("config"), config.to_string()).unwrap();
        Self { folder, serving }
    }

    /// Runs the program, which finds its cluster by KUBECONFIG.
    async fn run(&self, line: &[&str]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-millrace"));
        program.args(line).env("KUBECONFIG", self.folder.path().join("config"));
        program.env_remove("NO_COLOR").output().await.unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Scenario: a healthy pipeline, then one that isn't, then a missing right, by kubeconfig and
/// socket. Guarantee: exit codes 0, 1 and 2; answers only on standard output, errors only on
/// standard error; no colours without a terminal, and colours on request.
#[tokio::test]
async fn the_program_answers_with_its_exit_code() {
    let server = healthy();
    let served = Served::new(server.clone()).await;
    let status = ["status", "--interval", "0.1"];
    let healthy = served.run(&status).await;
    assert_eq!(healthy.status.code(), Some(0), "{}", text(&healthy.stderr));
    let shown = text(&healthy.stdout);
    assert!(shown.starts_with("TelemetryPipeline obs/prod  Ready") && !shown.contains('\u{1b}'));
    assert!(shown.contains("NO PROBLEMS"), "{shown}");
    let painted = served.run(&["why", "--color", "always"]).await;
    assert!(text(&painted.stdout).contains("\u{1b}[1m"), "{}", text(&painted.stdout));
    server.edit("TelemetryPipeline", "prod", |one| one["metadata"]["generation"] = json!(4));
    let unhealthy = served.run(&["status", "-o", "json", "--interval", "0"]).await;
    assert_eq!(unhealthy.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&unhealthy.stdout).unwrap();
    assert_eq!(report["pipelines"][0]["ready"], "Unknown");
    server.forbid(Method::GET, "/telemetrypipelines");
    let denied = served.run(&["status"]).await;
    assert_eq!((denied.status.code(), &*denied.stdout), (Some(2), &b""[..]));
    let error = text(&denied.stderr);
    assert!(error.starts_with("kubectl millrace: no right to list telemetrypipelines"), "{error}");
}

/// Scenario: no kubeconfig; an API server that doesn't exist. Guarantee: exit code 2, and the
/// advice.
#[tokio::test]
async fn without_a_cluster_the_error_says_what_to_set() {
    let served = Served::new(Server::default()).await;
    let nowhere = served.run(&["status", "--kubeconfig", "/nowhere/config"]).await;
    let error = text(&nowhere.stderr);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(error.contains("/nowhere/config") && error.contains("KUBECONFIG"), "{error}");
    served.serving.abort();
    let gone = served.run(&["status"]).await;
    let error = text(&gone.stderr);
    assert_eq!(gone.status.code(), Some(2));
    assert!(error.contains("no usable answer from the API server (telemetrypipelines)"), "{error}");
}

/// Scenario: dead letters listed by a kubectl that works (it prints its arguments), one that fails,
/// and without any. Guarantee: the collector's tool is run in a ready gateway pod with the given
/// options, and nothing is printed except its output; a failure names the required right.
#[tokio::test]
async fn dead_letters_run_the_collectors_tool_by_kubectl() {
    let served = Served::new(healthy()).await;
    let run = async |kubectl: &str| {
        let options = ["--kubectl", kubectl, "--reason", "truncated"];
        served.run(&[&["--context", "c", "dead-letters", "list"][..], &options[..]].concat()).await
    };
    let listed = run("echo").await;
    assert_eq!(listed.status.code(), Some(0), "{}", text(&listed.stderr));
    assert_eq!(
        text(&listed.stdout),
        "--context c -n obs exec prod-gateway-0 -c collector -- \
         /usr/local/bin/millrace-collector dead-letters list --config /etc/millrace/config/collector.yaml --reason truncated\n"
    );
    let line = ["--context", "c", "-o", "json", "dead-letters", "list", "--kubectl", "echo"];
    let printed = text(&served.run(&line).await.stdout);
    assert!(printed.ends_with("--output json\n"), "the tool's JSON alone: {printed}");
    let failed = run("false").await;
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("create pods/exec in namespace obs"));
    let none = run("/nowhere/kubectl").await;
    assert!(text(&none.stderr).contains("cannot run /nowhere/kubectl"), "{}", text(&none.stderr));
}
