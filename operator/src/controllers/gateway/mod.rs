//! GatewayPool: collectors that read Kafka and write to ClickHouse, sized by consumer lag.
//!
//! The steps: `validate::draft_pool` checks the spec alone; `observe` reads Secrets, the live
//! StatefulSet, its pods and the lag; `validate` joins them, lets `size` decide the number of pods
//! and `rollout` how many may have a change; `build` makes the objects, `apply` writes those that
//! differ, `status` reports. Only observe, apply and status hold a client.

mod apply;
mod build;
mod deduplication;
mod observe;
mod observed;
mod resize;
mod resources;
mod retention_loss;
mod rollout;
mod settled;
mod size;
mod status;
mod template_resources;
mod validate;

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use millrace_crds::v1alpha1::GatewayPool;

use self::apply::Applied;
use self::retention_loss::Losses;
use crate::cache::claims::Claim;
use crate::context::Context;
use crate::error::StepError;
use crate::holders;
use crate::pool::names::Role;
use crate::pool::scale;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::watches::WatchBuilder;
use crate::reconcile::{Next, WatchScope};

/// The interval of lag observations; sizing windows are minutes, and `Ready` follows within this
/// time.
const RESYNC: Duration = Duration::from_secs(10);
/// The resync interval while pods change: no watch reports their faults.
const RESYNC_MOVING: Duration = Duration::from_secs(5);

/// Reconciles gateway pools.
pub struct GatewayPools;

impl Reconciler for GatewayPools {
    type Object = GatewayPool;

    const CLAIMS: bool = true;

    fn claim_of(pool: &GatewayPool) -> Option<Claim> {
        validate::claim_of_pool(pool)
    }

    fn add_watches(watching: WatchBuilder<GatewayPool>) -> WatchBuilder<GatewayPool> {
        let owned = || WatchScope::role_config(Role::Gateway);
        watching.owns::<StatefulSet>(owned()).owns_common_objects(owned).refers_to_secrets()
    }

    fn forget(context: &Context, namespace: &str, name: &str) {
        context.references.set_secrets::<GatewayPool>(namespace, name, std::iter::empty());
        deduplication::set_shortfall(&context.metrics, namespace, name, None);
    }

    async fn reconcile(context: &Context, stored: &GatewayPool) -> Result<Next, StepError> {
        let declared = scale::declared_pool(stored);
        let pool = &*declared;
        let mut losses = Losses::from_status(pool.status.as_ref());
        let outcome = Box::pin(apply_spec(context, pool, &mut losses)).await;
        let current = match outcome.as_ref().ok().and_then(Applied::replicas) {
            Some(size) => Box::pin(scale::apply_replicas(context, stored, pool, Some(size))).await,
            None => Cow::Borrowed(pool),
        };
        let reported = status::report_status(context, &current, &outcome, &losses);
        let settled = Box::pin(reported).await?;
        let Applied { decided, .. } = outcome.map_err(StepError::mark_reported)?;
        // A decision is stored only after it is applied and reported.
        decided.store(context, pool);
        Ok(Next::After(if settled { RESYNC } else { RESYNC_MOVING }))
    }
}

/// Each step's future is boxed: together they are too large for the stack.
async fn apply_spec(
    context: &Context,
    pool: &GatewayPool,
    losses: &mut Losses,
) -> Result<Applied, StepError> {
    let draft = validate::draft_pool(pool, &context.images)?;
    let observed = Box::pin(observe::observe_pool(context, pool, draft, losses)).await?;
    context.claims.check_conflict(pool)?;
    Box::pin(holders::check_pool_claim(context, pool, &observed.lag_query)).await?;
    let validated = validate::validate_pool(pool, &observed)?;
    let objects = build::build_objects(&validated);
    Box::pin(apply::apply_pool(context, pool, objects)).await
}
