//! A pipeline in the repository that Flux syncs, by the Kustomization of manifests/flux: what tests
//! change by commits, and what Flux says of it. The tests stand in for its controller of sources:
//! they put each commit's files where the source's status says.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use millrace_e2e::cluster::{Namespace, condition_of};
use millrace_e2e::{binaries, wait};
use millrace_stack::flux::{Flux, NAMESPACE};
use serde_json::{Value, json};

use crate::gitops::application::LIMIT;
use crate::gitops::pipeline::{self, NAME};
use crate::gitops::world::World;

/// Its kind; Kustomize itself has one of that name too.
const KIND: &str = "kustomizations.kustomize.toolkit.fluxcd.io";
/// The sample's source, its kind, and what it has that is never asked here.
const SOURCE: &str = "pipelines";
const SOURCE_KIND: &str = "gitrepositories.source.toolkit.fluxcd.io";
const SOURCE_URL: &str = "https://example.com/your/pipelines.git";

/// What a Kustomization says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// `True`, `False` or `Unknown`.
    pub(super) ready: String,
    pub(super) reason: String,
    pub(super) message: String,
    /// What is under way.
    pub(super) doing: String,
    /// The revision that was tried last, and the one that was applied and found healthy.
    pub(super) revisions: [String; 2],
}

/// A pipeline that a Kustomization syncs. Deleted with its guard.
pub(super) struct Kustomized<'w> {
    world: &'w World,
    pub(super) namespace: Namespace<'w>,
    /// The pipeline as the repository has it.
    pub(super) pipeline: Value,
}

