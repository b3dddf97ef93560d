//! Watches the pods of gateway pools in one scope, reduced to what reconcilers read, for
//! [`crate::cache::gateway_pods`]. Wakes no pool: what a pod does reaches its StatefulSet's counts.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;

use crate::cache::gateway_pods::ScopeId;
use crate::context::Context;
use crate::pods::pages::PAGE;
use crate::pool::names::{PoolNames, Role};
use crate::pool::observe::strip_pod;
use crate::reconcile::watch_scope::WatchScope;
use crate::reconcile::watches::with_backoff;

/// Runs the watch until `stop` resolves.
pub async fn run(context: Arc<Context>, scope: WatchScope, stop: impl Future<Output = ()>) {
    let id = context.gateway_cache.pods.add_scope(scope.namespace());
    // The labels by which a pool selects its pods, and no others.
    let selector = PoolNames::role_selector_text(Role::Gateway);
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    let events = watcher(scope.scoped_api::<Pod>(), config);
    tokio::select! {
        () = record_pods(&context, id, events) => {}
        () = stop => {}
    }
}

/// Records the events of a watch.
async fn record_pods(
    context: &Arc<Context>,
    id: ScopeId,
    events: impl Stream<Item = Result<watcher::Event<Pod>, watcher::Error>> + Send + 'static,
) {
    let failed = context.clone();
    let events = events.inspect(move |event| {
        if event.is_err() {
            failed.gateway_cache.pods.record_failure(id, failed.clock.now());
        }
    });
    let mut events = Box::pin(with_backoff("GatewayPool", "Pod", &context.metrics, events));
    while let Some(event) = events.next().await {
        let Ok(event) = event else { continue };
        let event = event.modify(strip_pod);
        if context.gateway_cache.pods.record_event(id, event) {
            tracing::warn!("too many pods have the labels of gateways: pools list their pods");
        }
    }
}
