//! Reads what each ClickHouse server has.

use std::time::Duration;

use futures::future::{join, join_all};
use kube::ResourceExt;
use millrace_coordination::observation::{Blindness, Engine, Observation};
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{
    CaRef, ChangePolicy, ClickHouseTarget, ClickHouseTls, TelemetrySchema,
};
use millrace_ddl as ddl;

use crate::clickhouse::failed;
use crate::context::Context;
use crate::error::{Category, Step, StepError};
use crate::outbound::CLICKHOUSE_ANSWER_BYTES_MAX;
use crate::outbound::credentials::Secrets;

/// Longest observation of a server. A dozen short queries of system tables take well under a
/// second; a hanging server must not delay the others, nor keep a reconcile's slot.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// What is declared, and what each server has.
pub(super) struct Observed {
    pub(super) declared: ddl::Declared,
    pub(super) servers: Vec<Server>,
    /// Keeper or ZooKeeper; `None` where no table needs it.
    pub(super) coordination: Option<Observation>,
}

impl Observed {
    /// The servers that answered.
    pub(super) fn answering(&self) -> Vec<ddl::Client> {
        let answering = self.servers.iter().filter(|server| server.tables.is_ok());
        answering.map(|server| server.client.clone()).collect()
    }

    /// Whether holders may be recorded: that may create a journal, a change that may need approval.
    pub(super) fn may_record(&self, schema: &TelemetrySchema) -> bool {
        let journal = self.declared.journal();
        let tables = |server: &Server| {
            let tables = server.tables.as_ref().ok();
            tables.is_some_and(|tables| tables.tables.contains_key(journal.table()))
        };
        let policy = schema.spec.changes.unwrap_or_default();
        policy == ChangePolicy::Automatic || self.servers.iter().all(tables)
    }
}

/// One server: its tables, or why they can't be read.
pub(super) struct Server {
    /// Asks this server alone.
    pub(super) client: ddl::Client,
    pub(super) tables: Result<ddl::Observed, StepError>,
}

/// Reads the connections' Secrets, and the tables of all servers and their coordination in
/// parallel. A server that is down does not delay the others.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or can't be reached.
pub(super) async fn observe(
    context: &Context,
    schema: &TelemetrySchema,
    declared: ddl::Declared,
) -> Result<Observed, StepError> {
    let clients = connection(context, schema).await?.each();
    let coordination = coordination(context, schema, &declared, clients.clone());
    let looks = clients.into_iter().map(|client| {
        let declared = &declared;
        async move {
            let look = tokio::time::timeout(LOOK_MAX, context.tables.observe(&client, declared));
            let late = || ddl::ClientError::Timeout {
                endpoint: client.endpoint().clone(),
                waited: LOOK_MAX,
            };
            let tables = look.await.unwrap_or_else(|_elapsed| Err(late())).map_err(failed);
            Server { client, tables }
        }
    });
    let (servers, coordination) = join(join_all(looks), coordination).await;
    Ok(Observed { declared, servers, coordination: coordination? })
}

/// How Keeper or ZooKeeper is, by the ClickHouse servers and by its own; `None` where no table
/// needs it.
async fn coordination(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    clients: Vec<ddl::Client>,
) -> Result<Option<Observation>, StepError> {
    if !ddl::needs_coordination(declared) {
        return Ok(None);
    }
    let ask = super::coordination::ask(context, schema).await?;
    let engines = clients.iter().map(|client| async move {
        let look = context.tables.coordination(client, declared);
        let late = |_elapsed| {
            let seconds = LOOK_MAX.as_secs();
            Err(Blindness::Unreachable(format!("no answer in {seconds} s")))
        };
        let said = tokio::time::timeout(LOOK_MAX, look).await.unwrap_or_else(late);
        Engine { endpoint: client.endpoint().to_string(), said }
    });
    let (servers, engines) = join(context.coordination.look(&ask), join_all(engines)).await;
    let shards = usize::from(schema.spec.clickhouse.shards());
    Ok(Some(Observation { servers, engines, shards }))
}

/// A client of all servers, with its secrets.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or can't be reached.
pub(super) async fn connection(
    context: &Context,
    schema: &TelemetrySchema,
) -> Result<ddl::Client, StepError> {
    let ClickHouseTarget {
        endpoints,
        // Every server has the tables, whichever shard it is of.
        shards: _,
        database: _,
        table_prefix: _,
        cluster: _,
        distributed: _,
        credentials_secret_ref,
        tls,
        coordination: _,
    } = &schema.spec.clickhouse;
    let endpoints = endpoints
        .iter()
        .map(|endpoint| endpoint.as_str().parse())
        .collect::<Result<Vec<ddl::Endpoint>, _>>()
        .map_err(|error| {
            StepError::new(Step::Validate, Category::Invalid, Reason::SpecInvalid, error)
        })?;
    let refused = endpoints.iter().find_map(|it| context.outbound.refuses(it.host()));
    if let Some(why) = refused {
        let (category, reason) = (Category::Invalid, Reason::HostNotAllowed);
        return Err(StepError::new(Step::Validate, category, reason, why));
    }
    let secrets = Secrets::of(&context.client, &schema.namespace().unwrap_or_default());
    let mut options = ddl::ClientOptions::new(endpoints);
    options.limits = ddl::Limits {
        answer_bytes_max: Some(CLICKHOUSE_ANSWER_BYTES_MAX),
        budget: Some(context.outbound.answers.clone()),
        refuses_link_local: true,
    };
    if let Some(reference) = credentials_secret_ref {
        let login = secrets.login(reference).await?;
        options.credentials =
            ddl::Credentials { user: login.username, password: ddl::Secret::new(login.password) };
    }
    if let Some(ClickHouseTls { ca_secret_ref: Some(ca) }) = tls {
        options.tls.ca_pem = Some(authority(&secrets, ca).await?);
    }
    ddl::Client::new(options).map_err(failed)
}

async fn authority(secrets: &Secrets, reference: &CaRef) -> Result<Vec<u8>, StepError> {
    Ok(secrets.authority(reference).await?.into_bytes())
}
