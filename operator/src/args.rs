//! The command line, read once and resolved into checked values.
//!
//! Nothing here has an effect. No secret is ever given by argument.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use millrace_console::links::{LinkTemplate, Links};

use crate::console::{Access, AccessError};
use crate::context::TagDigest;
use crate::lease::LeaseTiming;
use crate::outbound::Pattern;
use crate::telemetry::export::ExportArgs;

/// Runs the Millrace operator.
#[derive(Clone, Debug, Parser)]
#[command(name = "millrace-operator", version)]
pub struct Args {
    /// Watch only this namespace; repeatable. Default: all namespaces.
    #[arg(long = "watch-namespace", env = "MILLRACE_WATCH_NAMESPACES", value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,

    /// This cluster's name in the records of holders of topics, consumer groups and tables:
    /// letters, digits, dots, dashes; unique among clusters that share Kafka or ClickHouse.
    /// Default: the uid of the namespace kube-system.
    #[arg(long, env = "MILLRACE_CLUSTER_ID", value_parser = cluster_id)]
    pub cluster_id: Option<String>,

    /// Address of the documentation of this release, a book of HTML pages: statuses have it, and
    /// kubectl millrace links to its sections. Without it sections are named by their path.
    #[arg(long, env = "MILLRACE_DOCS_URL", value_parser = docs_url)]
    pub docs_url: Option<String>,

    /// Watch Secrets (their metadata), so that a changed one reaches pools at once. Needs the
    /// rights to list and watch them. Without it they are read by name: every 30 s, and for
    /// gateways that store everything in time every 5 minutes.
    #[arg(long, env = "MILLRACE_WATCH_SECRETS")]
    pub watch_secrets: bool,

    /// A host that specs may name for Kafka and ClickHouse, or a domain (*.example.com);
    /// repeatable. Default: all but loopback addresses and the API server. Link-local addresses are
    /// never allowed.
    #[arg(long = "allowed-host", env = "MILLRACE_ALLOWED_HOSTS", value_delimiter = ',')]
    pub allowed_hosts: Vec<Pattern>,

