//! Commands of pages that need a cluster, typed as the pages have them: `millrace_docs::runs` says
//! which. The first page brings up the local stack, the last removes it; `cargo xtask pages` runs it.
#![allow(missing_docs)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_docs::runs::{self, Script, Way};
use millrace_e2e::cluster::{self, Cluster, OPERATOR_NAMESPACE};
use millrace_e2e::page::Shell;
use millrace_e2e::{binaries, wait};
use millrace_stack::Stack;

/// For a page: `make demo` may compile.
const LIMIT: Duration = Duration::from_secs(40 * 60);
/// For what a page's commands bring about.
const EFFECT: Duration = Duration::from_secs(180);
/// The pipeline of `make demo`, and its namespace.
const PIPELINE: &str = "demo";
const NAMESPACE: &str = "telemetry";

/// What stands in pages for what a reader has, and what that is here.
const NAMES: [(&str, &str); 12] = [
    ("REGISTRY/", "docker.io/"),
    ("-n NAMESPACE", "-n telemetry"),
    ("telemetrypipeline NAME", "telemetrypipeline demo"),
    ("status NAME", "status demo"),
    ("gatewaypool NAME", "gatewaypool demo"),
    ("edgepool NAME", "edgepool demo-clients"),
    ("exec POD", "exec demo-gateway-0"),
    ("pod/first-gateway-0", "pod/demo-gateway-0"),
    ("--config CONFIG", "--config /etc/millrace/config/collector.yaml"),
    ("status first", "status demo"),
    ("status prod", "status demo"),
    ("--pipeline prod", "--pipeline demo"),
];

/// All pages, each typed once.
struct Pages {
    shell: Shell,
    left: Vec<Script>,
}

impl Pages {
    fn new(stack: &Stack) -> Result<Self> {
        let mut shell = Shell::with_programs(&["kubectl-millrace"])?;
        for name in ["kubectl", "helm"] {
            shell.program(name, &stack.tool(name).context("the stack lacks a tool")?)?;
        }
        // Pages call it in a gateway's pod.
        let inside = "exec kubectl -n telemetry exec demo-gateway-0 -- \
                      /usr/local/bin/millrace-collector \"$@\"";
        shell.script("millrace-collector", inside)?;
        for (theirs, here) in NAMES {
            shell.stands_for(theirs, here);
        }
        let kubeconfig = stack.kubeconfig();
        let kubeconfig = kubeconfig.to_string_lossy();
        shell.stands_for("/var/lib/millrace-stack/kubeconfig", &kubeconfig);
        shell.set("KUBECONFIG", &kubeconfig);
        let image = binaries::target().join("demo/images/operator-0.1.0.tar");
        shell.stands_for("image.tar", &image.to_string_lossy());
        Ok(Self { shell, left: runs::scripts(&binaries::root(), Way::Cluster)? })
    }

    /// Types a page, from a folder.
    fn run(&mut self, page: &str, folder: &Path) -> Result<()> {
        let at = self.left.iter().position(|it| it.page == page);
        let script = self.left.remove(at.with_context(|| format!("nothing to type on {page}"))?);
        self.shell.begins_in(folder);
        self.shell.run(&script, LIMIT, |line| println!("{line}"))
    }
}

/// The pipeline is Ready with so many gateways.
fn ready(cluster: &Cluster, gateways: u64) -> Result<()> {
    let object = (NAMESPACE, "telemetrypipeline", PIPELINE);
    cluster.wait_for(object, ("Ready", "True", ""), EFFECT)?;
    wait::until(&format!("{gateways} gateways"), EFFECT, || {
        let set = cluster.get(NAMESPACE, "statefulset", &format!("{PIPELINE}-gateway"))?;
        ensure!(set["status"]["readyReplicas"] == gateways, "{}", set["status"]);
        Ok(())
    })
}

/// A folder as the plugin's page has it: a Collector's settings, the live pipeline and its gateway
/// pool as files, and the repository's samples.
fn work(cluster: &Cluster, folder: &Path) -> Result<()> {
    let golden = binaries::root().join("operator/tools/plugin/tests/plugin/golden/collector.yaml");
    fs::copy(golden, folder.join("collector.yaml"))?;
    symlink(binaries::root().join("manifests"), folder.join("manifests"))?;
    for (kind, file) in [("telemetrypipeline", "prod.yaml"), ("gatewaypool", "gateway.yaml")] {
        let mut live = cluster.get(NAMESPACE, kind, PIPELINE)?;
        for field in ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"]
        {
            live["metadata"].as_object_mut().context("no metadata")?.remove(field);
        }
        fs::write(folder.join(file), live.to_string())?;
    }
    Ok(())
}

/// Scenario: a reader goes from the quick start, which brings up the local stack, to `make try` and
/// installing with Helm after the demo's installation is gone, the console, monitors, the plugin,
/// running and troubleshooting, and the stack's own commands, with the demo's pipeline as theirs. Guarantee: each command works or is refused as its page says; deleted Deployments come
/// back and two gateways run; the operator that the front page installs takes the pipeline over.
#[test]
fn commands_that_need_a_cluster_work_as_typed() {
    let stack = Stack::open().unwrap();
    let root = binaries::root();
    let mut pages = Pages::new(&stack).unwrap();

    pages.run("docs/quick-start.md", &root).unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    ready(&cluster, 2).unwrap();

    let operator = ["uninstall", "millrace", "--namespace", OPERATOR_NAMESPACE, "--wait"];
    cluster::helm(&stack, &operator).unwrap();
    cluster::helm(&stack, &["uninstall", "millrace-crds"]).unwrap();
    pages.run("README.md", &root).unwrap();
    ready(&cluster, 2).unwrap();
    pages.run("docs/console.md", &root).unwrap();
    pages.run("docs/monitors.md", &root).unwrap();
    ready(&cluster, 2).unwrap();

    let folder = tempfile::tempdir().unwrap();
    work(&cluster, folder.path()).unwrap();
    // Pages leave the namespace out where a reader's own kubeconfig has it.
    let own = folder.path().join("kubeconfig");
    fs::copy(stack.kubeconfig(), &own).unwrap();
    let own = own.to_string_lossy();
    let namespace = format!("--namespace={NAMESPACE}");
    let chosen = ["--kubeconfig", &own, "config", "set-context", "--current", &namespace];
    cluster.kubectl(&chosen).unwrap();
    pages.shell.set("KUBECONFIG", &own);
    pages.run("docs/kubectl.md", folder.path()).unwrap();
    for page in ["operations", "rollouts", "lost-data", "observing", "troubleshooting"] {
        pages.run(&format!("docs/{page}.md"), &root).unwrap();
    }

    pages.run("e2e/stack/README.md", &root).unwrap();
    assert!(!stack.status().is_up());
    let left: Vec<&String> = pages.left.iter().map(|script| &script.page).collect();
    assert!(left.is_empty(), "nobody types {left:?}");
}
