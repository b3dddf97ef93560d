//! Start and stop, in order.
//!
//! Start: logs, client, admin port, wait until the kinds are served, watch everything, acquire the
//! lease, reconcile. A standby watches too, so that it has a full cache when it takes over. Stop:
//! SIGTERM or SIGINT ends the controllers (running reconciles finish), then the lease is released,
//! then the admin port closes. A lost lease ends the process at once with its own error, so that
//! two replicas never write. Only this module knows every part.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{FutureExt, Shared, join_all};
use kube::{Api, Client};
use millrace_observe::log;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::args::Args;
use crate::cache::access::AccountBindings;
use crate::cache::by_pool::ByPool;
use crate::cache::children::ChildCache;
use crate::cache::gateway::GatewayCache;
use crate::cache::holders::Holders;
use crate::cache::inserts::Inserts;
use crate::cache::queue_time::QueueTimes;
use crate::cache::secret_references::References;
use crate::cache::shown::ConsoleHistory;
use crate::cache::slots::Slots;
use crate::check::{self, definitions};
use crate::clickhouse::ClickHouseServers;
use crate::clickhouse::migrations::Migrations;
use crate::console::{Access as ConsoleAccess, AccessError, Console};
use crate::context::{Context, Images, SystemClock};
use crate::controllers::{ControllerParts, all_controllers};
use crate::coordination::Prober;
use crate::discovery::{Discovery, WideNamespaces};
use crate::error::error_chain;
use crate::holders;
use crate::kafka::lag_cache::LagCache;
use crate::kafka::{KafkaLag, Pace, Sessions};
use crate::lease::{Ending, LeaderElector};
use crate::outbound::Outbound;
use crate::pods::{HttpPods, MetricsApi, PodSampleCache};
use crate::pool::{access, template};
use crate::reconcile::{WatchScope, gateway_pods};
use crate::report::events::Events;
use crate::sharing;
use crate::telemetry::admin::{self, AdminContext, Health};
use crate::telemetry::export::ExportError;
use crate::telemetry::metrics::{Gauge, Metrics};
use millrace_observe::{http_listener, listen};

/// Reconciles wait for responses more than they compute; two threads also bound the allocator's
/// arenas.
const WORKER_THREADS: usize = 2;
/// Retry interval while a kind is not served yet.
pub(crate) const CRD_POLL: Duration = Duration::from_secs(2);
/// The time for running reconciles to finish after SIGTERM. The chart grants 20 s in all, of which
/// releasing the lease may take 4.
const DRAIN_SECONDS_MAX: u64 = 12;

const LEADER: Gauge<0> =
    Gauge::new("millrace_operator_leader", "1 while this replica holds the lease.", []);

/// The time to send pending traces and logs of the operator at the end.
const EXPORT_END_MAX: Duration = Duration::from_secs(2);

/// The stack of a worker thread. A reconcile holds complete specs by value in each of its calls:
/// without optimization 2 MiB, the default, were too few for a pipeline's. Only pages that are
/// touched take memory.
const STACK_BYTES: usize = 8 << 20;

