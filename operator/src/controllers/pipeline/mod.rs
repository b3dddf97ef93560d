//! TelemetryPipeline: what most users write. It owns objects of all other kinds, brings them up in
//! order and sums up what they say.
//!
//! The steps: `validate` checks names, `build` makes the children, `apply` writes them in order
//! (topics and schema first, pools once those are ready) and reads them back, those of a signal
//! that `returned` in another shape too, `status` sums them up. There is no observe step: a
//! pipeline refers to nothing but its children, which apply reads. `leave` takes them down.

mod apply;
mod build;
mod child;
mod leave;
mod returned;
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
use crate::reconcile::watches::Watching;
use crate::reconcile::{Next, Place};

/// Children's events trigger a reconcile at once; this only covers missed ones.
const RESYNC: Duration = Duration::from_secs(60);

/// Reconciles pipelines.
pub struct Pipelines;

impl Reconciler for Pipelines {
    type Object = TelemetryPipeline;

    const HANDLES_DELETION: bool = true;

    fn watches(watching: Watching<TelemetryPipeline>) -> Watching<TelemetryPipeline> {
        watching
            .owns::<TelemetryTopic>(Place::owned())
            .owns::<TelemetrySchema>(Place::owned())
            .owns::<EdgePool>(Place::owned())
            .owns::<GatewayPool>(Place::owned())
    }

    async fn reconcile(context: &Context, pipeline: &TelemetryPipeline) -> Result<Next, StepError> {
        if pipeline.metadata.deletion_timestamp.is_some() {
            return leave::leave(context, pipeline).await;
        }
        let pipeline = finalizer::follow(context, pipeline, pipeline.spec.deletion_policy).await?;
        let pipeline = pipeline.as_ref();
        let outcome = match validate::validate(pipeline) {
            Ok(validated) => apply::apply(context, pipeline, build::build(&validated)).await,
            Err(invalid) => status::Outcome::Invalid(invalid),
        };
        status::report(context, pipeline, &outcome).await?;
        match outcome {
            status::Outcome::Applied(applied) => {
                applied.failure.map_or(Ok(Next::After(RESYNC)), |failure| Err(failure.told()))
            }
            status::Outcome::Invalid(_) | status::Outcome::Leaving(_) => Ok(Next::After(RESYNC)),
        }
    }
}
