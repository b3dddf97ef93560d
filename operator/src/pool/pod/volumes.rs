//! The volumes of a pool's pods: their names, and how they are mounted. Pure.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};

/// The volume with the pool's Secrets and CAs.
pub const SECRETS_VOLUME: &str = "secrets";
/// The volume with the secrets of monitors.
pub const MONITORS_VOLUME: &str = "monitors";
/// The buffer's volume.
pub const BUFFER_VOLUME: &str = "buffer";
/// The volume with the node's logs.
pub const NODE_LOGS_VOLUME: &str = "node-logs";
/// The volume with Docker's log files of a node. It has the node's path in the pod, since links
/// point there.
pub const DOCKER_LOGS_VOLUME: &str = "docker-logs";
/// The volume with the kernel log's device.
pub const KMSG_VOLUME: &str = "kmsg";
/// The volume with the position directory.
pub const POSITIONS_VOLUME: &str = "positions";
/// The volume with the configuration.
pub const CONFIG_VOLUME: &str = "config";
/// The volume names that no spec may use, whether a pool has the volumes or not.
pub const OUR_VOLUMES: [&str; 8] = [
    CONFIG_VOLUME,
    SECRETS_VOLUME,
    MONITORS_VOLUME,
    BUFFER_VOLUME,
    NODE_LOGS_VOLUME,
    DOCKER_LOGS_VOLUME,
    KMSG_VOLUME,
    POSITIONS_VOLUME,
];

/// Returns a volume with its mount at `path`.
pub(in crate::pool) fn mount_volume(
    volume: Volume,
    path: &str,
    is_read_only: bool,
) -> (Volume, VolumeMount) {
    let mount = VolumeMount {
        name: volume.name.clone(),
        mount_path: path.into(),
        read_only: is_read_only.then_some(true),
        ..VolumeMount::default()
    };
    (volume, mount)
}
