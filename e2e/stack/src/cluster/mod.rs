//! A Kubernetes in namespaces of this machine, and what runs in it.

pub mod argocd;
pub mod audit;
pub mod component;
pub mod flux;
mod guest;
pub(crate) mod kubernetes;
pub mod namespaces;
pub mod node;
pub mod numbered;
