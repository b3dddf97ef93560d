//! Converts an OpenTelemetry Collector's configuration to a TelemetryPipeline, as far as possible,
//! and accounts for each of its values: carried over, to be filled in, not needed, or left with
//! what to do instead. No value is dropped silently.
//!
//! No clock, no I/O, no client: text in, text out. The pipeline consists of the types of
//! `millrace-crds`, and the collector's own readers check jobs and patterns, so the result is
//! accepted once its placeholders are filled in.
//!
//! The Collector is read as of 0.12x to 0.15x, with older and newer names of components (`filelog`,
//! `file_log`).
//!
//! Limits: those of a pipeline's fields; the caller bounds the file.

mod account;
mod advice;
mod amounts;
mod components;
mod draft;
mod input;
mod object;
mod service;
mod tree;
mod work;
mod yaml;

use std::collections::{BTreeSet, HashMap};

use millrace_crds::v1alpha1::{PipelineEdge, Signal, TelemetryPipeline};
use serde_norway::Value;

pub use account::{AccountEntry, Fate};
pub use input::Unreadable;
pub use tree::ValuePath;

use account::Account;
use draft::{CLIENTS, PipelineDraft};
use input::InputFile;
use service::{ComponentRole, ServiceSection, Use, signal_path, type_of};
use tree::Node;
use work::Work;
use yaml::Placeholder;

/// The name of a pipeline when the file has none.
const NAME_USUAL: &str = "telemetry";
/// Maximum length of a pipeline's name: its pools append to it.
const NAME_BYTES_MAX: usize = 30;

/// The format of a name.
const NAME: &str = "the pipeline's name: lower-case letters, digits and '-', at most 30 characters";

const FORGOTTEN: &str = "unknown to this tool: check the pipeline's reference";

/// The caller's options for the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvertOptions {
    /// Its name; defaults to the object's own, or a placeholder.
    pub name: Option<String>,
    /// Its namespace; defaults to the object's own, or none.
    pub namespace: Option<String>,
}

/// A converted configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion {
    /// The pipeline, with placeholders where a value has to be filled in.
    pub pipeline: TelemetryPipeline,
    /// The same as YAML, with a comment at each placeholder.
    pub yaml: String,
    /// What happened to each value of the file, in its order; then values that the pipeline needs
    /// besides.
    pub entries: Vec<AccountEntry>,
}

/// Converts a file: a Collector's configuration, or an OpenTelemetryCollector of its operator.
///
/// # Errors
/// When the file has no configuration with pipelines of Millrace's signals, or several.
pub fn convert_config(text: &str, options: &ConvertOptions) -> Result<Conversion, Unreadable> {
    let input = InputFile::read(text)?;
    let config = input.configuration();
    let service = ServiceSection::read(&config).ok_or(Unreadable::NoPipelines)?;
    let signals = service.carried_signals();
    if signals.is_empty() {
        return Err(Unreadable::NoSignals);
    }
    let mut work = Work { account: Account::default(), draft: PipelineDraft::new(&signals) };
    let object = input.collector_object();
    if let Some(spec) = object.as_ref().and_then(|object| object.get("spec")) {
        work.draft.mode = object::mode_of_object(&spec);
    }
    convert_configuration(&mut work, &config, &service);
    if let Some(object) = &object {
        object::convert_object(&mut work, object);
    }
    for (path, value) in &input.others {
        let node = Node { path: path.clone(), value };
        work.account.unsupported(&node, "not a Collector: only Collectors are converted");
    }
    finish_conversion(work, &input, object.as_ref(), options)
}

/// Converts the configuration: receivers first, since they determine the pools.
fn convert_configuration(work: &mut Work, config: &Node<'_>, service: &ServiceSection<'_>) {
    let mut fields = work.account.open_block(config, Fate::unsupported(advice::UNKNOWN));
    let mut dropped = BTreeSet::new();
    if let Some(receivers) = fields.take_field("receivers") {
        dropped.extend(convert_components(work, &receivers, service, ComponentRole::Receiver));
    }
    if !dropped.is_empty() && !work.draft.edges.is_empty() {
        // The Collectors that stay for these send OTLP to the edge.
        let (name, mode) = (work.draft.otlp_pool(), work.draft.mode.of_pool());
        let _ = work.draft.pool_settings(name, mode);
    }
    if let Some(exporters) = fields.take_field("exporters") {
        dropped.extend(convert_components(work, &exporters, service, ComponentRole::Exporter));
    }
    if let Some(processors) = fields.take_field("processors") {
        dropped.extend(convert_components(work, &processors, service, ComponentRole::Processor));
    }
    let rules = CarriedRules::ordered(work, service);
    for (section, fate) in [
        ("connectors", components::extensions::connector_fate as fn(&str) -> Fate),
        ("extensions", components::extensions::extension_fate),
    ] {
        let Some(node) = fields.take_field(section) else { continue };
        let each = work.account.open_block(&node, Fate::not_needed("the list is empty"));
        work.account.account_remaining(each, fate);
    }
    if let Some(node) = fields.take_field("service") {
        convert_service(work, &node, service, (&dropped, &rules));
    }
    work.account.account_remaining(fields, |_| {
        Fate::unsupported("not part of a Collector's configuration")
    });
}

