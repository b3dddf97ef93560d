//! Both sides on the same targets: Debian's Prometheus, which writes to a receiver of the test, and
//! ours as it is deployed, from an edge by Kafka and a gateway to the engine. Both are given the
//! same text for their jobs, but for the parameter that says who asks.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_e2e::collector::{Collector, Launch};
use millrace_e2e::lab::{DRAIN_LIMIT, Lab, Variant};
use millrace_e2e::process::Process;
use millrace_e2e::{topics, wait};
use millrace_stack::progress::Silent;
use millrace_stack::{prometheus, service};

use super::answers::Target;
use super::targets::{Client, Targets};
use super::written::{Receiver, Written};

/// Between scrapes. The time-out leaves a busy machine time for an answer of some kilobytes.
pub(crate) const INTERVAL: Duration = Duration::from_secs(3);
/// A silent target costs this.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);
/// A target that nothing listens at.
pub(crate) const REFUSED: &str = "refused";
const GROUP: &str = "prometheus";
/// For what was scraped last to be in the table.
const LIMIT: Duration = Duration::from_secs(120);

/// What each job has beside times, parameters and its target.
const fn job(target: Target) -> &'static str {
    match target {
        Target::Honored => "    honor_labels: true\n",
        Target::Unstamped => "    honor_timestamps: false\n",
        Target::Limited => "    sample_limit: 10\n",
        Target::Relabeled => {
            "    relabel_configs:
      - {source_labels: [__address__], regex: '(.*):\\d+', target_label: host, replacement: 'h-$1'}
      - {source_labels: [target], modulus: 7, target_label: shard, action: hashmod}
      - {regex: 'zone_(.+)', action: labelmap}
      - {regex: 'zone_.*', action: labeldrop}
      - {target_label: instance, replacement: custom}
    metric_relabel_configs:
      - {source_labels: [__name__], regex: 'go_.*', action: drop}
      - {source_labels: [__name__], regex: 'old_(.*)', target_label: __name__, replacement: 'new_$1'}
      - {source_labels: [drop_me], regex: 'yes', action: drop}
      - {regex: tmp, action: labeldrop}
      - {source_labels: [device], target_label: device, action: lowercase}
      - {source_labels: [id], regex: id-5, action: drop}
      - {source_labels: [__name__, le], regex: 'new_seconds_bucket;4', action: drop}
"
        }
        _ => "",
    }
}

/// The text of the jobs.
fn jobs(targets: &Targets, client: Client, list: &str, refused: u16) -> Result<String> {
    let (by, interval, timeout) = (client.name(), INTERVAL.as_secs(), TIMEOUT.as_secs());
    let mut text = format!(
        "global: {{scrape_interval: {interval}s, scrape_timeout: {timeout}s}}\nscrape_configs:\n"
    );
    let mut add = |name: &str, address: &str, more: &str| {
        text.push_str(&format!(
            "  - job_name: {name}\n    params: {{by: [{by}]}}\n{more}    static_configs:\n      \
             - {{targets: ['{address}'], labels: {{target: {name}, env: prod, zone_name: x}}}}\n"
        ));
    };
    for target in Target::ALL {
        match (target, client) {
            // Ours has a setting for native histograms, which Prometheus has for all jobs.
            (Target::Native, Client::Ours) | (Target::Listed, _) => {}
            _ => add(target.name(), &targets.address(target)?.to_string(), job(target)),
        }
    }
    add(REFUSED, &format!("127.0.0.1:{refused}"), "");
    text.push_str(&format!(
        "  - job_name: listed\n    params: {{by: [{by}]}}\n    file_sd_configs:\n      \
         - {{files: ['{list}']}}\n"
    ));
    Ok(text)
}

/// Both, running.
pub(crate) struct Sides<'l> {
    lab: &'l Lab,
    list: PathBuf,
    receiver: Receiver,
    prometheus: Process,
    edge: Collector,
    gateway: Collector,
}

