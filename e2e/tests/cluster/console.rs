//! The console as a user opens it: the operator's port forwarded by kubectl.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{NAME, Pipeline, Wish};
use millrace_e2e::process::Process;
use millrace_e2e::{http, wait};
use millrace_stack::Stack;

/// Kubectl says its port within a second; the operator may be restarting.
const LIMIT: Duration = Duration::from_secs(60);
/// Where the operator is installed, and its port for the console.
const OPERATOR: [&str; 5] =
    ["-n", "millrace-system", "port-forward", "deployment/millrace-operator", ":8081"];

/// The port on this machine, of `Forwarding from 127.0.0.1:PORT -> 8081`.
fn forwarded(process: &mut Process) -> SocketAddr {
    let port = wait::until("kubectl to forward a port", LIMIT, || {
        process.still_runs()?;
        let said = process.output();
        let port = said.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        Ok(port.context("no port yet")?.parse::<u16>()?)
    });
    (Ipv4Addr::LOCALHOST, port.unwrap()).into()
}

/// Scenario: the console of the operator that is installed, through a forwarded port; a pipeline
/// that is Ready. Guarantee: the list names it, its page has its pods with what they count and allows
/// no script, and without kubectl nobody reaches the console.
#[test]
fn the_console_shows_a_pipeline_through_a_forwarded_port() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let pipeline = Pipeline::apply(&stack, &cluster, "console", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    let namespace = pipeline.namespace.name.as_str();

    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(stack.tool("kubectl").unwrap());
    command.env("KUBECONFIG", stack.kubeconfig()).args(OPERATOR);
    let mut process =
        Process::start("kubectl", &mut command, &folder.path().join("forward.log")).unwrap();
    let address = forwarded(&mut process);

    let list = http::get(address, &format!("/?namespace={namespace}")).unwrap();
    assert_eq!(list.status, 200, "{}", list.text());
    assert!(list.text().contains(&format!("pipelines/{namespace}/{NAME}")), "{}", list.text());

    let page = format!("/pipelines/{namespace}/{NAME}");
    let pods = cluster.list(namespace, "pods", "app.kubernetes.io/managed-by=millrace-operator");
    let pods = pods.unwrap();
    assert!(!pods.is_empty());
    // The first reading of pods may still be under way.
    wait::until("the page to have every pod's figures", LIMIT, || {
        let shown = http::get(address, &page)?;
        ensure!(shown.status == 200, "{}", shown.text());
        for pod in &pods {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            ensure!(shown.text().contains(name), "no {name} in {}", shown.text());
        }
        ensure!(shown.text().contains("MiB"), "no pod's memory in {}", shown.text());
        let policy = shown.header("content-security-policy").unwrap_or_default();
        ensure!(policy.starts_with("default-src 'none'") && !policy.contains("script"), "{policy}");
        Ok(())
    })
    .unwrap();

    let operators = cluster.list("millrace-system", "pods", "app.kubernetes.io/name=millrace");
    for pod in operators.unwrap() {
        let Some(ip) = pod["status"]["podIP"].as_str() else { continue };
        let reached = http::get((ip.parse::<Ipv4Addr>().unwrap(), 8081).into(), "/");
        assert!(reached.is_err(), "the console answers on {ip}: {reached:?}");
    }
}
