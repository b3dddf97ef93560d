//! Runs a plan, step by step, and looks again. Every statement may be run twice, so a run that was
//! cut anywhere is mended by the next one, and two runs at once do no harm.

use crate::client::{Client, ClientError, Endpoint};
use crate::declared::Declared;
use crate::drift::{Drift, diff};
use crate::observe::observe;
use crate::plan::{Blocked, Permit, Plan, Step, plan};

/// What running a plan came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Steps that ran, in order.
    pub done: Vec<Step>,
    /// Steps the permit did not allow, left alone.
    pub refused: Vec<Step>,
}

/// A plan stopped half-way. What ran before stands; running a new plan goes on from there.
#[derive(Debug, thiserror::Error)]
#[error("{object}: cannot {what} (after {done} of {all} statements): {source}")]
pub struct ApplyError {
    /// The table or database of the failed step.
    pub object: String,
    /// What the failed step was to do.
    pub what: String,
    /// Steps that ran before it.
    pub done: usize,
    /// Steps of the whole plan.
    pub all: usize,
    /// Why it failed.
    pub source: ClientError,
}

impl From<ApplyError> for ClientError {
    /// The cause, for callers that only class it.
    fn from(error: ApplyError) -> Self {
        error.source
    }
}

/// Runs the steps the permit allows, in order, on the server the client asks.
///
/// # Errors
/// The first step that failed, with how far the plan came.
pub async fn apply(client: &Client, plan: &Plan, permit: Permit) -> Result<Applied, ApplyError> {
    let mut applied = Applied::default();
    for step in &plan.steps {
        if !permit.allows(step.class) {
            applied.refused.push(step.clone());
            continue;
        }
        client.execute(&step.statement).await.map_err(|source| ApplyError {
            object: step.object.clone(),
            what: step.what.clone(),
            done: applied.done.len(),
            all: plan.steps.len(),
            source,
        })?;
        applied.done.push(step.clone());
    }
    Ok(applied)
}

/// What still differs on the server the client asks; empty means equal.
///
/// # Errors
/// The server cannot be asked.
pub async fn verify(client: &Client, declared: &Declared) -> Result<Vec<Drift>, ClientError> {
    Ok(diff(declared, &observe(client, declared).await?))
}

/// What [`converge`] came to, over all servers.
#[derive(Debug, Default)]
pub struct Converged {
    /// Steps that ran, each with the server it ran on.
    pub applied: Vec<(Endpoint, Step)>,
    /// Steps the permit did not allow.
    pub refused: Vec<(Endpoint, Step)>,
    /// Differences no statement mends.
    pub blocked: Vec<(Endpoint, Blocked)>,
    /// What still differs afterwards, notices included.
    pub drift: Vec<(Endpoint, Drift)>,
    /// Servers that could not be brought there, and why; the others were.
    pub failed: Vec<(Endpoint, ConvergeError)>,
}

/// Why one server could not be brought to its declaration.
#[derive(Debug, thiserror::Error)]
pub enum ConvergeError {
    /// It could not be asked what it has.
    #[error("cannot read the tables: {0}")]
    Observe(#[source] ClientError),
    /// A statement failed.
    #[error(transparent)]
    Apply(ApplyError),
}

impl ConvergeError {
    /// The client's error underneath.
    #[must_use]
    pub fn cause(&self) -> &ClientError {
        match self {
            Self::Observe(cause) => cause,
            Self::Apply(ApplyError { source, .. }) => source,
        }
    }
}

/// Observes, plans, applies and looks again, on every endpoint of the client one after the other:
/// endpoints are servers of their own, and a table has to exist on each. One that is down does not
/// hold up the others.
///
/// # Errors
/// No server could be brought there: the last one's error.
pub async fn converge(
    client: &Client,
    declared: &Declared,
    permit: Permit,
) -> Result<Converged, ConvergeError> {
    let mut all = Converged::default();
    let servers = client.each();
    let count = servers.len();
    for server in servers {
        let endpoint = server.endpoint().clone();
        match converge_one(&server, declared, permit).await {
            Ok(One { applied, blocked, drift }) => {
                let Applied { done, refused } = applied;
                all.applied.extend(done.into_iter().map(|step| (endpoint.clone(), step)));
                all.refused.extend(refused.into_iter().map(|step| (endpoint.clone(), step)));
                all.blocked.extend(blocked.into_iter().map(|each| (endpoint.clone(), each)));
                all.drift.extend(drift.into_iter().map(|each| (endpoint.clone(), each)));
            }
            Err(error) if all.failed.len() + 1 == count => return Err(error),
            Err(error) => all.failed.push((endpoint, error)),
        }
    }
    Ok(all)
}

struct One {
    applied: Applied,
    blocked: Vec<Blocked>,
    drift: Vec<Drift>,
}

async fn converge_one(
    client: &Client,
    declared: &Declared,
    permit: Permit,
) -> Result<One, ConvergeError> {
    let observed = observe(client, declared).await.map_err(ConvergeError::Observe)?;
    let plan = plan(declared, &observed);
    if plan.steps.is_empty() {
        let drift = diff(declared, &observed);
        return Ok(One { applied: Applied::default(), blocked: plan.blocked, drift });
    }
    let applied = apply(client, &plan, permit).await.map_err(ConvergeError::Apply)?;
    let drift = verify(client, declared).await.map_err(ConvergeError::Observe)?;
    Ok(One { applied, blocked: plan.blocked, drift })
}
