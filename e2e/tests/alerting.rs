//! An alert on its way to a person, all parts real but the person: the chart's rules in a Prometheus,
//! an Alertmanager behind it, and a listener where a pager would be.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write, stderr};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_e2e::process::Process;
use millrace_e2e::{binaries, chart, http, wait};
use millrace_stack::Stack;
use millrace_stack::progress::Timed;
use millrace_stack::prometheus::{self, Program};
use millrace_stack::service::free_port;
use serde_json::{Value, json};

/// Scrapes, evaluations and groups of a second each, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Notifications that wait to be looked at; there are two.
const NOTIFICATIONS: usize = 16;
/// Where an installation serves its pages.
const RUNBOOKS: &str = "https://docs.example.com/millrace/alerts.html";
/// What a gateway says once it has set a record aside.
const DEAD_LETTERS: &str =
    "millrace_records_dead_lettered_total{signal=\"logs\",reason=\"too_large\"} 3\n";

/// A pod's metrics and a person's pager, on one port.
struct World {
    address: SocketAddr,
    in_trouble: Arc<AtomicBool>,
    notifications: Receiver<Value>,
}

impl World {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let in_trouble = Arc::new(AtomicBool::new(true));
        let (sender, notifications) = sync_channel(NOTIFICATIONS);
        let trouble = Arc::clone(&in_trouble);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(&stream, trouble.load(Ordering::Relaxed), &sender);
            }
        });
        Ok(Self { address, in_trouble, notifications })
    }

    fn notified(&self) -> Value {
        self.notifications.recv_timeout(LIMIT).expect("no notification came")
    }
}

/// Answers one request: the metrics to who reads, thanks to who writes.
fn answer(mut stream: &TcpStream, in_trouble: bool, sender: &SyncSender<Value>) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if !body.is_empty() {
        sender.try_send(serde_json::from_slice(&body)?)?;
    }
    let text = if in_trouble { DEAD_LETTERS } else { "" };
    let length = text.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n";
    write!(stream, "{head}content-length: {length}\r\n\r\n{text}")?;
    Ok(())
}

/// Starts a program with settings and a log in `folder`. YAML holds JSON.
fn start(
    folder: &Path,
    name: &str,
    mut command: Command,
    settings: &Value,
    args: &[String],
) -> Result<Process> {
    let file = folder.join(format!("{name}.yaml"));
    fs::write(&file, settings.to_string())?;
    command.arg(format!("--config.file={}", file.display())).args(args);
    Process::start(name, &mut command, &folder.join(format!("{name}.log")))
}

fn free() -> SocketAddr {
    let host = Ipv4Addr::LOCALHOST.into();
    SocketAddr::new(host, free_port(host).unwrap())
}

/// Scenario: a gateway's metrics say that it set records aside; later they are gone with the pod.
/// Guarantee: Alertmanager tells a person once which pool it is, how bad, and where to read what to
/// do, in a section that there is; then that it is over. Slow: Helm renders the chart, Alertmanager
/// and Prometheus start, and an alert must fire and resolve.
#[test]
fn an_alert_reaches_a_person_with_its_runbook() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start().unwrap();
    let stack = Stack::open().unwrap();
    let runbooks = format!("monitoring.runbookUrl={RUNBOOKS}");
    let rules = chart::rules(&stack, &[&runbooks]).unwrap();
    fs::write(folder.path().join("rules.yaml"), rules).unwrap();
    let [alertmanager, server] = [free(), free()];
    let storage = |name: &str| folder.path().join(name).display().to_string();

    let pager = json!({"url": format!("http://{}/", world.address), "send_resolved": true});
    let settings = json!({
        "route": {"receiver": "pager", "group_wait": "1s", "group_interval": "1s",
            "group_by": ["alertname", "namespace", "pool"]},
        "receivers": [{"name": "pager", "webhook_configs": [pager]}],
    });
    let args = [
        format!("--storage.path={}", storage("silences")),
        format!("--web.listen-address={alertmanager}"),
        "--cluster.listen-address=".to_owned(),
    ];
    let progress = Timed::new(stderr());
    let command = prometheus::alertmanager(&progress).unwrap();
    let mut process = start(folder.path(), "alertmanager", command, &settings, &args).unwrap();
    wait::until("Alertmanager", LIMIT, || {
        process.still_runs()?;
        let answer = http::get(alertmanager, "/-/ready")?;
        ensure!(answer.status == 200, "{}", answer.text());
        Ok(())
    })
    .unwrap();

    // As the chart's PodMonitor labels a gateway.
    let labels = json!({"namespace": "obs", "pool": "prod", "role": "gateway", "pod": "prod-0"});
    let settings = json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "alerting": {"alertmanagers":
            [{"static_configs": [{"targets": [alertmanager.to_string()]}]}]},
        "scrape_configs": [{"job_name": "fleet", "static_configs":
            [{"targets": [world.address.to_string()], "labels": labels}]}],
    });
    let args = [
        format!("--storage.tsdb.path={}", storage("series")),
        format!("--web.listen-address={server}"),
        // What is sent before it has found the Alertmanager is lost, and sent again after a minute
        // by itself.
        "--rules.alert.resend-delay=2s".to_owned(),
    ];
    let command = Command::new(prometheus::find_or_fetch(Program::Prometheus, &progress).unwrap());
    let _prometheus = start(folder.path(), "prometheus", command, &settings, &args).unwrap();

    let told = world.notified();
    assert_eq!((&told["status"], &told["receiver"]), (&"firing".into(), &"pager".into()), "{told}");
    let [alert] = told["alerts"].as_array().unwrap().as_slice() else { panic!("{told}") };
    let labels = &alert["labels"];
    let of = ["alertname", "severity", "namespace", "pool", "signal", "reason"];
    let of = of.map(|name| labels[name].as_str().unwrap_or_default());
    let wanted = ["MillraceDeadLetters", "warning", "obs", "prod", "logs", "too_large"];
    assert_eq!(of, wanted, "{alert}");
    let runbook = alert["annotations"]["runbook_url"].as_str().unwrap();
    let section = runbook.strip_prefix(RUNBOOKS).and_then(|it| it.strip_prefix('#')).unwrap();
    let page = fs::read_to_string(binaries::root().join("docs/alerts.md")).unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    assert!(headings.map(str::to_lowercase).any(|it| it == section), "{runbook}");

    world.in_trouble.store(false, Ordering::Relaxed);
    let over = world.notified();
    assert_eq!(over["status"], "resolved", "{over}");
    assert_eq!(over["alerts"][0]["labels"], *labels, "{over}");
}
