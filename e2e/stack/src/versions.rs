//! The versions the stack runs, in one place. A cluster of one set is not resumed by another.

/// Kubernetes, every binary of it.
pub const KUBERNETES: &str = "v1.34.4";
/// The version of Kubernetes' staging modules that belongs to [`KUBERNETES`].
pub const KUBERNETES_STAGING: &str = "v0.34.4";
/// etcd.
pub const ETCD: &str = "v3.6.5";
/// CoreDNS.
pub const COREDNS: &str = "v1.12.4";
/// Helm.
pub const HELM: &str = "v3.22.0";
/// The OpenTelemetry Collector that ours is compared with; no part of a cluster.
pub const OTELCOL: &str = "v0.155.0";
/// Goes up when the parts in `otelcol/manifest.yaml` change: a build with other parts is another.
pub const OTELCOL_PARTS: u32 = 2;
/// The same of `otelcol/scrape.yaml`.
pub const OTELCOL_SCRAPER_PARTS: u32 = 1;
/// VictoriaLogs, of which vlagent is built; no part of a cluster.
pub const VLAGENT: &str = "v1.52.1";
/// VictoriaMetrics, of which vmagent is built; no part of a cluster. Later ones need Go 1.27.
pub const VMAGENT: &str = "v1.151.0";
/// Our own pause program; goes up when `pause/main.go` changes.
pub const PAUSE: &str = "v1";
/// The oldest Go that builds [`KUBERNETES`] (the `go` line of its module file).
pub const OLDEST_GO: (u32, u32) = (1, 24);

/// One line that names all of them and the layout of the state folder.
#[must_use]
pub fn fingerprint() -> String {
    format!("layout 1, kubernetes {KUBERNETES}, etcd {ETCD}, coredns {COREDNS}, pause {PAUSE}\n")
}
