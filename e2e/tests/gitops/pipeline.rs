//! A pipeline in the repository, with an application of its own, made of manifests/argocd's sample:
//! what tests change by commits.

use std::fs;

use anyhow::{Context, Result, ensure};
use millrace_e2e::binaries;
use millrace_e2e::cluster::Namespace;
use millrace_stack::argocd::NAMESPACE;
use serde_json::{Value, json};

use crate::gitops::application::Application;
use crate::gitops::world::World;

/// Its name in its namespace.
pub(super) const NAME: &str = "p";
/// The wave that it is in, and that of what needs it.
const WAVES: [&str; 2] = ["0", "1"];
/// The ConfigMap of the later wave.
pub(super) const LATER: &str = "needs-the-pipeline";

/// A pipeline that an application syncs.
pub(super) struct Synced<'w> {
    pub(super) world: &'w World,
    pub(super) application: Application<'w>,
    pub(super) namespace: Namespace<'w>,
    /// Its spec as the repository has it.
    pub(super) spec: Value,
}

impl<'w> Synced<'w> {
    /// Makes the namespace and its Secrets, commits the pipeline, and applies the application.
    /// Gives the commit too. It is not waited for.
    pub(super) fn commit(world: &'w World, purpose: &str) -> Result<(Self, String)> {
        let namespace = world.cluster.namespace(purpose)?;
        secrets(world, &namespace.name)?;
        let spec = spec(world, &namespace.name);
        let application = Application::of(world, &namespace.name);
        let synced = Self { world, application, namespace, spec };
        synced.write()?;
        let revision = world.repository.commit("a pipeline")?;
        world.cluster.apply(NAMESPACE, &synced.sample()?)?;
        Ok((synced, revision))
    }

    /// Writes its files into the working copy.
    fn write(&self) -> Result<()> {
        let wave = |wave: &str| json!({"argocd.argoproj.io/sync-wave": wave});
        let pipeline = json!({
            "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline",
            "metadata": {"name": NAME, "annotations": wave(WAVES[0])}, "spec": self.spec,
        });
        let later = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": LATER, "annotations": wave(WAVES[1])},
            "data": {"endpoint": "whoever reads this sends to the pipeline"},
        });
        for (file, object) in [("pipeline", pipeline), ("later", later)] {
            let path = format!("{}/{file}.json", self.namespace.name);
            self.world.repository.write(&path, &format!("{object:#}"))?;
        }
        Ok(())
    }

    /// Commits another spec, and has Argo CD look at it.
    pub(super) fn change(
        &mut self,
        message: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<String> {
        change(&mut self.spec);
        self.write()?;
        let revision = self.world.repository.commit(message)?;
        self.application.refresh("normal")?;
        Ok(revision)
    }

    /// Takes the last change back in the repository.
    pub(super) fn revert(&self) -> Result<String> {
        let revision = self.world.repository.revert()?;
        self.application.refresh("normal")?;
        Ok(revision)
    }

    /// The live object.
    pub(super) fn object(&self) -> Result<Value> {
        self.world.cluster.get(&self.namespace.name, "telemetrypipeline", NAME)
    }

    /// manifests/argocd/pipelines.yaml, for this folder of the repository.
    fn sample(&self) -> Result<String> {
        let path = binaries::root().join("manifests/argocd/pipelines.yaml");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = &self.namespace.name;
        let mut changed = text;
        for (theirs, ours) in [
            ("https://example.com/your/pipelines.git", self.world.repository.url()),
            ("name: telemetry\n", &format!("name: {name}\n")),
            ("path: telemetry\n", &format!("path: {name}\n")),
            ("namespace: telemetry}", &format!("namespace: {name}}}")),
        ] {
            ensure!(changed.matches(theirs).count() == 1, "the sample has no {theirs:?}");
            changed = changed.replace(theirs, ours);
        }
        Ok(changed)
    }

    /// Deletes the application with all that it synced.
    pub(super) fn delete(&self) -> Result<()> {
        self.application.delete()
    }
}

impl Drop for Synced<'_> {
    fn drop(&mut self) {
        // Without its application the namespace would be made again.
        let _ = self.application.delete();
    }
}

/// A small pipeline's spec, with its own topic and database.
pub(super) fn spec(world: &World, namespace: &str) -> Value {
    let database = namespace.replace('-', "_");
    let resources = json!({"requests": {"cpu": "50m"}});
    json!({
           "kafka": {
               "bootstrapServers": [world.stack.kafka_bootstrap()],
               "authentication": {"type": "ScramSha512", "usernameSecret": {"name": "kafka-user", "key": "username"},
    "passwordSecret": {"name": "kafka-user", "key": "password"}},
           },
           "clickhouse": {
               "endpoints": [world.stack.clickhouse_url()], "database": database,
               "authentication": {"type": "Password", "usernameSecret": {"name": "clickhouse-user", "key": "username"},
    "passwordSecret": {"name": "clickhouse-user", "key": "password"}},
           },
           "signals": {"traces": {"topicName": format!("{database}_traces"),
               "topic": {"partitions": 4, "replicationFactor": 1}}},
           "edges": [{"name": "clients", "resources": resources}],
           "gateway": {"scaling": {"minReplicas": 1, "maxReplicas": 2}, "resources": resources},
       })
}

/// Log-ins, which are in no repository.
pub(super) fn secrets(world: &World, namespace: &str) -> Result<()> {
    let stack = &world.stack;
    let read = |path: &std::path::Path| -> Result<String> {
        Ok(fs::read_to_string(path)?.trim().to_owned())
    };
    for (name, user, password) in [
        ("kafka-user", stack.kafka_user_file(), stack.kafka_password_file()),
        ("clickhouse-user", stack.clickhouse_user_file(), stack.clickhouse_password_file()),
    ] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"username": read(&user)?, "password": read(&password)?},
        });
        world.cluster.apply(namespace, &secret.to_string())?;
    }
    Ok(())
}
