//! Names of the volumes of a pool's pods.

use super::discover::MONITORS_VOLUME;
use super::secrets::SECRETS_VOLUME;

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
