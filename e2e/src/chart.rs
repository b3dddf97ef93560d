//! The chart, rendered by Helm for a cluster that serves the Prometheus operator's kinds. No cluster
//! is asked.

use anyhow::{Context, Result, ensure};
use millrace_stack::Stack;

use crate::binaries;

/// What the Prometheus operator serves.
pub const PROMETHEUS_KINDS: [&str; 2] =
    ["monitoring.coreos.com/v1/PodMonitor", "monitoring.coreos.com/v1/PrometheusRule"];

/// Repositories that every rendering needs.
pub const IMAGES: &str = "image.repository=registry.example.com/millrace/operator,\
                          collector.imageRepository=registry.example.com/millrace/collector";

/// What images that are built and loaded into the local cluster are called there.
pub const LOADED: &str = "replicas=1,shareAccess.grant=true,image.repository=docker.io/millrace/operator,\
                          collector.imageRepository=docker.io/millrace/collector";

/// One template's objects with these values (`name=value`), where the cluster serves these kinds.
///
/// # Errors
/// When Helm can't be run or refuses.
pub fn rendered(stack: &Stack, template: &str, values: &[&str], kinds: &[&str]) -> Result<String> {
    let chart = binaries::root().join("charts/millrace");
    let chart = chart.to_string_lossy();
    let template = format!("templates/{template}");
    let mut args = vec!["template", "millrace", &chart, "--show-only", &template];
    args.extend(["--namespace", "millrace-system", "--kube-version", "1.34.0", "--set", IMAGES]);
    args.extend(values.iter().flat_map(|value| ["--set", value]));
    args.extend(kinds.iter().flat_map(|kind| ["--api-versions", kind]));
    let output = stack.helm(&args)?;
    ensure!(output.status.success(), "helm: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The rules of its PrometheusRule, as Prometheus itself reads them.
///
/// # Errors
/// As [`rendered`]; when there are none.
pub fn rules(stack: &Stack, values: &[&str]) -> Result<String> {
    let text = rendered(stack, "prometheusrule.yaml", values, &PROMETHEUS_KINDS)?;
    let (_, spec) = text.split_once("\nspec:\n").context("no rules were rendered")?;
    Ok(spec.lines().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect())
}
