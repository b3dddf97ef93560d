//! An OpenTelemetryCollector beside its configuration: mode, number, where pods may run, targets
//! found by its target allocator. Fields as of the operator's v1alpha1 and v1beta1.

use millrace_crds::v1alpha1::{LabelOperator, LabelRequirement, LabelSelector, MonitorSelection};

use crate::account::Fate;
use crate::draft::{CLIENTS, Mode, SCRAPER, pool_path};
use crate::prometheus;
use crate::tree::{Node, Text};
use crate::words;
use crate::work::Work;

/// Most pods of a pool that a file may ask for: more would be no number of the file's.
const REPLICAS_MAX: u32 = 1_000;

/// Fields of a PodSpec that go along as they are.
const OF_PODS: [&str; 5] =
    ["nodeSelector", "tolerations", "affinity", "priorityClassName", "topologySpreadConstraints"];

/// What that operator writes itself.
const OF_ITS_OPERATOR: [&str; 9] = [
    "managementState",
    "upgradeStrategy",
    "configVersions",
    "updateStrategy",
    "daemonSetUpdateStrategy",
    "deploymentUpdateStrategy",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
];

/// The mode that an object asks for.
pub(crate) fn mode(spec: &Node<'_>) -> Mode {
    match spec.get("mode").and_then(|it| it.said()).as_deref() {
        None | Some("deployment" | "statefulset" | "") => Mode::Deployment,
        Some("daemonset") => Mode::DaemonSet,
        Some(_) => Mode::Sidecar,
    }
}

/// Accounts for all of an object but its configuration, which stands at `config`.
pub(crate) fn read(work: &mut Work, object: &Node<'_>) {
    let mut fields = work.account.open(object, Fate::left(words::UNKNOWN));
    if let Some(metadata) = fields.take("metadata") {
        of_metadata(work, &metadata);
    }
    if let Some(spec) = fields.take("spec") {
        of_spec(work, &spec);
    }
    work.account.rest(fields, |name| match name {
        "apiVersion" | "kind" => Fate::not_needed("it becomes a TelemetryPipeline"),
        "status" => Fate::not_needed("its operator writes it"),
        _ => Fate::left(words::UNKNOWN),
    });
}

fn of_metadata(work: &mut Work, node: &Node<'_>) {
    let mut fields = work.account.open(node, Fate::not_needed("it says nothing"));
    if let Some(namespace) = fields.take("namespace") {
        match namespace.said() {
            Some(_) => work.account.carried(&namespace, "metadata.namespace"),
            None => work.account.left(&namespace, "write metadata.namespace"),
        }
    }
    if let Some(name) = fields.take("name") {
        match name.said().as_deref().is_some_and(crate::is_name) {
            true => work.account.carried(&name, "metadata.name"),
            false => work.account.fill_in(&name, "metadata.name", crate::NAME),
        }
    }
    work.account.rest(fields, |name| match name {
        "labels" | "annotations" => Fate::left("write those that you need on the pipeline"),
        _ => Fate::not_needed("the API server writes it"),
    });
}

fn of_spec(work: &mut Work, node: &Node<'_>) {
    let mut fields = work.account.open(node, Fate::left(words::UNKNOWN));
    // The configuration accounts for itself.
    let _ = fields.take("config");
    if let Some(mode) = fields.take("mode") {
        of_mode(work, &mode);
    }
    if let Some(replicas) = fields.take("replicas") {
        of_replicas(work, &replicas);
    }
    for name in OF_PODS {
        if let Some(field) = fields.take(name) {
            of_pods(work, &field, name);
        }
    }
    if let Some(annotations) = fields.take("podAnnotations") {
        pod_annotations(work, &annotations);
    }
    if let Some(allocator) = fields.take("targetAllocator") {
        of_allocator(work, &allocator);
    }
    work.account.rest(fields, of_others);
}

fn of_others(name: &str) -> Fate {
    match name {
        "autoscaler" | "minReplicas" | "maxReplicas" => Fate::left(words::AUTOSCALER),
        "image" | "imagePullPolicy" => Fate::not_needed("pools run Millrace's collector"),
        "resources" => Fate::left(
            "found for another program: begin with the defaults and set edges[].resources by what \
             `kubectl millrace top` shows",
        ),
        "env" | "envFrom" => Fate::left("it is of the Collector's configuration"),
        "volumes" | "volumeMounts" | "volumeClaimTemplates" | "configmaps" | "configMaps" => {
            Fate::left("a pool mounts what it needs; more by edges[].podTemplate")
        }
        "ports" | "ingress" | "httpRoute" => Fate::left(
            "an edge's Service has 4317 and 4318: edges[].service says its type; routes of your own \
             lead to it",
        ),
        "podDisruptionBudget" => Fate::left("a pool has one: edges[].disruptionBudget"),
        "networkPolicy" => Fate::left("a pool has one: edges[].networkPolicy"),
        "serviceAccount" => Fate::not_needed("a pool has an account where it needs one"),
        "observability" => Fate::not_needed("the chart has PodMonitors"),
        "terminationGracePeriodSeconds" => Fate::left("edges[].drainSeconds"),
        "securityContext" | "podSecurityContext" => {
            Fate::left("pods run with the least; more by edges[].podTemplate")
        }
        "hostNetwork" => Fate::left("nothing: applications send to the edge's Service"),
        name if OF_ITS_OPERATOR.contains(&name) => Fate::not_needed("it is of the other operator"),
        _ => Fate::left("see edges[].podTemplate for what pods may have"),
    }
}

