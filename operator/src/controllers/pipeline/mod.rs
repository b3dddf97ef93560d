//! TelemetryPipeline: the object that most users write. It owns objects of all other kinds, creates
//! them in order and sums up their statuses.
//!
//! The steps: `validate` checks names, `build` makes the children, `apply` writes them in order
//! (topics and schema first, pools once those are ready) and reads them back, including those of a
//! signal that `returned` in another shape, `status` sums them up, with `routes` for what edge
//! pools routed to other pipelines. There is no observe step: apply reads the children, and this
//! process holds the others. `finalize` deletes them.

mod apply;
mod build;
mod child;
mod ensure;
mod finalize;
mod routes;
mod status;
mod validate;

use std::time::Duration;

use millrace_crds::v1alpha1::{
    DeletionPolicy, EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};

use self::apply::ReachedChildren;
use crate::context::Context;
use crate::error::StepError;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::watches::WatchBuilder;
use crate::reconcile::{Next, WatchScope};

/// The resync interval, which only covers missed events of children.
const RESYNC: Duration = Duration::from_secs(60);

/// Reconciles pipelines.
pub struct Pipelines;

impl Reconciler for Pipelines {
    type Object = TelemetryPipeline;

    fn add_watches(watching: WatchBuilder<TelemetryPipeline>) -> WatchBuilder<TelemetryPipeline> {
        watching
            .owns::<TelemetryTopic>(WatchScope::owned_config())
            .owns::<TelemetrySchema>(WatchScope::owned_config())
            .owns::<EdgePool>(WatchScope::owned_config())
            .owns::<GatewayPool>(WatchScope::owned_config())
    }

    fn deletion_policy(pipeline: &TelemetryPipeline) -> Option<DeletionPolicy> {
        Some(pipeline.spec.deletion_policy)
    }

    async fn reconcile(context: &Context, pipeline: &TelemetryPipeline) -> Result<Next, StepError> {
        let mut reached = ReachedChildren::default();
        let outcome = apply_spec(context, pipeline, &mut reached).await;
        status::report_status(context, pipeline, &reached, &outcome).await?;
        outcome.map_err(StepError::mark_reported)?;
        Ok(Next::After(RESYNC))
    }

    async fn finalize(context: &Context, pipeline: &TelemetryPipeline) -> Result<Next, StepError> {
        finalize::finalize_pipeline(context, pipeline).await
    }
}

async fn apply_spec(
    context: &Context,
    pipeline: &TelemetryPipeline,
    reached: &mut ReachedChildren,
) -> Result<(), StepError> {
    let validated = validate::validate_pipeline(pipeline)?;
    let children = build::build_children(&validated);
    Box::pin(apply::apply_children(context, pipeline, children, reached)).await
}
