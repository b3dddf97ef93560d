//! GatewayPool: collectors that read Kafka and write to ClickHouse, sized by consumer lag.
//!
//! The steps: `validate::draft` checks the spec alone; `observe` reads Secrets, the live
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

use self::retention_loss::Losses;
use crate::cache::claims::Claim;
use crate::context::Context;
use crate::error::StepError;
use crate::holders;
use crate::pool::names::Role;
use crate::pool::preflight::is_violation;
use crate::pool::scale;
use crate::pool::status::{PoolOutcome, invalid_resync};
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

    async fn reconcile(context: &Context, stored: &GatewayPool) -> Result<Next, StepError> {
        let declared = scale::declared_pool(stored);
        let pool = &*declared;
        let mut losses = Losses::from_status(pool.status.as_ref());
        let outcome = match validate::draft_pool(pool, &context.images) {
            Err(invalid) => PoolOutcome::Invalid { invalid, live: None },
            Ok(draft) => {
                // Each step's future is boxed: together they are too large for the stack.
                let observed = Box::pin(observe::observe_pool(context, pool, draft)).await?;
                losses = observed.losses.clone();
                let held = match context.claims.find_conflict(pool) {
                    Some(held) => Some(held),
                    None => {
                        Box::pin(holders::check_pool_claim(context, pool, &observed.lag_query))
                            .await
                    }
                };
                match held.map_or_else(|| validate::validate_pool(pool, &observed), Err) {
                    Ok(validated) => {
                        let built = build::build_objects(&validated);
                        let applied = Box::pin(apply::apply_pool(context, pool, built)).await;
                        let mut outcome = PoolOutcome::from(applied);
                        let mut memory = validated.memory;
                        let sizing = &validated.sizing;
                        if let PoolOutcome::Applied(applied) = &mut outcome {
                            let resized =
                                resize::resize_pods(context, pool, &observed, sizing, &mut memory);
                            applied.resized = Box::pin(resized).await;
                        }
                        let size = u32::try_from(sizing.replicas).ok().filter(|size| *size > 0);
                        let current = match (&outcome, size) {
                            (PoolOutcome::Applied(_), Some(_)) => {
                                Box::pin(scale::apply_replicas(context, stored, pool, size)).await
                            }
                            _ => Cow::Borrowed(pool),
                        };
                        let settled =
                            Box::pin(status::report_status(context, &current, &outcome, &losses))
                                .await?;
                        let mut baseline = observed.watched.baseline.clone();
                        if let PoolOutcome::Applied(applied) = &outcome {
                            let earlier = baseline.untried.filter(|it| !is_violation(&it.cause));
                            baseline.untried = applied.untried.clone().or(earlier);
                        }
                        // A decision is stored only after it is applied and reported.
                        outcome.into_failure().map_or(Ok(()), Err)?;
                        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
                        context.sizings.insert(uid, memory, observed.now);
                        context.baselines.insert(uid, baseline, observed.now);
                        return Ok(next_resync(settled));
                    }
                    Err(invalid) => {
                        PoolOutcome::Invalid { invalid, live: observed.workload_figures() }
                    }
                }
            }
        };
        Box::pin(status::report_status(context, pool, &outcome, &losses)).await?;
        outcome.into_failure().map_or(Ok(()), Err)?;
        let before = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
        Ok(Next::After(invalid_resync(before, context.clock.now())))
    }
}

fn next_resync(settled: bool) -> Next {
    Next::After(if settled { RESYNC } else { RESYNC_MOVING })
}