impl<'l> Sides<'l> {
    /// Starts both.
    pub(crate) fn start(lab: &'l Lab, targets: &Targets) -> Result<Self> {
        let refused = service::free_port(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        let list = lab.folder().join("listed.json");
        let listed = targets.address(Target::Listed)?;
        let content =
            format!("[{{\"targets\":[\"{listed}\"],\"labels\":{{\"target\":\"listed\"}}}}]");
        fs::write(&list, content)?;
        let text = |client| jobs(targets, client, &list.to_string_lossy(), refused);
        let receiver = Receiver::start()?;
        let prometheus = theirs(lab, &text(Client::Theirs)?, &receiver)?;
        lab.make_tables(Variant::Map.database(), Variant::Map)?;
        let gateway = lab.gateway_into("gateway", GROUP, Variant::Map, "")?;
        let edge = ours(lab, targets, &text(Client::Ours)?)?;
        Ok(Self { lab, list, receiver, prometheus, edge, gateway })
    }

    /// Takes the listed target away.
    pub(crate) fn unlist(&self) -> Result<()> {
        let partial = self.list.with_extension("partial");
        fs::write(&partial, "[]")?;
        fs::rename(&partial, &self.list).context("the list can't be replaced")
    }

    /// Both still run.
    pub(crate) fn still_run(&mut self) -> Result<()> {
        self.prometheus.still_runs()?;
        self.edge.process().still_runs()?;
        self.gateway.process().still_runs()
    }

    /// Ends both in good order, when all of theirs is written and all of ours is stored.
    pub(crate) fn end(mut self) -> Result<Written> {
        let name = "millrace_scrapes_skipped_total";
        let skipped = self.edge.metric(name, "")?;
        ensure!(
            skipped == 0.0,
            "{skipped} scrapes of ours were given up: is the machine too busy?"
        );
        let ended = self.edge.process().terminate(DRAIN_LIMIT)?;
        ensure!(ended.success(), "the edge ended with {ended}");
        // It writes what it has before it ends.
        self.prometheus.terminate(LIMIT)?;
        let bootstrap = self.lab.broker.bootstrap();
        wait::until("all points to be stored", LIMIT, || {
            let committed = topics::committed(&bootstrap, GROUP, "otlp_metrics")?;
            let marks = topics::watermarks(&bootstrap, "otlp_metrics")?;
            let behind =
                marks.iter().zip(committed).map(|((low, high), at)| high - at.unwrap_or(*low));
            let behind: i64 = behind.sum();
            ensure!(behind == 0, "{behind} messages are not committed");
            Ok(())
        })?;
        let ended = self.gateway.process().terminate(DRAIN_LIMIT)?;
        ensure!(ended.success(), "the gateway ended with {ended}");
        self.receiver.end()
    }
}

fn theirs(lab: &Lab, jobs: &str, receiver: &Receiver) -> Result<Process> {
    let program = prometheus::find_or_fetch(prometheus::Program::Prometheus, &Silent)?;
    let config = lab.folder().join("prometheus.yml");
    let remote = format!(
        "remote_write:\n  - url: http://{}/write\n    send_exemplars: true\n    \
         send_native_histograms: true\n    metadata_config: {{send: false}}\n    \
         queue_config: {{max_shards: 1, batch_send_deadline: 1s}}\n",
        receiver.address
    );
    fs::write(&config, format!("{jobs}{remote}"))?;
    let port = service::free_port(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", lab.folder().join("prometheus").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--enable-feature=native-histograms,exemplar-storage");
    Process::start("prometheus", &mut command, &lab.folder().join("prometheus.log"))
}

fn ours(lab: &Lab, targets: &Targets, jobs: &str) -> Result<Collector> {
    let indented: String = jobs.lines().map(|line| format!("      {line}\n")).collect();
    let settings = format!(
        "receivers:\n  prometheus:\n    allowLocalAddresses: true\n    scrapeConfigs: |\n{indented}    \
         jobs:\n      - name: native\n        targets: ['{}']\n        nativeHistograms: true\n        \
         intervalSeconds: {}\n        timeoutSeconds: {}\n        params: {{by: [ours]}}\n        \
         labels: {{target: native, env: prod, zone_name: x}}\n\
         exporters:\n  kafka:\n    connection: {{bootstrapServers: ['{}']}}\n",
        targets.address(Target::Native)?,
        INTERVAL.as_secs(),
        TIMEOUT.as_secs(),
        lab.broker.bootstrap(),
    );
    let mut edge = lab.launch("edge", &settings, Launch::default())?;
    edge.ready()?;
    Ok(edge)
}
