//! The command lines of the cluster's processes. Pure: from the folders to a `Command`.

use std::path::Path;
use std::process::Command;

use super::configs::AUDIT_POLICY;
use crate::binaries::Binary;
use crate::cluster::audit::AUDIT_LOG;
use crate::cluster::node::{NODE_IP, NODE_NAME, POD_RANGE, SERVICE_RANGE};
use crate::paths::Paths;

/// etcd is reached over the node's loopback, which pods don't share.
const ETCD_URL: &str = "http://127.0.0.1:2379";
const ETCD_PEER_URL: &str = "http://127.0.0.1:2380";
/// What each of Kubernetes' controllers may ask of the API server. Its own default of 20 a second
/// is for clusters that many share; here it would be what every test of many objects waits for:
/// a DaemonSet costs its controller four requests, so 10,000 of them half an hour.
const CONTROLLER_REQUESTS_PER_SECOND: &str = "500";
/// As many at once as two seconds allow.
const CONTROLLER_REQUESTS_BURST: &str = "1000";
/// The audit log's bound: a file of this size and two older ones, 192 MB. A run of all cluster tests
/// writes some 10 MB.
const AUDIT_LOG_MEGABYTES: &str = "64";
const AUDIT_LOG_BACKUPS: &str = "2";

/// The API server's store.
pub(crate) fn etcd(paths: &Paths) -> Command {
    let mut command = Command::new(Binary::Etcd.path(paths));
    flag_path(&mut command, "data-dir", &paths.state().join("etcd"));
    flags(
        &mut command,
        &[
            ("name", NODE_NAME),
            ("listen-client-urls", ETCD_URL),
            ("advertise-client-urls", ETCD_URL),
            ("listen-peer-urls", ETCD_PEER_URL),
            ("initial-advertise-peer-urls", ETCD_PEER_URL),
            ("initial-cluster", &format!("{NODE_NAME}={ETCD_PEER_URL}")),
            // A test cluster need not survive a power cut, and its disk may be slow.
            ("unsafe-no-fsync", "true"),
            ("auto-compaction-retention", "1h"),
            ("logger", "zap"),
            ("log-level", "warn"),
        ],
    );
    command
}

/// The Kubernetes API.
pub(crate) fn api_server(paths: &Paths) -> Command {
    let mut command = Command::new(Binary::ApiServer.path(paths));
    let address = NODE_IP.to_string();
    flags(
        &mut command,
        &[
            ("advertise-address", address.as_str()),
            ("bind-address", &address),
            ("secure-port", "6443"),
            ("etcd-servers", ETCD_URL),
            ("service-cluster-ip-range", SERVICE_RANGE),
            ("authorization-mode", "Node,RBAC"),
            // The second holds owners to the rights on finalizers, as OpenShift does.
            ("enable-admission-plugins", "NodeRestriction,OwnerReferencesPermissionEnforcement"),
            // Policies that change objects, without a webhook's server.
            ("feature-gates", "MutatingAdmissionPolicy=true"),
            ("runtime-config", "admissionregistration.k8s.io/v1beta1=true"),
            ("anonymous-auth", "false"),
            // As clusters have it; which namespaces may run such pods is for pod security to say.
            ("allow-privileged", "true"),
            ("profiling", "false"),
            ("kubelet-preferred-address-types", "InternalIP"),
            ("service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
            ("audit-log-maxsize", AUDIT_LOG_MEGABYTES),
            ("audit-log-maxbackup", AUDIT_LOG_BACKUPS),
        ],
    );
    flag_path(&mut command, "audit-policy-file", &paths.conf(AUDIT_POLICY));
    flag_path(&mut command, "audit-log-path", &paths.log(AUDIT_LOG));
    for (flag, file) in [
        ("client-ca-file", "ca.crt"),
        ("tls-cert-file", "apiserver.crt"),
        ("tls-private-key-file", "apiserver.key"),
        ("kubelet-certificate-authority", "ca.crt"),
        ("kubelet-client-certificate", "kubelet-client.crt"),
        ("kubelet-client-key", "kubelet-client.key"),
        ("service-account-key-file", "service-account.pub"),
        ("service-account-signing-key-file", "service-account.key"),
    ] {
        flag_path(&mut command, flag, &paths.pki(file));
    }
    command
}

/// Kubernetes' own controllers.
pub(crate) fn controller_manager(paths: &Paths) -> Command {
    let mut command = Command::new(Binary::ControllerManager.path(paths));
    let kubeconfig = paths.conf("controller-manager.kubeconfig");
    flag_path(&mut command, "kubeconfig", &kubeconfig);
    for (flag, file) in [
        ("root-ca-file", "ca.crt"),
        ("cluster-signing-cert-file", "ca.crt"),
        ("cluster-signing-key-file", "ca.key"),
        ("service-account-private-key-file", "service-account.key"),
    ] {
        flag_path(&mut command, flag, &paths.pki(file));
    }
    flag_path(&mut command, "flex-volume-plugin-dir", &paths.state().join("volume-plugins"));
    flags(
        &mut command,
        &[
            ("bind-address", "127.0.0.1"),
            ("cluster-cidr", POD_RANGE),
            ("service-cluster-ip-range", SERVICE_RANGE),
            ("use-service-account-credentials", "true"),
            // There is one of it, so there is nobody to elect a leader from.
            ("leader-elect", "false"),
            ("authentication-skip-lookup", "true"),
            ("profiling", "false"),
            ("kube-api-qps", CONTROLLER_REQUESTS_PER_SECOND),
            ("kube-api-burst", CONTROLLER_REQUESTS_BURST),
        ],
    );
    command
}

/// Places pods on the node.
pub(crate) fn scheduler(paths: &Paths) -> Command {
    let mut command = Command::new(Binary::Scheduler.path(paths));
    flag_path(&mut command, "kubeconfig", &paths.conf("scheduler.kubeconfig"));
    flags(
        &mut command,
        &[
            ("bind-address", "127.0.0.1"),
            ("leader-elect", "false"),
            ("authentication-skip-lookup", "true"),
            ("profiling", "false"),
        ],
    );
    command
}

/// Runs containers, with the stack's own socket, root and configuration.
pub(crate) fn containerd(paths: &Paths) -> Command {
    let mut command = Command::new("containerd");
    flag_path(&mut command, "config", &paths.conf("containerd.toml"));
    flags(&mut command, &[("log-level", "warn")]);
    command
}

/// The node agent.
pub(crate) fn kubelet(paths: &Paths) -> Command {
    let mut command = Command::new(Binary::Kubelet.path(paths));
    flag_path(&mut command, "config", &paths.conf("kubelet.yaml"));
    flag_path(&mut command, "kubeconfig", &paths.conf("kubelet.kubeconfig"));
    let address = NODE_IP.to_string();
    flags(&mut command, &[("hostname-override", NODE_NAME), ("node-ip", &address)]);
    command
}

/// Makes services reachable.
pub(crate) fn proxy(paths: &Paths) -> Command {
    let mut command = Command::new(Binary::Proxy.path(paths));
    flag_path(&mut command, "config", &paths.conf("kube-proxy.yaml"));
    command
}

fn flags(command: &mut Command, flags: &[(&str, &str)]) {
    for (flag, value) in flags {
        command.arg(format!("--{flag}={value}"));
    }
}

fn flag_path(command: &mut Command, flag: &str, path: &Path) {
    command.arg(format!("--{flag}={}", path.display()));
}
