//! The steps of an upgrade by Helm, and what a pipeline's pods run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_e2e::cluster::{Cluster, OPERATOR_NAMESPACE, helm};
use millrace_e2e::pipeline::Pipeline;
use millrace_e2e::wait;
use millrace_stack::Stack;

/// The version of everything in this tree.
pub(crate) const THIS_VERSION: &str = env!("CARGO_PKG_VERSION");
/// What the earlier images are tagged as, whatever their version says: `cargo xtask upgrades` tags
/// them so. A pre-release, which is older by the rules of versions.
pub(crate) const EARLIER_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-earlier");
/// Of the operator's release. Helm would keep the values of the release before, its image's tag among
/// them.
const OPERATOR: [&str; 5] =
    ["--namespace", OPERATOR_NAMESPACE, "--reset-values", "--set", millrace_e2e::chart::LOADED];
/// From Ready to the end of pods that were replaced.
const PODS_LIMIT: Duration = Duration::from_secs(60);

/// The charts, installed.
pub(crate) struct Installation<'c> {
    stack: &'c Stack,
    cluster: &'c Cluster,
}

impl<'c> Installation<'c> {
    /// Installs the earlier charts with the earlier images.
    ///
    /// # Errors
    /// When it isn't known where they are, or Helm refuses them.
    pub(crate) fn of_earlier(stack: &'c Stack, cluster: &'c Cluster) -> Result<Self> {
        let charts = std::env::var_os("MILLRACE_EARLIER_CHARTS");
        let charts = charts.context("run `make upgrades`, which builds the earlier commit")?;
        let charts = PathBuf::from(charts);
        let this = Self { stack, cluster };
        let tag = format!("image.tag={EARLIER_VERSION}");
        this.helm("millrace-crds", &charts, &[])?;
        let first = ["--create-namespace", "--set-string", &tag];
        this.helm("millrace", &charts, &[&OPERATOR[..], &first].concat())?;
        this.expect_operator(EARLIER_VERSION)?;
        Ok(this)
    }

    /// # Errors
    /// When Helm refuses the chart.
    pub(crate) fn upgrade_definitions(&self) -> Result<()> {
        self.helm("millrace-crds", &charts(), &[])
    }

    /// # Errors
    /// When Helm refuses the chart, or another image than this tree's runs.
    pub(crate) fn upgrade_operator(&self) -> Result<()> {
        self.helm("millrace", &charts(), &OPERATOR)?;
        self.expect_operator(THIS_VERSION)
    }

    /// Definitions stay the newer ones.
    ///
    /// # Errors
    /// When Helm can't, or another image than the earlier one runs.
    pub(crate) fn roll_back_operator(&self) -> Result<()> {
        let back = ["rollback", "millrace", "--namespace", OPERATOR_NAMESPACE, "--wait"];
        helm(self.stack, &[&back[..], &["--timeout", "3m"]].concat())?;
        self.expect_operator(EARLIER_VERSION)
    }

    fn helm(&self, name: &str, charts: &Path, more: &[&str]) -> Result<()> {
        let chart = charts.join(name).to_string_lossy().into_owned();
        let install = ["upgrade", "--install", name, &chart, "--wait", "--timeout", "3m"];
        helm(self.stack, &[&install[..], more].concat())
    }

    fn expect_operator(&self, version: &str) -> Result<()> {
        let deployments = self.cluster.list(OPERATOR_NAMESPACE, "deployments", "")?;
        let deployment = deployments.first().context("no operator is installed")?;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let image = container["image"].as_str().unwrap_or_default();
        ensure!(image.ends_with(&format!(":{version}")), "the operator's image is {image}");
        Ok(())
    }
}

/// This tree's charts.
fn charts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts")
}

/// Whether every pod of a pipeline runs a version of the collector, once those before are gone.
///
/// # Errors
/// When one still runs another after a while.
pub(crate) fn run_version(pipeline: &Pipeline<'_>, version: &str) -> Result<()> {
    let tag = format!(":{version}-system");
    wait::until(&format!("all pods to run {version}"), PODS_LIMIT, || {
        let pods = pipeline.pods()?;
        let image = |pod: &serde_json::Value| {
            pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()
        };
        let images: Vec<String> = pods.iter().map(image).collect();
        let all_run_it = !images.is_empty() && images.iter().all(|image| image.ends_with(&tag));
        ensure!(all_run_it, "pods run {images:?}");
        Ok(())
    })
}

/// How the tables store attributes, which is the default of whoever made them: a load is judged by
/// it.
///
/// # Errors
/// When the engine doesn't say.
pub(crate) fn attributes(pipeline: &Pipeline<'_>, stack: &Stack) -> Result<&'static str> {
    let sql = "SELECT type FROM system.columns WHERE database = 'DATABASE' AND \
               table = 'otel_traces' AND name = 'SpanAttributes'";
    let said = pipeline.query(stack, sql)?;
    ensure!(!said.trim().is_empty(), "no table of spans");
    Ok(if said.starts_with("JSON") { "json" } else { "map" })
}
