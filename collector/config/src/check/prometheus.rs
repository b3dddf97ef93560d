//! Judges what is scraped.

use std::collections::HashSet;

use super::Judge;
use crate::{ByteSize, PrometheusReceiver, ScrapeJob, ScrapeLimits};

/// Most targets of one process: each may have a scrape of its own under way.
const TARGETS_MAX: usize = 1000;

/// The longest name of a job, and the longest value of a label.
const TEXT_CHARACTERS_MAX: usize = 256;

/// The longest path with its query.
const PATH_BYTES_MAX: usize = 1024;

/// Most labels of a job: they are part of each point.
const LABELS_MAX: usize = 16;

impl Judge<'_> {
    pub(super) fn prometheus(&mut self, receiver: &PrometheusReceiver) {
        let PrometheusReceiver { jobs, allow_local_addresses: _ } = receiver;
        let field = "receivers.prometheus.jobs";
        if jobs.is_empty() {
            self.say(field, "no job is given: write one at least, with a name and targets");
        }
        let targets: usize = jobs.iter().map(|job| job.targets.len()).sum();
        if targets > TARGETS_MAX {
            let message = format!("{targets} targets: write {TARGETS_MAX} at most");
            self.say(field, message);
        }
        let mut names = HashSet::new();
        for (index, job) in jobs.iter().enumerate() {
            let field = format!("{field}[{index}]");
            if !names.insert(&job.name) {
                let message = format!("`{}` is also another job's: write another name", job.name);
                self.say(&format!("{field}.name"), message);
            }
            self.job(&field, job);
        }
    }

    fn job(&mut self, field: &str, job: &ScrapeJob) {
        let ScrapeJob {
            name,
            targets,
            interval_seconds,
            timeout_seconds,
            path,
            labels,
            honor_labels: _,
            honor_timestamps: _,
            native_histograms: _,
            limits: ScrapeLimits { body_bytes, samples, labels: labels_max },
        } = job;
        if name.is_empty() || name.chars().count() > TEXT_CHARACTERS_MAX {
            let message = format!("write a name of 1 to {TEXT_CHARACTERS_MAX} characters");
            self.say(&format!("{field}.name"), message);
        }
        if targets.is_empty() {
            self.say(
                &format!("{field}.targets"),
                "no target is given: write one at least, as in [node-exporter.monitoring:9100]",
            );
        }
        let mut seen = HashSet::new();
        for (index, target) in targets.iter().enumerate() {
            if !seen.insert(target) {
                let message = format!("`{target}` is there twice: write it once");
                self.say(&format!("{field}.targets[{index}]"), message);
            }
        }
        self.range(&format!("{field}.intervalSeconds"), *interval_seconds, 1..=3600);
        let longest = (*interval_seconds).max(1);
        self.range(&format!("{field}.timeoutSeconds"), *timeout_seconds, 1..=longest);
        let is_path = path.starts_with('/')
            && path.len() <= PATH_BYTES_MAX
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_path {
            self.say(
                &format!("{field}.path"),
                format!("`{path}` is no path: begin with /, without blanks and #"),
            );
        }
        if labels.len() > LABELS_MAX {
            let message = format!("{} labels: write {LABELS_MAX} at most", labels.len());
            self.say(&format!("{field}.labels"), message);
        }
        for (name, value) in labels {
            self.label(&format!("{field}.labels"), name, value);
        }
        let bytes = ByteSize::kib(1)..=ByteSize::mib(4096);
        self.range(&format!("{field}.limits.bodyBytes"), *body_bytes, bytes);
        self.range(&format!("{field}.limits.samples"), *samples, 1..=10_000_000);
        self.range(&format!("{field}.limits.labels"), *labels_max, 1..=128);
    }

    fn label(&mut self, field: &str, name: &str, value: &str) {
        let mut bytes = name.bytes();
        let is_name = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.len() <= TEXT_CHARACTERS_MAX;
        if !is_name {
            let message =
                format!("`{name}` is no label: write a letter or _, then letters, digits, _");
            self.say(field, message);
        }
        if matches!(name, "job" | "instance") || name.starts_with("__") {
            let message = format!("`{name}` is set by the collector: write another name");
            self.say(field, message);
        }
        if value.is_empty() || value.chars().count() > TEXT_CHARACTERS_MAX {
            let message =
                format!("the value of `{name}`: write 1 to {TEXT_CHARACTERS_MAX} characters");
            self.say(field, message);
        }
    }
}
