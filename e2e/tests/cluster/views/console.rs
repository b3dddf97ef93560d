//! The console as a user opens it: the operator's port forwarded by kubectl.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::ensure;
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{NAME, Pipeline, Wish};
use millrace_e2e::{console, http, wait};
use millrace_stack::Stack;

/// A reading of pods takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

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
    let (_kubectl, address) = console::forwarded(&stack, folder.path()).unwrap();

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
        // The chart grants the right to list events, and the API server knows the selectors.
        ensure!(!shown.text().contains("all events: "), "no events in {}", shown.text());
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