    /// A namespace whose pipelines and topics may use the operator's own AWS identity for Amazon
    /// MSK; may be given several times; * means all. Without it: they name access keys.
    #[arg(
        long = "aws-identity-namespace",
        env = "MILLRACE_AWS_IDENTITY_NAMESPACES",
        value_delimiter = ','
    )]
    pub aws_identity_namespaces: Vec<String>,

    /// The API server's address, which specs may not name. Kubernetes sets it.
    #[arg(long, env = "KUBERNETES_SERVICE_HOST", hide = true)]
    pub api_server_host: Option<String>,

    /// Repository of collector images; the tag is made of the version and the allocator. Required:
    /// no image is published yet.
    #[arg(long, env = "MILLRACE_COLLECTOR_IMAGE_REPOSITORY", required_unless_present = "check")]
    pub collector_image_repository: Option<String>,

    /// The digest of a tag in that repository, TAG=sha256:DIGEST; repeatable. Pods then run the
    /// tag's image by digest, which no registry can replace.
    #[arg(long = "collector-digest", env = "MILLRACE_COLLECTOR_DIGESTS", value_delimiter = ',')]
    pub collector_digests: Vec<TagDigest>,

    /// Omit user and group ids from collectors' pods, where the cluster assigns them (OpenShift). A
    /// change replaces the pods.
    #[arg(long, env = "MILLRACE_CLUSTER_ASSIGNS_USER_IDS")]
    pub cluster_assigns_user_ids: bool,

    /// The ClusterRoleBinding whose subjects may watch pods: the operator adds the accounts of
    /// pools that read containers' files. Without it the right is granted by other means.
    #[arg(long, env = "MILLRACE_POD_ACCESS_BINDING")]
    pub pod_access_binding: Option<String>,

    /// The ClusterRoleBinding whose subjects may watch namespaces: the operator adds the accounts
    /// of pools that select namespaces by label. Without it the right is granted by other means.
    #[arg(long, env = "MILLRACE_NAMESPACE_ACCESS_BINDING")]
    pub namespace_access_binding: Option<String>,

    /// A namespace whose pools may use monitors and targets in other namespaces too; repeatable;
    /// * means all. Without it, pools use only their own namespace.
    #[arg(
        long = "discovery-namespace",
        env = "MILLRACE_DISCOVERY_NAMESPACES",
        value_delimiter = ','
    )]
    pub discovery_namespaces: Vec<String>,

    /// Copy the Secrets and keys of ConfigMaps that monitors name into a Secret of the pool that
    /// scrapes by them. Requires the rights to create and patch Secrets. Without it such monitors
    /// are skipped.
    #[arg(long, env = "MILLRACE_GATHER_SECRETS")]
    pub gather_secrets: bool,

    /// The ClusterRole with which pods that scrape targets read their shares: the operator binds
    /// it to their accounts, in their namespaces. Without it the right is granted by other means.
    #[arg(long, env = "MILLRACE_SHARE_ROLE")]
    pub share_role: Option<String>,

    /// Where /livez, /readyz and /metrics are served; [::] means all IPv6 and IPv4 addresses.
    #[arg(long, env = "MILLRACE_ADMIN_ADDRESS", default_value = "[::]:8080")]
    pub admin_address: SocketAddr,

    /// A file with the bearer token that scrapes of /metrics require: 32 to 1024 bytes. Without it
    /// every client that reaches the admin port gets metrics.
    #[arg(long, env = "MILLRACE_METRICS_TOKEN_FILE")]
    pub metrics_token_file: Option<PathBuf>,

    /// Address on which the console is served: read-only pages about pipelines. Default: none.
    #[arg(long, env = "MILLRACE_CONSOLE_ADDRESS")]
    pub console_address: Option<SocketAddr>,

    /// A file with the token that the console requires: 32 to 1024 bytes. Without it the console's
    /// address must be a loopback one, or --console-guarded given.
    #[arg(long, env = "MILLRACE_CONSOLE_TOKEN_FILE", requires = "console_address")]
    pub console_token_file: Option<PathBuf>,

    /// Serve the console without a token on an address that others can reach: a NetworkPolicy must
    /// admit nobody but the API server, whose proxy then decides who has access.
    #[arg(long, env = "MILLRACE_CONSOLE_GUARDED", requires = "console_address")]
    pub console_guarded: bool,

    /// The URL of a pipeline's dashboard in Grafana, for the console; {namespace} and {pipeline}
    /// are replaced.
    #[arg(long, env = "MILLRACE_CONSOLE_GRAFANA_URL", requires = "console_address")]
    pub console_grafana_url: Option<LinkTemplate>,

    /// The URL of a table's query in ClickHouse, for the console; {database}, {table}, {signal},
    /// {namespace} and {pipeline} are replaced.
    #[arg(long, env = "MILLRACE_CONSOLE_CLICKHOUSE_URL", requires = "console_address")]
    pub console_clickhouse_url: Option<LinkTemplate>,

    /// Only check whether an operator works here: the kinds are served, and a replica holds the
    /// lease and renews it. Ends within about a minute, with an error if not.
    #[arg(long)]
    pub check: bool,

    /// What to log: a level, or target=level pairs. Watch errors are logged by the operator itself.
    #[arg(
        long,
        env = "MILLRACE_LOG",
        default_value = "info,kube_client=error,kube_runtime=error,tower=error"
    )]
    pub log: String,

    /// Namespace of the lease. Default: the operator's own.
    #[arg(long, env = "MILLRACE_LEASE_NAMESPACE")]
    pub lease_namespace: Option<String>,

    /// Name of the lease; operators that watch different namespaces need different names.
    #[arg(long, env = "MILLRACE_LEASE_NAME", default_value = "millrace-operator")]
    pub lease_name: String,

    /// Another replica may take over this long after the last renewal.
    #[arg(
        long,
        env = "MILLRACE_LEASE_DURATION_SECONDS",
        default_value_t = crate::lease::LEASE_DURATION_DEFAULT.as_secs(),
        value_parser = clap::value_parser!(u64).range(2..=300)
    )]
    pub lease_duration_seconds: u64,

    /// Name of this replica, unlike that of any other; the pod's name in a cluster.
    #[arg(long, env = "POD_NAME")]
    pub pod_name: Option<String>,

    /// Own traces and logs.
    #[command(flatten)]
    pub export: ExportArgs,
}

/// The longest name of a cluster: a label's; a uid is shorter.
const CLUSTER_ID_BYTES_MAX: usize = 63;

fn cluster_id(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    match !text.is_empty() && text.len() <= CLUSTER_ID_BYTES_MAX && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "use 1 to {CLUSTER_ID_BYTES_MAX} letters, digits, dots, dashes and underscores"
        )),
    }
}

/// The longest address of the documentation; the status field's limit.
const DOCS_URL_BYTES_MAX: usize = 300;

fn docs_url(text: &str) -> Result<String, String> {
    let is_http = text.starts_with("http://") || text.starts_with("https://");
    let is_plain = !text.contains(|it: char| it.is_whitespace() || it.is_control() || it == '#');
    match is_http && is_plain && text.len() <= DOCS_URL_BYTES_MAX {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "use http:// or https:// and at most {DOCS_URL_BYTES_MAX} bytes, without blanks and #"
        )),
    }
}

impl Args {
    /// The lease's timing.
    #[must_use]
    pub fn lease_timing(&self) -> LeaseTiming {
        LeaseTiming { duration: Duration::from_secs(self.lease_duration_seconds) }
    }

