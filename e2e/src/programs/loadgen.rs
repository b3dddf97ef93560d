//! The shipped load generator as the judge of a test: it sends, remembers what was acknowledged,
//! and compares all of it with what ClickHouse holds. It is never killed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::programs::binaries;
use crate::programs::process::Process;
use crate::wait;

/// A load to send and check.
#[derive(Debug, Clone)]
pub struct Load {
    /// `traces`, `logs` or `metrics`.
    pub signal: &'static str,
    /// `lean` or `rich`, for traces.
    pub shape: &'static str,
    /// Everything is derived from it.
    pub seed: u64,
    /// Records in all.
    pub count: u64,
    /// Records per second; as fast as they are taken when absent.
    pub rate: Option<u64>,
    /// Records of a resource and resources of a request; the generator's own when absent.
    pub request: Option<(u32, u32)>,
    /// Connections and calls under way on each; the generator's own when absent.
    pub calls: Option<(u16, u16)>,
    /// `grpc` or `http`.
    pub protocol: &'static str,
    /// `none`, `gzip` or `zstd`.
    pub compression: &'static str,
    /// Where it is sent.
    pub endpoint: String,
    /// ClickHouse's URL.
    pub clickhouse: String,
    /// ClickHouse's user.
    pub user: String,
    /// A file with the user's password.
    pub password_file: PathBuf,
    /// The database.
    pub database: String,
    /// `json` or `map`.
    pub attributes: &'static str,
}

/// The figures of the last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Acknowledged records.
    pub sent: u64,
    /// Of these, found.
    pub stored: u64,
    /// Of these, not found.
    pub missing: u64,
    /// Found more often than asked for.
    pub duplicated: u64,
    /// Found with other content than sent.
    pub altered: u64,
    /// Found under this load's name and never sent.
    pub invented: u64,
    /// Copies that the client made, sending again after a lost answer.
    pub resent: u64,
    /// Records that were refused with a code that tells clients to drop them. A check alone
    /// doesn't know.
    pub refused: u64,
    /// The last line itself.
    pub line: String,
    /// The faults it named, a few at most.
    pub faults: Vec<String>,
}

impl Verdict {
    fn parse(output: &str) -> Result<Self> {
        let line = output.lines().rev().find(|line| line.contains(": sent="));
        let line = line.with_context(|| format!("no verdict in:\n{output}"))?;
        let figure =
            |name: &str| figure(line, name).with_context(|| format!("no {name} in: {line}"));
        // Figures of the lines before it.
        let aside = |start: &str, name: &str| {
            let mut lines = output.lines().rev().filter(|line| line.starts_with(start));
            lines.find_map(|line| self::figure(line, name)).unwrap_or(0)
        };
        Ok(Self {
            sent: figure("sent")?,
            stored: figure("stored")?,
            missing: figure("missing")?,
            duplicated: figure("duplicated")?,
            altered: figure("altered")?,
            invented: aside("rows=", "invented"),
            resent: aside("rows=", "resent"),
            refused: aside("acknowledged=", "refused"),
            line: line.to_owned(),
            faults: output.lines().filter(|line| is_fault(line)).map(str::to_owned).collect(),
        })
    }
}

/// A figure of a line that the generator printed: `name=value` among its words.
pub fn figure<T: FromStr>(line: &str, name: &str) -> Option<T> {
    let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value?.parse().ok()
}

/// Whether a line names a fault.
fn is_fault(line: &str) -> bool {
    let kind = line.split(':').next().unwrap_or_default();
    matches!(kind, "missing" | "duplicated" | "altered" | "invented")
}

/// A load under way.
#[derive(Debug)]
pub struct Running {
    process: Process,
}

impl Load {
    /// Start to send; the check follows by itself. Logs go to `folder`.
    ///
    /// # Errors
    /// When the load generator is not built or can't be started.
    pub fn start(&self, folder: &Path) -> Result<Running> {
        self.spawn(folder, "run", |command| {
            self.how_to_send(command);
            self.how_to_check(command);
        })
    }

    /// Send alone, to the end: gives the file that remembers what was acknowledged.
    ///
    /// # Errors
    /// When not everything is acknowledged within `limit`.
    pub fn send(&self, folder: &Path, limit: Duration) -> Result<PathBuf> {
        let Self { signal, shape, seed, .. } = self;
        let state = folder.join(format!("load-{signal}-{shape}-{seed}.json"));
        let mut running = self.spawn(folder, "send", |command| {
            self.how_to_send(command);
            command.arg("--state").arg(&state);
        })?;
        let status = running.end(limit)?;
        if !status.success() {
            bail!("not all was acknowledged:\n{}", running.process.output());
        }
        Ok(state)
    }

