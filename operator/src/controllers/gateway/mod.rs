//! GatewayPool: collectors that read Kafka and write to ClickHouse, sized by consumer lag.
//!
//! The steps: `validate::draft` checks the spec alone; `observe` reads Secrets, the live
//! StatefulSet, its pods and the lag; `validate` joins them, lets `size` decide the number of pods
//! and `rollout` how many may have a change; `build` makes the objects, `apply` writes what
//! differs, `status` reports. Only observe, apply and status hold a client.

mod apply;
mod build;
mod deduplication;
mod observe;
mod resize;
mod resources;
mod retention_loss;
mod rollout;
mod size;
mod status;
mod template_resources;
mod validate;

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use millrace_crds::v1alpha1::GatewayPool;

use self::retention_loss::Losses;
use crate::cache::claims::Claim;
use crate::context::Context;
use crate::error::StepError;
use crate::holders;
use crate::pool::names::Role;
use crate::pool::scale;
use crate::pool::status::Outcome;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::watches::Watching;
use crate::reconcile::{Next, Place};

/// How often the lag is observed; sizing windows are minutes, and `Ready` follows within this time.
const RESYNC: Duration = Duration::from_secs(10);
/// While pods change, they are checked this often: no watch reports their faults.
const RESYNC_MOVING: Duration = Duration::from_secs(5);

/// Reconciles gateway pools.
pub struct GatewayPools;

impl Reconciler for GatewayPools {
    type Object = GatewayPool;

    const CLAIMS: bool = true;

    fn claim(pool: &GatewayPool) -> Option<Claim> {
        validate::claim(pool)
    }

    fn watches(watching: Watching<GatewayPool>) -> Watching<GatewayPool> {
        let owned = || Place::owned_by(Role::Gateway);
        watching
            .owns::<StatefulSet>(owned())
            .owns::<Service>(owned())
            .owns::<ConfigMap>(owned())
            .owns::<ServiceAccount>(owned())
            .owns::<PodDisruptionBudget>(owned())
            .owns::<NetworkPolicy>(owned())
    }

    async fn reconcile(context: &Context, stored: &GatewayPool) -> Result<Next, StepError> {
        let asked = scale::asked(stored);
        let pool = &*asked;
        let mut losses = Losses::told(pool.status.as_ref());
        let outcome = match validate::draft(pool, &context.images) {
            Err(invalid) => Outcome::Invalid { invalid, live: None },
            Ok(draft) => {
                // Each step's future is boxed: together they are too large for the stack.
                let observed = Box::pin(observe::observe(context, pool, draft)).await?;
                losses = observed.losses.clone();
                let held = match context.claims.refused(pool) {
                    Some(held) => Some(held),
                    None => Box::pin(holders::of_pool(context, pool, &observed.lag_query)).await,
                };
                match held.map_or_else(|| validate::validate(pool, &observed), Err) {
                    Ok(validated) => {
                        let built = build::build(&validated);
                        let outcome = Box::pin(apply::apply(context, pool, built)).await;
                        let mut kept = validated.kept;
                        let sizing = &validated.sizing;
                        Box::pin(resize::resize(context, pool, &observed, sizing, &mut kept)).await;
                        let size = u32::try_from(sizing.replicas).ok().filter(|size| *size > 0);
                        let told = match (&outcome, size) {
                            (Outcome::Applied(_), Some(_)) => {
                                Box::pin(scale::keep(context, stored, pool, size)).await
                            }
                            _ => Cow::Borrowed(pool),
                        };
                        let settled =
                            Box::pin(status::report(context, &told, &outcome, &losses)).await?;
                        let mut baseline = observed.watched.baseline.clone();
                        if let Outcome::Applied(applied) = &outcome {
                            baseline.untried = applied.untried.clone().or(baseline.untried);
                        }
                        // A decision is remembered only once it is applied and reported.
                        outcome.into_failure().map_or(Ok(()), Err)?;
                        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
                        context.sizings.put(uid, kept, observed.now);
                        context.baselines.put(uid, baseline, observed.now);
                        return Ok(next_look(settled));
                    }
                    Err(invalid) => Outcome::Invalid { invalid, live: observed.figures() },
                }
            }
        };
        let settled = Box::pin(status::report(context, pool, &outcome, &losses)).await?;
        outcome.into_failure().map_or(Ok(()), Err)?;
        Ok(next_look(settled))
    }
}

fn next_look(settled: bool) -> Next {
    Next::After(if settled { RESYNC } else { RESYNC_MOVING })
}
