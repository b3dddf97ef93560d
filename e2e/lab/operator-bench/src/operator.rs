//! An operator as a process of this machine: started, asked for its metrics, ended. It is ended
//! when dropped, so that nothing is left running.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::settings::{PoolKind, Settings};

/// An answer of the admin port takes milliseconds.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The operator itself allows 12 s for running reconciles and 4 s for its lease.
const STOP_MAX: Duration = Duration::from_secs(25);
/// Where everything of a run is.
pub(crate) const NAMESPACE: &str = "operator-bench";
/// The lease all operators of a run share.
pub(crate) const LEASE: &str = "operator-bench";

/// What the chart sets for its memory.
const AS_IN_THE_CHART: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MIMALLOC_ARENA_EAGER_COMMIT", "0"),
    ("MIMALLOC_PURGE_DELAY", "0"),
];

/// A running operator.
pub(crate) struct Operator {
    child: Child,
    admin: SocketAddr,
    /// When it was started.
    pub(crate) started: Instant,
}

/// Metrics by name and labels, as they stand in the text.
pub(crate) type Metrics = BTreeMap<String, f64>;

impl Operator {
    /// Starts an operator that looks after the bench's namespace only, with a lease of so many
    /// seconds; of the cluster that `kubeconfig` names, or the environment.
    ///
    /// # Errors
    /// When the binary cannot be started.
    pub(crate) fn start(
        settings: &Settings,
        kubeconfig: Option<&Path>,
        name: &str,
        lease_seconds: u32,
    ) -> Result<Self> {
        let free = TcpListener::bind("127.0.0.1:0").context("no free port")?.local_addr()?;
        let log = std::env::temp_dir().join(format!("{LEASE}-{name}-{}.log", std::process::id()));
        let log = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let mut command = Command::new(&settings.operator);
        if let Some(kubeconfig) = kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        let child = command
            .args(["--watch-namespace", NAMESPACE, "--lease-name", LEASE])
            .args(["--collector-image-repository", "registry.example.com/millrace/collector"])
            .args(["--lease-namespace", NAMESPACE, "--admin-address", &free.to_string()])
            .args(["--lease-duration-seconds", &lease_seconds.to_string()])
            .args(settings.watch_secrets.then_some("--watch-secrets"))
            // Loopback is the operator's own machine, which specs may name only if it is listed.
            .args(settings.has_kafka.then_some("--allowed-host=127.0.0.1"))
            .args(settings.has_kafka.then_some("--allowed-host=*.example"))
            .args(match settings.kind {
                PoolKind::Edge => &[][..],
                // As in a cluster, where its name is known.
                PoolKind::Gateway => &["--cluster-id", "bench"],
            })
            .env("POD_NAME", name)
            .envs(AS_IN_THE_CHART)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()
            .with_context(|| format!("cannot start {}", settings.operator.display()))?;
        Ok(Self { child, admin: free, started: Instant::now() })
    }

    /// Resident memory, in bytes.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes: u64 =
            line.and_then(|it| it.split_whitespace().next()).context("no VmRSS")?.parse()?;
        Ok(kibibytes * 1024)
    }

    /// Processor time used so far, in seconds.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after = stat.rsplit_once(')').context("an odd /proc/stat")?.1;
        let ticks = after.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.map(|it| it.parse::<u64>().unwrap_or(0)).sum();
        // Linux reports a hundred ticks a second to programs, whatever its own clock.
        Ok(ticks as f64 / 100.0)
    }

    /// Its metrics; an error while it does not answer.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub(crate) fn metrics(&self) -> Result<Metrics> {
        let mut stream = TcpStream::connect_timeout(&self.admin, ANSWER_MAX)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: bench\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let body = text.split_once("\r\n\r\n").context("no HTTP answer")?.1;
        let lines = body.lines().filter(|line| !line.starts_with('#'));
        let read = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.trim_start_matches("millrace_operator_").to_owned(), value.parse().ok()?))
        };
        Ok(lines.filter_map(read).collect())
    }

    /// Ends it by the signal called `signal` and waits until it is gone.
    ///
    /// # Errors
    /// When it does not end in time.
    pub(crate) fn end(mut self, signal: &str) -> Result<()> {
        self.signal(signal)?;
        let asked = Instant::now();
        while self.child.try_wait()?.is_none() {
            if asked.elapsed() > STOP_MAX {
                bail!("the operator did not end within {STOP_MAX:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args([signal, &pid]).status()?;
        if told.success() { Ok(()) } else { bail!("kill {signal} {pid} failed") }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum of all series of a metric.
pub(crate) fn sum(metrics: &Metrics, name: &str) -> f64 {
    let prefix = format!("{name}{{");
    let found = metrics.iter().filter(|(key, _)| key.starts_with(&prefix) || *key == name);
    // The sum of nothing is -0.0.
    found.map(|it| it.1).sum::<f64>() + 0.0
}
