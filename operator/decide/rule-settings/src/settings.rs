//! Steps of a spec as the collector's settings.
//!
//! Types are destructured without `..`, so that a new field fails to compile here until the
//! collector gets it.

use millrace_crds::v1alpha1 as crds;
use millrace_processing as processing;
use millrace_processing::{enrich, redact, sample};

/// Translates steps. `key_file` returns the path of the file with a Secret's key. The scope of
/// pods' metadata is the default: it follows from a pool's mode.
pub fn build_settings(
    steps: &[crds::ProcessingStep],
    mut key_file: impl FnMut(&crds::SecretKeyRef) -> String,
) -> processing::Config {
    let steps = steps.iter().map(|step| build_step(step, &mut key_file)).collect();
    processing::Config { steps }
}

fn build_step(
    step: &crds::ProcessingStep,
    key_file: &mut impl FnMut(&crds::SecretKeyRef) -> String,
) -> processing::Step {
    let crds::ProcessingStep {
        name,
        signals,
        error_mode,
        context,
        statements,
        drop,
        redact,
        sample,
        route,
        enrich,
    } = step;
    processing::Step {
        name: name.clone(),
        error_mode: match error_mode {
            crds::ErrorMode::Ignore => processing::ErrorMode::Ignore,
            crds::ErrorMode::Silent => processing::ErrorMode::Silent,
            crds::ErrorMode::Propagate => processing::ErrorMode::Propagate,
        },
        signals: signals.iter().map(|signal| signal_name(*signal)).collect(),
        context: context.map(context_name),
        statements: statements.clone(),
        drop: drop.as_ref().map(drop_conditions),
        redact: redact.as_ref().map(|step| Box::new(redact_config(step, key_file))),
        sample: sample.as_ref().map(|step| Box::new(sample_config(step))),
        route: route.as_ref().map(route_config),
        enrich: enrich.as_ref().map(|step| Box::new(enrich_config(step))),
    }
}

const fn signal_name(signal: crds::ProcessedSignal) -> processing::SignalName {
    match signal {
        crds::ProcessedSignal::Traces => processing::SignalName::Traces,
        crds::ProcessedSignal::Logs => processing::SignalName::Logs,
        crds::ProcessedSignal::Metrics => processing::SignalName::Metrics,
    }
}

const fn context_name(context: crds::StatementContext) -> processing::ContextName {
    match context {
        crds::StatementContext::Resource => processing::ContextName::Resource,
        crds::StatementContext::Scope => processing::ContextName::Scope,
        crds::StatementContext::Log => processing::ContextName::Log,
        crds::StatementContext::Span => processing::ContextName::Span,
        crds::StatementContext::SpanEvent => processing::ContextName::SpanEvent,
        crds::StatementContext::Metric => processing::ContextName::Metric,
        crds::StatementContext::DataPoint => processing::ContextName::DataPoint,
    }
}

fn drop_conditions(step: &crds::DropStep) -> processing::DropConditions {
    let crds::DropStep { resources, scopes, logs, spans, span_events, metrics, data_points } =
        step.clone();
    processing::DropConditions { resources, scopes, logs, spans, span_events, metrics, data_points }
}

fn route_config(step: &crds::RouteStep) -> processing::RouteConfig {
    let crds::RouteStep { topic, logs, spans, metrics } = step.clone();
    processing::RouteConfig { topic: topic.as_str().to_owned(), logs, spans, metrics }
}

fn redact_config(
    step: &crds::RedactStep,
    key_file: &mut impl FnMut(&crds::SecretKeyRef) -> String,
) -> redact::RedactConfig {
    let crds::RedactStep {
        sets,
        patterns,
        action,
        set_actions,
        hash_key_secret,
        ignored_keys,
        allowed_keys,
        blocked_keys,
    } = step;
    let pattern = |one: &crds::RedactPattern| {
        let crds::RedactPattern { name, pattern, action } = one;
        redact::PatternConfig {
            name: name.clone(),
            pattern: pattern.clone(),
            action: action.as_ref().map(action_config),
        }
    };
    let set_action = |crds::SetAction { set, action }: &crds::SetAction| redact::SetActionConfig {
        set: ready_set(*set),
        action: action_config(action),
    };
    redact::RedactConfig {
        sets: sets.as_ref().map(|sets| sets.iter().map(|set| ready_set(*set)).collect()),
        patterns: patterns.iter().map(pattern).collect(),
        action: action.as_ref().map(action_config).unwrap_or_default(),
        set_actions: set_actions.iter().map(set_action).collect(),
        hash_key_file: hash_key_secret.as_ref().map(key_file),
        ignored_keys: ignored_keys.as_ref().map(key_list).unwrap_or_default(),
        allowed_keys: allowed_keys.as_ref().map(key_list),
        blocked_keys: blocked_keys.as_ref().map(blocked_config).unwrap_or_default(),
    }
}

