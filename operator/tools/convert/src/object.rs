//! Converts an OpenTelemetryCollector apart from its configuration: mode, number, scheduling of
//! pods, targets of its target allocator. Fields as of the operator's v1alpha1 and v1beta1.

use millrace_crds::v1alpha1::{LabelOperator, LabelRequirement, LabelSelector, MonitorSelection};

use crate::account::Fate;
use crate::advice;
use crate::components::prometheus;
use crate::draft::{CLIENTS, DeploymentMode, SCRAPER, pool_path};
use crate::tree::{Node, TextValue};
use crate::work::Work;

/// Maximum pods of a pool that a file may request: a higher number is not meant as one.
const REPLICAS_MAX: u32 = 1_000;

/// Fields of a PodSpec that are copied unchanged.
const OF_PODS: [&str; 5] =
    ["nodeSelector", "tolerations", "affinity", "priorityClassName", "topologySpreadConstraints"];

/// Fields that concern only that operator.
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

/// Returns the mode that an object requests.
pub(crate) fn mode_of_object(spec: &Node<'_>) -> DeploymentMode {
    match spec.get("mode").and_then(|it| it.plain_text()).as_deref() {
        None | Some("deployment" | "statefulset" | "") => DeploymentMode::Deployment,
        Some("daemonset") => DeploymentMode::DaemonSet,
        Some(_) => DeploymentMode::Sidecar,
    }
}

