//! What scrapes cost with and without connections that are kept: a measurement, run by hand.
//!
//! `cargo test --release -p millrace-source-prometheus prometheus::cost -- --ignored --nocapture`

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millrace_certificates::Authority;
use millrace_config::{HttpTls, PrometheusReceiver, Scheme, ScrapeJob, SecretFile, TargetAddress};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::component::SourceContext;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::telemetry::Telemetry;
use millrace_source_prometheus::{HostNames, PrometheusSource, TargetStatus, start};
use millrace_wire::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

/// All on one port, by addresses of loopback's network.
const TARGETS: usize = 500;
const WARM: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(15);
/// A processor's time is counted in these.
const TICKS_PER_SECOND: f64 = 100.0;

/// Takes all and looks at nothing.
struct Void;

impl Publish for Void {
    fn publish(&self, _: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        let (sender, delivery) = PendingDelivery::new_pair();
        sender.finish_with(Ok(DeliveryReceipt::default()));
        Ok(delivery)
    }

    fn accepts_signal(&self, _: Signal) -> bool {
        true
    }
}

/// Whose threads are told by their name.
fn runtime(name: &str) -> Runtime {
    Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build().unwrap()
}

/// Seconds of processor time of all threads with a name.
fn cpu_seconds(name: &str) -> f64 {
    let mut ticks = 0.0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        // A thread may have ended.
        let Ok(stat) = fs::read_to_string(task.unwrap().path().join("stat")) else { continue };
        let (head, rest) = stat.rsplit_once(')').unwrap();
        if head.ends_with(&format!("({name}")) {
            let fields: Vec<f64> =
                rest.split_whitespace().map(|it| it.parse().unwrap_or(0.0)).collect();
            ticks += fields[11] + fields[12];
        }
    }
    ticks / TICKS_PER_SECOND
}

fn resident_bytes() -> f64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}

fn body(lines: usize) -> String {
    let mut text = String::new();
    for line in 0..lines {
        writeln!(text, "node_cpu_seconds_total{{cpu=\"{line}\",mode=\"idle\"}} {line}.5").unwrap();
    }
    text
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: Arc<Vec<u8>>, keeps: bool) {
    let mut read = [0; 4096];
    let mut head = Vec::new();
    loop {
        match stream.read(&mut read).await {
            Ok(count) if count > 0 => head.extend_from_slice(&read[..count]),
            _ => return,
        }
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            if stream.write_all(&answer).await.is_err() || stream.flush().await.is_err() || !keeps {
                let _ = stream.shutdown().await;
                return;
            }
        }
    }
}

/// A server on all addresses of loopback's network. With TLS, whom to trust too.
fn served(server: &Runtime, lines: usize, keeps: bool, is_https: bool) -> (SocketAddr, String) {
    let text = body(lines);
    let connection = if keeps { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: {connection}\r\n\
         content-length: {}\r\n\r\n",
        text.len()
    );
    let answer = Arc::new([head.as_bytes(), text.as_bytes()].concat());
    let authority = Authority::new("cost");
    let acceptor = TlsAcceptor::from(authority.sign("localhost").server());
    let listener = server.block_on(TcpListener::bind("0.0.0.0:0")).unwrap();
    let address = listener.local_addr().unwrap();
    server.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answer, acceptor) = (Arc::clone(&answer), acceptor.clone());
            tokio::spawn(async move {
                if !is_https {
                    serve(stream, answer, keeps).await;
                } else if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, answer, keeps).await;
                }
            });
        }
    });
    (address, authority.pem())
}

/// Scenario: 500 targets are scraped once a second, over http and https, with small and with larger
/// bodies, by servers that close connections and that keep them. Guarantee: none is down. It says
/// what each scrape cost the scraper.
#[test]
#[ignore = "a measurement: minutes on an idle machine"]
fn cost_of_connections() {
    let folder = tempfile::tempdir().unwrap();
    for is_https in [false, true] {
        for lines in [50, 1000] {
            for keeps in [false, true] {
                measure(&folder, lines, keeps, is_https);
            }
        }
    }
}

fn measure(folder: &tempfile::TempDir, lines: usize, keeps: bool, is_https: bool) {
    let (server, client) = (runtime("served"), runtime("scraper"));
    let (address, pem) = served(&server, lines, keeps, is_https);
    let file = folder.path().join("ca.crt");
    fs::write(&file, pem).unwrap();
    let target = |number: usize| {
        let (high, low) = (number / 250, number % 250 + 1);
        TargetAddress::new(format!("127.0.{high}.{low}:{}", address.port())).unwrap()
    };
    let tls = HttpTls {
        ca_file: Some(SecretFile::new(&file).unwrap()),
        server_name: Some("localhost".to_owned()),
        ..HttpTls::default()
    };
    let job = ScrapeJob {
        name: "cost".into(),
        targets: (0..TARGETS).map(target).collect(),
        interval_seconds: 1,
        timeout_seconds: 1,
        scheme: if is_https { Scheme::Https } else { Scheme::Http },
        tls: is_https.then_some(tls),
        ..ScrapeJob::default()
    };
    let budget = Budget::new(1 << 30);
    let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
    let drain = Drain::new(Duration::from_secs(10));
    let board = TargetStatus::default();
    let targets = PrometheusSource {
        settings: PrometheusReceiver {
            jobs: vec![job],
            allow_local_addresses: true,
            ..PrometheusReceiver::default()
        },
        target_status: board.clone(),
        share: None,
        hosts: HostNames::of_system(),
    };
    let context = SourceContext {
        budget,
        drain: drain.clone(),
        telemetry: Arc::clone(&telemetry),
        publisher: Arc::new(Void),
    };
    let scraper = start(targets, context).unwrap();
    let running = client.spawn(scraper.run());
    let scrapes = || {
        let text = telemetry.render().unwrap();
        let line = text.lines().find(|line| line.starts_with("millrace_scrapes_total ")).unwrap();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    std::thread::sleep(WARM);
    let before = (cpu_seconds("scraper"), scrapes());
    std::thread::sleep(MEASURED);
    let (seconds, count) = (cpu_seconds("scraper") - before.0, scrapes() - before.1);
    let down = board.targets_view(0, TARGETS).jobs[0].down;
    let micros = seconds * 1e6 / count;
    let (mib, scheme) = (resident_bytes() / 1048576.0, if is_https { "https" } else { "http" });
    println!(
        "{scheme} lines {lines} kept {keeps}: {micros:.0} us of CPU a scrape, {count} scrapes, \
         {down} down, {mib:.0} MiB resident with the server"
    );
    drain.begin();
    assert!(client.block_on(running).unwrap());
    assert_eq!(down, 0);
}