fn of_mode(work: &mut Work, node: &Node<'_>) {
    let Some(text) = work.account.text(node, "spec.edges") else { return };
    let pool = work.draft.otlp_pool();
    let place = format!("{}.mode", pool_path(pool));
    let is_there = work.draft.edges.iter().any(|edge| edge.name.as_str() == pool);
    match &*text {
        "sidecar" => work.account.left(node, words::SIDECAR),
        "statefulset" if is_there => {
            work.account.differs(node, place, "pods of a Deployment, which share targets out");
        }
        "deployment" | "daemonset" if is_there => work.account.carried(node, place),
        _ => work.account.not_needed(node, "each pool has the mode that its receivers need"),
    }
}

fn of_replicas(work: &mut Work, node: &Node<'_>) {
    let number = node.said().and_then(|text| text.parse::<u32>().ok());
    let number = number.filter(|number| (1..=REPLICAS_MAX).contains(number));
    let of_clients = |name: &&str| work.draft.edges.iter().any(|edge| edge.name.as_str() == *name);
    let pool = [CLIENTS, SCRAPER].into_iter().find(of_clients);
    let settings = work
        .draft
        .edges
        .iter_mut()
        .find_map(|edge| (Some(edge.name.as_str()) == pool).then_some(&mut edge.settings));
    match (number, settings, pool) {
        (Some(number), Some(settings), Some(pool)) => {
            settings.replicas = Some(number);
            work.account.carried(node, format!("{}.replicas", pool_path(pool)));
        }
        _ => work
            .account
            .left(node, "gateways: by need; a pool in mode DaemonSet has one on each node"),
    }
}

/// A field of a PodSpec, for all pools.
fn of_pods(work: &mut Work, node: &Node<'_>, name: &str) {
    let json = serde_json::to_value(node.unescaped());
    let (false, Ok(value)) = (node.is_empty(), json) else {
        return work.account.not_needed(node, "it says nothing");
    };
    let Some(first) = work.draft.edges.first().map(|edge| pool_path(edge.name.as_str())) else {
        return work.account.left(node, format!("write it into gateway.podTemplate.spec.{name}"));
    };
    for edge in &mut work.draft.edges {
        edge.settings.pod_template.spec.insert(name.to_owned(), value.clone());
    }
    work.account.carried(node, format!("{first}.podTemplate.spec.{name}"));
}

fn pod_annotations(work: &mut Work, node: &Node<'_>) {
    /// Most annotations of a pool's pods, and the longest.
    const MAX: usize = 32;
    const BYTES_MAX: usize = 4_096;
    let said: Vec<(String, Text)> =
        node.entries().map(|(name, value)| (name, value.text())).collect();
    let texts: Vec<(String, String)> = said
        .iter()
        .filter_map(|(name, text)| match text {
            Text::Said(text) if text.len() <= BYTES_MAX => Some((name.clone(), text.clone())),
            _ => None,
        })
        .collect();
    let first = work.draft.edges.first().map(|edge| pool_path(edge.name.as_str()));
    match first.filter(|_| texts.len() == said.len() && !said.is_empty() && said.len() <= MAX) {
        Some(first) => {
            for edge in &mut work.draft.edges {
                let annotations = &mut edge.settings.pod_template.metadata.annotations;
                annotations.extend(texts.iter().cloned());
            }
            work.account.carried(node, format!("{first}.podTemplate.metadata.annotations"));
        }
        None => work.account.left(node, "write them into podTemplate.metadata.annotations"),
    }
}

/// Monitors that the target allocator follows.
fn of_allocator(work: &mut Work, node: &Node<'_>) {
    let mut fields = work.account.open(node, Fate::not_needed(words::ALLOCATOR));
    if let Some(monitors) = fields.take("prometheusCR") {
        of_monitors(work, &monitors);
    }
    work.account.rest(fields, |_| Fate::not_needed(words::ALLOCATOR));
}

