//! `send` and `verify`: post test records to edge pods through the API server's proxy, and poll
//! ClickHouse for them with the collector's command `rows` in a gateway's pod. Polling starts
//! before anything is sent: a missing right costs no record, and the time of a row is known to a
//! quarter of a second.
//!
//! No record is sent twice: after a failed request the command sends nothing more, and reports how
//! many records were accepted before.
//!
//! Limits: 10,000 records, two minutes of sending, ten of waiting, 64 KiB of the tool's error
//! output.

use std::process::Stdio;
use std::time::Duration;

use millrace_crds::v1alpha1::Signal;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::Instant;

use super::CONFIG;
use crate::args::{ClusterArgs, Send, TestRunArgs, Verify};
use crate::command::exec;
use crate::command::watch::read_facts;
use crate::command::{CommandOutput, CommandSession};
use crate::error::Error;
use crate::facts::Facts;
use crate::gather::{Depth, EdgeAddress};
use crate::load::TestLoad;
use crate::render::{self, format_count, format_plural};
use crate::report::{self, Entrance, InKafka, RowCounts, TestRun};

/// Maximum time until the tool's first observation, its start included.
const FIRST_POLL_MAX: Duration = Duration::from_secs(60);
/// Maximum time of sending.
const SENDING_MAX: Duration = Duration::from_secs(120);
/// Time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum bytes retained of the tool's error output.
const COMPLAINT_BYTES_MAX: u64 = 64 * 1024;
/// The advice if no gateway pod is ready.
const INSTEAD: &str = "`kubectl millrace status` shows why its gateways are not ready";

/// Sends one record.
pub(in crate::command) async fn send_record(
    session: &CommandSession,
    cluster_args: &ClusterArgs,
    args: &Send,
) -> Result<CommandOutput, Error> {
    let run = follow_records(session, cluster_args, &args.run, args.wait, (1, 1)).await?;
    let answer = CommandOutput::from_report(render::render_hops(&run, session.palette), &run)?;
    Ok(CommandOutput { healthy: run.each_once(), ..answer })
}

/// Sends many records.
pub(in crate::command) async fn verify_load(
    session: &CommandSession,
    cluster_args: &ClusterArgs,
    args: &Verify,
) -> Result<CommandOutput, Error> {
    let run =
        follow_records(session, cluster_args, &args.run, args.wait, (args.records, args.seed))
            .await?;
    let answer = CommandOutput::from_report(render::render_tally(&run, session.palette), &run)?;
    Ok(CommandOutput { healthy: run.each_once(), ..answer })
}

/// Sends `records` records of a seed, and waits for their rows.
async fn follow_records(
    session: &CommandSession,
    cluster_args: &ClusterArgs,
    route: &TestRunArgs,
    wait_seconds: u32,
    (records, seed): (u32, u64),
) -> Result<TestRun, Error> {
    let facts = read_facts(session, &route.named, Depth::Pods).await?;
    let signal = choose_signal(&facts, route)?;
    let entrances = report::find_entrances(&facts, signal, route.pool.as_deref());
    let entrances = entrances.map_err(Error::Impossible)?;
    let pod = exec::ready_gateway(&facts, INSTEAD)?;
    let load =
        TestLoad { signal, run: (session.run)().max(1), seed, records, began: (session.now)() };
    let wait = Duration::from_secs(wait_seconds.into());
    let mut looking = RowWatch::start(cluster_args, route, &facts, &pod, &load, wait).await?;
    let began = Instant::now();
    let used = send_requests(session, &facts, &entrances, &load).await?;
    let accepted_after = began.elapsed();
    (session.progress)(&format!(
        "{} accepted; waiting for rows in {}",
        format_plural(records, "record"),
        looking.counts.table
    ));
    let stored = looking.wait_for_rows(session, records, began, Instant::now() + wait).await?;
    let rows = looking.counts.clone();
    let mut topics: Vec<String> = used.iter().map(|one| one.topic.clone()).collect();
    topics.dedup();
    let mut run = TestRun {
        namespace: facts.namespace().to_owned(),
        name: facts.name().to_owned(),
        signal: signal.as_str(),
        run: load.run_id(),
        seed,
        records,
        requests: load.request_count(),
        pods: used.iter().map(|one| one.pod.clone()).collect(),
        topics,
        in_kafka: used.iter().map(|one| one.in_kafka).max().unwrap_or(InKafka::NotTold),
        accepted_millis: as_millis(accepted_after),
        stored_millis: stored.map(as_millis),
        waited_millis: as_millis(began.elapsed().saturating_sub(accepted_after)),
        missing: u64::from(records).saturating_sub(rows.found),
        rows,
        hints: Vec::new(),
    };
    if !run.each_once() {
        run.hints = report::collect_hints(&facts);
    }
    Ok(run)
}

