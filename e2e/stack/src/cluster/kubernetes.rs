//! A single-node Kubernetes inside the node: its keys, its configuration, the commands of its
//! processes, and what is applied to it once it answers.
//!
//! Nothing here starts a process; `stack` does, in order.

mod addons;
pub(crate) mod commands;
mod configs;
mod pki;

pub(crate) use addons::{COREDNS_IMAGE, PAUSE_IMAGE, coredns_manifest};
pub(crate) use configs::{CONTAINERD_SOCKET, write_configs};
pub(crate) use pki::write_pki;
