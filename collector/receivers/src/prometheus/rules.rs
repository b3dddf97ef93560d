//! A job's rules, made ready once for all its targets.

use std::ops::Deref;
use std::sync::Arc;

use millrace_config::{PrometheusReceiver, RelabelRule as Written, ScrapeJob};
use millrace_scrape::relabel::{MetricRules, Rule, RuleFault, Rules};

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
        let ready = |field, rules: &[Written]| {
            let rules: Vec<_> = rules.iter().map(Rule::from).collect();
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

/// A job with its rules.
#[derive(Debug)]
pub(super) struct RuledJob {
    settings: ScrapeJob,
    pub(super) rules: JobRules,
}

impl RuledJob {
    pub(super) fn new(settings: ScrapeJob) -> Result<Self, RuleError> {
        Ok(Self { rules: JobRules::new(&settings)?, settings })
    }
}

impl Deref for RuledJob {
    type Target = ScrapeJob;
    fn deref(&self) -> &ScrapeJob {
        &self.settings
    }
}

/// Checks the rules of all jobs.
///
/// # Errors
/// The first rule that can't be used.
pub fn check_rules(settings: &PrometheusReceiver) -> Result<(), RuleError> {
    settings.jobs.iter().try_for_each(|job| JobRules::new(job).map(drop))
}

#[cfg(test)]
#[path = "../../tests/unit/prometheus/rules.rs"]
mod tests;
