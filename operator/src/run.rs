//! Start and stop, in order.
//!
//! Start: logs, client, admin port, wait until the kinds are served, watch everything, take the
//! lease, reconcile. A standby watches too, so that it has a full cache when it takes over. Stop:
//! SIGTERM or SIGINT ends the controllers (running reconciles finish), then the lease is released,
//! then the admin port closes. A lost lease ends the process at once with its own error, so that
//! two replicas never write. Only this module knows every part.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{FutureExt, Shared, join_all};
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::args::Args;
use crate::cache::access::Access;
use crate::cache::by_pool::ByPool;
use crate::cache::holders::Holders;
use crate::cache::inserts::Inserts;
use crate::cache::shown::Shown;
use crate::check;
use crate::clickhouse::Outside;
use crate::clickhouse::migrations::Migrations;
use crate::console::{Access as ConsoleAccess, AccessError, Console};
use crate::context::{Context, Images, SystemClock};
use crate::controllers::{edge, gateway, pipeline, schema, topic};
use crate::coordination::Prober;
use crate::discovery::{Discovery, Widely};
use crate::error::chain;
use crate::holders;
use crate::kafka::lag_board::LagBoard;
use crate::kafka::{KafkaLag, Pace, Sessions};
use crate::lease::{Elector, Ending};
use crate::outbound::Outbound;
use crate::pods::{HttpPods, MetricsApi, PodBoard};
use crate::pool::template;
use crate::reconcile::Place;
use crate::reconcile::controller;
use crate::report::events::Events;
use crate::sharing;
use crate::telemetry::admin::{self, Health};
use crate::telemetry::export::ExportError;
use crate::telemetry::listener;
use crate::telemetry::logs;
use crate::telemetry::metrics::Metrics;

/// Reconciles wait for answers more than they compute; two threads also bound the allocator's
/// arenas.
const WORKER_THREADS: usize = 2;
/// Retry interval while a kind is not served yet.
pub(crate) const CRD_POLL: Duration = Duration::from_secs(2);
/// Running reconciles get this long to finish after SIGTERM. The chart grants 20 s in all, of which
/// giving the lease back may take 4.
const DRAIN_SECONDS_MAX: u64 = 12;

/// What waits of own traces and logs gets this long to be sent at the end.
const EXPORT_END_MAX: Duration = Duration::from_secs(2);

