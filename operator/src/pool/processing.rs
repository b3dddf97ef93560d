//! Translates the spec's rules to the collector's settings, and compiles them as the collector
//! does. Pure; records Secrets in [`SecretUses`].

use millrace_crds::v1alpha1::{EdgeMode, ProcessingStep};
use millrace_processing::Config;
use millrace_processing::enrich::PodScope;
use millrace_rule_settings::{build_settings, compile_rules};

use super::secrets::SecretUses;
use crate::error::Invalid;

/// Returns the rules as the collector's settings. A pool on nodes knows each node's pods.
///
/// # Errors
/// When they don't compile; the message has step, line and column.
pub fn build_processing(
    steps: &[ProcessingStep],
    mode: EdgeMode,
    uses: &mut SecretUses,
) -> Result<Config, Invalid> {
    let mut settings =
        build_settings(steps, |key| uses.add_file(key.name.as_str(), key.key.as_str()));
    for step in settings.steps.iter_mut().filter_map(|step| step.enrich.as_mut()) {
        step.pod_metadata.scope = match mode {
            EdgeMode::DaemonSet => PodScope::Node,
            EdgeMode::Deployment => PodScope::Cluster,
        };
    }
    match compile_rules(&settings) {
        Ok(_) => Ok(settings),
        Err(error) => Err(Invalid::spec_invalid(format!("spec.processing: {error}"))),
    }
}