impl<'w> Kustomized<'w> {
    /// Makes the namespace and its Secrets, applies the source, commits the pipeline, and applies
    /// the sample, with so long a time for health. Gives the commit too. It is not waited for.
    pub(super) fn commit(world: &'w World, name: &str, timeout: &str) -> Result<(Self, String)> {
        let namespace = world.cluster.namespace(name)?;
        pipeline::secrets(world, &namespace.name)?;
        let pipeline = json!({
            "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline",
            "metadata": {"name": NAME, "annotations": {}},
            "spec": pipeline::spec(world, &namespace.name),
        });
        let kustomized = Self { world, namespace, pipeline };
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": SOURCE}, "spec": {"interval": "1m", "url": SOURCE_URL},
        });
        world.cluster.apply(NAMESPACE, &source.to_string())?;
        let revision = kustomized.write("a pipeline")?;
        world.cluster.apply(NAMESPACE, &kustomized.sample(timeout)?)?;
        Ok((kustomized, revision))
    }

    /// Changes the pipeline by a commit, which Flux finds.
    pub(super) fn change(
        &mut self,
        message: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<String> {
        change(&mut self.pipeline);
        self.write(message)
    }

    fn write(&self, message: &str) -> Result<String> {
        // Flux takes files of this ending alone; what is JSON is YAML too.
        let path = format!("{}/pipeline.yaml", self.namespace.name);
        self.world.repository.write(&path, &format!("{:#}", self.pipeline))?;
        let revision = self.world.repository.commit(message)?;
        self.publish(&revision)?;
        Ok(revision)
    }

    /// Serves the files of a commit and says so in the source's status, as the controller of
    /// sources does.
    fn publish(&self, revision: &str) -> Result<()> {
        let flux = Flux::of(&self.world.stack);
        let name = format!("{revision}.tar.gz");
        let archive = flux.archives().join(&name);
        self.world.repository.archive(&archive)?;
        let output = Command::new("sha256sum").arg(&archive).output()?;
        let sum = String::from_utf8_lossy(&output.stdout);
        let sum = sum.split_whitespace().next().context("sha256sum said nothing")?;
        let status = json!({"status": {"artifact": {
            "revision": format!("main@sha1:{revision}"), "digest": format!("sha256:{sum}"),
            "path": name, "url": flux.archive_url(&name), "lastUpdateTime": "2026-01-01T00:00:00Z",
        }}});
        let patch = ["--subresource=status", "--type=merge", "-p", &status.to_string()];
        let args = ["-n", NAMESPACE, "patch", SOURCE_KIND, SOURCE];
        self.world.cluster.kubectl(&[&args[..], &patch].concat()).map(drop)
    }

    /// The live pipeline.
    pub(super) fn object(&self) -> Result<Value> {
        self.world.cluster.get(&self.namespace.name, "telemetrypipeline", NAME)
    }

    pub(super) fn state(&self) -> Result<State> {
        let object = self.live()?;
        let status = &object["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = |condition: &str, field: &str| text(&condition_of(&object, condition)[field]);
        Ok(State {
            ready: of("Ready", "status"),
            reason: of("Ready", "reason"),
            message: of("Ready", "message"),
            doing: of("Reconciling", "message"),
            revisions: ["lastAttemptedRevision", "lastAppliedRevision"]
                .map(|field| text(&status[field])),
        })
    }

    /// The Kustomization.
    pub(super) fn live(&self) -> Result<Value> {
        self.world.cluster.get(NAMESPACE, KIND, &self.namespace.name)
    }

    /// Waits until it says what is asked for of a commit.
    pub(super) fn until(
        &self,
        what: &str,
        revision: &str,
        mut fits: impl FnMut(&State) -> bool,
    ) -> Result<State> {
        wait::until(&format!("{}: {what}", self.namespace.name), LIMIT, || {
            let state = self.state()?;
            ensure!(state.revisions[0].ends_with(revision) && fits(&state), "{state:?}");
            Ok(state)
        })
    }

    /// Waits while it looks at the health of what a commit has.
    pub(super) fn waits(&self, revision: &str) -> Result<State> {
        self.until("waiting for health", revision, |it| {
            it.ready == "Unknown" && it.doing.contains("Running health checks")
        })
    }

    /// Waits until a commit is applied and healthy.
    pub(super) fn settled(&self, revision: &str) -> Result<State> {
        self.until("ready", revision, |it| {
            it.ready == "True" && it.revisions[1].ends_with(revision)
        })
    }

    /// Asks for another reconciliation, and waits until it is done.
    pub(super) fn reconcile(&self, request: &str) -> Result<()> {
        let asked = format!("reconcile.fluxcd.io/requestedAt={request}");
        let name = &*self.namespace.name;
        let args = ["-n", NAMESPACE, "annotate", "--overwrite", KIND, name, &asked];
        self.world.cluster.kubectl(&args)?;
        wait::until(&format!("{name}: reconciled"), LIMIT, || {
            let handled = &self.live()?["status"]["lastHandledReconcileAt"];
            ensure!(handled == request, "{handled}");
            Ok(())
        })
    }

    /// Deletes it with what it synced.
    pub(super) fn delete(&self) -> Result<()> {
        let limit = format!("--timeout={}s", LIMIT.as_secs());
        let name = &*self.namespace.name;
        let args = ["-n", NAMESPACE, "delete", KIND, name, "--ignore-not-found", &limit];
        self.world.cluster.kubectl(&args).map(drop)
    }

    /// manifests/flux/pipelines.yaml, for this folder of the repository.
    fn sample(&self, timeout: &str) -> Result<String> {
        let path = binaries::root().join("manifests/flux/pipelines.yaml");
        let mut changed =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = &self.namespace.name;
        for (theirs, ours) in [
            ("{name: telemetry,", format!("{{name: {name},")),
            ("path: ./telemetry\n", format!("path: ./{name}\n")),
            ("targetNamespace: telemetry\n", format!("targetNamespace: {name}\n")),
            ("timeout: 5m\n", format!("timeout: {timeout}\n")),
        ] {
            ensure!(changed.matches(theirs).count() == 1, "the sample has no {theirs:?}");
            changed = changed.replace(theirs, &ours);
        }
        Ok(changed)
    }
}

impl Drop for Kustomized<'_> {
    fn drop(&mut self) {
        let _ = self.delete();
    }
}