/// Why the operator could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The threads could not be made.
    #[error("failed to start the async runtime: {0}")]
    Runtime(#[source] std::io::Error),
    /// The log filter is wrong.
    #[error(transparent)]
    Log(#[from] logs::FilterError),
    /// There is no usable kubeconfig or service account.
    #[error("failed to find the Kubernetes API: {0}; run in a pod, or set KUBECONFIG")]
    Client(#[source] kube::Error),
    /// The metrics could not be registered.
    #[error("failed to register the metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The admin port is taken.
    #[error("failed to listen on the admin address {address}: {source}")]
    Admin {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// No operator works here.
    #[error(transparent)]
    Check(#[from] check::CheckError),
    /// The console would be open to all.
    #[error(transparent)]
    ConsoleAccess(#[from] AccessError),
    /// The console's port is taken.
    #[error("failed to listen on the console's address {address}: {source}")]
    Console {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// Own traces and logs can't be sent.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A signal handler could not be set.
    #[error("failed to listen for signals: {0}")]
    Signals(#[source] std::io::Error),
    /// Another replica leads now.
    #[error("the lease was lost to another replica or could not be renewed in time")]
    LeaseLost,
    /// A controller ended although nobody asked it to.
    #[error("a controller ended on its own")]
    ControllerEnded,
}

/// Runs the operator until it is asked to stop.
///
/// Not an `async` function on purpose: its caller would compile all that it awaits, so that the
/// binary would compile every reconciler a second time.
///
/// # Errors
/// When it cannot start, loses the lease, or a controller ends on its own.
pub fn to_the_end(args: Args) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build()
        .map_err(RunError::Runtime)?;
    runtime.block_on(run(args))
}

/// Says whether an operator works where this runs: the name of the replica that leads.
///
/// # Errors
/// What keeps it from working, or why it can't be told.
pub fn check(args: &Args) -> Result<String, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(RunError::Runtime)?.block_on(async {
        let client = Client::try_default().await.map_err(RunError::Client)?;
        Ok(check::check(&client, &args.watch_namespaces, &lease(args, &client)).await?)
    })
}

/// Where the lease is.
fn lease(args: &Args, client: &Client) -> check::Place {
    let namespace = args.lease_namespace.clone();
    check::Place {
        namespace: namespace.unwrap_or_else(|| client.default_namespace().to_owned()),
        name: args.lease_name.clone(),
        terms: args.lease_terms(),
    }
}

async fn run(args: Args) -> Result<(), RunError> {
    let (export, own) = args.export.start(&args.identity())?.unzip();
    logs::start(&args.log, own)?;
    let mut metrics = Metrics::new()?;
    if let Some(export) = &export {
        metrics = metrics.exporting(export)?;
    }
    let outcome = serve(args, metrics).await;
    if let Some(export) = export {
        if let Err(error) = &outcome {
            tracing::error!(error = chain(error), "the operator ends");
        }
        // On a thread that may wait.
        let _ = tokio::task::spawn_blocking(move || export.end(EXPORT_END_MAX)).await;
    }
    outcome
}

/// Serves the admin port and leads, until it is asked to stop.
async fn serve(args: Args, metrics: Metrics) -> Result<(), RunError> {
    let client = Client::try_default().await.map_err(RunError::Client)?;
    let health = Health::default();
    let (stop_sender, stop) = stop_channel()?;
    let address = args.admin_address;
    let console = console_listener(&args).await?;
    let listener =
        listener::bind(address).await.map_err(|source| RunError::Admin { address, source })?;
    let (admin_stop, admin_stopped) = watch::channel(false);
    let admin = tokio::spawn(admin::serve(
        listener,
        health.clone(),
        metrics.clone(),
        turned_true(admin_stopped),
    ));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %address, "operator started");

    let outcome = lead(&args, client, metrics, &health, console, stop).await;
    health.stopping();
    drop(stop_sender);
    let _ = admin_stop.send(true);
    // Only a panic keeps it from ending, and that has been reported.
    let _ = admin.await;
    outcome
}

/// Resolves when the process was asked to stop; every part holds one.
type Stop = Shared<futures::future::BoxFuture<'static, ()>>;

/// Watches and waits for the lease; reconciles while it holds it.
async fn lead(
    args: &Args,
    client: Client,
    metrics: Metrics,
    health: &Health,
    console: Option<(TcpListener, ConsoleAccess)>,
    stop: Stop,
) -> Result<(), RunError> {
    tokio::select! {
        () = kinds_served(&client, &args.watch_namespaces) => health.crds_served(),
        () = stop.clone() => return Ok(()),
    }
    let check::Place { namespace, name, terms } = lease(args, &client);
    let api = Api::namespaced(client.clone(), &namespace);
    let elector = Elector::new(api, name, args.identity(), terms);
    let cluster = tokio::select! {
        cluster = holders::cluster(&client, args.cluster_id.as_deref()) => cluster,
        () = stop.clone() => return Ok(()),
    };
    let context = Arc::new(context(args, client.clone(), &metrics, cluster));
    let _console = console.map(|(listener, access)| {
        let pods = HttpPods::default().sharing(context.outbound.answers.clone());
        let console = Console::new(context.clone(), access, Arc::new(pods));
        let answer = move |request| console.clone().answer(request);
        // It ends with this function: what it shows does.
        AbortOnDropHandle::new(tokio::spawn(listener::serve(listener, answer, stop.clone())))
    });
    let (leads, leading) = watch::channel(false);
    let controllers = controllers(context.clone(), places(&client, args), leading, stop.clone());
    tokio::pin!(controllers);
    let taken = tokio::select! {
        taken = elector.acquire() => taken,
        () = stop.clone() => return Ok(()),
        on_its_own = &mut controllers => return ended(on_its_own, health),
    };
    metrics.set_leader(true);
    context.queue_times.forget();
    let _ = leads.send(true);

    // The lease is held until the controllers end, so that nobody else starts meanwhile.
    let (drained_sender, drained) = watch::channel(false);
    let (ending, on_its_own) = {
        let hold = elector.hold(taken, turned_true(drained));
        tokio::pin!(hold);
        tokio::select! {
            // Lost: dropping the controllers stops them where they are; nothing more is written.
            ending = &mut hold => (ending, false),
            on_its_own = &mut controllers => {
                let _ = drained_sender.send(true);
                (hold.await, on_its_own)
            }
        }
    };
    metrics.set_leader(false);
    match ending {
        Ending::Lost => Err(RunError::LeaseLost),
        Ending::Released => ended(on_its_own, health),
    }
}

/// What it means that the controllers have ended.
fn ended(on_its_own: bool, health: &Health) -> Result<(), RunError> {
    if !on_its_own {
        return Ok(());
    }
    health.broken();
    Err(RunError::ControllerEnded)
}

/// Runs the controllers until they are asked to stop and end, or time out; returns whether they
/// ended unasked.
async fn controllers(
    context: Arc<Context>,
    places: Vec<Place>,
    leading: watch::Receiver<bool>,
    stop: Stop,
) -> bool {
    let asked = stop.clone().then(|()| tokio::time::sleep(Duration::from_secs(DRAIN_SECONDS_MAX)));
    tokio::select! {
        () = run_controllers(context, places, leading, stop.clone()) => stop.peek().is_none(),
        () = asked => {
            tracing::warn!("reconciles did not finish in {DRAIN_SECONDS_MAX} s");
            false
        }
    }
}

/// The console's listener, where one is asked for.
async fn console_listener(args: &Args) -> Result<Option<(TcpListener, ConsoleAccess)>, RunError> {
    let Some((address, access)) = args.console()? else { return Ok(None) };
    let listener = listener::bind(address).await;
    let listener = listener.map_err(|source| RunError::Console { address, source })?;
    tracing::info!(%address, ?access, "the console is served");
    Ok(Some((listener, access)))
}

/// What the reconcilers of this process touch.
fn context(args: &Args, client: Client, metrics: &Metrics, cluster: Option<String>) -> Context {
    let outbound = Outbound::new(args.allowed_hosts.clone());
    let sessions = Sessions::new(Pace::default()).bounded_by(outbound.clone());
    let pods = Arc::new(HttpPods::default().sharing(outbound.answers.clone()));
    Context {
        events: Events::new(client.clone(), args.identity(), metrics.clone()),
        metrics: metrics.clone(),
        clock: Arc::new(SystemClock),
        failures: crate::cache::failures::Failures::default(),
        images: Images {
            collector_repository: args.collector_image_repository.clone(),
            collector_digests: args
                .collector_digests
                .iter()
                .map(|known| (known.tag.clone(), known.digest.clone()))
                .collect(),
            collector_version_default: env!("CARGO_PKG_VERSION").to_owned(),
            user: (!args.cluster_assigns_user_ids).then_some(template::USER),
        },
        lag: Arc::new(LagBoard::new(Arc::new(KafkaLag::new(client.clone(), sessions.clone())))),
        pods: Arc::new(PodBoard::new(pods.clone())),
        shares: pods,
        scraping: ByPool::default(),
        sizings: ByPool::default(),
        shown: Shown::kept_if(args.console_address.is_some()),
        brokers: Arc::new(sessions),
        coordination: Arc::new(Prober::bounded_by(outbound.clone())),
        coordination_counts: ByPool::default(),
        outbound,
        tables: Arc::new(Outside),
        seen: Arc::default(),
        queue_times: Arc::default(),
        references: Arc::default(),
        watches_secrets: args.watch_secrets,
        stores: crate::cache::objects::Stores::default(),
        claims: crate::cache::claims::Claims::default(),
        holders: Holders::new(cluster, args.watch_namespaces.clone()),
        metered: MetricsApi::default(),
        pod_access: Access::new(args.pod_access_binding.clone()),
        namespace_access: Access::new(args.namespace_access_binding.clone()),
        share_role: args.share_role.clone(),
        migrations: Migrations::default(),
        inserts: Inserts::default(),
        baselines: ByPool::default(),
        discovery: Discovery::new(
            client.clone(),
            metrics.clone(),
            args.watch_namespaces.clone(),
            Widely(args.discovery_namespaces.clone()),
        ),
        gathers_secrets: args.gather_secrets,
        client,
    }
}

fn places(client: &Client, args: &Args) -> Vec<Place> {
    if args.watch_namespaces.is_empty() {
        return vec![Place::Cluster(client.clone())];
    }
    let place = |name: &String| Place::Namespace(client.clone(), name.clone());
    args.watch_namespaces.iter().map(place).collect()
}

/// Runs all five controllers in every place, and shares out targets; ends when all have.
async fn run_controllers(
    context: Arc<Context>,
    places: Vec<Place>,
    leading: watch::Receiver<bool>,
    stop: Stop,
) {
    let runs = places.iter().flat_map(|place| {
        let parts = || (context.clone(), place.clone(), leading.clone(), stop.clone());
        [
            start::<pipeline::Pipelines>(parts()),
            start::<edge::EdgePools>(parts()),
            start::<gateway::GatewayPools>(parts()),
            start::<topic::Topics>(parts()),
            start::<schema::Schemas>(parts()),
        ]
    });
    let sharing = sharing::run(context.clone(), leading.clone(), stop.clone()).boxed();
    join_all(runs.chain([sharing])).await;
}

fn start<R: controller::Reconciler>(
    (context, place, leading, stop): (Arc<Context>, Place, watch::Receiver<bool>, Stop),
) -> futures::future::BoxFuture<'static, ()> {
    controller::run::<R>(context, place, leading, stop).boxed()
}

/// Waits until the API server serves all five kinds.
async fn kinds_served(client: &Client, namespaces: &[String]) {
    let mut told = String::new();
    while let Err((kind, error)) = check::served(client, namespaces).await {
        if told != kind {
            let cause = chain(&error);
            tracing::warn!(kind, cause, "waiting until the kind is served");
            told = kind;
        }
        tokio::time::sleep(CRD_POLL).await;
    }
}

/// A future that resolves on SIGTERM or SIGINT, and the task behind it.
fn stop_channel() -> Result<(watch::Sender<bool>, Stop), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    let (sender, receiver) = watch::channel(false);
    let told = sender.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        }
        let _ = told.send(true);
    });
    Ok((sender, turned_true(receiver).boxed().shared()))
}

/// Resolves once the channel holds `true` or its sender is dropped.
async fn turned_true(mut receiver: watch::Receiver<bool>) {
    let _ = receiver.wait_for(|value| *value).await;
}