fn as_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn choose_signal(facts: &Facts, route: &TestRunArgs) -> Result<Signal, Error> {
    let handled: Vec<Signal> =
        facts.pipeline.spec.signals.iter().map(|(signal, _)| signal).collect();
    let requested = route.signal.map(Signal::from).or(handled.first().copied());
    requested.filter(|signal| handled.contains(signal)).ok_or_else(|| {
        let names: Vec<&str> = handled.iter().map(|signal| signal.as_str()).collect();
        Error::Impossible(format!(
            "pipeline {} does not handle that signal: write --signal {}",
            facts.name(),
            names.join(" or --signal ")
        ))
    })
}

/// Sends the requests to the pods in turn; returns the used pods.
async fn send_requests<'a>(
    session: &CommandSession,
    facts: &Facts,
    entrances: &'a [Entrance],
    load: &TestLoad,
) -> Result<Vec<&'a Entrance>, Error> {
    let deadline = Instant::now() + SENDING_MAX;
    let used = entrances.iter().take(load.request_count() as usize).collect();
    let mut accepted = 0;
    for (request, entrance) in (0..load.request_count()).zip(entrances.iter().cycle()) {
        let door = EdgeAddress { pod: entrance.pod.clone(), encrypted: entrance.encrypted };
        let body = load.request_body(request);
        let sent = session.cluster.export_records(facts.namespace(), &door, load.signal, &body);
        let sent = tokio::time::timeout_at(deadline, sent).await.unwrap_or_else(|_elapsed| {
            Err(Error::Impossible(format!(
                "not all records could be sent within {} s: send fewer",
                SENDING_MAX.as_secs()
            )))
        });
        if let Err(error) = sent {
            // An error about a right stays unchanged if nothing was sent before it.
            return Err(match (accepted, error) {
                (0, error @ Error::Denied(_)) => error,
                (accepted, error) => Error::Impossible(format!(
                    "{error}. {} of {} records were accepted before, as run {}; this request was \
                     not repeated",
                    format_count(accepted),
                    format_count(load.records),
                    load.run_id()
                )),
            });
        }
        accepted += load.records_of(request);
    }
    Ok(used)
}

/// A line of the tool's output.
#[derive(Deserialize)]
#[serde(untagged)]
enum OutputLine {
    Counts(RowCounts),
    Failed { error: String },
}

/// The tool while it polls.
struct RowWatch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pod: String,
    namespace: String,
    counts: RowCounts,
    /// Why the last poll failed, if it did.
    trouble: Option<String>,
}

