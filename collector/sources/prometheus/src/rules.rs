//! Compiles a job's rules once for all its targets.

use std::ops::Deref;
use std::sync::Arc;

use millrace_config::{PrometheusReceiver, RelabelRule as Written, ScrapeJob};
use millrace_scrape::relabel::{MetricRules, Rule, RuleFault, Rules};

/// The fault of a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job `{job}`, {field}[{place}]: {fault}")]
pub struct RuleError {
    /// The job's name.
    pub job: String,
    /// The list: `relabel` or `metricRelabel`.
    pub field: &'static str,
    /// The rule's index in the list, from 0.
    pub place: usize,
    /// The fault.
    pub fault: RuleFault,
}

/// A job's compiled rules.
#[derive(Debug, Clone, Default)]
pub(super) struct JobRules {
    /// The rules for discovered targets.
    pub(super) targets: Arc<Rules>,
    /// The rules for samples.
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

/// A job with its compiled rules.
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
pub(crate) fn check_rules(settings: &PrometheusReceiver) -> Result<(), RuleError> {
    settings.jobs.iter().try_for_each(|job| JobRules::new(job).map(drop))
}

#[cfg(test)]
mod tests;
