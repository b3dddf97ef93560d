//! Reads the tables of each ClickHouse server.

use std::time::Duration;

use futures::future::{join, join_all};
use kube::ResourceExt;
use millrace_coordination::observation::{ClickHouseServer, Observation, ViewError};
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{
    ChangePolicy, ClickHouseAuthentication, ClickHouseLogin, ClickHouseTarget, ClickHouseTls,
    TelemetrySchema,
};
use millrace_ddl as ddl;

use crate::clickhouse::clickhouse_failure;
use crate::context::Context;
use crate::error::{Category, ReconcileStep, StepError};
use crate::outbound::CLICKHOUSE_ANSWER_BYTES_MAX;
use crate::outbound::credentials::{Login, Secrets};

/// The time limit for observing a server. A dozen short queries of system tables take well under a
/// second; a hanging server must not delay the others, nor occupy a reconcile's slot.
pub(super) const OBSERVE_MAX: Duration = Duration::from_secs(10);

/// The declaration, and the tables of each server.
pub(super) struct Observed {
    pub(super) declared: ddl::Declared,
    pub(super) servers: Vec<ServerTables>,
    /// Keeper or ZooKeeper; `None` if no table needs it.
    pub(super) coordination: Option<Observation>,
}

impl Observed {
    /// Returns the servers that answered.
    pub(super) fn reachable_servers(&self) -> Vec<ddl::DdlClient> {
        let answering = self.servers.iter().filter(|server| server.tables.is_ok());
        answering.map(|server| server.client.clone()).collect()
    }

    /// Returns whether holders may be recorded: that may create a journal, a change that may need
    /// approval.
    pub(super) fn may_record(&self, schema: &TelemetrySchema) -> bool {
        let journal = self.declared.journal();
        let tables = |server: &ServerTables| {
            let tables = server.tables.as_ref().ok();
            tables.is_some_and(|tables| tables.tables.contains_key(journal.table()))
        };
        let policy = schema.spec.approval.changes.unwrap_or_default();
        policy == ChangePolicy::Automatic || self.servers.iter().all(tables)
    }
}

/// One server: its tables, or why they can't be read.
pub(super) struct ServerTables {
    /// Queries this server alone.
    pub(super) client: ddl::DdlClient,
    pub(super) tables: Result<ddl::Observed, StepError>,
}

/// Reads the connections' Secrets, and the tables of all servers and their coordination in
/// parallel. A server that is down does not delay the others.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or can't be reached.
pub(super) async fn observe_servers(
    context: &Context,
    schema: &TelemetrySchema,
    declared: ddl::Declared,
) -> Result<Observed, StepError> {
    let clients = build_client(context, schema).await?.per_endpoint();
    let coordination = observe_coordination(context, schema, &declared, clients.clone());
    let reads = clients.into_iter().map(|client| {
        let declared = &declared;
        async move {
            let read =
                tokio::time::timeout(OBSERVE_MAX, context.tables.observe_tables(&client, declared));
            let late = || ddl::ClientError::Timeout {
                endpoint: client.endpoint().clone(),
                waited: OBSERVE_MAX,
            };
            let tables =
                read.await.unwrap_or_else(|_elapsed| Err(late())).map_err(clickhouse_failure);
            ServerTables { client, tables }
        }
    });
    let (servers, coordination) = join(join_all(reads), coordination).await;
    Ok(Observed { declared, servers, coordination: coordination? })
}

/// Observes Keeper or ZooKeeper, through the ClickHouse servers and directly; `None` if no table
/// needs it.
async fn observe_coordination(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    clients: Vec<ddl::DdlClient>,
) -> Result<Option<Observation>, StepError> {
    if !ddl::needs_coordination(declared) {
        return Ok(None);
    }
    let request = super::coordination::probe_request(context, schema).await?;
    let engines = clients.iter().map(|client| async move {
        let read = context.tables.observe_coordination(client, declared);
        let late = |_elapsed| {
            let seconds = OBSERVE_MAX.as_secs();
            Err(ViewError::Unreachable(format!("no answer in {seconds} s")))
        };
        let view = tokio::time::timeout(OBSERVE_MAX, read).await.unwrap_or_else(late);
        ClickHouseServer { endpoint: client.endpoint().to_string(), view }
    });
    let (servers, engines) =
        join(context.coordination.probe_servers(&request), join_all(engines)).await;
    let shards = usize::from(schema.spec.clickhouse.shards());
    Ok(Some(Observation { servers, engines, shards }))
}

/// Returns a client of all servers, with its secrets.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or can't be reached.
pub(super) async fn build_client(
    context: &Context,
    schema: &TelemetrySchema,
) -> Result<ddl::DdlClient, StepError> {
    let ClickHouseTarget {
        endpoints,
        // Every server of every shard has the tables.
        shards: _,
        database: _,
        table_prefix: _,
        cluster: _,
        distributed: _,
        authentication: _,
        admin: _,
        tls,
        coordination: _,
    } = &schema.spec.clickhouse;
    let endpoints = endpoints
        .iter()
        .map(|endpoint| endpoint.as_str().parse())
        .collect::<Result<Vec<ddl::ServerEndpoint>, _>>()
        .map_err(StepError::spec_invalid)?;
    let refused = endpoints.iter().find_map(|it| context.outbound.refusal_of_host(it.host()));
    if let Some(why) = refused {
        let (category, reason) = (Category::Invalid, Reason::HostNotAllowed);
        return Err(StepError::new(ReconcileStep::Validate, category, reason, why));
    }
    let secrets = Secrets::in_namespace(&context.client, &schema.namespace().unwrap_or_default());
    let mut options = ddl::ClientOptions::new(endpoints);
    options.limits = ddl::ClientLimits {
        response_bytes_max: Some(CLICKHOUSE_ANSWER_BYTES_MAX),
        budget: Some(context.outbound.response_budget.clone()),
        addresses: context.outbound.addresses,
    };
    if let Some(authentication) = schema.spec.clickhouse.operator_authentication() {
        authenticate(&mut options, authentication, &secrets).await?;
    }
    if let Some(ClickHouseTls { ca: Some(ca) }) = tls {
        options.tls.ca_pem = Some(secrets.read_authority(ca).await?.into_bytes());
    }
    ddl::DdlClient::new(options).map_err(clickhouse_failure)
}

/// Sets credentials, and a client certificate if they are one.
async fn authenticate(
    options: &mut ddl::ClientOptions,
    authentication: &ClickHouseAuthentication,
    secrets: &Secrets,
) -> Result<(), StepError> {
    let login = authentication.login().map_err(StepError::spec_invalid)?;
    options.credentials = match login {
        ClickHouseLogin::Password { username, password } => {
            let Login { username, password } = secrets.read_user(username, password).await?;
            let password = ddl::Secret::new(password);
            ddl::UserCredentials::Password { user: username, password }
        }
        ClickHouseLogin::Certificate { username, certificate } => {
            let (certificate, key) = secrets.read_certificate(certificate).await?;
            options.tls.identity = Some(ddl::ClientIdentity {
                certificate_pem: certificate.into_bytes(),
                key_pem: ddl::Secret::new(key),
            });
            let user = secrets.read_username(username).await?;
            ddl::UserCredentials::Certificate { user }
        }
        ClickHouseLogin::Token(token) => {
            ddl::UserCredentials::Token(ddl::Secret::new(secrets.read_value(token).await?))
        }
    };
    Ok(())
}
