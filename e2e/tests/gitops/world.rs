//! What all of these tests stand on: our charts, synced by Argo CD through an application of
//! applications, as manifests/argocd has them.

pub(super) mod load;
mod repository;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_docs::runs::{self, Way};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::page::Shell;
use millrace_e2e::{binaries, http};
use millrace_stack::Stack;
use millrace_stack::argocd::{ArgoCd, NAMESPACE};

use crate::gitops::application::Application;
use crate::gitops::world::repository::Repository;

/// The application of applications.
pub(super) const ROOT: &str = "platform";
/// Those that it syncs, in the order of their waves.
pub(super) const CHARTS: [&str; 2] = ["millrace-crds", "millrace"];
/// For a command of the page.
const TYPED: Duration = Duration::from_secs(60);

/// A cluster with Argo CD, our charts and an operator.
pub(super) struct World {
    pub(super) stack: Stack,
    pub(super) cluster: Cluster,
    pub(super) repository: Repository,
}

impl World {
    /// The one of this machine; what is missing in it is synced.
    pub(super) fn open() -> Result<Self> {
        let stack = Stack::open()?;
        let cluster = Cluster::of(&stack)?;
        let repository = Repository::open(&ArgoCd::of(&stack))?;
        let world = Self { stack, cluster, repository };
        world.install()?;
        Ok(world)
    }

    fn install(&self) -> Result<()> {
        let manifests = binaries::root().join("manifests/argocd");
        let read = |name: &str| {
            let path = manifests.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        if !self.repository.path("charts").exists() {
            copy(&binaries::root().join("charts"), &self.repository.path("charts"))?;
            let theirs = "https://example.com/your/fork/of/millrace.git";
            let applications = read("application.yaml")?;
            ensure!(applications.matches(theirs).count() == 2, "the sample has another address");
            let images = "registry.example.com/millrace/";
            ensure!(applications.matches(images).count() == 2, "the sample has other images");
            let ours = applications.replace(theirs, self.repository.url());
            let ours = ours.replace(images, "docker.io/millrace/");
            self.repository.write("platform/application.yaml", &ours)?;
            self.repository.commit("charts and applications")?;
        }
        self.health()?;
        let root = Application::of(self, ROOT);
        if !root.exists()? {
            self.cluster.apply(NAMESPACE, &self.root())?;
        }
        root.until("all of it synced and healthy", |it| {
            it.sync == "Synced" && it.health == "Healthy"
        })?;
        for name in CHARTS {
            let chart = Application::of(self, name);
            chart.until("synced, healthy", |it| it.sync == "Synced" && it.health == "Healthy")?;
        }
        Ok(())
    }

    /// Has Argo CD know our kinds' health, by the command that docs/gitops.md has.
    fn health(&self) -> Result<()> {
        let mut shell = Shell::new()?;
        shell.program("kubectl", &self.stack.tool("kubectl").context("there is no kubectl")?)?;
        shell.set("KUBECONFIG", &self.stack.kubeconfig().to_string_lossy());
        let scripts = runs::scripts(&binaries::root(), Way::Own("e2e/tests/gitops/world.rs"))?;
        ensure!(!scripts.is_empty(), "the page has no command");
        scripts.iter().try_for_each(|script| shell.run(script, TYPED, |_| {}))
    }

    /// What the engine answers to a query.
    pub(super) fn ask(&self, query: &str) -> Result<String> {
        let read = |path: &Path| fs::read_to_string(path).map(|text| text.trim().to_owned());
        let user = read(&self.stack.clickhouse_user_file())?;
        let password = read(&self.stack.clickhouse_password_file())?;
        let address = self.stack.clickhouse_url().trim_start_matches("http://").parse()?;
        let headers = [("x-clickhouse-user", &*user), ("x-clickhouse-key", &*password)];
        let answer = http::send(address, "POST", "/", &headers, query.as_bytes())?;
        ensure!(answer.status == 200, "{query}: {} {}", answer.status, answer.text());
        Ok(answer.text())
    }

    /// Whether the engine has the spans' table of a namespace's pipeline.
    pub(super) fn has_table(&self, namespace: &str) -> Result<bool> {
        let database = namespace.replace('-', "_");
        Ok(self.ask(&format!("EXISTS TABLE {database}.otel_traces"))?.trim() == "1")
    }

    fn root(&self) -> String {
        serde_json::json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": ROOT, "namespace": NAMESPACE},
            "spec": {
                "project": "default",
                "source": {"repoURL": self.repository.url(), "targetRevision": "HEAD",
                    "path": "platform"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": NAMESPACE},
                "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
            },
        })
        .to_string()
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status()?;
    ensure!(status.success(), "cannot copy {}", from.display());
    Ok(())
}