fn of_monitors(work: &mut Work, node: &Node<'_>) {
    let follows = node.get("enabled").is_some_and(|it| it.is_true());
    let base = format!("{}.receivers.prometheus.kubernetes", pool_path(SCRAPER));
    let mut fields = work.account.open(node, Fate::not_needed("no monitor is followed"));
    if !follows {
        return work.account.rest(fields, |_| Fate::not_needed("no monitor is followed"));
    }
    let kinds = [
        ("serviceMonitorSelector", "serviceMonitorNamespaceSelector", "serviceMonitors"),
        ("podMonitorSelector", "podMonitorNamespaceSelector", "podMonitors"),
        ("probeSelector", "probeNamespaceSelector", "probes"),
        ("scrapeConfigSelector", "scrapeConfigNamespaceSelector", "scrapeConfigs"),
    ];
    for (labels, namespaces, to) in kinds {
        let (labels, namespaces) = (fields.take(labels), fields.take(namespaces));
        // ServiceMonitors and PodMonitors are followed unless it is said otherwise.
        let is_usual = ["serviceMonitors", "podMonitors"].contains(&to);
        if labels.is_none() && namespaces.is_none() && !is_usual {
            continue;
        }
        let of_labels = selector(work, labels.as_ref(), &format!("{base}.{to}.selector"));
        let place = format!("{base}.{to}.namespaceSelector");
        let of_namespaces = selector(work, namespaces.as_ref(), &place);
        let selection = MonitorSelection {
            selector: of_labels,
            // All namespaces, as that allocator's rights say.
            namespace_selector: Some(of_namespaces),
        };
        let Some(found) = prometheus::discovery(&mut work.draft) else { continue };
        let kind = match to {
            "serviceMonitors" => &mut found.service_monitors,
            "podMonitors" => &mut found.pod_monitors,
            "probes" => &mut found.probes,
            _ => &mut found.scrape_configs,
        };
        *kind = Some(selection);
    }
    if let Some(enabled) = fields.take("enabled") {
        work.account.differs(
            &enabled,
            &*base,
            "the operator's chart needs discovery.enabled, and for other namespaces \
             discovery.acrossNamespaces",
        );
    }
    if let Some(interval) = fields.take("scrapeInterval") {
        let seconds = interval.said().as_deref().and_then(crate::amounts::seconds);
        let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
        let found = prometheus::discovery(&mut work.draft);
        match (seconds.filter(|seconds| (1..=3_600).contains(seconds)), found) {
            (Some(seconds), Some(found)) => {
                found.interval_seconds = seconds;
                work.account.carried(&interval, format!("{base}.intervalSeconds"));
            }
            _ => work.account.left(&interval, "write intervalSeconds, 1 to 3,600"),
        }
    }
    work.account.rest(fields, |name| match name {
        "allowNamespaces" | "denyNamespaces" => {
            Fate::left("choose namespaces by their labels: namespaceSelector")
        }
        _ => Fate::left(words::UNKNOWN),
    });
}

/// A label selector, as far as a pool takes it.
fn selector(work: &mut Work, node: Option<&Node<'_>>, to: &str) -> LabelSelector {
    let Some(node) = node else { return LabelSelector::default() };
    let written = node.unescaped();
    // v1alpha1 has the labels alone.
    let is_plain = node.get("matchLabels").is_none() && node.get("matchExpressions").is_none();
    let read: Option<LabelSelector> = match is_plain {
        false => serde_norway::from_value(written.clone()).ok(),
        true => serde_norway::from_value(written.clone())
            .ok()
            .map(|match_labels| LabelSelector { match_labels, ..LabelSelector::default() }),
    };
    // Whatever it doesn't say again was no part of a selector.
    let is_whole = |read: &LabelSelector| match is_plain {
        true => true,
        false => serde_norway::to_value(read).is_ok_and(|again| again == written),
    };
    let none = LabelSelector::default();
    match read.filter(|read| !node.has_variable() && is_whole(read) && is_usable(read)) {
        Some(selector) if selector == none => work.account.not_needed(node, "it chooses all"),
        Some(selector) => {
            work.account.carried(node, to);
            return selector;
        }
        None if node.is_empty() => work.account.not_needed(node, "it chooses all"),
        None => work.account.left(
            node,
            "a selector has matchLabels and matchExpressions, at most 16 of each: write it by hand",
        ),
    }
    none
}

/// Whether a selector keeps the bounds of a pool's.
fn is_usable(selector: &LabelSelector) -> bool {
    /// Most of each, longest value, most values, longest key.
    const EACH_MAX: usize = 16;
    const VALUE_BYTES_MAX: usize = 63;
    const VALUES_MAX: usize = 32;
    const KEY_BYTES_MAX: usize = 317;
    let LabelSelector { match_labels, match_expressions } = selector;
    let fits = |value: &String| value.len() <= VALUE_BYTES_MAX;
    let requirement = |it: &LabelRequirement| {
        let has_values = !it.values.is_empty();
        let needs_values = matches!(it.operator, LabelOperator::In | LabelOperator::NotIn);
        (1..=KEY_BYTES_MAX).contains(&it.key.len())
            && it.values.len() <= VALUES_MAX
            && it.values.iter().all(fits)
            && has_values == needs_values
    };
    match_labels.len() <= EACH_MAX
        && match_labels.values().all(fits)
        && match_expressions.len() <= EACH_MAX
        && match_expressions.iter().all(requirement)
}
