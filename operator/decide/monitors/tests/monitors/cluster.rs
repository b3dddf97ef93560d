//! A cluster for tests, and its discovered targets.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_monitors::{
    AnnotationSources, Cluster, Container, DiscoveryInput, DiscoveryResult, Monitor, MonitorId,
    MonitorKind, Namespaces, Node, PodObject, Port, SecretUse, ServiceObject, SliceEndpoint,
    SliceObject, Texts, discover_targets,
};

/// Labels or annotations.
pub(crate) fn texts(pairs: &[(&str, &str)]) -> Texts {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A port of a container or slice.
pub(crate) fn port(name: &str, number: u16) -> Port {
    Port {
        name: name.to_owned(),
        number: Some(number),
        protocol: "TCP".to_owned(),
        app_protocol: String::new(),
    }
}

/// A running pod with one container `app`.
pub(crate) fn pod(namespace: &str, name: &str, ip: &str, ports: Vec<Port>) -> PodObject {
    let container = Container {
        name: "app".to_owned(),
        image: "shop/app:1".to_owned(),
        ports,
        ..Container::default()
    };
    PodObject {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ip: ip.to_owned(),
        node: "n1".to_owned(),
        phase: "Running".to_owned(),
        ready: "true".to_owned(),
        labels: texts(&[("app", "shop"), ("app.kubernetes.io/version", "7")]),
        containers: vec![container],
        ..PodObject::default()
    }
}

/// Two pods of a Service in `shop` with ports `web` and `admin`, of which the Service has the
/// first; one pod in `other`; a node in zone `z1`.
pub(crate) fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    let ports = || vec![port("web", 8080), port("admin", 9090)];
    for (namespace, name, ip) in [
        ("shop", "api-1", "10.0.0.1"),
        ("shop", "api-2", "10.0.0.2"),
        ("other", "db-1", "10.0.1.1"),
    ] {
        put(&mut cluster, pod(namespace, name, ip, ports()));
    }
    let labels = texts(&[("app", "shop"), ("team", "red"), ("track", "")]);
    let service = ServiceObject {
        namespace: "shop".to_owned(),
        name: "api".to_owned(),
        labels,
        annotations: Texts::new(),
    };
    let of = cluster.services.entry("shop".to_owned()).or_default();
    of.insert("api".to_owned(), Arc::new(service));
    let endpoint = |pod: &str, ip: &str| SliceEndpoint {
        addresses: vec![ip.to_owned()],
        is_ready: Some(true),
        node: "n1".to_owned(),
        target: Some(("Pod".to_owned(), pod.to_owned())),
        ..SliceEndpoint::default()
    };
    let slice = SliceObject {
        namespace: "shop".to_owned(),
        name: "api-x".to_owned(),
        service: "api".to_owned(),
        address_type: "IPv4".to_owned(),
        ports: vec![port("http", 8080)],
        endpoints: vec![endpoint("api-1", "10.0.0.1"), endpoint("api-2", "10.0.0.2")],
    };
    let of = cluster.slices.entry("shop".to_owned()).or_default();
    of.insert("api-x".to_owned(), Arc::new(slice));
    let labels = texts(&[("topology.kubernetes.io/zone", "z1"), ("disk", "ssd")]);
    let node = Node { name: "n1".to_owned(), labels, annotations: Texts::new() };
    cluster.nodes.insert("n1".to_owned(), Arc::new(node));
    cluster
}

/// Adds a pod.
pub(crate) fn put(cluster: &mut Cluster, pod: PodObject) {
    let of = cluster.pods.entry(pod.namespace.clone()).or_default();
    of.insert(pod.name.clone(), Arc::new(pod));
}

/// A monitor `shop/m`, of a kind, with a spec in YAML.
pub(crate) fn monitor(kind: MonitorKind, spec: &str) -> Monitor {
    let id = MonitorId { kind, namespace: "shop".to_owned(), name: "m".to_owned() };
    Monitor::new(id, &serde_norway::from_str(spec).unwrap())
}

/// Discovers the cluster's targets by these monitors.
pub(crate) fn scraped(cluster: &Cluster, monitors: Vec<Monitor>) -> DiscoveryResult {
    scraped_within(cluster, monitors, None, &Namespaces::Any, &BTreeMap::new())
}

/// The same, with annotated objects, accessible namespaces, and missing keys.
pub(crate) fn scraped_within(
    cluster: &Cluster,
    monitors: Vec<Monitor>,
    annotated: Option<&AnnotationSources>,
    reach: &Namespaces,
    missing: &BTreeMap<SecretUse, String>,
) -> DiscoveryResult {
    let monitors: Vec<_> = monitors.into_iter().map(Arc::new).collect();
    let monitors = monitors.as_slice();
    discover_targets(&DiscoveryInput {
        cluster,
        reach,
        monitors,
        annotated,
        interval_seconds: 30,
        missing,
    })
}

/// Returns the targets, one line each: job, address, labels.
pub(crate) fn lines(scraped: &DiscoveryResult) -> Vec<String> {
    let targets = scraped.targets.iter();
    targets
        .map(|target| {
            let labels = target.labels.iter().map(|(name, value)| format!("{name}={value}"));
            format!("{} {} {}", target.job, target.address, labels.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// Returns the faults as text.
pub(crate) fn faults(scraped: &DiscoveryResult) -> Vec<String> {
    scraped.faults.iter().map(ToString::to_string).collect()
}