/// Converts each component of a section. Returns the used ones that are not carried over.
fn convert_components(
    work: &mut Work,
    node: &Node<'_>,
    service: &ServiceSection<'_>,
    part: ComponentRole,
) -> BTreeSet<(ComponentRole, String)> {
    // Each component adds its own entry; an empty or invalid section gets one here.
    let _ = work.account.open_block(node, Fate::not_needed("the list is empty"));
    let mut dropped = BTreeSet::new();
    let mut jobs = Vec::new();
    for (id, component) in node.entries() {
        let signals = match service.use_of(part, &id) {
            Use::By(signals) => signals,
            Use::Unused => {
                let why = "no pipeline uses it";
                work.account.not_needed(&component, why);
                continue;
            }
            Use::NotCarried => {
                let instead = "its pipelines end neither in ClickHouse nor in Kafka: keep a \
                               Collector for them";
                work.account.unsupported(&component, instead);
                continue;
            }
        };
        let is_carried = match part {
            ComponentRole::Receiver => {
                convert_receiver(work, &component, &id, (&signals, &mut jobs))
            }
            ComponentRole::Exporter => convert_exporter(work, &component, &id, &signals),
            ComponentRole::Processor => components::processors::convert_processor(
                work,
                &component,
                &id,
                (&signals, service),
            ),
        };
        if !is_carried {
            dropped.insert((part, id));
        }
    }
    if part == ComponentRole::Receiver {
        components::prometheus::store_jobs(work, jobs);
    }
    dropped
}

/// Converts a used receiver. Returns false if it is not carried over.
fn convert_receiver(
    work: &mut Work,
    node: &Node<'_>,
    id: &str,
    (signals, jobs): (&[Signal], &mut Vec<Value>),
) -> bool {
    match &*type_of(id) {
        "otlp" => components::otlp::convert_receiver(work, node),
        "filelog" => components::files::convert_receiver(work, node, id),
        "prometheus" => components::prometheus::convert_receiver(work, node, jobs),
        "kafka" => components::kafka::convert_receiver(work, node, signals),
        _ => {
            work.account.unsupported(node, advice::OTHER_RECEIVERS);
            false
        }
    }
}

/// Converts a used exporter. Returns false if it is not carried over.
fn convert_exporter(work: &mut Work, node: &Node<'_>, id: &str, signals: &[Signal]) -> bool {
    match &*type_of(id) {
        "clickhouse" => components::clickhouse::convert_exporter(work, node, signals),
        "kafka" => components::kafka::convert_exporter(work, node, signals),
        _ => {
            let fate = components::extensions::exporter_fate(id);
            let stays = matches!(fate, Fate::Left { .. });
            work.account.add_entry(node, fate);
            !stays
        }
    }
}

