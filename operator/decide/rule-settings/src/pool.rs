//! The steps of a pool: its pipeline's, then its own.

use millrace_crds::v1alpha1::ProcessingStep;

/// The most steps of one pool: the limit of an EdgePool's field.
pub const POOL_STEPS_MAX: usize = 32;

/// Why two lists of steps can't be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolStepsError {
    /// A name is in both.
    #[error(
        "step {0:?} is in spec.processing too: metrics and messages name steps, so write another name"
    )]
    DuplicateName(String),
    /// There are too many.
    #[error(
        "{0} steps with those of spec.processing, and a pool runs at most {POOL_STEPS_MAX}: join \
         statements to fewer steps"
    )]
    TooMany(usize),
}

/// Returns the steps that a pool of a pipeline runs, in order.
///
/// # Errors
/// When both lists have a step of one name, or too many steps.
pub fn pool_steps(
    pipeline: &[ProcessingStep],
    pool: &[ProcessingStep],
) -> Result<Vec<ProcessingStep>, PoolStepsError> {
    let names_it = |name: &str| pipeline.iter().any(|step| step.name == name);
    if let Some(step) = pool.iter().find(|step| names_it(&step.name)) {
        return Err(PoolStepsError::DuplicateName(step.name.clone()));
    }
    let steps = [pipeline, pool].concat();
    match steps.len() > POOL_STEPS_MAX {
        true => Err(PoolStepsError::TooMany(steps.len())),
        false => Ok(steps),
    }
}
