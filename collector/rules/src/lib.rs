//! Runs an edge's rules: on every request that a source hands to the exporter, after its check and
//! before anything is buffered, sent or dead-lettered.
//!
//! [`Rules`] is the compiled set with its counters; [`Rules::run_before`] puts it in front of a
//! publisher. Rules run on the thread that hands the request over. Without a rule for its signal,
//! the same bytes pass on.
//!
//! Accounting: of the records in, each is out, refused, buffered, or dropped by a rule. Counters
//! are updated once the publisher has accepted the request, because a refused request comes again.
//! Records that a step routes are published before the others, and the client's answer covers
//! both: if one part isn't accepted, the client sends all again, and the others arrive twice.

mod failure_log;
mod memory;
mod metrics;
mod publisher;
mod report;

use std::sync::{Arc, OnceLock};

use millrace_config::SecretFile;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_processing::enrich::{FindPod, PodMetadataConfig};
use millrace_processing::{CompileErrors, Config, ErrorMode, RouteTopic, RuleSet};
use millrace_wire::Signal;

use failure_log::FailureLog;
use metrics::RuleMetrics;
use publisher::RulePublisher;

/// Why the rules can't run.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// They don't compile, for example because the key of hashes can't be read.
    #[error("processing: {0}")]
    Compile(#[from] CompileErrors),
    /// Their metrics can't be registered.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

/// The compiled rules of a process, and what they did.
pub struct Rules {
    set: RuleSet,
    metrics: RuleMetrics,
    failures: FailureLog,
    pod_metadata: Option<PodMetadataConfig>,
    /// The table of pods, if a step adds their metadata.
    pods: OnceLock<Arc<dyn FindPod>>,
}

impl Rules {
    /// Compiles rules and registers their metrics; `None` if there are no rules.
    ///
    /// # Errors
    /// If the rules don't compile, or a key of hashes can't be read.
    pub fn load(steps: &Config, telemetry: &Telemetry) -> Result<Option<Arc<Self>>, RulesError> {
        if steps.steps.is_empty() {
            return Ok(None);
        }
        let set = RuleSet::compile_with_secrets(steps, &read_key)?;
        let metrics = RuleMetrics::register(telemetry, set.rules())?;
        let is_silent = |name: &str| {
            let step = steps.steps.iter().find(|step| step.name == name);
            step.is_some_and(|step| step.error_mode == ErrorMode::Silent)
        };
        let silent = set.rules().iter().map(|rule| is_silent(&rule.step));
        let failures = FailureLog::new(silent);
        let pod_metadata = steps.pod_metadata().cloned();
        Ok(Some(Arc::new(Self { set, metrics, failures, pod_metadata, pods: OnceLock::new() })))
    }

    /// Returns which metadata of pods a step adds, if any does.
    #[must_use]
    pub fn pod_metadata(&self) -> Option<&PodMetadataConfig> {
        self.pod_metadata.as_ref()
    }

    /// Sets the table of pods, before sources start.
    pub fn set_pods(&self, pods: Arc<dyn FindPod>) {
        // There is one table in a process.
        let _ = self.pods.set(pods);
    }

    /// Returns the topics to which steps route records, in addition to the exporter's own.
    #[must_use]
    pub fn route_topics(&self) -> &[RouteTopic] {
        self.set.route_topics()
    }

    /// Returns a publisher that runs the rules on each request and passes the result to `next`, and
    /// what steps route to `routes`: a publisher for each of [`Self::route_topics`].
    #[must_use]
    pub fn run_before(
        self: &Arc<Self>,
        next: Arc<dyn Publish>,
        routes: Vec<Arc<dyn Publish>>,
        budget: Budget,
        telemetry: Arc<Telemetry>,
    ) -> Arc<dyn Publish> {
        Arc::new(RulePublisher::new(Arc::clone(self), next, routes, budget, telemetry))
    }

    /// Returns what the rules add to the memory of the longest request, in quarters of its length.
    #[must_use]
    pub fn request_quarters(&self) -> u64 {
        let routes = Signal::ALL.map(|signal| self.set.count_routes(signal));
        memory::request_quarters(routes.into_iter().max().unwrap_or_default())
    }

    /// Returns the rules and what they did, as JSON.
    #[must_use]
    pub fn render_json(&self) -> String {
        report::render_json(self.set.rules(), &self.metrics)
    }
}

/// Reads a key of hashes, without line ends that an editor left.
fn read_key(path: &str) -> Result<Vec<u8>, String> {
    let file = SecretFile::new(path).map_err(|error| error.to_string())?;
    let mut key = file.read_bytes().map_err(|error| error.to_string())?;
    while matches!(key.last(), Some(b'\n' | b'\r')) {
        key.pop();
    }
    Ok(key)
}
