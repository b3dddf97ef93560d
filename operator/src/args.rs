//! The command line, read once and resolved into checked values.
//!
//! Nothing here has an effect. No secret is ever given by argument.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::console::{Access, AccessError};
use crate::context::TagDigest;
use crate::lease::Terms;
use crate::outbound::Pattern;
use crate::telemetry::export::ExportArgs;

/// Runs the Millrace operator.
#[derive(Clone, Debug, Parser)]
#[command(name = "millrace-operator", version)]
pub struct Args {
    /// Look after this namespace only; may be given several times. Without it: all namespaces.
    #[arg(long = "watch-namespace", env = "MILLRACE_WATCH_NAMESPACES", value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,

    /// What this cluster is called in the records of who holds topics, consumer groups and tables:
    /// letters, digits, dots, dashes; unlike any other cluster that shares Kafka or ClickHouse.
    /// Without it: the uid of the namespace kube-system.
    #[arg(long, env = "MILLRACE_CLUSTER_ID", value_parser = cluster_id)]
    pub cluster_id: Option<String>,

    /// Watch Secrets (their metadata), so that a changed one reaches edge pools at once. Needs the
    /// rights to list and watch them. Without it they are read by name every 30 s.
    #[arg(long, env = "MILLRACE_WATCH_SECRETS")]
    pub watch_secrets: bool,

    /// A host that specs may name for Kafka and ClickHouse, or a domain (*.example.com); may be
    /// given several times. Without it: all but link-local addresses, which never are.
    #[arg(long = "allowed-host", env = "MILLRACE_ALLOWED_HOSTS", value_delimiter = ',')]
    pub allowed_hosts: Vec<Pattern>,

    /// Repository of collector images; the tag is made of the version and the allocator.
    #[arg(
        long,
        env = "MILLRACE_COLLECTOR_IMAGE_REPOSITORY",
        default_value = "docker.io/millrace/collector"
    )]
    pub collector_image_repository: String,

    /// The digest of a tag in that repository, TAG=sha256:DIGEST; may be given several times. Pods
    /// then run the tag's image by digest, and a registry can't give them another one.
    #[arg(long = "collector-digest", env = "MILLRACE_COLLECTOR_DIGESTS", value_delimiter = ',')]
    pub collector_digests: Vec<TagDigest>,

    /// Leave user and group ids out of collectors' pods, where the cluster assigns them
    /// (OpenShift). A change replaces the pods.
    #[arg(long, env = "MILLRACE_CLUSTER_ASSIGNS_USER_IDS")]
    pub cluster_assigns_user_ids: bool,

    /// The ClusterRoleBinding whose subjects may watch pods: accounts of pools that read
    /// containers' files are put there. Without it that right is given by others.
    #[arg(long, env = "MILLRACE_POD_ACCESS_BINDING")]
    pub pod_access_binding: Option<String>,

    /// The ClusterRoleBinding whose subjects may watch namespaces: accounts of pools that choose
    /// namespaces by labels are put there. Without it that right is given by others.
    #[arg(long, env = "MILLRACE_NAMESPACE_ACCESS_BINDING")]
    pub namespace_access_binding: Option<String>,

    /// A namespace whose pools may look for monitors and targets in other namespaces too; may be
    /// given several times; * means all. Without it: pools look into their own namespace alone.
    #[arg(
        long = "discovery-namespace",
        env = "MILLRACE_DISCOVERY_NAMESPACES",
        value_delimiter = ','
    )]
    pub discovery_namespaces: Vec<String>,

    /// Gather the Secrets and keys of ConfigMaps that monitors name into a Secret of the pool that
    /// scrapes by them. Needs the rights to create and patch Secrets. Without it such monitors are
    /// left out.
    #[arg(long, env = "MILLRACE_GATHER_SECRETS")]
    pub gather_secrets: bool,

    /// The ClusterRole with which pods that scrape targets read their shares: the operator binds
    /// it to their accounts, in their namespaces. Without it that right is given by others.
    #[arg(long, env = "MILLRACE_SHARE_ROLE")]
    pub share_role: Option<String>,

    /// Where /livez, /readyz and /metrics are served.
    #[arg(long, env = "MILLRACE_ADMIN_ADDRESS", default_value = "0.0.0.0:8080")]
    pub admin_address: SocketAddr,

    /// Where the console is served: read-only pages about pipelines. Without it: nowhere.
    #[arg(long, env = "MILLRACE_CONSOLE_ADDRESS")]
    pub console_address: Option<SocketAddr>,

    /// A file with the token that the console asks for: 32 to 1024 bytes. Without it the console's
    /// address must be a loopback one, or --console-guarded given.
    #[arg(long, env = "MILLRACE_CONSOLE_TOKEN_FILE", requires = "console_address")]
    pub console_token_file: Option<PathBuf>,

    /// Serve the console without a token on an address that others can reach: a NetworkPolicy must
    /// admit nobody but the API server, whose proxy then says who may look.
    #[arg(long, env = "MILLRACE_CONSOLE_GUARDED", requires = "console_address")]
    pub console_guarded: bool,

    /// Do nothing but say whether an operator works here: the kinds are served, and a replica holds
    /// the lease and renews it. Ends within a minute or so, with an error if not.
    #[arg(long)]
    pub check: bool,

    /// What to log: a level, or target=level pairs. Watch errors are logged by the operator itself.
    #[arg(
        long,
        env = "MILLRACE_LOG",
        default_value = "info,kube_client=error,kube_runtime=error,tower=error"
    )]
    pub log: String,

    /// Namespace of the lease; the operator's own unless said.
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

