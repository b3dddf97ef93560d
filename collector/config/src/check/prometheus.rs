//! Judges what is scraped.

use std::collections::HashSet;

use super::Judge;
use crate::lines::Lines;
use crate::pasted;
use crate::problem::ConfigError;
use crate::{
    ByteSize, HttpTargets, HttpUrl, PrometheusReceiver, Receivers, ScrapeJob, ScrapeLimits,
    TARGETS_MAX,
};

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
    let mut judge = Judge { lines: &lines, problems: Vec::new() };
    let receivers = Receivers { prometheus: Some(receiver), ..Receivers::default() };
    let receiver = judge.pasted(receivers).prometheus.unwrap_or_default();
    judge.prometheus(&receiver);
    ConfigError::from_problems(judge.problems).map_or(Ok(receiver.jobs), Err)
}

/// Judges a job whose targets a share has.
pub(crate) fn shared_job(job: &ScrapeJob) -> Result<(), ConfigError> {
    let lines = Lines::default();
    let mut judge = Judge { lines: &lines, problems: Vec::new() };
    judge.shared_job(job);
    for problem in &mut judge.problems {
        // Their names begin behind the job's.
        problem.field = problem.field.trim_start_matches('.').to_owned();
    }
    ConfigError::from_problems(judge.problems).map_or(Ok(()), Err)
}

impl Judge<'_> {
    /// Makes jobs of those that are pasted. Where that can't be done they stay as they are.
    pub(super) fn pasted(&mut self, mut receivers: Receivers) -> Receivers {
        if let Some(receiver) = &mut receivers.prometheus
            && !receiver.scrape_configs.is_empty()
        {
            match pasted::jobs(&receiver.scrape_configs) {
                Ok(jobs) => {
                    receiver.jobs.extend(jobs);
                    receiver.scrape_configs.clear();
                }
                Err(problems) => {
                    for problem in problems {
                        self.say("receivers.prometheus.scrapeConfigs", problem);
                    }
                }
            }
        }
        receivers
    }

    pub(super) fn prometheus(&mut self, receiver: &PrometheusReceiver) {
        let PrometheusReceiver { jobs, scrape_configs, share, allow_local_addresses: _ } = receiver;
        let field = "receivers.prometheus.jobs";
        let has_jobs = !jobs.is_empty() || !scrape_configs.is_empty();
        match (has_jobs, share) {
            (false, None) => self.say(
                field,
                "no job is given: write one at least, with a name and targets, or share: {}",
            ),
            (true, Some(_)) => self.say(
                "receivers.prometheus.share",
                "jobs are given too, and a share has its own: leave out jobs and scrapeConfigs, or \
                 share",
            ),
            _ => {}
        }
        if jobs.len() > JOBS_MAX {
            self.say(field, format!("{} jobs: write {JOBS_MAX} at most", jobs.len()));
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
            if job.targets.is_empty() && job.files.is_empty() && job.http.is_empty() {
                self.say(
                    &format!("{field}.targets"),
                    "no target is given: write one at least, as in [node-exporter.monitoring:9100], \
                     or files or http",
                );
            }
            self.job(&field, job);
        }
    }

    /// A job whose targets a share has.
    fn shared_job(&mut self, job: &ScrapeJob) {
        for (name, is_given) in
            [("targets", !job.targets.is_empty()), ("files", !job.files.is_empty())]
        {
            if is_given {
                self.say(name, "a job of a share has none: its targets are the share's entries");
            }
        }
        self.job("", job);
    }

    fn job(&mut self, field: &str, job: &ScrapeJob) {
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
            let message = format!("write a name of 1 to {TEXT_CHARACTERS_MAX} characters");
            self.say(&format!("{field}.name"), message);
        }
        self.lists(field, files, http);
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
        self.http_access(field, &job.access());
        self.path(field, job);
        self.rules(field, job);
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

    /// How many rules there are. What they say is the scraper's to judge.
    fn rules(&mut self, field: &str, job: &ScrapeJob) {
        let ScrapeJob { relabel, metric_relabel, .. } = job;
        for (list, rules) in [("relabel", relabel), ("metricRelabel", metric_relabel)] {
            if rules.len() > RULES_MAX {
                let message = format!("{} rules: write {RULES_MAX} at most", rules.len());
                self.say(&format!("{field}.{list}"), message);
            }
        }
    }

    fn path(&mut self, field: &str, job: &ScrapeJob) {
        let ScrapeJob { path, params, .. } = job;
        if params.keys().any(String::is_empty) || job.path_and_query().len() > QUERY_BYTES_MAX {
            let message = format!("write names, and {QUERY_BYTES_MAX} bytes in all at most");
            self.say(&format!("{field}.params"), message);
        }
        let is_path = path.starts_with('/')
            && path.len() <= PATH_BYTES_MAX
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_path {
            self.say(
                &format!("{field}.path"),
                format!("`{path}` is no path: begin with /, without blanks and #"),
            );
        }
    }

    fn lists(&mut self, field: &str, files: &[String], http: &[HttpTargets]) {
        for (name, count) in [("files", files.len()), ("http", http.len())] {
            if count > LISTS_MAX {
                let message = format!("{count} entries: write {LISTS_MAX} at most");
                self.say(&format!("{field}.{name}"), message);
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
                    "`{path}` is no path of a list: begin with /, end with .json, .yml or .yaml, and \
                     write one * at most, behind the last /"
                );
                self.say(&format!("{field}.files[{index}]"), message);
            }
        }
        for (index, HttpTargets { url, refresh_seconds }) in http.iter().enumerate() {
            let field = format!("{field}.http[{index}]");
            if let Err(error) = HttpUrl::new(url) {
                self.say(&format!("{field}.url"), error.to_string());
            } else if url.len() > LIST_BYTES_MAX {
                let message = format!("{} bytes: write {LIST_BYTES_MAX} at most", url.len());
                self.say(&format!("{field}.url"), message);
            }
            self.range(&format!("{field}.refreshSeconds"), *refresh_seconds, 5..=86_400);
        }
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
