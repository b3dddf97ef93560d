//! Converges every server of a client to its declaration, one after the other, and reports the
//! remaining differences. [`crate::migrate`] does the work on one server.

use crate::client::{ClientError, DdlClient, ServerEndpoint};
use crate::declared::Declared;
use crate::live::drift::{Drift, find_drift};
use crate::live::observe::{has_tables, observe_database, observe_declared};
use crate::live::origin::TableOrigin;
use crate::migrate::plan::{Blocked, PlanStep};
use crate::migrate::{MigrateError, MigrateOptions, MigrationReport, migrate_server};
use crate::render;

/// Returns what still differs on the client's server; an empty result means equal.
///
/// # Errors
/// The server cannot be queried.
pub async fn verify_tables(
    client: &DdlClient,
    declared: &Declared,
) -> Result<Vec<Drift>, ClientError> {
    Ok(find_drift(declared, &observe_declared(client, declared).await?))
}

/// The result of [`converge_servers`] over all servers.
#[derive(Debug, Default)]
pub struct ConvergeReport {
    /// Steps that ran, each with the server it ran on.
    pub applied: Vec<(ServerEndpoint, PlanStep)>,
    /// Steps that the permit did not allow.
    pub refused: Vec<(ServerEndpoint, PlanStep)>,
    /// Differences that no statement repairs.
    pub blocked: Vec<(ServerEndpoint, Blocked)>,
    /// What still differs afterwards, notices included.
    pub drift: Vec<(ServerEndpoint, Drift)>,
    /// Finished migrations, by number.
    pub migrations: Vec<(ServerEndpoint, u32)>,
    /// The origin of the existing tables, where this was the first run with a journal.
    pub adopted: Vec<(ServerEndpoint, TableOrigin)>,
    /// Servers that did not converge, and why; the others did.
    pub failed: Vec<(ServerEndpoint, MigrateError)>,
}

/// Observes, plans, applies and observes again, on each endpoint of the client in turn. Endpoints
/// are separate servers, and a table has to exist on each. A server that is down does not hold up
/// the others.
///
/// # Errors
/// No server converged; the error is the last one's.
pub async fn converge_servers(
    client: &DdlClient,
    declared: &Declared,
    options: &MigrateOptions,
) -> Result<ConvergeReport, MigrateError> {
    let mut all = ConvergeReport::default();
    let servers = client.per_endpoint();
    let count = servers.len();
    for server in servers {
        let at = server.endpoint().clone();
        match migrate_server(&server, declared, options).await {
            Ok(done) => all.add_server(&at, done),
            Err(error) if all.failed.len() + 1 == count => return Err(error),
            Err(error) => all.failed.push((at, error)),
        }
    }
    Ok(all)
}

impl ConvergeReport {
    fn add_server(&mut self, at: &ServerEndpoint, done: MigrationReport) {
        fn with_endpoint<T>(
            at: &ServerEndpoint,
            list: impl IntoIterator<Item = T>,
        ) -> Vec<(ServerEndpoint, T)> {
            list.into_iter().map(|each| (at.clone(), each)).collect()
        }
        let MigrationReport { server: _, adopted, migrations, applied, blocked, before: _, drift } =
            done;
        self.applied.extend(with_endpoint(at, applied.done));
        self.refused.extend(with_endpoint(at, applied.refused));
        self.blocked.extend(with_endpoint(at, blocked));
        self.drift.extend(with_endpoint(at, drift));
        self.migrations.extend(with_endpoint(at, migrations));
        self.adopted.extend(with_endpoint(at, adopted));
    }
}

/// Drops the declared tables and views with all their rows, but not the database. Missing ones are
/// no error. The journal goes too, unless tables of another signal share it: it has the record of
/// who holds them, and the claim of a run at work on them.
///
/// # Errors
/// The server can't be queried, or refuses.
pub async fn drop_tables(client: &DdlClient, declared: &Declared) -> Result<(), ClientError> {
    let replicates_itself = observe_database(client, &declared.database).await?.unwrap_or(false);
    let adapted = replicates_itself.then(|| declared.for_replicated_database());
    let adapted = adapted.as_ref().unwrap_or(declared);
    let mut statements = render::drop_all(adapted);
    if !has_tables(client, &declared.of_other_signals()).await? {
        statements.push(render::drop_journal(adapted));
    }
    for statement in statements {
        let statement = match replicates_itself {
            true => statement.with_replica_timeout(),
            false => statement,
        };
        match client.execute(&statement).await {
            // Without the database there are no tables either.
            Ok(()) | Err(ClientError::UnknownDatabase { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
