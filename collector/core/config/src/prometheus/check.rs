//! Judges what is scraped.

use std::collections::HashSet;

use super::{HttpTargets, PrometheusReceiver, ScrapeJob, ScrapeLimits};
use crate::Receivers;
use crate::document::check::Checker;
use crate::document::lines::Lines;
use crate::document::problem::ConfigError;
use crate::prometheus::pasted;
use crate::prometheus::target_list::TARGETS_MAX;
use crate::values::units::ByteSize;
use crate::values::url::HttpUrl;

/// Most jobs: each has a line on the page of targets.
const JOBS_MAX: usize = 1000;

/// Most paths of files, and URLs of lists, of a job.
const LISTS_MAX: usize = 16;

/// The longest path of a file, and URL of a list.
const LIST_BYTES_MAX: usize = 1024;

/// The longest name of a job, and the longest value of a label.
const TEXT_CHARACTERS_MAX: usize = 256;

/// The longest path with its query.
const PATH_BYTES_MAX: usize = 1024;

/// The longest path with all parameters, percent-encoded.
const QUERY_BYTES_MAX: usize = 4096;

/// Most labels of a job: they are part of each point.
const LABELS_MAX: usize = 16;

/// Most rules of a list: the scraper takes no more.
const RULES_MAX: usize = 256;

/// All jobs of a receiver, those that are pasted among them.
pub(crate) fn all_jobs(receiver: PrometheusReceiver) -> Result<Vec<ScrapeJob>, ConfigError> {
    let lines = Lines::default();
    let mut judge = Checker { lines: &lines, problems: Vec::new() };
    let receivers = Receivers { prometheus: Some(receiver), ..Receivers::default() };
    let receiver = judge.expand_pasted(receivers).prometheus.unwrap_or_default();
    judge.check_prometheus(&receiver);
    ConfigError::from_problems(judge.problems).map_or(Ok(receiver.jobs), Err)
}

/// Judges a job whose targets a share has.
pub(crate) fn check_shared_job(job: &ScrapeJob) -> Result<(), ConfigError> {
    let lines = Lines::default();
    let mut judge = Checker { lines: &lines, problems: Vec::new() };
    judge.check_shared_job(job);
    for problem in &mut judge.problems {
        // Their names begin behind the job's.
        problem.field = problem.field.trim_start_matches('.').to_owned();
    }
    ConfigError::from_problems(judge.problems).map_or(Ok(()), Err)
}

