//! One of Argo CD's applications: what it says, waiting for it, and what it finds different.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use millrace_e2e::wait;
use millrace_stack::argocd::{ArgoCd, NAMESPACE};
use serde_json::Value;

use crate::gitops::world::World;

/// From a commit, or a change in the cluster, to what Argo CD says of it.
pub(super) const LIMIT: Duration = Duration::from_secs(300);

/// What an application says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// `Synced`, `OutOfSync` or `Unknown`.
    pub(super) sync: String,
    /// `Healthy`, `Progressing`, `Degraded`, `Suspended`, `Missing`.
    pub(super) health: String,
    /// The commit that was compared.
    pub(super) revision: String,
    /// Of the last sync: `Running`, `Succeeded`, `Failed`.
    pub(super) phase: String,
    /// What it says.
    pub(super) message: String,
    /// What it could not do, such as comparing; empty if all went well.
    pub(super) trouble: String,
}

/// One of Argo CD's applications, by name.
pub(super) struct Application<'w> {
    world: &'w World,
    pub(super) name: String,
}

impl<'w> Application<'w> {
    pub(super) fn of(world: &'w World, name: &str) -> Self {
        Self { world, name: name.to_owned() }
    }

    pub(super) fn object(&self) -> Result<Value> {
        self.world.cluster.get(NAMESPACE, "applications.argoproj.io", &self.name)
    }

    pub(super) fn exists(&self) -> Result<bool> {
        let kind = "applications.argoproj.io";
        let args = ["-n", NAMESPACE, "get", kind, &self.name, "--ignore-not-found", "-o", "name"];
        Ok(!self.world.cluster.kubectl(&args)?.trim().is_empty())
    }

    pub(super) fn state(&self) -> Result<State> {
        let object = self.object()?;
        let status = &object["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = status["conditions"].as_array().into_iter().flatten();
        Ok(State {
            trouble: conditions.map(|one| text(&one["message"])).collect::<Vec<_>>().join("\n"),
            sync: text(&status["sync"]["status"]),
            health: text(&status["health"]["status"]),
            revision: text(&status["sync"]["revision"]),
            phase: text(&status["operationState"]["phase"]),
            message: text(&status["operationState"]["message"]),
        })
    }

    /// Asks for a comparison with what the repository has now, as a webhook would, and waits until
    /// it is done. `hard` renders again too.
    pub(super) fn refresh(&self, how: &str) -> Result<()> {
        let annotation = "argocd.argoproj.io/refresh";
        let kind = "applications.argoproj.io";
        let asked = format!("{annotation}={how}");
        let args = ["-n", NAMESPACE, "annotate", "--overwrite", kind, &self.name, &asked];
        self.world.cluster.kubectl(&args)?;
        wait::until(&format!("{} to be compared", self.name), LIMIT, || {
            let object = self.object()?;
            ensure!(object["metadata"]["annotations"][annotation].is_null(), "not yet");
            Ok(())
        })
    }

    /// Waits until it says what is asked for.
    pub(super) fn until(&self, what: &str, mut fits: impl FnMut(&State) -> bool) -> Result<State> {
        wait::until(&format!("{}: {what}", self.name), LIMIT, || {
            let state = self.state()?;
            ensure!(fits(&state), "{state:?}");
            Ok(state)
        })
    }

    /// Waits until it is synced to a commit, and healthy.
    pub(super) fn settled(&self, revision: &str) -> Result<State> {
        self.until("synced and healthy", |it| {
            (&*it.sync, &*it.health, &*it.phase) == ("Synced", "Healthy", "Succeeded")
                && it.revision == revision
        })
    }

    /// What a resource of it says: health and message.
    pub(super) fn health_of(&self, kind: &str, name: &str) -> Result<(String, String)> {
        let object = self.object()?;
        let mut all = object["status"]["resources"].as_array().into_iter().flatten();
        let found = all.find(|one| one["kind"] == kind && one["name"] == name);
        let health = &found.with_context(|| format!("{kind}/{name} is not in it"))?["health"];
        let text = |field: &str| health[field].as_str().unwrap_or_default().to_owned();
        Ok((text("status"), text("message")))
    }

    /// Compares anew, then asks Argo CD's own command line for differences.
    pub(super) fn without_difference(&self) -> Result<()> {
        self.refresh("hard")?;
        let state = self.state()?;
        ensure!(state.sync == "Synced", "{}: {state:?}", self.name);
        self.cli(&["app", "diff", &self.name, "--exit-code"]).map(drop)
    }

    /// Argo CD's command line, which must succeed.
    pub(super) fn cli(&self, args: &[&str]) -> Result<String> {
        let output = ArgoCd::of(&self.world.stack).cli(args)?;
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let err = String::from_utf8_lossy(&output.stderr);
            bail!("argocd {}: {}\n{out}{err}", args.join(" "), output.status);
        }
        Ok(out)
    }

    /// Changes its spec in the cluster.
    pub(super) fn patch(&self, patch: &str) -> Result<()> {
        let kind = "applications.argoproj.io";
        let args = ["-n", NAMESPACE, "patch", kind, &self.name, "--type", "merge", "-p", patch];
        self.world.cluster.kubectl(&args).map(drop)
    }

    /// Deletes it, and waits until it is gone with all that it deletes.
    pub(super) fn delete(&self) -> Result<()> {
        let kind = "applications.argoproj.io";
        let args = ["-n", NAMESPACE, "delete", kind, &self.name, "--ignore-not-found"];
        let limit = format!("--timeout={}s", LIMIT.as_secs());
        self.world.cluster.kubectl(&[&args[..], &[&limit]].concat()).map(drop)
    }
}
