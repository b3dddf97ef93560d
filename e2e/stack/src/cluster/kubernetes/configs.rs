//! Configuration files of the cluster's processes, as data: rendered, never pasted together.
//!
//! Settings that look odd are for machines where root lacks CAP_SYS_RESOURCE, cgroups are of
//! version 1, or there is no swap control: each says why.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::addons::PAUSE_IMAGE;
use super::pki;
use crate::cluster::node::{CGROUP, CLUSTER_DNS, NODE_IP, NODE_NAME, POD_RANGE};
use crate::error::{Result, StackError};
use crate::paths::Paths;
use crate::service::write_file;

/// Where the stack's own containerd answers, inside the node.
pub(crate) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// Pods at once on the node; the pod range holds 65,000 addresses.
const MAX_PODS: u32 = 110;
/// A pod's log is rotated at this size: a test that runs wild must not fill the disk, and one of
/// log files sees many rotations within a minute.
const CONTAINER_LOG_LIMIT: &str = "2Mi";
/// How often the kubelet compares logs with that size; its default is 10 s.
const CONTAINER_LOG_INTERVAL: &str = "3s";

/// The file of what the API server writes to its audit log.
pub(super) const AUDIT_POLICY: &str = "audit-policy.yaml";

/// Writes every configuration file. Contents depend on the state folder alone, so writing them
/// again changes nothing.
pub(crate) fn write_configs(paths: &Paths) -> Result<()> {
    paths.state_dir("conf/cni")?;
    write_file(&paths.conf("containerd.toml"), &containerd(paths))?;
    write_json(paths, "cni/10-millrace.conflist", &pod_network())?;
    write_json(paths, AUDIT_POLICY, &audit_policy())?;
    write_json(paths, "kubelet.yaml", &kubelet(paths))?;
    write_json(paths, "kube-proxy.yaml", &proxy(paths))?;
    let name_server = format!("nameserver {CLUSTER_DNS}\nsearch cluster.local\n");
    write_file(&paths.conf("resolv.conf"), &name_server)?;
    for user in ["kubelet", "controller-manager", "scheduler", "proxy"] {
        write_json(paths, &format!("{user}.kubeconfig"), &kubeconfig(paths, user)?)?;
    }
    let admin = yaml("the kubeconfig", &kubeconfig(paths, "admin")?)?;
    Ok(write_file(&paths.kubeconfig(), &admin)?)
}

fn write_json(paths: &Paths, file: &str, value: &Value) -> Result<()> {
    // JSON is YAML too, and what the readers of these files make of it leaves no doubt.
    Ok(write_file(&paths.conf(file), &format!("{value:#}\n"))?)
}

fn yaml(what: &str, value: &Value) -> Result<String> {
    serde_norway::to_string(value)
        .map_err(|error| StackError::Render { what: what.to_owned(), problem: error.to_string() })
}

/// A kubeconfig that carries its keys, so that it works from anywhere on the machine.
fn kubeconfig(paths: &Paths, user: &str) -> Result<Value> {
    let data = |file: String| -> Result<String> { Ok(base64(pki::read(paths, &file)?.as_bytes())) };
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "millrace", "cluster": {
            "server": format!("https://{NODE_IP}:6443"),
            "certificate-authority-data": data("ca.crt".to_owned())?,
        }}],
        "users": [{"name": user, "user": {
            "client-certificate-data": data(format!("{user}.crt"))?,
            "client-key-data": data(format!("{user}.key"))?,
        }}],
        "contexts": [{"name": "millrace", "context": {"cluster": "millrace", "user": user}}],
        "current-context": "millrace",
    }))
}

/// Standard base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for position in 0..4 {
            let index = (group >> (18 - 6 * position)) & 63;
            let letter = char::from(ALPHABET[index as usize]);
            text.push(if position <= chunk.len() { letter } else { '=' });
        }
    }
    text
}

fn containerd(paths: &Paths) -> String {
    let state = paths.state().display();
    let snapshotter = snapshotter(paths.state());
    let cri = "io.containerd.grpc.v1.cri";
    // restrict_oom_score_adj: without CAP_SYS_RESOURCE a score can't be lowered, and runc then ends
    // with "can't get final child's PID from pipe".
    format!(
        r#"version = 2
root = "{state}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{state}/opt"

[plugins."{cri}"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true

[plugins."{cri}".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{state}/conf/cni"

[plugins."{cri}".containerd]
  snapshotter = "{snapshotter}"
  default_runtime_name = "runc"

[plugins."{cri}".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."{cri}".containerd.runtimes.runc.options]
  SystemdCgroup = false
"#
    )
}

/// An overlay cannot lie on an overlay, which is what a state folder inside a container is on.
fn snapshotter(state: &Path) -> &'static str {
    let kind = Command::new("stat").args(["--file-system", "--format=%T"]).arg(state).output();
    match kind {
        Ok(output) if output.stdout.starts_with(b"overlay") => "native",
        _ => "overlayfs",
    }
}

/// Pods on a bridge of the node. There is no masquerade: the host has routes to them.
fn pod_network() -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "millrace",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": POD_RANGE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
        ],
    })
}

/// Requests of pods' accounts, without their bodies. A watch is written when it begins: it may outlive
/// the tests.
fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            {"level": "None", "nonResourceURLs": ["*"]},
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        ],
    })
}

fn kubelet(paths: &Paths) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_IP,
        "tlsCertFile": paths.pki("kubelet-server.crt"),
        "tlsPrivateKeyFile": paths.pki("kubelet-server.key"),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": paths.pki("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "clusterDNS": [CLUSTER_DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": paths.conf("resolv.conf"),
        "volumePluginDir": paths.state().join("volume-plugins"),
        "maxPods": MAX_PODS,
        "containerLogMaxSize": CONTAINER_LOG_LIMIT,
        "containerLogMonitorInterval": CONTAINER_LOG_INTERVAL,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{CGROUP}"),
        // Version 1 machines are still served, swap is left alone, and the node's own processes
        // are in no pod's cgroup.
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        // Only real memory pressure evicts: a developer's disk is often nearly full.
        "evictionHard": {"memory.available": "100Mi"},
        // Images come from archives and can't be pulled again, so none is ever collected.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    })
}

fn proxy(paths: &Paths) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": paths.conf("proxy.kubeconfig")},
        "hostnameOverride": NODE_NAME,
        "mode": "nftables",
        "clusterCIDR": POD_RANGE,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        // Zero leaves the machine's own connection tracking limits alone.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::base64;

    /// The examples of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        let examples =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in examples {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
