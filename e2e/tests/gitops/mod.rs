//! Argo CD syncs our charts and pipelines from a repository, in the local cluster: what it says of
//! them in each state, what it finds different, and what is left when it deletes them. Flux syncs
//! pipelines beside it. `make argocd` brings up what they need: the stack, our images, Argo CD,
//! Flux, and no operator.
//!
//! The tests share one cluster and its one operator, so they run one after the other.

mod application;
mod changes;
mod deletion;
mod flux;
mod health;
mod install;
mod kustomization;
mod pipeline;
mod waves;
mod world;