/// Why the operator could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The threads could not be created.
    #[error("failed to start the async runtime: {0}")]
    Runtime(#[source] std::io::Error),
    /// The log filter is invalid.
    #[error("cannot read the log filter {text:?}: {source}; write a level or target=level pairs")]
    Log {
        /// The text.
        text: String,
        /// The parser's error.
        source: tracing_subscriber::filter::ParseError,
    },
    /// There is no usable kubeconfig or service account.
    #[error("failed to find the Kubernetes API: {0}; run in a pod, or set KUBECONFIG")]
    Client(#[source] kube::Error),
    /// The metrics could not be registered.
    #[error("failed to register the metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// A port is in use.
    #[error("failed to listen on the {server} address {address}: {source}")]
    Listen {
        /// The server, as an attribute of the address.
        server: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// No operator works here.
    #[error(transparent)]
    Check(#[from] check::CheckError),
    /// The console would be open to all.
    #[error(transparent)]
    ConsoleAccess(#[from] AccessError),
    /// The operator's own traces and logs can't be sent.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A signal handler could not be set.
    #[error("failed to listen for signals: {0}")]
    Signals(#[source] std::io::Error),
    /// Another replica leads now.
    #[error("the lease was lost to another replica or could not be renewed in time")]
    LeaseLost,
    /// A controller ended without a request to stop.
    #[error("a controller ended unexpectedly")]
    ControllerEnded,
}

/// Runs the operator until it is requested to stop.
///
/// It is deliberately not an `async` function: its caller would compile all that it awaits, so that
/// the binary would compile every reconciler again.
///
/// # Errors
/// When it cannot start, loses the lease, or a controller ends unexpectedly.
pub fn run_blocking(args: Args) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build()
        .map_err(RunError::Runtime)?;
    runtime.block_on(run_operator(args))
}

/// Checks whether an operator works here, and returns the name of the leading replica.
///
/// # Errors
/// Why no operator works, or why that is unknown.
pub fn check_leader(args: &Args) -> Result<String, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(RunError::Runtime)?.block_on(async {
        let client = Client::try_default().await.map_err(RunError::Client)?;
        Ok(check::wait_for_leader(&client, &args.watch_namespaces, &lease_ref(args, &client))
            .await?)
    })
}

fn lease_ref(args: &Args, client: &Client) -> check::LeaseRef {
    let namespace = args.lease_namespace.clone();
    check::LeaseRef {
        namespace: namespace.unwrap_or_else(|| client.default_namespace().to_owned()),
        name: args.lease_name.clone(),
        terms: args.lease_timing(),
    }
}

async fn run_operator(args: Args) -> Result<(), RunError> {
    let (export, own) = args.export.start_export(&args.replica_identity())?.unzip();
    log::init_logging(&args.log, own)
        .map_err(|source| RunError::Log { text: args.log.clone(), source })?;
    let mut metrics = Metrics::new()?;
    if let Some(export) = &export {
        metrics = metrics.with_export(export)?;
    }
    let outcome = run_replica(args, metrics).await;
    if let Some(export) = export {
        if let Err(error) = &outcome {
            tracing::error!(error = error_chain(error), "the operator ends");
        }
        // The shutdown blocks, so it runs on a thread that may wait.
        let _ = tokio::task::spawn_blocking(move || export.shutdown(EXPORT_END_MAX)).await;
    }
    outcome
}

/// Serves the admin port and leads, until requested to stop.
async fn run_replica(args: Args, metrics: Metrics) -> Result<(), RunError> {
    metrics.set(&LEADER, [], 0);
    let client = Client::try_default().await.map_err(RunError::Client)?;
    let health = Health::default();
    let (stop_sender, stop) = stop_channel()?;
    let address = args.admin_address;
    let console = console_listener(&args).await?;
    let listener = bind_listener("admin", address).await?;
    let (admin_stop, admin_stopped) = watch::channel(false);
    let served = AdminContext {
        health: health.clone(),
        metrics: metrics.clone(),
        metrics_token: args.metrics_token_file.clone(),
    };
    let admin = tokio::spawn(admin::serve_admin(listener, served, wait_until_true(admin_stopped)));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %address, "operator started");

    let outcome = lead_when_elected(&args, client, metrics, &health, console, stop).await;
    health.set_stopping();
    drop(stop_sender);
    let _ = admin_stop.send(true);
    // Only a panic prevents its end, and that has been reported.
    let _ = admin.await;
    outcome
}

/// Resolves when the process is requested to stop; every part has one.
type StopSignal = Shared<futures::future::BoxFuture<'static, ()>>;

/// Watches and waits for the lease, and reconciles while it holds it.
async fn lead_when_elected(
    args: &Args,
    client: Client,
    metrics: Metrics,
    health: &Health,
    console: Option<(TcpListener, ConsoleAccess)>,
    stop: StopSignal,
) -> Result<(), RunError> {
    tokio::select! {
        () = kinds_served(&client, &args.watch_namespaces) => health.set_crds_served(),
        () = stop.clone() => return Ok(()),
    }
    let check::LeaseRef { namespace, name, terms } = lease_ref(args, &client);
    let api = Api::namespaced(client.clone(), &namespace);
    let elector = LeaderElector::new(api, name, args.replica_identity(), terms);
    let cluster = tokio::select! {
        cluster = holders::cluster_id(&client, args.cluster_id.as_deref()) => cluster,
        () = stop.clone() => return Ok(()),
    };
    let context = Arc::new(build_context(args, client.clone(), &metrics, cluster));
    let _console = console.map(|(listener, access)| {
        let pods = HttpPods::default().with_budget(context.outbound.response_budget.clone());
        let console = Console::new(context.clone(), access, Arc::new(pods), args.console_links());
        let answer = move |request| console.clone().handle_request(request);
        // It ends with this function, as do the stores that it shows.
        AbortOnDropHandle::new(tokio::spawn(http_listener::serve(listener, answer, stop.clone())))
    });
    let (leads, leading) = watch::channel(false);
    let controllers =
        run_until_stopped(context.clone(), watch_scopes(&client, args), leading, stop.clone());
    tokio::pin!(controllers);
    let acquired = tokio::select! {
        acquired = elector.acquire() => acquired,
        () = stop.clone() => return Ok(()),
        on_its_own = &mut controllers => return controllers_outcome(on_its_own, health),
    };
    metrics.set(&LEADER, [], 1);
    context.queue_times.clear_all();
    let _ = leads.send(true);

    // The lease is held until the controllers end, so that no other replica starts before.
    let (drained_sender, drained) = watch::channel(false);
    let (ending, on_its_own) = {
        let hold = elector.hold_lease(acquired, wait_until_true(drained));
        tokio::pin!(hold);
        tokio::select! {
            // The lease is lost: dropping the controllers stops them at once; nothing more is
            // written.
            ending = &mut hold => (ending, false),
            on_its_own = &mut controllers => {
                let _ = drained_sender.send(true);
                (hold.await, on_its_own)
            }
        }
    };
    metrics.set(&LEADER, [], 0);
    match ending {
        Ending::Lost => Err(RunError::LeaseLost),
        Ending::Released => controllers_outcome(on_its_own, health),
    }
}

/// Returns the result of the ended controllers.
fn controllers_outcome(on_its_own: bool, health: &Health) -> Result<(), RunError> {
    if !on_its_own {
        return Ok(());
    }
    health.set_broken();
    Err(RunError::ControllerEnded)
}

/// Runs the controllers until they end after a request to stop, or time out. Returns whether they
/// ended without a request.
async fn run_until_stopped(
    context: Arc<Context>,
    scopes: Vec<WatchScope>,
    leading: watch::Receiver<bool>,
    stop: StopSignal,
) -> bool {
    let deadline =
        stop.clone().then(|()| tokio::time::sleep(Duration::from_secs(DRAIN_SECONDS_MAX)));
    tokio::select! {
        () = run_controllers(context, scopes, leading, stop.clone()) => stop.peek().is_none(),
        () = deadline => {
            tracing::warn!("reconciles did not finish in {DRAIN_SECONDS_MAX} s");
            false
        }
    }
}

/// Binds the console's listener, if an address is given.
async fn console_listener(args: &Args) -> Result<Option<(TcpListener, ConsoleAccess)>, RunError> {
    let Some((address, access)) = args.console_endpoint()? else { return Ok(None) };
    let listener = bind_listener("console's", address).await?;
    tracing::info!(%address, ?access, "the console is served");
    Ok(Some((listener, access)))
}

async fn bind_listener(server: &'static str, address: SocketAddr) -> Result<TcpListener, RunError> {
    listen::bind(address).await.map_err(|source| RunError::Listen { server, address, source })
}

fn build_context(
    args: &Args,
    client: Client,
    metrics: &Metrics,
    cluster: Option<String>,
) -> Context {
    let outbound = Outbound::new(args.allowed_hosts.clone(), args.api_server_host.clone())
        .allowing_aws_identity(args.aws_identity_namespaces.clone());
    let sessions = Sessions::new(Pace::default()).bounded_by(outbound.clone());
    let pods = Arc::new(HttpPods::default().with_budget(outbound.response_budget.clone()));
    Context {
        events: Events::new(client.clone(), args.replica_identity(), metrics.clone()),
        metrics: metrics.clone(),
        clock: Arc::new(SystemClock),
        failures: crate::cache::failures::Failures::default(),
        images: Images {
            // The command line is refused without one.
            collector_repository: args.collector_image_repository.clone().unwrap_or_default(),
            collector_digests: args
                .collector_digests
                .iter()
                .map(|known| (known.tag.clone(), known.digest.clone()))
                .collect(),
            collector_version_default: env!("CARGO_PKG_VERSION").to_owned(),
            user: (!args.cluster_assigns_user_ids).then_some(template::USER),
        },
        lag: Arc::new(LagCache::new(Arc::new(KafkaLag::new(client.clone(), sessions.clone())))),
        pods: Arc::new(PodSampleCache::new(pods.clone())),
        shares: pods,
        scraping: ByPool::default(),
        sizings: ByPool::default(),
        console_history: ConsoleHistory::enabled_if(args.console_address.is_some()),
        brokers: Arc::new(sessions),
        coordination: Arc::new(Prober::bounded_by(outbound.clone())),
        coordination_counts: ByPool::default(),
        outbound,
        tables: Arc::new(ClickHouseServers),
        child_cache: ChildCache::default(),
        gateway_cache: GatewayCache::default(),
        queue_times: QueueTimes::default(),
        references: References::default(),
        watches_secrets: args.watch_secrets,
        stores: crate::cache::objects::Stores::default(),
        slots: Slots::default(),
        claims: crate::cache::claims::Claims::default(),
        holders: Holders::new(cluster, args.watch_namespaces.clone()),
        metered: MetricsApi::default(),
        access: AccountBindings::new(
            args.pod_access_binding.clone(),
            args.namespace_access_binding.clone(),
        ),
        share_role: args.share_role.clone(),
        migrations: Migrations::default(),
        inserts: Inserts::default(),
        baselines: ByPool::default(),
        discovery: Discovery::new(
            client.clone(),
            metrics.clone(),
            args.watch_namespaces.clone(),
            WideNamespaces(args.discovery_namespaces.clone()),
        ),
        docs_url: args.docs_url.clone(),
        gathers_secrets: args.gather_secrets,
        client,
    }
}

fn watch_scopes(client: &Client, args: &Args) -> Vec<WatchScope> {
    if args.watch_namespaces.is_empty() {
        return vec![WatchScope::new(client, None)];
    }
    args.watch_namespaces.iter().map(|it| WatchScope::new(client, Some(it))).collect()
}

/// Runs the controllers of all kinds and watches gateways' pods in every scope, shares out targets
/// and revokes rights; ends when all have ended.
async fn run_controllers(
    context: Arc<Context>,
    scopes: Vec<WatchScope>,
    leading: watch::Receiver<bool>,
    stop: StopSignal,
) {
    let runs = scopes.into_iter().flat_map(|scope| {
        let pods = gateway_pods::run(context.clone(), scope.clone(), stop.clone()).boxed();
        let (context, leads, stop) = (context.clone(), leading.clone(), stop.clone());
        let parts = ControllerParts { context, scope, leads, stop };
        all_controllers(&parts).into_iter().chain([pods])
    });
    let sharing = sharing::run(context.clone(), leading.clone(), stop.clone()).boxed();
    let access = access::run(context.clone(), leading.clone(), stop.clone()).boxed();
    join_all(runs.chain([sharing, access])).await;
}

/// Waits until the API server serves all kinds, with definitions as new as this operator.
async fn kinds_served(client: &Client, namespaces: &[String]) {
    let mut logged_kind = String::new();
    while let Err((kind, error)) = check::check_kinds_served(client, namespaces).await {
        if logged_kind != kind {
            let cause = error_chain(&error);
            tracing::warn!(kind, cause, "waiting until the kind is served");
            logged_kind = kind;
        }
        tokio::time::sleep(CRD_POLL).await;
    }
    definitions::wait_until_current(client).await;
}

/// Returns a future that resolves on SIGTERM or SIGINT, and spawns the task behind it.
fn stop_channel() -> Result<(watch::Sender<bool>, StopSignal), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    let (sender, receiver) = watch::channel(false);
    let stop_sender = sender.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        }
        let _ = stop_sender.send(true);
    });
    Ok((sender, wait_until_true(receiver).boxed().shared()))
}

/// Resolves once the channel holds `true` or its sender is dropped.
async fn wait_until_true(mut receiver: watch::Receiver<bool>) {
    let _ = receiver.wait_for(|value| *value).await;
}
