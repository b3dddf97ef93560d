//! Reads the cluster with the user's own kubeconfig. The only module with a client.
//!
//! It never reads Secrets. A part that is denied, or doesn't answer, is a gap in the facts with the
//! right or the cause; only the pipeline itself must be readable.
//!
//! Limits: 20 pages of 500 objects; the metrics of 100 pods, eight at a time, 4 MiB and 5 s each.

mod bundle;
mod export;
mod objects;
mod pods;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use millrace_crds::pods::PRODUCT;
use millrace_crds::v1alpha1::{
    EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};

use crate::args::ClusterArgs;
use crate::error::{Error, error_chain};
use crate::facts::{Facts, Gap, PodFacts, Role};

pub use bundle::{Raw, to_raw};
pub use export::{EdgeAddress, OTLP_HTTP_PORT};
pub use objects::{NamespacedKind, right_for};
pub use pods::Logs;

/// Maximum time to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Maximum wait for an answer.
const READ_MAX: Duration = Duration::from_secs(30);

/// How much of the pods is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only objects and their statuses.
    Statuses,
    /// Pods too.
    Pods,
    /// Also their metrics, once.
    Metrics,
    /// Also their metrics, twice with this interval.
    Rates(Duration),
}

/// A cluster and the selected namespace.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    /// Connects by a kubeconfig.
    ///
    /// # Errors
    /// When no kubeconfig is usable.
    pub async fn connect(cluster_args: &ClusterArgs) -> Result<Self, Error> {
        let failed = |cause: &dyn std::error::Error| Error::Kubeconfig(error_chain(cause));
        let options = KubeConfigOptions {
            context: cluster_args.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = match &cluster_args.kubeconfig {
            Some(path) => {
                let read = Kubeconfig::read_from(path).map_err(|cause| failed(&cause))?;
                Config::from_custom_kubeconfig(read, &options).await
            }
            None => Config::from_kubeconfig(&options).await,
        };
        let mut config = config.map_err(|cause| failed(&cause))?;
        config.connect_timeout = Some(CONNECT_MAX);
        config.read_timeout = Some(READ_MAX);
        config.reset_reader_on_write = true;
        // A pod that the proxy can't reach is a 503, which is reported without a retry.
        config.default_retry = false;
        let namespace =
            cluster_args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|cause| failed(&cause))?;
        Ok(Self::new(client, namespace))
    }

    /// Creates a cluster from a client.
    #[must_use]
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        Self { client, namespace: namespace.into() }
    }

    /// Returns the client.
    #[must_use]
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the selected namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the pipelines to report on: the named one, or all of the namespace or cluster.
    ///
    /// # Errors
    /// When they can't be read, or there is none.
    pub async fn read_pipelines(
        &self,
        name: Option<&str>,
        everywhere: bool,
    ) -> Result<Vec<TelemetryPipeline>, Error> {
        if let Some(name) = name {
            return Ok(vec![self.get(name).await?]);
        }
        let namespace = (!everywhere).then_some(&*self.namespace);
        let found: Vec<TelemetryPipeline> = self.list(namespace, "").await?;
        if found.is_empty() {
            let scope = namespace.map_or("this cluster".to_owned(), |it| format!("namespace {it}"));
            return Err(Error::Impossible(format!(
                "{scope} has no TelemetryPipeline: name another namespace with -n, or all with -A"
            )));
        }
        Ok(found)
    }

    /// Returns the only pipeline that a command is about.
    ///
    /// # Errors
    /// When it can't be read, there is none, or there are several and none is named.
    pub async fn read_pipeline(&self, name: Option<&str>) -> Result<TelemetryPipeline, Error> {
        let mut found = self.read_pipelines(name, false).await?;
        let names: Vec<_> = found.iter().filter_map(|one| one.metadata.name.clone()).collect();
        match (found.pop(), found.is_empty()) {
            (Some(one), true) => Ok(one),
            _ => Err(Error::Several { namespace: self.namespace.clone(), names: names.join(", ") }),
        }
    }

    /// Reads the facts of a pipeline.
    pub async fn read_facts(
        &self,
        pipeline: TelemetryPipeline,
        depth: Depth,
        at: Timestamp,
    ) -> Facts {
        let namespace = pipeline.metadata.namespace.clone().unwrap_or_default();
        let name = pipeline.metadata.name.clone().unwrap_or_default();
        let mut gaps = Vec::new();
        let ours =
            format!("app.kubernetes.io/component=pipeline,app.kubernetes.io/instance={name}");
        let (scope, ours) = (Some(&*namespace), &*ours);
        let topics = or_gap(&mut gaps, "topics", self.list::<TelemetryTopic>(scope, ours).await);
        let schemas = or_gap(&mut gaps, "tables", self.list::<TelemetrySchema>(scope, ours).await);
        let edges = or_gap(&mut gaps, "edge pools", self.list::<EdgePool>(scope, ours).await);
        let pools = self.list::<GatewayPool>(scope, ours).await;
        let gateways = or_gap(&mut gaps, "the gateway pool and its sizing", pools);
        let mut facts = Facts {
            at_second: at.as_second(),
            interval_seconds: None,
            pipeline,
            topics,
            schemas,
            edges,
            gateways,
            pods: Vec::new(),
            gaps,
        };
        if depth != Depth::Statuses {
            self.add_pods(&mut facts, &namespace, depth).await;
        }
        facts.gaps.sort();
        facts.gaps.dedup();
        facts
    }

    async fn add_pods(&self, facts: &mut Facts, namespace: &str, depth: Depth) {
        let pods = self.list::<Pod>(Some(namespace), &of_pools()).await;
        let pods = or_gap(&mut facts.gaps, "pods", pods);
        let of_ours = |pod: &PodFacts| match pod.role {
            Role::Edge => object_names(&facts.edges).any(|name| name == pod.pool),
            Role::Gateway => object_names(&facts.gateways).any(|name| name == pod.pool),
        };
        let found = pods.iter().filter_map(PodFacts::from_pod).filter(of_ours);
        facts.pods = found.collect();
        let interval = match depth {
            Depth::Statuses | Depth::Pods => return,
            Depth::Metrics => None,
            Depth::Rates(interval) => Some(interval),
        };
        let began = tokio::time::Instant::now();
        self.read_metrics(facts, namespace).await;
        let Some(interval) = interval else { return };
        if facts.pods.iter().all(|pod| pod.now.is_none()) {
            return;
        }
        for pod in &mut facts.pods {
            pod.before = pod.now.take();
        }
        tokio::time::sleep_until(began + interval).await;
        let again = tokio::time::Instant::now();
        self.read_metrics(facts, namespace).await;
        facts.interval_seconds = Some((again - began).as_secs_f64());
    }
}

/// Returns the label selector of the pods of all pools.
fn of_pools() -> String {
    format!("app.kubernetes.io/name={PRODUCT}")
}

fn object_names<K: kube::Resource>(objects: &[K]) -> impl Iterator<Item = &str> {
    objects.iter().filter_map(|one| one.meta().name.as_deref())
}

/// Returns the result; an error becomes a gap.
fn or_gap<T: Default>(gaps: &mut Vec<Gap>, what: &str, read: Result<T, Error>) -> T {
    read.unwrap_or_else(|error| {
        gaps.push(Gap { what: what.to_owned(), why: error_chain(&error) });
        T::default()
    })
}
