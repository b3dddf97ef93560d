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
/// cosign, which signs releases; no part of a cluster.
pub const COSIGN: &str = "v2.6.5";
/// Krew, which installs kubectl's plugins; no part of a cluster.
pub const KREW: &str = "v0.4.4";
/// The OpenTelemetry Collector that ours is compared with; no part of a cluster.
pub const OTELCOL: &str = "v0.155.0";
/// Goes up when the parts in `otelcol/manifest.yaml` change: a build with other parts is another.
pub const OTELCOL_PARTS: u32 = 2;
/// The same of `otelcol/rules.yaml`.
pub const OTELCOL_RULES_PARTS: u32 = 1;
/// The same of `otelcol/scrape.yaml`.
pub const OTELCOL_SCRAPER_PARTS: u32 = 1;
/// VictoriaLogs, of which vlagent is built; no part of a cluster.
pub const VLAGENT: &str = "v1.52.1";
/// VictoriaMetrics, of which vmagent is built; no part of a cluster. Later ones need Go 1.27.
pub const VMAGENT: &str = "v1.151.0";
/// Argo CD, which syncs manifests/argocd in a test; no part of a cluster.
pub const ARGOCD: &str = "v3.6.1";
/// Goes up when `argocd/redis/main.go` changes.
pub const ARGOCD_REDIS: u32 = 1;
/// Flux' rules of what a status means.
pub const KSTATUS: &str = "v1.4.0";
/// Flux' evaluator of the expressions that may stand in their place.
pub const FLUX_RUNTIME: &str = "v0.122.0";
/// The types that those are written in.
pub const FLUX_KUSTOMIZE: &str = "v1.23.0";
/// Goes up when `kstatus/main.go` changes.
pub const KSTATUS_PROGRAM: u32 = 2;
/// Flux' controller of Kustomizations, which applies manifests/flux in a test, and the kinds of
/// sources. The module proxy refuses parts of 1.10.
pub const FLUX: &str = "v1.9.6";
/// What Operator Lifecycle Manager's catalogs are made with, for its checks of bundles.
pub const OPERATOR_REGISTRY: &str = "v1.74.0";
/// Goes up when `olm/main.go` changes.
pub const OLM_CHECK: u32 = 1;
/// The Go that builds [`ARGOCD`], [`FLUX`], [`KSTATUS`] and [`OPERATOR_REGISTRY`], newer than
/// [`OLDEST_GO`]: Go fetches it itself.
pub const NEWER_GO: &str = "go1.27.4";
/// Our own pause program; goes up when `pause/main.go` changes.
pub const PAUSE: &str = "v1";
/// The oldest Go that builds [`KUBERNETES`] (the `go` line of its module file).
pub const OLDEST_GO: (u32, u32) = (1, 24);

/// One line that names all of them and the layout of the state folder.
#[must_use]
pub fn fingerprint() -> String {
    format!("layout 2, kubernetes {KUBERNETES}, etcd {ETCD}, coredns {COREDNS}, pause {PAUSE}\n")
}