const fn ready_set(set: crds::ReadySet) -> redact::ReadySet {
    match set {
        crds::ReadySet::Email => redact::ReadySet::Email,
        crds::ReadySet::Bearer => redact::ReadySet::Bearer,
        crds::ReadySet::Basic => redact::ReadySet::Basic,
        crds::ReadySet::Jwt => redact::ReadySet::Jwt,
        crds::ReadySet::Card => redact::ReadySet::Card,
        crds::ReadySet::Iban => redact::ReadySet::Iban,
        crds::ReadySet::PrivateKey => redact::ReadySet::PrivateKey,
        crds::ReadySet::CloudKey => redact::ReadySet::CloudKey,
        crds::ReadySet::Ipv4 => redact::ReadySet::Ipv4,
        crds::ReadySet::Ipv6 => redact::ReadySet::Ipv6,
    }
}

fn action_config(action: &crds::RedactAction) -> redact::ActionConfig {
    let crds::RedactAction { mask, hash, drop } = action;
    redact::ActionConfig {
        mask: mask.as_ref().map(mask_config),
        hash: hash.as_ref().map(hash_config),
        drop: drop.as_ref().map(|crds::DropAction {}| redact::DropConfig {}),
    }
}

fn mask_config(mask: &crds::MaskAction) -> redact::MaskConfig {
    let crds::MaskAction { text, keep_last } = mask.clone();
    let usual = redact::MaskConfig::default();
    redact::MaskConfig {
        text: text.unwrap_or(usual.text),
        keep_last: keep_last.unwrap_or(usual.keep_last),
    }
}

fn hash_config(hash: &crds::HashAction) -> redact::HashConfig {
    let crds::HashAction { length, encoding } = hash;
    redact::HashConfig {
        length: length.unwrap_or(redact::HashConfig::default().length),
        encoding: match encoding {
            crds::HashEncoding::Hex => redact::HashEncoding::Hex,
            crds::HashEncoding::Base64 => redact::HashEncoding::Base64,
        },
    }
}

fn key_list(list: &crds::KeyList) -> redact::KeyListConfig {
    let crds::KeyList { names, patterns } = list.clone();
    redact::KeyListConfig { names, patterns }
}

fn blocked_config(blocked: &crds::BlockedKeys) -> redact::BlockedKeysConfig {
    let crds::BlockedKeys { keys: crds::KeyList { names, patterns }, action } = blocked.clone();
    redact::BlockedKeysConfig { names, patterns, action: action.as_ref().map(action_config) }
}

fn sample_config(step: &crds::SampleStep) -> sample::SampleConfig {
    let crds::SampleStep { ratio, keep, rules, mode, precision, missing_randomness, logs } = step;
    let rule = |one: &crds::SampleRule| {
        let crds::SampleRule { name, service, namespace, condition, ratio } = one.clone();
        sample::RuleConfig { name, service, namespace, condition, ratio: sample::Ratio(ratio.0) }
    };
    let crds::LogRandomness { attribute, seed } = logs.clone().unwrap_or_default();
    sample::SampleConfig {
        ratio: sample::Ratio(ratio.0),
        keep: keep.clone(),
        rules: rules.iter().map(rule).collect(),
        mode: match mode {
            crds::SampleMode::Proportional => sample::Mode::Proportional,
            crds::SampleMode::Equalizing => sample::Mode::Equalizing,
        },
        precision: precision.unwrap_or(PRECISION),
        missing_randomness: match missing_randomness {
            crds::MissingRandomness::Keep => sample::MissingRandomness::Keep,
            crds::MissingRandomness::Drop => sample::MissingRandomness::Drop,
        },
        logs: sample::LogRandomness { attribute, seed: seed.unwrap_or_default() },
    }
}

/// The collector's default precision; a test compares both.
const PRECISION: u8 = 4;

fn enrich_config(step: &crds::EnrichStep) -> enrich::EnrichConfig {
    let crds::EnrichStep { pod_metadata } = step;
    let crds::PodMetadataStep { association, labels, annotations, namespace_labels, on_conflict } =
        pod_metadata;
    let usual = enrich::PodMetadataConfig::default();
    enrich::EnrichConfig {
        pod_metadata: enrich::PodMetadataConfig {
            association: match association.as_slice() {
                [] => usual.association,
                written => written.iter().map(|one| pod_association(*one)).collect(),
            },
            labels: labels.clone(),
            annotations: annotations.clone(),
            namespace_labels: namespace_labels.clone(),
            on_conflict: match on_conflict {
                crds::OnConflict::Overwrite => enrich::OnConflict::Overwrite,
                crds::OnConflict::Keep => enrich::OnConflict::Keep,
            },
            scope: usual.scope,
        },
    }
}

const fn pod_association(association: crds::PodAssociation) -> enrich::PodAssociation {
    match association {
        crds::PodAssociation::Connection => enrich::PodAssociation::Connection,
        crds::PodAssociation::PodUid => enrich::PodAssociation::PodUid,
        crds::PodAssociation::PodIp => enrich::PodAssociation::PodIp,
        crds::PodAssociation::PodName => enrich::PodAssociation::PodName,
    }
}