impl RowWatch {
    /// Starts the tool, and waits for its first observation.
    async fn start(
        cluster_args: &ClusterArgs,
        route: &TestRunArgs,
        facts: &Facts,
        pod: &str,
        load: &TestLoad,
        wait: Duration,
    ) -> Result<Self, Error> {
        let mut words = exec::kubectl_args(cluster_args, facts.namespace(), pod);
        let total = (wait + SENDING_MAX).as_secs();
        let own = [
            ("--config", CONFIG.to_owned()),
            ("--signal", load.signal.as_str().to_owned()),
            ("--run", load.run_id()),
            ("--since", load.began.as_second().to_string()),
            ("--expect", load.records.to_string()),
            ("--wait", total.to_string()),
        ];
        words.push("rows".to_owned());
        words.extend(own.into_iter().flat_map(|(option, value)| [option.to_owned(), value]));
        let mut command = Command::new(&route.kubectl);
        command.args(&words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = route.kubectl.display().to_string();
        let failed = |cause: String| Error::Program { program: program.clone(), cause };
        let mut child =
            command.kill_on_drop(true).spawn().map_err(|error| failed(error.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        let mut looking = Self {
            child,
            lines: BufReader::new(stdout).lines(),
            pod: pod.to_owned(),
            namespace: facts.namespace().to_owned(),
            counts: RowCounts::default(),
            trouble: None,
        };
        let unanswered = "nothing was sent";
        match tokio::time::timeout(FIRST_POLL_MAX, looking.next()).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Err(looking.ended_error(unanswered).await),
            Ok(Err(error)) => return Err(error),
            Err(_elapsed) => {
                return Err(Error::Impossible(format!(
                    "the collector's tool did not answer in pod {pod} within {} s; {unanswered}",
                    FIRST_POLL_MAX.as_secs()
                )));
            }
        }
        match &looking.trouble {
            None => Ok(looking),
            Some(cause) => Err(Error::Impossible(format!(
                "ClickHouse can't be queried from pod {pod}: {cause}; {unanswered}"
            ))),
        }
    }

    /// Reads a line; returns false at the end.
    async fn next(&mut self) -> Result<bool, Error> {
        let failed = |cause: String| Error::Server {
            what: format!("in the output of the collector's tool in pod {}", self.pod),
            cause,
        };
        let line = self.lines.next_line().await.map_err(|error| failed(error.to_string()))?;
        let Some(line) = line else { return Ok(false) };
        match serde_json::from_str(&line) {
            Ok(OutputLine::Counts(counts)) => (self.counts, self.trouble) = (counts, None),
            Ok(OutputLine::Failed { error }) => self.trouble = Some(error),
            Err(error) => return Err(failed(format!("{error}: {}", render::sanitize_text(&line)))),
        }
        Ok(true)
    }

    /// Waits until all rows exist or the deadline; returns the time since `began`, or `None` at the
    /// deadline.
    async fn wait_for_rows(
        &mut self,
        session: &CommandSession,
        records: u32,
        began: Instant,
        deadline: Instant,
    ) -> Result<Option<Duration>, Error> {
        let mut printed_at = Instant::now();
        while self.counts.found < records.into() {
            match tokio::time::timeout_at(deadline, self.next()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => {
                    let accepted = format!(
                        "accepted: {}; whether each is stored is unknown",
                        format_plural(records, "record")
                    );
                    return Err(self.ended_error(&accepted).await);
                }
                Ok(Err(error)) => return Err(error),
                Err(_elapsed) => return Ok(None),
            }
            if printed_at.elapsed() >= PROGRESS_INTERVAL {
                printed_at = Instant::now();
                let trouble = self.trouble.as_ref().map(|cause| format!(" ({cause})"));
                (session.progress)(&format!(
                    "{} of {} rows after {} s{}",
                    format_count(self.counts.found),
                    format_count(records),
                    began.elapsed().as_secs(),
                    trouble.unwrap_or_default()
                ));
            }
        }
        Ok(Some(began.elapsed()))
    }

    /// Returns why the tool ended early.
    async fn ended_error(&mut self, so: &str) -> Error {
        let mut complaint = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            // Unreadable error output is omitted.
            let _read = stderr.take(COMPLAINT_BYTES_MAX).read_to_string(&mut complaint).await;
        }
        let complaint = complaint.trim();
        if complaint.contains("orbidden") && complaint.contains("pods/exec") {
            return Error::Denied(exec::exec_right(&self.namespace));
        }
        if complaint.contains("unrecognized subcommand") {
            return Error::Impossible(format!(
                "the collector in pod {} is of an older release, without the command rows: upgrade \
                 the pipeline's image; {so}",
                self.pod
            ));
        }
        let lines: Vec<&str> = complaint.lines().collect();
        Error::Impossible(format!(
            "the collector's tool ended in pod {}: {}; {so}",
            self.pod,
            lines.join(" ")
        ))
    }
}