    /// Check what an earlier [`Load::send`] remembered, in this load's database.
    ///
    /// # Errors
    /// When there is no verdict within `limit`.
    pub fn check(&self, state: &Path, folder: &Path, limit: Duration) -> Result<Verdict> {
        let running = self.spawn(folder, "check", |command| {
            self.how_to_check(command);
            command.arg("--state").arg(state);
        })?;
        running.verdict(limit)
    }

    fn spawn(
        &self,
        folder: &Path,
        verb: &str,
        arguments: impl FnOnce(&mut Command),
    ) -> Result<Running> {
        let Self { signal, shape, seed, database, .. } = self;
        let mut command = Command::new(binaries::path("millrace-loadgen")?);
        command.arg(verb);
        arguments(&mut command);
        let log = folder.join(format!("loadgen-{verb}-{signal}-{shape}-{seed}-{database}.log"));
        Ok(Running { process: Process::start("millrace-loadgen", &mut command, &log)? })
    }

    fn how_to_send(&self, command: &mut Command) {
        let Self { signal, shape, seed, count, rate, protocol, compression, endpoint, .. } = self;
        if let Some((records, resources)) = self.request {
            command.args(["--records-per-resource", &records.to_string()]);
            command.args(["--resources-per-request", &resources.to_string()]);
        }
        command
            .args(["--endpoint", endpoint, "--protocol", protocol, "--compression", compression])
            .args(["--signal", signal, "--shape", shape])
            .args(["--seed", &seed.to_string(), "--count", &count.to_string()]);
        if let Some((connections, in_flight)) = self.calls {
            command.args(["--connections", &connections.to_string()]);
            command.args(["--in-flight", &in_flight.to_string()]);
        }
        if let Some(rate) = rate {
            command.args(["--rate", &rate.to_string()]);
        }
    }

    fn how_to_check(&self, command: &mut Command) {
        let Self { clickhouse, user, password_file, database, attributes, .. } = self;
        command
            .args(["--clickhouse", clickhouse, "--user", user, "--database", database])
            .args(["--attributes", attributes, "--password-file"])
            .arg(password_file);
    }

    /// Send and check, to the end.
    ///
    /// # Errors
    /// When there is no verdict within `limit`.
    pub fn run(&self, folder: &Path, limit: Duration) -> Result<Verdict> {
        self.start(folder)?.verdict(limit)
    }
}

impl Running {
    /// How many records were acknowledged so far, by its own progress lines.
    pub fn acknowledged(&self) -> u64 {
        let output = self.process.output();
        let mut figures = output.lines().filter_map(|line| line.strip_prefix("acked="));
        let last = figures.next_back().and_then(|rest| rest.split(' ').next()?.parse().ok());
        last.unwrap_or(0)
    }

    /// Wait until so many records were acknowledged: the load is in full flow.
    ///
    /// # Errors
    /// When they aren't within `limit`.
    pub fn reached(&mut self, records: u64, limit: Duration) -> Result<()> {
        wait::until(&format!("{records} records to be acknowledged"), limit, || {
            let now = self.acknowledged();
            if now < records {
                bail!("{now} so far");
            }
            Ok(())
        })
    }

    /// Ask it to send no more; the check of what was acknowledged follows by itself.
    ///
    /// # Errors
    /// When it can't be signalled.
    pub fn stop_sending(&self) -> Result<()> {
        crate::programs::process::signal(self.process.pid(), "INT")
    }

    /// Wait for the end and take the verdict.
    ///
    /// # Errors
    /// When it doesn't end within `limit` or gives no verdict.
    pub fn verdict(mut self, limit: Duration) -> Result<Verdict> {
        self.end(limit)?;
        Verdict::parse(&self.process.output())
    }

    fn end(&mut self, limit: Duration) -> Result<ExitStatus> {
        let process = &mut self.process;
        let ended = wait::until("the load generator's end", limit, || {
            process.ended()?.context("still running")
        });
        ended.with_context(|| crate::programs::process::last_lines(&self.process.output(), 20))
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    /// Scenario: the generator's output with a shortfall. Guarantee: the figures are read, not
    /// taken for clean.
    #[test]
    fn a_shortfall_is_read_as_one() {
        let output = "acknowledged=10 refused=3 gave-up=0\nrows=9 invented=4 resent=5\n\
                      shortfall: sent=10 stored=9 missing=1 duplicated=0 altered=2\n";
        let verdict = Verdict::parse(output).unwrap();
        assert_eq!((verdict.sent, verdict.stored), (10, 9));
        assert_eq!((verdict.missing, verdict.duplicated, verdict.altered), (1, 0, 2));
        assert_eq!((verdict.invented, verdict.resent, verdict.refused), (4, 5, 3));
        assert!(Verdict::parse("no such line").is_err());
    }
}