fn convert_service(
    work: &mut Work,
    node: &Node<'_>,
    service: &ServiceSection<'_>,
    (dropped, rules): (&BTreeSet<(ComponentRole, String)>, &CarriedRules),
) {
    let mut fields = work.account.open_block(node, Fate::unsupported(advice::UNKNOWN));
    // Each pipeline adds its own entry.
    let _ = fields.take_field("pipelines");
    for (number, pipeline) in service.pipelines.iter().enumerate() {
        let fate = match (pipeline.signal, pipeline.is_carried) {
            (None, _) => Fate::unsupported("Millrace has traces, logs and metrics"),
            (Some(_), false) => Fate::unsupported(
                "it ends neither in ClickHouse nor in Kafka: keep a Collector for it",
            ),
            (Some(signal), true) => {
                let reordered = rules.reordered.contains(&number).then(|| REORDERED.to_owned());
                let but = [lost_components(pipeline, dropped), reordered];
                let but: Vec<String> = but.into_iter().flatten().collect();
                let but = (!but.is_empty()).then(|| but.join("; "));
                Fate::Carried { to: signal_path(signal), but }
            }
        };
        work.account.add_entry(&pipeline.node, fate);
    }
    if let Some(telemetry) = fields.take_field("telemetry") {
        let each = work.account.open_block(&telemetry, Fate::not_needed("it is empty"));
        work.account.account_remaining(each, components::extensions::telemetry_fate);
    }
    work.account.account_remaining(fields, |name| match name {
        "extensions" => Fate::not_needed("see each extension"),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

/// For a pipeline whose processors have another order than the steps.
const REORDERED: &str = "an earlier pipeline has its processors in another order, and the steps \
                         have that one";

/// What the order of steps differs from.
struct CarriedRules {
    /// The numbers of pipelines with another order.
    reordered: Vec<usize>,
}

impl CarriedRules {
    /// Puts the steps into the pipeline, in the order of the file's pipelines.
    fn ordered(work: &mut Work, service: &ServiceSection<'_>) -> Self {
        let steps = std::mem::take(&mut work.draft.steps);
        let ids: Vec<&str> = steps.iter().map(|(id, _)| id.as_str()).collect();
        let reordered = components::rules::differing_pipelines(service, &ids);
        work.draft.processing = components::rules::order_steps(steps, service);
        Self { reordered }
    }
}

/// Returns the components of a pipeline that are not carried over.
fn lost_components(
    pipeline: &service::Pipeline<'_>,
    dropped: &BTreeSet<(ComponentRole, String)>,
) -> Option<String> {
    let mut lost = Vec::new();
    for (part, list) in [
        (ComponentRole::Receiver, &pipeline.receivers),
        (ComponentRole::Processor, &pipeline.processors),
        (ComponentRole::Exporter, &pipeline.exporters),
    ] {
        lost.extend(list.iter().filter(|id| dropped.contains(&(part, (*id).clone()))).cloned());
    }
    (!lost.is_empty()).then(|| format!("without {}", lost.join(", ")))
}

/// Returns the pipeline's name and namespace.
fn pipeline_names(
    work: &mut Work,
    object: Option<&Node<'_>>,
    options: &ConvertOptions,
) -> Result<(String, Option<String>), Unreadable> {
    let of_object = |field: &str| object?.get("metadata")?.get(field)?.plain_text();
    let namespace = options.namespace.clone().or_else(|| of_object("namespace"));
    if let Some(name) = &options.name {
        return match is_name(name) {
            true => Ok((name.clone(), namespace)),
            false => Err(Unreadable::Name(name.clone())),
        };
    }
    let name = of_object("name").filter(|name| is_name(name)).unwrap_or_else(|| {
        let is_reported =
            work.account.entries.iter().any(|it| it.target_field() == Some("metadata.name"));
        if !is_reported {
            work.account.missing("metadata.name", NAME);
        }
        NAME_USUAL.to_owned()
    });
    Ok((name, namespace))
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|one: char| one.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-')
}

fn finish_conversion(
    mut work: Work,
    input: &InputFile,
    object: Option<&Node<'_>>,
    options: &ConvertOptions,
) -> Result<Conversion, Unreadable> {
    let (name, namespace) = pipeline_names(&mut work, object, options)?;
    if let [only] = &work.draft.edges[..] {
        // The one pool that every pipeline has need not be written.
        let usual = PipelineEdge::default();
        let is_reported =
            work.account.entries.iter().any(|it| it.target_field().is_some_and(of_clients));
        if *only == usual && !is_reported {
            work.draft.edges.clear();
        }
    }
    let Work { mut account, draft } = work;
    let spec = draft.into_spec(&mut account);
    let mut pipeline = TelemetryPipeline::new(&name, spec);
    pipeline.metadata.namespace = namespace;
    let leaves = input.leaf_paths();
    for path in account.uncovered_leaves(&leaves) {
        account.entries.push(AccountEntry { at: Some(path), fate: Fate::unsupported(FORGOTTEN) });
    }
    let mut entries = account.entries;
    // Sorts in the file's order: by the first leaf that each entry covers.
    let mut first: HashMap<ValuePath, usize> = HashMap::new();
    for (index, leaf) in leaves.iter().enumerate() {
        for path in leaf.and_above() {
            first.entry(path).or_insert(index);
        }
    }
    entries.sort_by_key(|entry| {
        let index = entry.at.as_ref().and_then(|at| first.get(at)).copied();
        index.unwrap_or(leaves.len())
    });
    let required =
        entries.iter().filter_map(AccountEntry::target_field).chain(["apiVersion", "kind"]);
    let required: Vec<&str> = required.collect();
    let tree = yaml::remove_defaults(&pipeline, &required)?;
    let holes: Vec<Placeholder> = entries.iter().filter_map(placeholder_of).collect();
    let yaml = yaml::render_yaml(&tree, &holes)?;
    Ok(Conversion { pipeline, yaml, entries })
}

fn of_clients(path: &str) -> bool {
    path.starts_with(&draft::pool_path(CLIENTS))
}

fn placeholder_of(entry: &AccountEntry) -> Option<Placeholder> {
    match &entry.fate {
        Fate::FillIn { to, what } => Some(Placeholder { to: to.clone(), what: what.clone() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
