//! Translates the spec's rules to the collector's settings. Pure; records Secrets in
//! [`SecretUses`].

use millrace_crds::v1alpha1::{EdgeMode, ProcessingStep};
use millrace_processing::Config;
use millrace_processing::enrich::PodScope;
use millrace_rule_settings::{build_settings, compile_rules};

use crate::error::Invalid;
use crate::pool::secrets::SecretUses;

/// Returns the rules as the collector's settings. A pool on nodes knows each node's pods.
pub fn build_processing(steps: &[ProcessingStep], mode: EdgeMode, uses: &mut SecretUses) -> Config {
    let mut settings =
        build_settings(steps, |key| uses.add_file(key.name.as_str(), key.key.as_str()));
    for step in settings.steps.iter_mut().filter_map(|step| step.enrich.as_mut()) {
        step.pod_metadata.scope = match mode {
            EdgeMode::DaemonSet => PodScope::Node,
            EdgeMode::Deployment => PodScope::Cluster,
        };
    }
    settings
}

/// Returns why a pool is refused: its rules' errors with step, line and column in the spec if they
/// don't compile, else `refusal`. The check of all settings compiles the rules too, so only those
/// of a refused pool are compiled again.
pub fn explain_refusal(steps: &[ProcessingStep], refusal: Invalid) -> Invalid {
    let rules = build_settings(steps, |key| key.key.to_string());
    match compile_rules(&rules) {
        Ok(_) => refusal,
        Err(error) => Invalid::spec_invalid(format!("spec.processing: {error}")),
    }
}
