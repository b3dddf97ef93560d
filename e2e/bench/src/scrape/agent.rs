//! Who scrapes: our collector, vmagent, Prometheus as an agent, or the OpenTelemetry Collector's
//! receiver; each with settings that ask for the same work. Ours and the Collector write to the
//! broker; the others can't, and write to the harness.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::collector::Collector;
use crate::collector::peer::Place;

const OTELCOL: &str = include_str!("../../peers/otelcol-scrape.yaml");

/// Where a run happens.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    /// Each target's `host:port`.
    pub(super) targets: &'a [String],
    pub(super) interval_seconds: u64,
    pub(super) broker: &'a str,
    pub(super) topic: &'a str,
    /// Where remote writes go.
    pub(super) sink: &'a str,
    /// A free port for the program's own pages.
    pub(super) port: u16,
    /// For what a program keeps on disk: fresh for each run.
    pub(super) state: &'a Path,
    /// The settings file that is to be written.
    pub(super) config: &'a Path,
}

/// A collector that scrapes.
#[derive(Debug, Clone)]
pub(super) enum Agent {
    Ours(Box<Collector>),
    Vmagent(PathBuf),
    Prometheus(PathBuf),
    Otelcol(PathBuf),
}

impl Agent {
    /// Its name in results.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ours(_) => "millrace",
            Self::Vmagent(_) => "vmagent",
            Self::Prometheus(_) => "prometheus-agent",
            Self::Otelcol(_) => "otelcol-prometheus",
        }
    }

    /// Its version; of vmagent, which can't say it, its folder's name.
    pub(super) fn version(&self) -> String {
        match self {
            Self::Ours(collector) => collector.version.clone(),
            Self::Vmagent(program) => {
                let folder = program.parent().and_then(Path::file_name).unwrap_or_default();
                folder.to_string_lossy().trim_start_matches("vmagent-").to_owned()
            }
            // `prometheus, version 2.42.0+ds (branch: ...`
            Self::Prometheus(program) => said(program, 2),
            Self::Otelcol(program) => said(program, 2),
        }
    }

    /// Whether it is ours.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// The program, its arguments for a run, and what its settings file holds.
    pub(super) fn launch(&self, setting: &Setting<'_>) -> (PathBuf, Vec<String>, String) {
        let config = setting.config.display();
        let state = setting.state.display();
        let port = setting.port;
        match self {
            Self::Ours(collector) => {
                let (program, arguments) = collector.command(setting.config);
                (program, arguments, ours(setting))
            }
            Self::Vmagent(program) => {
                let arguments = vec![
                    format!("-promscrape.config={config}"),
                    format!("-remoteWrite.url={}", setting.sink),
                    format!("-remoteWrite.tmpDataPath={state}"),
                    format!("-httpListenAddr=127.0.0.1:{port}"),
                    "-promscrape.maxScrapeSize=1GB".to_owned(),
                ];
                (program.clone(), arguments, scrape_configs(setting))
            }
            Self::Prometheus(program) => {
                let arguments = vec![
                    "--enable-feature=agent".to_owned(),
                    format!("--config.file={config}"),
                    format!("--storage.agent.path={state}"),
                    format!("--web.listen-address=127.0.0.1:{port}"),
                    "--log.level=warn".to_owned(),
                ];
                let settings = format!(
                    "{}remote_write: [{{url: \"{}\"}}]\n",
                    scrape_configs(setting),
                    setting.sink
                );
                (program.clone(), arguments, settings)
            }
            Self::Otelcol(program) => {
                let arguments = vec!["--config".to_owned(), config.to_string()];
                (program.clone(), arguments, otelcol(setting))
            }
        }
    }
}

/// A word of what a program says to `--version`.
fn said(program: &Path, place: usize) -> String {
    let said = Command::new(program).arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let word = said.ok().and_then(|text| text.split_whitespace().nth(place).map(str::to_owned));
    word.unwrap_or_default()
}

fn quoted(targets: &[String]) -> String {
    let mut text = String::new();
    for target in targets {
        let _ = write!(text, "{}\"{target}\"", if text.is_empty() { "" } else { ", " });
    }
    text
}

fn ours(setting: &Setting<'_>) -> String {
    let Setting { targets, interval_seconds, broker, topic, port, .. } = setting;
    let targets = quoted(targets);
    format!(
        "admin: {{address: \"127.0.0.1:{port}\"}}\n\
         memory: {{limitBytes: 256Mi}}\n\
         receivers:\n  prometheus:\n    allowLocalAddresses: true\n    jobs:\n      \
         - name: node\n        targets: [{targets}]\n        intervalSeconds: {interval_seconds}\n        \
         timeoutSeconds: {interval_seconds}\n        \
         limits: {{bodyBytes: 1Gi, samples: 10000000}}\n\
         exporters:\n  kafka:\n    connection: {{bootstrapServers: [\"{broker}\"]}}\n    \
         topics: {{metrics: {topic}}}\n    compression: Zstd\n"
    )
}

fn scrape_configs(setting: &Setting<'_>) -> String {
    let Setting { targets, interval_seconds, .. } = setting;
    let targets = quoted(targets);
    format!(
        "global: {{scrape_interval: {interval_seconds}s, scrape_timeout: {interval_seconds}s}}\n\
         scrape_configs:\n  - job_name: node\n    static_configs: [{{targets: [{targets}]}}]\n"
    )
}

fn otelcol(setting: &Setting<'_>) -> String {
    let Setting { targets, interval_seconds, broker, topic, .. } = setting;
    Place::default()
        .with("targets", quoted(targets))
        .with("interval", interval_seconds.to_string())
        .with("broker", *broker)
        .with("topic", *topic)
        .fill(OTELCOL)
}
