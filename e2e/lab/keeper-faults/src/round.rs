//! One strike under load, and the verdict on what its sessions saw.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use millrace_keeper_histories::{History, Outcome, judge};
use millrace_stack::random::Random;
use millrace_stack::zookeeper::Ensemble;
use serde_json::{Value, json};
use tokio::sync::watch;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::clients::{self, RETRY, Round, SESSION_TIMEOUT, SESSIONS};
use crate::recorder::Recorder;
use crate::strikes::{CLOCK_STEP_SECONDS, Strike, Tools};

/// Load before and after a strike.
const CALM: Duration = Duration::from_millis(1000);
/// How long servers that serve may refuse a session.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Steps for each node's search. A right history takes about one for each operation.
const BUDGET: u64 = 20_000_000;
/// A quorum ends a session within its time-out and a tick after it leads; twice that is certain.
const SESSIONS_GONE: Duration = Duration::from_secs(2 * SESSION_TIMEOUT.as_secs() + 1);
/// Findings that a line quotes; the first says most.
const QUOTED: usize = 5;

/// What a strike came to.
#[derive(Debug)]
pub struct Done {
    /// One line of JSON.
    pub line: Value,
    /// Whether every promise was kept, for certain.
    pub is_kept: bool,
    /// What was recorded.
    pub history: History,
}

/// Strikes once, with sessions at work, and judges.
///
/// # Errors
/// When the strike can't be done or the servers don't come back: that says nothing of promises.
pub async fn run(
    strike: Strike,
    name: &str,
    seed: u64,
    mut ensemble: Ensemble,
    tools: Tools,
) -> Result<(Done, Ensemble, Tools)> {
    let began = Instant::now();
    let recorder = Arc::new(Recorder::default());
    let cluster = make_root(&ensemble.connect_string(), name).await?;
    let (end, over) = watch::channel(false);
    let round = Round { recorder: Arc::clone(&recorder), cluster, over };
    let workers: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let random = Random::named(seed, &format!("{name}/{number}"));
            tokio::spawn(clients::work(round.clone(), random))
        })
        .collect();
    tokio::time::sleep(CALM).await;
    let mut random = Random::named(seed, name);
    let struck = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let outcome = strike.strike(&mut ensemble, &tools, &mut random);
        (outcome, ensemble, tools, began.elapsed())
    });
    let (outcome, ensemble, tools, struck) = struck.await.context("the strike was broken off")?;
    let another_leads = outcome.with_context(|| format!("{strike:?} could not be done"))?;
    tokio::time::sleep(CALM).await;
    end.send_replace(true);
    let mut last = Vec::new();
    for worker in workers {
        last.extend(worker.await.context("a session's task was broken off")?);
    }
    tokio::time::sleep(SESSIONS_GONE).await;
    recorder.all_gone();
    let mut broken = last_looks(&recorder, &round, &last).await;
    if strike == Strike::ClockStep
        && recorder.off_seconds() + 10 < CLOCK_STEP_SECONDS.unsigned_abs()
    {
        broken.push(format!("no clock stepped: {} s off at most", recorder.off_seconds()));
    }
    let history = recorder.history().clone();
    let verdict = judge(&history, BUDGET).context("the recorder wrote nonsense")?;
    broken.extend(verdict.findings.iter().take(QUOTED).map(ToString::to_string));
    broken.extend(verdict.undecided.iter().take(QUOTED).map(|left| format!("undecided: {left:?}")));
    let is_kept = broken.is_empty();
    let is = |wanted: fn(&Outcome) -> bool| {
        history.operations.iter().filter(|operation| wanted(&operation.outcome)).count()
    };
    let tenth = |time: Duration| (time.as_secs_f64() * 10.0).round() / 10.0;
    let line = json!({
        "strike": name,
        "seed": seed,
        "sessions": last.len() + history.endings.len(),
        "ended": history.endings.len(),
        "moved": history.moved.len(),
        "operations": history.operations.len(),
        "written": is(|outcome| matches!(outcome, Outcome::Written(_))),
        "refused": is(|outcome| matches!(outcome, Outcome::Refused { .. })),
        "read": is(|outcome| matches!(outcome, Outcome::Read(_))),
        "unknown": is(|outcome| *outcome == Outcome::Unknown),
        "fired": history.fired.len(),
        "another_leads": another_leads,
        "struck_s": tenth(struck),
        "seconds": tenth(began.elapsed()),
        "steps": verdict.steps,
        "findings": verdict.findings.len(),
        "undecided": verdict.undecided.len(),
        "broken": broken,
    });
    Ok((Done { line, is_kept, history }, ensemble, tools))
}

/// Each session that lives, and a new one, read everything after a `sync`.
async fn last_looks(
    recorder: &Arc<Recorder>,
    round: &Round,
    last: &[(Client, millrace_keeper_histories::Session)],
) -> Vec<String> {
    let mut broken = Vec::new();
    match connect(&round.cluster).await {
        Ok(client) => {
            let session = recorder.session();
            broken.extend(clients::look(recorder, &client, session).await.err());
        }
        Err(error) => broken.push(format!("no session after the strike: {error}")),
    }
    for (client, session) in last {
        // One that ended since has nothing to say.
        if client.state().is_terminated() {
            recorder.ending(*session);
        } else {
            broken.extend(clients::look(recorder, client, *session).await.err());
        }
    }
    broken
}

/// A session of servers that serve: one try after the other, since a busy machine may answer a
/// try too late.
async fn connect(servers: &str) -> Result<Client, zookeeper_client::Error> {
    let began = Instant::now();
    loop {
        let connector = Client::connector().with_session_timeout(SESSION_TIMEOUT);
        match connector.connect(servers).await {
            Err(_) if began.elapsed() < CONNECT_TIMEOUT => tokio::time::sleep(RETRY).await,
            outcome => return outcome,
        }
    }
}

/// Every round has its own part of the tree.
async fn make_root(servers: &str, name: &str) -> Result<String> {
    let client = connect(servers).await.context("no session before the strike")?;
    let root = format!("/{name}");
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create(&root, b"", &options).await.with_context(|| format!("{root} can't be made"))?;
    Ok(format!("{servers}{root}"))
}