    /// Where the console is served, and to whom; none if it isn't.
    ///
    /// # Errors
    /// When anybody would have access.
    pub fn console_endpoint(&self) -> Result<Option<(SocketAddr, Access)>, AccessError> {
        let Some(address) = self.console_address else { return Ok(None) };
        let access =
            Access::from_args(address, self.console_token_file.clone(), self.console_guarded)?;
        Ok(Some((address, access)))
    }

    /// Returns the templates of the console's links.
    #[must_use]
    pub fn console_links(&self) -> Links {
        Links {
            grafana: self.console_grafana_url.clone(),
            clickhouse: self.console_clickhouse_url.clone(),
        }
    }

    /// This replica's identity. Outside a pod, the process id distinguishes two replicas.
    #[must_use]
    pub fn replica_identity(&self) -> String {
        self.pod_name.clone().unwrap_or_else(|| format!("millrace-operator-{}", std::process::id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command line with what is required.
    fn parsed(line: &[&str]) -> Result<Args, clap::Error> {
        let required = ["millrace-operator", "--collector-image-repository=r/c"];
        Args::try_parse_from([&required[..], line].concat())
    }

    /// Scenario: no repository of collectors' images, for an operator and for `--check`. Guarantee:
    /// only the second, which starts none, goes without.
    #[test]
    fn an_operator_names_the_repository_of_collectors() {
        assert!(Args::try_parse_from(["millrace-operator"]).is_err());
        assert!(Args::try_parse_from(["millrace-operator", "--check"]).is_ok());
        assert!(parsed(&[]).is_ok());
    }

    /// Scenario: addresses of the documentation. Guarantee: only addresses of web pages pass.
    #[test]
    fn the_documentation_has_the_address_of_a_web_page() {
        for good in ["https://docs.example.com/millrace/0.1.0", "http://docs.local"] {
            assert_eq!(parsed(&["--docs-url", good]).unwrap().docs_url.as_deref(), Some(good));
        }
        for bad in ["docs/", "javascript:alert(1)", "https://a b", "https://a#b"] {
            assert!(parsed(&["--docs-url", bad]).is_err(), "{bad}");
        }
    }

    /// Scenario: namespaces come by environment as one list. Guarantee: each is its own.
    #[test]
    fn namespaces_are_split_at_commas() {
        let args = parsed(&["--watch-namespace", "a,b"]).unwrap();
        assert_eq!(args.watch_namespaces, ["a", "b"]);
    }

    /// Scenario: names of clusters, with a slash or none at all among them. Guarantee: what would
    /// be read otherwise from a record is refused.
    #[test]
    fn a_clusters_name_has_no_slash() {
        let parsed = |id: &str| parsed(&["--cluster-id", id]);
        assert_eq!(parsed("prod-eu.1").unwrap().cluster_id.as_deref(), Some("prod-eu.1"));
        assert!(parsed("prod/eu").is_err());
        assert!(parsed("").is_err());
    }

    /// Scenario: no console asked for; one on loopback; one that all could reach, without a token,
    /// with one, guarded, with both. Guarantee: off unless asked for, and never open by omission.
    #[test]
    fn the_console_is_off_and_never_open_by_omission() {
        let console = |line: &[&str]| parsed(line).unwrap().console_endpoint();
        let (all, file) = ("--console-address=0.0.0.0:8081", "--console-token-file=/t/token");
        assert_eq!(console(&[]), Ok(None));
        let own = "127.0.0.1:8081".parse().unwrap();
        assert_eq!(
            console(&["--console-address=127.0.0.1:8081"]),
            Ok(Some((own, Access::Loopback)))
        );
        let any = "0.0.0.0:8081".parse().unwrap();
        assert_eq!(console(&[all]), Err(AccessError::Open(any)));
        assert_eq!(console(&[all, file]), Ok(Some((any, Access::Token("/t/token".into())))));
        assert_eq!(console(&[all, "--console-guarded"]), Ok(Some((any, Access::Guarded))));
        assert_eq!(console(&[all, file, "--console-guarded"]), Err(AccessError::Both));
    }

    /// Scenario: a dashboard's URL; one with another scheme. Guarantee: the first is a template,
    /// the second ends the start with the cause.
    #[test]
    fn links_of_the_console_are_checked_at_the_start() {
        let with = |url: &str| {
            let url = format!("--console-grafana-url={url}");
            parsed(&["--console-address=127.0.0.1:8081", &url])
        };
        let links = with("https://g.example/d/x?var-pool={pipeline}").unwrap().console_links();
        assert!(links.grafana.is_some() && links.clickhouse.is_none());
        let refused = with("javascript:alert(1)").unwrap_err().to_string();
        assert!(refused.contains("must begin with https:// or http://"), "{refused}");
    }

    /// Scenario: a lease of one second. Guarantee: refused, the holder could never renew in time.
    #[test]
    fn a_lease_too_short_to_renew_is_refused() {
        assert!(parsed(&["--lease-duration-seconds", "1"]).is_err());
    }
}
