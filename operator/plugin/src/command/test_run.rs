//! `send` and `verify`: test records go in at edge pods by the API server's proxy, and the
//! collector's command `rows` looks for them in ClickHouse from a gateway's pod. It begins to look
//! before anything is sent: a right that is missing costs no record, and the time of a row is known
//! to a quarter of a second.
//!
//! No record is sent twice: after a request that failed nothing more is sent, and it is said how
//! many were taken before.
//!
//! Limits: 10,000 records, two minutes of sending, ten of waiting, 64 KiB of the tool's complaint.

use std::process::Stdio;
use std::time::Duration;

use millrace_crds::v1alpha1::Signal;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::Instant;

use super::exec::{self, CONFIG};
use super::watch::facts;
use super::{Answer, Session};
use crate::args::{Place, Send, Verify, Way};
use crate::error::Error;
use crate::facts::Facts;
use crate::gather::{Depth, Door};
use crate::load::Load;
use crate::render::{self, count};
use crate::report::{self, Entrance, InKafka, Seen, TestRun};

/// The longest that the tool takes to look once, its start included.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(60);
/// The longest time of sending.
const SENDING_MAX: Duration = Duration::from_secs(120);
/// Between two words about progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// What is kept of the tool's complaint.
const COMPLAINT_BYTES_MAX: u64 = 64 * 1024;
/// What a person does where no gateway pod is ready.
const INSTEAD: &str = "`kubectl millrace status` says what keeps its gateways from being ready";

/// One record.
pub(super) async fn send(session: &Session, place: &Place, args: &Send) -> Result<Answer, Error> {
    let run = follow(session, place, &args.way, args.wait, (1, 1)).await?;
    let answer = Answer::of(render::hops(&run, session.palette), &run)?;
    Ok(Answer { healthy: run.each_once(), ..answer })
}

/// Many.
pub(super) async fn verify(
    session: &Session,
    place: &Place,
    args: &Verify,
) -> Result<Answer, Error> {
    let run = follow(session, place, &args.way, args.wait, (args.records, args.seed)).await?;
    let answer = Answer::of(render::tally(&run, session.palette), &run)?;
    Ok(Answer { healthy: run.each_once(), ..answer })
}

/// Sends so many records of a seed, and waits for their rows.
async fn follow(
    session: &Session,
    place: &Place,
    way: &Way,
    wait_seconds: u32,
    (records, seed): (u32, u64),
) -> Result<TestRun, Error> {
    let facts = facts(session, &way.named, Depth::Pods).await?;
    let signal = signal(&facts, way)?;
    let entrances = report::entrances(&facts, signal, way.pool.as_deref());
    let entrances = entrances.map_err(Error::Impossible)?;
    let pod = exec::gateway(&facts, INSTEAD)?;
    let load = Load { signal, run: (session.run)().max(1), seed, records, began: (session.now)() };
    let wait = Duration::from_secs(wait_seconds.into());
    let mut looking = Looking::begin(place, way, &facts, &pod, &load, wait).await?;
    let began = Instant::now();
    let used = enter(session, &facts, &entrances, &load).await?;
    let taken = began.elapsed();
    (session.progress)(&format!(
        "{} records taken, waiting for their rows in {}",
        count(records),
        looking.seen.table
    ));
    let stored = looking.until_whole(session, records, began, Instant::now() + wait).await?;
    let seen = looking.seen.clone();
    let mut topics: Vec<String> = used.iter().map(|one| one.topic.clone()).collect();
    topics.dedup();
    let mut run = TestRun {
        namespace: facts.namespace().to_owned(),
        name: facts.name().to_owned(),
        signal: signal.as_str(),
        run: load.run_id(),
        seed,
        records,
        requests: load.requests(),
        pods: used.iter().map(|one| one.pod.clone()).collect(),
        topics,
        in_kafka: used.iter().map(|one| one.in_kafka).max().unwrap_or(InKafka::NotTold),
        taken_millis: millis(taken),
        stored_millis: stored.map(millis),
        waited_millis: millis(began.elapsed().saturating_sub(taken)),
        missing: u64::from(records).saturating_sub(seen.found),
        seen,
        hints: Vec::new(),
    };
    if !run.each_once() {
        run.hints = report::hints(&facts);
    }
    Ok(run)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn signal(facts: &Facts, way: &Way) -> Result<Signal, Error> {
    let handled: Vec<Signal> =
        facts.pipeline.spec.signals.iter().map(|(signal, _)| signal).collect();
    let asked = way.signal.map(Signal::from).or(handled.first().copied());
    asked.filter(|signal| handled.contains(signal)).ok_or_else(|| {
        let names: Vec<&str> = handled.iter().map(|signal| signal.as_str()).collect();
        Error::Impossible(format!(
            "pipeline {} does not handle that signal: write --signal {}",
            facts.name(),
            names.join(" or --signal ")
        ))
    })
}

/// Sends each request to the next pod; returns the pods that were used.
async fn enter<'a>(
    session: &Session,
    facts: &Facts,
    entrances: &'a [Entrance],
    load: &Load,
) -> Result<Vec<&'a Entrance>, Error> {
    let deadline = Instant::now() + SENDING_MAX;
    let used = entrances.iter().take(load.requests() as usize).collect();
    let mut taken = 0;
    for (request, entrance) in (0..load.requests()).zip(entrances.iter().cycle()) {
        let door = Door { pod: entrance.pod.clone(), encrypted: entrance.encrypted };
        let body = load.body(request);
        let sent = session.cluster.export(facts.namespace(), &door, load.signal, &body);
        let sent = tokio::time::timeout_at(deadline, sent).await.unwrap_or_else(|_elapsed| {
            Err(Error::Impossible(format!(
                "not all records could be sent within {} s: ask for fewer",
                SENDING_MAX.as_secs()
            )))
        });
        if let Err(error) = sent {
            // Which right is missing stays as it is: nothing was sent without it.
            return Err(match (taken, error) {
                (0, error @ Error::Denied(_)) => error,
                (taken, error) => Error::Impossible(format!(
                    "{error}. {} of {} records were taken before, as run {}; this request was not \
                     repeated",
                    count(taken),
                    count(load.records),
                    load.run_id()
                )),
            });
        }
        taken += load.records_of(request);
    }
    Ok(used)
}