/// Accounts for all of an object except its configuration under `config`.
pub(crate) fn convert_object(work: &mut Work, object: &Node<'_>) {
    let mut fields = work.account.open_block(object, Fate::unsupported(advice::UNKNOWN));
    if let Some(metadata) = fields.take_field("metadata") {
        convert_metadata(work, &metadata);
    }
    if let Some(spec) = fields.take_field("spec") {
        convert_spec(work, &spec);
    }
    work.account.account_remaining(fields, |name| match name {
        "apiVersion" | "kind" => Fate::not_needed("it becomes a TelemetryPipeline"),
        "status" => Fate::not_needed("its operator writes it"),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

fn convert_metadata(work: &mut Work, node: &Node<'_>) {
    let mut fields = work.account.open_block(node, Fate::not_needed("it is empty"));
    if let Some(namespace) = fields.take_field("namespace") {
        match namespace.plain_text() {
            Some(_) => work.account.carried(&namespace, "metadata.namespace"),
            None => work.account.unsupported(&namespace, "write metadata.namespace"),
        }
    }
    if let Some(name) = fields.take_field("name") {
        match name.plain_text().as_deref().is_some_and(crate::is_name) {
            true => work.account.carried(&name, "metadata.name"),
            false => work.account.fill_in(&name, "metadata.name", crate::NAME),
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "labels" | "annotations" => {
            Fate::unsupported("write the ones you need into the pipeline's metadata")
        }
        _ => Fate::not_needed("the API server writes it"),
    });
}

fn convert_spec(work: &mut Work, node: &Node<'_>) {
    let mut fields = work.account.open_block(node, Fate::unsupported(advice::UNKNOWN));
    // Another function accounts for the configuration.
    let _ = fields.take_field("config");
    if let Some(mode) = fields.take_field("mode") {
        convert_mode(work, &mode);
    }
    if let Some(replicas) = fields.take_field("replicas") {
        convert_replicas(work, &replicas);
    }
    for name in OF_PODS {
        if let Some(field) = fields.take_field(name) {
            convert_pod_field(work, &field, name);
        }
    }
    if let Some(annotations) = fields.take_field("podAnnotations") {
        pod_annotations(work, &annotations);
    }
    if let Some(allocator) = fields.take_field("targetAllocator") {
        convert_allocator(work, &allocator);
    }
    work.account.account_remaining(fields, other_fate);
}

fn other_fate(name: &str) -> Fate {
    match name {
        "autoscaler" | "minReplicas" | "maxReplicas" => Fate::unsupported(advice::AUTOSCALER),
        "image" | "imagePullPolicy" => Fate::not_needed("pools run Millrace's collector"),
        "resources" => Fate::unsupported(
            "measured for another program: begin with the defaults and set edges[].resources from \
             `kubectl millrace top`",
        ),
        "env" | "envFrom" => Fate::unsupported("it belongs to the Collector's configuration"),
        "volumes" | "volumeMounts" | "volumeClaimTemplates" | "configmaps" | "configMaps" => {
            Fate::unsupported("a pool mounts what it needs; add others in edges[].podTemplate")
        }
        "ports" | "ingress" | "httpRoute" => Fate::unsupported(
            "an edge's Service has 4317 and 4318: edges[].service has its type; add your own \
             routes to it",
        ),
        "podDisruptionBudget" => Fate::unsupported("a pool has one: edges[].disruptionBudget"),
        "networkPolicy" => Fate::unsupported("a pool has one: edges[].networkPolicy"),
        "serviceAccount" => Fate::not_needed("a pool gets a ServiceAccount if it needs one"),
        "observability" => Fate::not_needed("the chart has PodMonitors"),
        "terminationGracePeriodSeconds" => Fate::unsupported("edges[].drainSeconds"),
        "securityContext" | "podSecurityContext" => {
            Fate::unsupported("pods run with minimal rights; add others in edges[].podTemplate")
        }
        "hostNetwork" => Fate::unsupported("nothing: applications send to the edge's Service"),
        name if OF_ITS_OPERATOR.contains(&name) => {
            Fate::not_needed("it belongs to the other operator")
        }
        _ => Fate::unsupported("see edges[].podTemplate for the supported fields"),
    }
}

fn convert_mode(work: &mut Work, node: &Node<'_>) {
    let Some(text) = work.account.require_text(node, "spec.edges") else { return };
    let pool = work.draft.otlp_pool();
    let path = format!("{}.mode", pool_path(pool));
    let is_there = work.draft.edges.iter().any(|edge| edge.name.as_str() == pool);
    match &*text {
        "sidecar" => work.account.unsupported(node, advice::SIDECAR),
        "statefulset" if is_there => {
            work.account.differs(node, path, "pods of a Deployment, which distribute the targets");
        }
        "deployment" | "daemonset" if is_there => work.account.carried(node, path),
        _ => work.account.not_needed(node, "each pool has the mode that its receivers need"),
    }
}

fn convert_replicas(work: &mut Work, node: &Node<'_>) {
    let number = node.plain_text().and_then(|text| text.parse::<u32>().ok());
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
        _ => work.account.unsupported(
            node,
            "gateways: automatic; a pool in mode DaemonSet has one pod per node",
        ),
    }
}

/// Converts a field of a PodSpec, for all pools.
fn convert_pod_field(work: &mut Work, node: &Node<'_>, name: &str) {
    let json = serde_json::to_value(node.unescape_value());
    let (false, Ok(value)) = (node.is_empty(), json) else {
        return work.account.not_needed(node, "it is empty");
    };
    let Some(first) = work.draft.edges.first().map(|edge| pool_path(edge.name.as_str())) else {
        return work
            .account
            .unsupported(node, format!("write it into gateway.podTemplate.spec.{name}"));
    };
    for edge in &mut work.draft.edges {
        edge.settings.pod_template.spec.insert(name.to_owned(), value.clone());
    }
    work.account.carried(node, format!("{first}.podTemplate.spec.{name}"));
}

fn pod_annotations(work: &mut Work, node: &Node<'_>) {
    /// Maximum annotations of a pool's pods, and the maximum length of one.
    const MAX: usize = 32;
    const BYTES_MAX: usize = 4_096;
    let values: Vec<(String, TextValue)> =
        node.entries().map(|(name, value)| (name, value.scalar_text())).collect();
    let texts: Vec<(String, String)> = values
        .iter()
        .filter_map(|(name, text)| match text {
            TextValue::Plain(text) if text.len() <= BYTES_MAX => Some((name.clone(), text.clone())),
            _ => None,
        })
        .collect();
    let first = work.draft.edges.first().map(|edge| pool_path(edge.name.as_str()));
    match first.filter(|_| texts.len() == values.len() && !values.is_empty() && values.len() <= MAX)
    {
        Some(first) => {
            for edge in &mut work.draft.edges {
                let annotations = &mut edge.settings.pod_template.metadata.annotations;
                annotations.extend(texts.iter().cloned());
            }
            work.account.carried(node, format!("{first}.podTemplate.metadata.annotations"));
        }
        None => work.account.unsupported(node, "write them into podTemplate.metadata.annotations"),
    }
}

/// Converts the monitors that the target allocator follows.
fn convert_allocator(work: &mut Work, node: &Node<'_>) {
    let mut fields = work.account.open_block(node, Fate::not_needed(advice::ALLOCATOR));
    if let Some(monitors) = fields.take_field("prometheusCR") {
        convert_monitors(work, &monitors);
    }
    work.account.account_remaining(fields, |_| Fate::not_needed(advice::ALLOCATOR));
}

fn convert_monitors(work: &mut Work, node: &Node<'_>) {
    let follows = node.get("enabled").is_some_and(|it| it.is_true());
    let base = format!("{}.receivers.prometheus.kubernetes", pool_path(SCRAPER));
    let mut fields = work.account.open_block(node, Fate::not_needed("monitors are off"));
    if !follows {
        return work.account.account_remaining(fields, |_| Fate::not_needed("monitors are off"));
    }
    let kinds = [
        ("serviceMonitorSelector", "serviceMonitorNamespaceSelector", "serviceMonitors"),
        ("podMonitorSelector", "podMonitorNamespaceSelector", "podMonitors"),
        ("probeSelector", "probeNamespaceSelector", "probes"),
        ("scrapeConfigSelector", "scrapeConfigNamespaceSelector", "scrapeConfigs"),
    ];
    for (labels, namespaces, to) in kinds {
        let (labels, namespaces) = (fields.take_field(labels), fields.take_field(namespaces));
        // That operator follows ServiceMonitors and PodMonitors by default.
        let is_usual = ["serviceMonitors", "podMonitors"].contains(&to);
        if labels.is_none() && namespaces.is_none() && !is_usual {
            continue;
        }
        let of_labels = convert_selector(work, labels.as_ref(), &format!("{base}.{to}.selector"));
        let path = format!("{base}.{to}.namespaceSelector");
        let of_namespaces = convert_selector(work, namespaces.as_ref(), &path);
        let selection = MonitorSelection {
            selector: of_labels,
            // All namespaces, as that allocator's RBAC allows.
            namespace_selector: Some(of_namespaces),
        };
        let Some(found) = prometheus::kubernetes_discovery(&mut work.draft) else { continue };
        let kind = match to {
            "serviceMonitors" => &mut found.service_monitors,
            "podMonitors" => &mut found.pod_monitors,
            "probes" => &mut found.probes,
            _ => &mut found.scrape_configs,
        };
        *kind = Some(selection);
    }
    if let Some(enabled) = fields.take_field("enabled") {
        work.account.differs(
            &enabled,
            &*base,
            "the operator's chart needs discovery.enabled, and for other namespaces \
             discovery.acrossNamespaces",
        );
    }
    if let Some(interval) = fields.take_field("scrapeInterval") {
        let seconds = interval.plain_text().as_deref().and_then(crate::amounts::parse_seconds);
        let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
        let found = prometheus::kubernetes_discovery(&mut work.draft);
        match (seconds.filter(|seconds| (1..=3_600).contains(seconds)), found) {
            (Some(seconds), Some(found)) => {
                found.interval_seconds = seconds;
                work.account.carried(&interval, format!("{base}.intervalSeconds"));
            }
            _ => work.account.unsupported(&interval, "write intervalSeconds, 1 to 3,600"),
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "allowNamespaces" | "denyNamespaces" => {
            Fate::unsupported("select namespaces by their labels: namespaceSelector")
        }
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

/// Converts a label selector, as far as a pool supports it.
fn convert_selector(work: &mut Work, node: Option<&Node<'_>>, to: &str) -> LabelSelector {
    let Some(node) = node else { return LabelSelector::default() };
    let written = node.unescape_value();
    // v1alpha1 has only the labels.
    let is_plain = node.get("matchLabels").is_none() && node.get("matchExpressions").is_none();
    let read: Option<LabelSelector> = match is_plain {
        false => serde_norway::from_value(written.clone()).ok(),
        true => serde_norway::from_value(written.clone())
            .ok()
            .map(|match_labels| LabelSelector { match_labels, ..LabelSelector::default() }),
    };
    // A value that does not round-trip was not part of a selector.
    let is_complete = |read: &LabelSelector| match is_plain {
        true => true,
        false => serde_norway::to_value(read).is_ok_and(|again| again == written),
    };
    let none = LabelSelector::default();
    match read.filter(|read| !node.has_variable() && is_complete(read) && is_usable(read)) {
        Some(selector) if selector == none => work.account.not_needed(node, "it selects all"),
        Some(selector) => {
            work.account.carried(node, to);
            return selector;
        }
        None if node.is_empty() => work.account.not_needed(node, "it selects all"),
        None => work.account.unsupported(
            node,
            "a selector has at most 16 matchLabels and 16 matchExpressions: write it by hand",
        ),
    }
    none
}

/// Returns whether a selector is within the bounds of a pool's.
fn is_usable(selector: &LabelSelector) -> bool {
    /// Maximum of each, of a value's length, of values, and of a key's length.
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
