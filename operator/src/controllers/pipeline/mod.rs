//! TelemetryPipeline: the object that most users write. It owns objects of all other kinds, creates
//! them in order and sums up their statuses.
//!
//! The steps: `validate` checks names, `build` makes the children, `apply` writes them in order
//! (topics and schema first, pools once those are ready) and reads them back, including those of a
//! signal that `returned` in another shape, `status` sums them up, with `routes` for what edge
//! pools routed to other pipelines. There is no observe step: apply reads the children, and this
//! process holds the others. `leave` deletes them.

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
    EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};

use crate::context::Context;
use crate::error::StepError;
use crate::reconcile::controller::Reconciler;
use crate::reconcile::finalizer;
use crate::reconcile::watches::WatchBuilder;
use crate::reconcile::{Next, WatchScope};

/// The resync interval, which only covers missed events of children.
const RESYNC: Duration = Duration::from_secs(60);

/// Reconciles pipelines.
pub struct Pipelines;

impl Reconciler for Pipelines {
    type Object = TelemetryPipeline;

    const HANDLES_DELETION: bool = true;

    fn add_watches(watching: WatchBuilder<TelemetryPipeline>) -> WatchBuilder<TelemetryPipeline> {
        watching
            .owns::<TelemetryTopic>(WatchScope::owned_config())
            .owns::<TelemetrySchema>(WatchScope::owned_config())
            .owns::<EdgePool>(WatchScope::owned_config())
            .owns::<GatewayPool>(WatchScope::owned_config())
    }

    async fn reconcile(context: &Context, pipeline: &TelemetryPipeline) -> Result<Next, StepError> {
        if pipeline.metadata.deletion_timestamp.is_some() {
            return finalize::finalize_pipeline(context, pipeline).await;
        }
        let pipeline =
            finalizer::ensure_finalizer(context, pipeline, pipeline.spec.deletion_policy).await?;
        let pipeline = pipeline.as_ref();
        let outcome = match validate::validate_pipeline(pipeline) {
            Ok(validated) => {
                apply::apply_children(context, pipeline, build::build_children(&validated)).await
            }
            Err(invalid) => apply::PipelineOutcome::Invalid(invalid),
        };
        status::report_status(context, pipeline, &outcome).await?;
        match outcome {
            apply::PipelineOutcome::Applied(applied) => applied
                .failure
                .map_or(Ok(Next::After(RESYNC)), |failure| Err(failure.mark_reported())),
            apply::PipelineOutcome::Invalid(_) | apply::PipelineOutcome::Leaving(_) => {
                Ok(Next::After(RESYNC))
            }
        }
    }
}