impl Args {
    /// The lease's timing.
    #[must_use]
    pub fn lease_terms(&self) -> Terms {
        Terms { duration: Duration::from_secs(self.lease_duration_seconds) }
    }

    /// Where the console is served, and to whom; none if it isn't.
    ///
    /// # Errors
    /// When anybody could look.
    pub fn console(&self) -> Result<Option<(SocketAddr, Access)>, AccessError> {
        let Some(address) = self.console_address else { return Ok(None) };
        let access = Access::of(address, self.console_token_file.clone(), self.console_guarded)?;
        Ok(Some((address, access)))
    }

    /// This replica's identity. Outside a pod, the process id keeps two replicas apart.
    #[must_use]
    pub fn identity(&self) -> String {
        self.pod_name.clone().unwrap_or_else(|| format!("millrace-operator-{}", std::process::id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: namespaces come by environment as one list. Guarantee: each is its own.
    #[test]
    fn namespaces_are_split_at_commas() {
        let args = Args::parse_from(["millrace-operator", "--watch-namespace", "a,b"]);
        assert_eq!(args.watch_namespaces, ["a", "b"]);
    }

    /// Scenario: names of clusters, with a slash or none at all among them. Guarantee: what would
    /// be read otherwise from a record is refused.
    #[test]
    fn a_clusters_name_has_no_slash() {
        let parsed = |id: &str| Args::try_parse_from(["millrace-operator", "--cluster-id", id]);
        assert_eq!(parsed("prod-eu.1").unwrap().cluster_id.as_deref(), Some("prod-eu.1"));
        assert!(parsed("prod/eu").is_err());
        assert!(parsed("").is_err());
    }

    /// Scenario: no console asked for; one on loopback; one that all could reach, without a token,
    /// with one, guarded, with both. Guarantee: off unless asked for, and never open by omission.
    #[test]
    fn the_console_is_off_and_never_open_by_omission() {
        let console = |line: &[&str]| {
            Args::try_parse_from([&["millrace-operator"][..], line].concat()).unwrap().console()
        };
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

    /// Scenario: a lease of one second. Guarantee: refused, the holder could never renew in time.
    #[test]
    fn a_lease_too_short_to_renew_is_refused() {
        let tried = Args::try_parse_from(["millrace-operator", "--lease-duration-seconds", "1"]);
        assert!(tried.is_err());
    }
}
