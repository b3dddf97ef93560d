//! Builds the part of a pool's pods that follows from the spec alone. Pure.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use millrace_config::Config;

use super::secrets::SecretUses;
use super::template::{self, PodPlan};
use crate::error::Invalid;
use crate::pool::connection;
use crate::pool::names::PoolNames;

/// The part of a pool's pods that follows from the spec.
#[derive(Clone, Debug)]
pub struct PoolDraft {
    /// Checked names.
    pub names: PoolNames,
    /// The image that pods run.
    pub image: String,
    /// The collector's configuration, as YAML.
    pub config: String,
    /// The name of the ConfigMap that holds the configuration.
    pub config_map: String,
    /// The pod template, with the spec's resources and without the digest of the Secrets.
    pub template: PodTemplateSpec,
    /// The Secrets that the template refers to.
    pub secrets: SecretUses,
}

/// Checks the collector's settings and builds the template of pods that run with them.
///
/// # Errors
/// When the collector would refuse the settings, or the spec's `podTemplate` can't be merged.
pub fn build_draft(settings: Config, plan: &PodPlan<'_>) -> Result<PoolDraft, Invalid> {
    let config = connection::render_config(settings)?;
    let config_map = plan.names.config_map(&template::unit_hash(&config, plan.theirs));
    Ok(PoolDraft {
        names: plan.names.clone(),
        image: plan.image.to_owned(),
        template: template::pod_template(plan, &config_map)?,
        config,
        config_map,
        secrets: plan.secrets.clone(),
    })
}