/// A line of the tool.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Seen(Seen),
    Failed { error: String },
}

/// The tool, while it looks.
struct Looking {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pod: String,
    namespace: String,
    seen: Seen,
    /// Why the last look failed, if it did.
    trouble: Option<String>,
}

impl Looking {
    /// Starts it, and waits for its first look.
    async fn begin(
        place: &Place,
        way: &Way,
        facts: &Facts,
        pod: &str,
        load: &Load,
        wait: Duration,
    ) -> Result<Self, Error> {
        let mut words = exec::words(place, facts.namespace(), pod);
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
        let mut command = Command::new(&way.kubectl);
        command.args(&words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = way.kubectl.display().to_string();
        let failed = |cause: String| Error::Program { program: program.clone(), cause };
        let mut child =
            command.kill_on_drop(true).spawn().map_err(|error| failed(error.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        let mut looking = Self {
            child,
            lines: BufReader::new(stdout).lines(),
            pod: pod.to_owned(),
            namespace: facts.namespace().to_owned(),
            seen: Seen::default(),
            trouble: None,
        };
        let unanswered = "nothing was sent";
        match tokio::time::timeout(FIRST_LOOK_MAX, looking.next()).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Err(looking.ended(unanswered).await),
            Ok(Err(error)) => return Err(error),
            Err(_elapsed) => {
                return Err(Error::Impossible(format!(
                    "the collector's tool said nothing in pod {pod} within {} s; {unanswered}",
                    FIRST_LOOK_MAX.as_secs()
                )));
            }
        }
        match &looking.trouble {
            None => Ok(looking),
            Some(cause) => Err(Error::Impossible(format!(
                "ClickHouse can't be asked from pod {pod}: {cause}; {unanswered}"
            ))),
        }
    }

    /// Reads a line; false at the end.
    async fn next(&mut self) -> Result<bool, Error> {
        let failed = |cause: String| Error::Server {
            what: format!("with what the collector's tool said in pod {}", self.pod),
            cause,
        };
        let line = self.lines.next_line().await.map_err(|error| failed(error.to_string()))?;
        let Some(line) = line else { return Ok(false) };
        match serde_json::from_str(&line) {
            Ok(Line::Seen(seen)) => (self.seen, self.trouble) = (seen, None),
            Ok(Line::Failed { error }) => self.trouble = Some(error),
            Err(error) => return Err(failed(format!("{error}: {}", render::harmless(&line)))),
        }
        Ok(true)
    }

    /// Until all rows are there, or the time is over: how long it took from `began` on.
    async fn until_whole(
        &mut self,
        session: &Session,
        records: u32,
        began: Instant,
        deadline: Instant,
    ) -> Result<Option<Duration>, Error> {
        let mut told = Instant::now();
        while self.seen.found < records.into() {
            match tokio::time::timeout_at(deadline, self.next()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => {
                    let taken = format!(
                        "all {} records were taken; whether they are stored is not known",
                        count(records)
                    );
                    return Err(self.ended(&taken).await);
                }
                Ok(Err(error)) => return Err(error),
                Err(_elapsed) => return Ok(None),
            }
            if told.elapsed() >= PROGRESS_INTERVAL {
                told = Instant::now();
                let trouble = self.trouble.as_ref().map(|cause| format!(" ({cause})"));
                (session.progress)(&format!(
                    "{} of {} rows after {} s{}",
                    count(self.seen.found),
                    count(records),
                    began.elapsed().as_secs(),
                    trouble.unwrap_or_default()
                ));
            }
        }
        Ok(Some(began.elapsed()))
    }

    /// Why it ended before its answer was whole.
    async fn ended(&mut self, so: &str) -> Error {
        let mut complaint = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            // What can't be read of it is left out.
            let _read = stderr.take(COMPLAINT_BYTES_MAX).read_to_string(&mut complaint).await;
        }
        let complaint = complaint.trim();
        if complaint.contains("orbidden") && complaint.contains("pods/exec") {
            return Error::Denied(exec::right(&self.namespace));
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
