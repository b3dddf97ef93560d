//! A job's rules, made ready once for all its targets, and targets by them.

use std::sync::Arc;
use std::time::Duration;

use millrace_config::{PrometheusReceiver, RelabelRule, Scheme, ScrapeJob};
use millrace_scrape::relabel::{Action, Labels, MetricRules, Rule, RuleFault, Rules, Scratch};
use millrace_scrape::{Defaults, Resolved, TargetError, resolve};

/// A rule that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job `{job}`, {field}[{place}]: {fault}")]
pub struct RuleError {
    /// The job's name.
    pub job: String,
    /// The list: `relabel` or `metricRelabel`.
    pub field: &'static str,
    /// The rule's place in it, from 0.
    pub place: usize,
    /// What is wrong with it.
    pub fault: RuleFault,
}

/// A job's rules.
#[derive(Debug, Clone, Default)]
pub(super) struct JobRules {
    /// For what was discovered.
    pub(super) targets: Arc<Rules>,
    /// For samples.
    pub(super) metrics: Arc<MetricRules>,
}

impl JobRules {
    pub(super) fn new(job: &ScrapeJob) -> Result<Self, RuleError> {
        let ready = |field, rules: &[RelabelRule]| {
            let rules: Vec<_> = rules.iter().map(rule).collect();
            Rules::new(&rules).map_err(|error| RuleError {
                job: job.name.clone(),
                field,
                place: error.place,
                fault: error.fault,
            })
        };
        Ok(Self {
            targets: Arc::new(ready("relabel", &job.relabel)?),
            metrics: Arc::new(ready("metricRelabel", &job.metric_relabel)?.into()),
        })
    }
}

/// Makes a target of an address and what a list says of it, by a job's settings and rules. Labels of
/// the list take precedence over the job's. None: a rule dropped it.
pub(super) fn resolved<'a>(
    job: &'a ScrapeJob,
    rules: &JobRules,
    address: &'a str,
    listed: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Option<Resolved>, TargetError> {
    let mut all: Vec<_> = job.labels.iter().map(|(name, value)| (&**name, &**value)).collect();
    for (name, value) in listed.into_iter().chain([("__address__", address)]) {
        all.retain(|(known, _)| *known != name);
        all.push((name, value));
    }
    let mut labels: Labels = all.into_iter().collect();
    let parameters: Vec<_> =
        job.params.iter().map(|(name, values)| (name.clone(), values.clone())).collect();
    let defaults = Defaults {
        job: &job.name,
        scheme: match job.scheme {
            Scheme::Http => millrace_scrape::Scheme::Http,
            Scheme::Https => millrace_scrape::Scheme::Https,
        },
        path: &job.path,
        parameters: &parameters,
        interval: Duration::from_secs(job.interval_seconds.into()),
        timeout: Duration::from_secs(job.timeout_seconds.into()),
        rules: &rules.targets,
    };
    resolve(&defaults, &mut labels, &mut Scratch::default())
}

/// Checks the rules of all jobs.
///
/// # Errors
/// The first rule that can't be used.
pub fn check_rules(settings: &PrometheusReceiver) -> Result<(), RuleError> {
    settings.jobs.iter().try_for_each(|job| JobRules::new(job).map(drop))
}

fn rule(written: &RelabelRule) -> Rule {
    let RelabelRule { action, source_labels, separator, regex, modulus, replacement, target_label } =
        written.clone();
    let action = Action::of(action.as_str()).unwrap_or_default();
    Rule { action, source_labels, separator, regex, modulus, replacement, target_label }
}
