//! Brings every server of a client to its declaration, one after the other, and says what is left.
//! The work on one server is [`crate::migrate`]'s.

use crate::client::{Client, ClientError, Endpoint};
use crate::declared::Declared;
use crate::drift::{Drift, diff};
use crate::migrate::{MigrateError, MigrateOptions, Migrated, migrate};
use crate::observe::observe;
use crate::origin::Origin;
use crate::plan::{Blocked, Step};

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
    /// Migrations that were finished, by number, and whose tables were taken over.
    pub migrations: Vec<(Endpoint, u32)>,
    /// Whose tables were taken over, where this was the first run with a journal.
    pub adopted: Vec<(Endpoint, Origin)>,
    /// Servers that could not be brought there, and why; the others were.
    pub failed: Vec<(Endpoint, MigrateError)>,
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
    options: &MigrateOptions,
) -> Result<Converged, MigrateError> {
    let mut all = Converged::default();
    let servers = client.each();
    let count = servers.len();
    for server in servers {
        let at = server.endpoint().clone();
        match migrate(&server, declared, options).await {
            Ok(done) => all.add(&at, done),
            Err(error) if all.failed.len() + 1 == count => return Err(error),
            Err(error) => all.failed.push((at, error)),
        }
    }
    Ok(all)
}

impl Converged {
    fn add(&mut self, at: &Endpoint, done: Migrated) {
        fn with<T>(at: &Endpoint, list: impl IntoIterator<Item = T>) -> Vec<(Endpoint, T)> {
            list.into_iter().map(|each| (at.clone(), each)).collect()
        }
        let Migrated { server: _, adopted, migrations, applied, blocked, before: _, drift } = done;
        self.applied.extend(with(at, applied.done));
        self.refused.extend(with(at, applied.refused));
        self.blocked.extend(with(at, blocked));
        self.drift.extend(with(at, drift));
        self.migrations.extend(with(at, migrations));
        self.adopted.extend(with(at, adopted));
    }
}
