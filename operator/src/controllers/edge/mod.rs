//! EdgePool: collectors that receive telemetry and publish it to Kafka.
//!
//! The steps: `validate::draft` checks the spec alone, `observe` reads the Secrets it refers to,
//! `validate` joins the two, `build` makes the objects, `apply` writes what differs (the workload
//! through `gate`, as `change` and `canary` decide), `observe` asks pods about their nodes' logs
//! (`node_logs` and `logs_lost` sum that up), `status` reports, also where scrape targets are
//! (`targets`) and what the API server refuses pods (`watches`). Only observe, apply, gate and
//! status hold a client.

mod apply;
mod build;
mod canary;
mod change;
mod gate;
mod logs_lost;
mod node_logs;
mod observe;
mod status;
mod targets;
mod validate;
mod watches;

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use millrace_crds::v1alpha1::EdgePool;

use self::status::Stand;
use crate::context::Context;
use crate::error::StepError;
use crate::pool::names::Role;
use crate::pool::scale;
use crate::pool::status::Outcome;
use crate::pool::workload;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::watches::Watching;
use crate::reconcile::{Next, Place};

/// Resync of a settled pool, which bounds how late a changed Secret, what pods say of their nodes'
/// logs, or what sharing out found of its targets, is seen.
const RESYNC: Duration = Duration::from_secs(30);
/// Resync of a pool that has neither, or whose Secrets are watched: it only covers events that
/// watches missed.
const RESYNC_QUIET: Duration = Duration::from_secs(300);
/// During a trial (a pod takes a second or two) and before a rollback: no watch reports either.
const RESYNC_TRYING: Duration = Duration::from_secs(2);
/// While pods change, they are checked this often: no watch reports their faults.
const RESYNC_MOVING: Duration = Duration::from_secs(5);

/// Reconciles edge pools.
pub struct EdgePools;

impl Reconciler for EdgePools {
    type Object = EdgePool;

    fn watches(watching: Watching<EdgePool>) -> Watching<EdgePool> {
        let owned = || Place::owned_by(Role::Edge);
        watching
            .owns_workload::<Deployment>(owned(), workload::deployment)
            .owns_workload::<DaemonSet>(owned(), workload::daemon_set)
            .owns::<Service>(owned())
            .owns::<ConfigMap>(owned())
            .owns::<ServiceAccount>(owned())
            .owns::<PodDisruptionBudget>(owned())
            .owns::<NetworkPolicy>(owned())
            .refers_to_secrets()
    }

    async fn reconcile(context: &Context, stored: &EdgePool) -> Result<Next, StepError> {
        let asked = scale::asked(stored);
        let pool = &*asked;
        let mut resync = Next::After(RESYNC);
        let outcome = match validate::draft(pool, &context.images) {
            Err(invalid) => Outcome::Invalid { invalid, live: None },
            Ok(draft) => {
                let secrets = draft.secrets.iter().map(|(secret, _)| secret);
                context.references.set(&draft.names.namespace, &draft.names.pool, secrets);
                let is_watched = context.watches_secrets || draft.secrets.iter().next().is_none();
                if is_watched && !observe::is_told_of(pool) {
                    resync = Next::Within(RESYNC_QUIET);
                }
                let observed = observe::observe(context, pool, draft).await?;
                match validate::validate(pool, &observed) {
                    Ok(validated) => {
                        let prepared = build::build(&validated, context.share_role.as_deref());
                        apply::apply(context, pool, prepared).await
                    }
                    Err(invalid) => {
                        let live = observe::workload(context, pool, &observed.draft).await?;
                        Outcome::Invalid { invalid, live }
                    }
                }
            }
        };
        let told = match &outcome {
            Outcome::Applied(_) => scale::keep(context, stored, pool, build::size(pool)).await,
            Outcome::Invalid { .. } | Outcome::Failed(_) => Cow::Borrowed(pool),
        };
        let logs = observe::node_logs(context, &told, &outcome).await?;
        let stand = status::report(context, &told, &outcome, logs.as_ref()).await?;
        outcome.into_failure().map_or(Ok(()), Err)?;
        Ok(match stand {
            Stand::Settled => resync,
            Stand::Tries => Next::After(RESYNC_TRYING),
            Stand::Moves => Next::After(RESYNC_MOVING),
        })
    }
}