impl Checker<'_> {
    /// Makes jobs of those that are pasted. Where that can't be done they stay as they are.
    pub(crate) fn expand_pasted(&mut self, mut receivers: Receivers) -> Receivers {
        if let Some(receiver) = &mut receivers.prometheus
            && !receiver.scrape_configs.is_empty()
        {
            match pasted::parse_jobs(&receiver.scrape_configs) {
                Ok(jobs) => {
                    receiver.jobs.extend(jobs);
                    receiver.scrape_configs.clear();
                }
                Err(problems) => {
                    for problem in problems {
                        self.add_problem("receivers.prometheus.scrapeConfigs", problem);
                    }
                }
            }
        }
        receivers
    }

    pub(crate) fn check_prometheus(&mut self, receiver: &PrometheusReceiver) {
        let PrometheusReceiver { jobs, scrape_configs, share, allow_local_addresses: _ } = receiver;
        let field = "receivers.prometheus.jobs";
        let has_jobs = !jobs.is_empty() || !scrape_configs.is_empty();
        match (has_jobs, share) {
            (false, None) => self.add_problem(
                field,
                "no job is configured: set at least one, with a name and targets, or share: {}",
            ),
            (true, Some(_)) => self.add_problem(
                "receivers.prometheus.share",
                "share can't be combined with jobs or scrapeConfigs: remove one of them",
            ),
            _ => {}
        }
        if jobs.len() > JOBS_MAX {
            self.add_problem(field, format!("{} jobs: use at most {JOBS_MAX}", jobs.len()));
        }
        let targets: usize = jobs.iter().map(|job| job.targets.len()).sum();
        if targets > TARGETS_MAX {
            let message = format!("{targets} targets: use at most {TARGETS_MAX}");
            self.add_problem(field, message);
        }
        let mut names = HashSet::new();
        for (index, job) in jobs.iter().enumerate() {
            let field = format!("{field}[{index}]");
            if !names.insert(&job.name) {
                let message =
                    format!("`{}` is also the name of another job: use another name", job.name);
                self.add_problem(&format!("{field}.name"), message);
            }
            if job.targets.is_empty() && job.files.is_empty() && job.http.is_empty() {
                self.add_problem(
                    &format!("{field}.targets"),
                    "no target is configured: set at least one, as in \
                     [node-exporter.monitoring:9100], or files or http",
                );
            }
            self.check_job(&field, job);
        }
    }

    /// A job whose targets a share has.
    fn check_shared_job(&mut self, job: &ScrapeJob) {
        for (name, is_set) in
            [("targets", !job.targets.is_empty()), ("files", !job.files.is_empty())]
        {
            if is_set {
                self.add_problem(
                    name,
                    "a job of a share takes its targets from the share's entries: remove the field",
                );
            }
        }
        self.check_job("", job);
    }

    fn check_job(&mut self, field: &str, job: &ScrapeJob) {
        let ScrapeJob {
            name,
            targets,
            files,
            http,
            interval_seconds,
            timeout_seconds,
            path: _,
            scheme: _,
            params: _,
            tls: _,
            authorization: _,
            basic_auth: _,
            oauth2: _,
            proxy: _,
            follow_redirects: _,
            relabel: _,
            metric_relabel: _,
            labels,
            honor_labels: _,
            honor_timestamps: _,
            native_histograms: _,
            limits: ScrapeLimits { body_bytes, samples, labels: labels_max },
        } = job;
        if name.is_empty() || name.chars().count() > TEXT_CHARACTERS_MAX {
            let message = format!("use a name of 1 to {TEXT_CHARACTERS_MAX} characters");
            self.add_problem(&format!("{field}.name"), message);
        }
        self.check_lists(field, files, http);
        let mut unique_targets = HashSet::new();
        for (index, target) in targets.iter().enumerate() {
            if !unique_targets.insert(target) {
                let message = format!("`{target}` is a duplicate: remove it");
                self.add_problem(&format!("{field}.targets[{index}]"), message);
            }
        }
        self.check_range(&format!("{field}.intervalSeconds"), *interval_seconds, 1..=3600);
        let longest = (*interval_seconds).max(1);
        self.check_range(&format!("{field}.timeoutSeconds"), *timeout_seconds, 1..=longest);
        self.check_http_access(field, &job.http_access());
        self.check_path(field, job);
        self.check_rules(field, job);
        if labels.len() > LABELS_MAX {
            let message = format!("{} labels: use at most {LABELS_MAX}", labels.len());
            self.add_problem(&format!("{field}.labels"), message);
        }
        for (name, value) in labels {
            self.check_label(&format!("{field}.labels"), name, value);
        }
        let bytes = ByteSize::kib(1)..=ByteSize::mib(4096);
        self.check_range(&format!("{field}.limits.bodyBytes"), *body_bytes, bytes);
        self.check_range(&format!("{field}.limits.samples"), *samples, 1..=10_000_000);
        self.check_range(&format!("{field}.limits.labels"), *labels_max, 1..=128);
    }

    /// Checks the number of rules. The scraper judges their content.
    fn check_rules(&mut self, field: &str, job: &ScrapeJob) {
        let ScrapeJob { relabel, metric_relabel, .. } = job;
        for (list, rules) in [("relabel", relabel), ("metricRelabel", metric_relabel)] {
            if rules.len() > RULES_MAX {
                let message = format!("{} rules: use at most {RULES_MAX}", rules.len());
                self.add_problem(&format!("{field}.{list}"), message);
            }
        }
    }

    fn check_path(&mut self, field: &str, job: &ScrapeJob) {
        let ScrapeJob { path, params, .. } = job;
        if params.keys().any(String::is_empty) || job.path_and_query().len() > QUERY_BYTES_MAX {
            let message = format!(
                "name each parameter, and use at most {QUERY_BYTES_MAX} bytes for path and query \
                 together"
            );
            self.add_problem(&format!("{field}.params"), message);
        }
        let is_path = path.starts_with('/')
            && path.len() <= PATH_BYTES_MAX
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_path {
            self.add_problem(
                &format!("{field}.path"),
                format!("`{path}` is not a valid path: begin with /, and use neither spaces nor #"),
            );
        }
    }

    fn check_lists(&mut self, field: &str, files: &[String], http: &[HttpTargets]) {
        for (name, count) in [("files", files.len()), ("http", http.len())] {
            if count > LISTS_MAX {
                let message = format!("{count} entries: use at most {LISTS_MAX}");
                self.add_problem(&format!("{field}.{name}"), message);
            }
        }
        for (index, path) in files.iter().enumerate() {
            let (folder, name) = path.rsplit_once('/').unwrap_or_default();
            let is_list = [".json", ".yml", ".yaml"].iter().any(|end| name.ends_with(end));
            let is_good = path.starts_with('/')
                && path.len() <= LIST_BYTES_MAX
                && is_list
                && !folder.contains('*')
                && name.matches('*').count() <= 1
                && !path.chars().any(char::is_control);
            if !is_good {
                let message = format!(
                    "`{path}` is not a valid path of a target list: begin with /, end with .json, \
                     .yml or .yaml, and use at most one *, after the last /"
                );
                self.add_problem(&format!("{field}.files[{index}]"), message);
            }
        }
        for (index, HttpTargets { url, refresh_seconds }) in http.iter().enumerate() {
            let field = format!("{field}.http[{index}]");
            if let Err(error) = HttpUrl::new(url) {
                self.add_problem(&format!("{field}.url"), error.to_string());
            } else if url.len() > LIST_BYTES_MAX {
                let message = format!("{} bytes: use at most {LIST_BYTES_MAX}", url.len());
                self.add_problem(&format!("{field}.url"), message);
            }
            self.check_range(&format!("{field}.refreshSeconds"), *refresh_seconds, 5..=86_400);
        }
    }

    fn check_label(&mut self, field: &str, name: &str, value: &str) {
        let mut bytes = name.bytes();
        let is_name = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.len() <= TEXT_CHARACTERS_MAX;
        if !is_name {
            let message = format!(
                "`{name}` is not a valid label name: use a letter or _, then letters, digits or _"
            );
            self.add_problem(field, message);
        }
        if matches!(name, "job" | "instance") || name.starts_with("__") {
            let message = format!("`{name}` is set by the collector: use another name");
            self.add_problem(field, message);
        }
        if value.is_empty() || value.chars().count() > TEXT_CHARACTERS_MAX {
            let message =
                format!("the value of `{name}`: use 1 to {TEXT_CHARACTERS_MAX} characters");
            self.add_problem(field, message);
        }
    }
}
