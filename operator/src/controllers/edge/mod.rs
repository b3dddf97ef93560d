//! EdgePool: collectors that receive telemetry and publish it to Kafka.
//!
//! The steps: `validate::draft_pool` checks the spec alone, `observe` reads the Secrets that it
//! names, `validate` joins the two, `build` makes the objects, `apply` writes those that differ
//! (the workload through `gate`, as `change` and `canary` decide). Then `observe` queries pods
//! about their nodes' logs (`node_logs` and `logs_lost` sum the answers), what the API server
//! refuses them (`watches`) and what they routed to other topics (`routes`), and `status` reports,
//! including scrape targets (`targets`). Only observe, apply, gate and status hold a client.

mod apply;
mod build;
mod canary;
mod change;
mod gate;
mod logs_lost;
mod node_logs;
mod observe;
mod refresh;
mod routes;
mod status;
mod targets;
mod unit;
mod validate;
mod watches;

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use millrace_crds::v1alpha1::EdgePool;

use self::apply::Applied;
use self::status::PoolState;
use crate::context::Context;
use crate::error::StepError;
use crate::pool::names::Role;
use crate::pool::scale;
use crate::pool::workload;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::watches::WatchBuilder;
use crate::reconcile::{Next, WatchScope};

/// The resync interval of a settled pool. It bounds the delay until a changed Secret, the pods'
/// reports of their nodes' logs, or the results of target sharing are observed.
const RESYNC: Duration = Duration::from_secs(30);
/// The resync interval of other pools, and of those whose Secrets are watched: it only covers
/// events that watches missed.
const RESYNC_QUIET: Duration = Duration::from_secs(300);
/// The resync interval during a trial (a pod takes a second or two) and before a rollback: no watch
/// reports either.
const RESYNC_VALIDATING: Duration = Duration::from_secs(2);
/// The resync interval while pods change: no watch reports their faults.
const RESYNC_MOVING: Duration = Duration::from_secs(5);

/// Reconciles edge pools.
pub struct EdgePools;

impl Reconciler for EdgePools {
    type Object = EdgePool;

    fn add_watches(watching: WatchBuilder<EdgePool>) -> WatchBuilder<EdgePool> {
        let owned = || WatchScope::role_config(Role::Edge);
        watching
            .owns_workload::<Deployment>(owned(), workload::observe_deployment)
            .owns_workload::<DaemonSet>(owned(), workload::observe_daemon_set)
            .owns_common_objects(owned)
            .refers_to_secrets()
    }

    fn forget(context: &Context, namespace: &str, name: &str) {
        context.references.set_secrets::<EdgePool>(namespace, name, std::iter::empty());
    }

    async fn reconcile(context: &Context, stored: &EdgePool) -> Result<Next, StepError> {
        let declared = scale::declared_pool(stored);
        let pool = &*declared;
        let outcome = Box::pin(apply_spec(context, pool)).await;
        let current = match &outcome {
            Ok(_) => scale::apply_replicas(context, stored, pool, build::declared_size(pool)).await,
            Err(_) => Cow::Borrowed(pool),
        };
        let reports = observe::observe_pods(context, &current, &outcome).await?;
        let state = status::report_status(context, &current, &outcome, &reports).await?;
        let Applied { desired, .. } = outcome.map_err(StepError::mark_reported)?;
        let is_watched = observe::is_watched(context, pool, &desired.secrets.0);
        Ok(match state {
            PoolState::Stable if is_watched => Next::Within(RESYNC_QUIET),
            PoolState::Stable => Next::After(RESYNC),
            PoolState::Validating => Next::After(RESYNC_VALIDATING),
            PoolState::Changing => Next::After(RESYNC_MOVING),
        })
    }
}

async fn apply_spec(context: &Context, pool: &EdgePool) -> Result<Applied, StepError> {
    let draft = validate::draft_pool(pool, &context.images)?;
    let observed = observe::observe_pool(context, pool, draft).await?;
    let validated = validate::validate_pool(pool, &observed)?;
    let objects = build::build_objects(&validated, context.share_role.as_deref());
    apply::apply_pool(context, pool, objects).await
}
