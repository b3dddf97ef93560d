//! Contains one folder per kind, with the same five steps: observe, validate, build, apply, status.
//!
//! A kind must not write a child, a status or an event itself: `cluster` and `report` do. A pool
//! may query `schema` about its tables, and a pipeline the kinds of its children; no other kind
//! knows another.

pub mod edge;
pub mod gateway;
pub mod pipeline;
pub mod schema;
pub mod topic;

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

use crate::context::Context;
use crate::reconcile::WatchScope;
use crate::reconcile::controller::{self, Reconciler};

/// What a controller runs with.
pub struct ControllerParts<S> {
    /// What reconciles share.
    pub context: Arc<Context>,
    /// The namespaces to watch.
    pub scope: WatchScope,
    /// Whether this replica leads.
    pub leads: watch::Receiver<bool>,
    /// Resolves when the process is to stop.
    pub stop: S,
}

/// Returns the controllers of all kinds, to be run at once.
pub fn all_controllers<S>(parts: &ControllerParts<S>) -> Vec<BoxFuture<'static, ()>>
where
    S: Future<Output = ()> + Clone + Send + Sync + 'static,
{
    vec![
        run_controller::<pipeline::Pipelines, S>(parts),
        run_controller::<edge::EdgePools, S>(parts),
        run_controller::<gateway::GatewayPools, S>(parts),
        run_controller::<topic::Topics, S>(parts),
        run_controller::<schema::Schemas, S>(parts),
    ]
}

fn run_controller<R, S>(parts: &ControllerParts<S>) -> BoxFuture<'static, ()>
where
    R: Reconciler,
    S: Future<Output = ()> + Clone + Send + Sync + 'static,
{
    let ControllerParts { context, scope, leads, stop } = parts;
    controller::run::<R>(context.clone(), scope.clone(), leads.clone(), stop.clone()).boxed()
}
