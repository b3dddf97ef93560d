//! What a pool's spec alone says of its pods, whichever kind it is. Pure.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use millrace_config::Config;

use super::connection;
use super::names::PoolNames;
use super::secrets::SecretUses;
use super::template::{self, PodPlan};
use crate::error::Invalid;

/// What the spec alone says.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Checked names.
    pub names: PoolNames,
    /// The image pods run.
    pub image: String,
    /// The collector's configuration, as YAML.
    pub config: String,
    /// The name of the ConfigMap with it.
    pub config_map: String,
    /// The pods' template, with the spec's resources and without the digest of their Secrets.
    pub template: PodTemplateSpec,
    /// The Secrets it refers to.
    pub secrets: SecretUses,
}

/// Checks the collector's settings and makes the template of pods that run with them.
///
/// # Errors
/// When the collector would refuse the settings, or the spec's `podTemplate` can't be merged.
pub fn draft(settings: Config, plan: &PodPlan<'_>) -> Result<Draft, Invalid> {
    let config = connection::render(settings)?;
    let config_map = plan.names.config_map(&template::unit_hash(&config, plan.theirs));
    Ok(Draft {
        names: plan.names.clone(),
        image: plan.image.to_owned(),
        template: template::pod_template(plan, &config_map)?,
        config,
        config_map,
        secrets: plan.secrets.clone(),
    })
}
