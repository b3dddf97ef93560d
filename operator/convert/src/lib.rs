//! An OpenTelemetry Collector's configuration as a TelemetryPipeline, as far as it goes, and what
//! became of each value of it: carried over, to be filled in, not needed, or left with what to do
//! instead. Nothing is dropped silently.
//!
//! No clock, no I/O, no client: text in, text out. The pipeline is built of the types of
//! `millrace-crds`, jobs and patterns are checked by the readers that a collector has, so what
//! comes out is accepted once its placeholders are filled in.
//!
//! The Collector is read as of 0.12x to 0.15x, with older and newer names of components
//! (`filelog`, `file_log`).
//!
//! Limits: those of a pipeline's fields; the caller bounds the file.

mod account;
mod amounts;
mod clickhouse;
mod draft;
mod extensions;
mod files;
mod input;
mod kafka;
mod object;
mod otlp;
mod processors;
mod prometheus;
mod service;
mod tls;
mod tree;
mod words;
mod work;
mod yaml;

use std::collections::{BTreeSet, HashMap};

use millrace_crds::v1alpha1::{PipelineEdge, Signal, TelemetryPipeline};
use serde_norway::Value;

pub use account::{Entry, Fate};
pub use input::Unreadable;
pub use tree::Path;

use account::Account;
use draft::{CLIENTS, Draft};
use input::Input;
use service::{Part, Service, Use, signal_path, type_of};
use tree::Node;
use work::Work;
use yaml::Hole;

/// The name of a pipeline that the file has none for.
const NAME_USUAL: &str = "telemetry";
/// Longest name of a pipeline: what its pools put behind it needs room.
const NAME_BYTES_MAX: usize = 30;

/// What a name is.
const NAME: &str = "the pipeline's name: lower-case letters, digits and '-', at most 30 characters";

const FORGOTTEN: &str = "this tool doesn't know it: look it up in the pages of the pipeline";

/// What the caller says about the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Its name; the object's own, or a placeholder, when left out.
    pub name: Option<String>,
    /// Its namespace; the object's own, or none, when left out.
    pub namespace: Option<String>,
}

/// A converted configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion {
    /// The pipeline, with placeholders where a value has to be filled in.
    pub pipeline: TelemetryPipeline,
    /// The same as YAML, with a comment at each placeholder.
    pub yaml: String,
    /// What became of each value of the file, in its order; then what the pipeline needs besides.
    pub entries: Vec<Entry>,
}

/// Converts a file: a Collector's configuration, or an OpenTelemetryCollector of its operator.
///
/// # Errors
/// When the file has no configuration with pipelines of Millrace's signals, or several.
pub fn convert(text: &str, wanted: &Wanted) -> Result<Conversion, Unreadable> {
    let input = Input::read(text)?;
    let config = input.configuration();
    let service = Service::read(&config).ok_or(Unreadable::NoPipelines)?;
    let signals = service.signals();
    if signals.is_empty() {
        return Err(Unreadable::NoSignals);
    }
    let mut work = Work { account: Account::default(), draft: Draft::new(&signals) };
    let object = input.object();
    if let Some(spec) = object.as_ref().and_then(|object| object.get("spec")) {
        work.draft.mode = object::mode(&spec);
    }
    configuration(&mut work, &config, &service);
    if let Some(object) = &object {
        object::read(&mut work, object);
    }
    for (path, value) in &input.others {
        let node = Node { path: path.clone(), value };
        work.account.left(&node, "it is no Collector: only that is converted");
    }
    finish(work, &input, object.as_ref(), wanted)
}

/// The configuration: receivers first, since they say which pools there are.
fn configuration(work: &mut Work, config: &Node<'_>, service: &Service<'_>) {
    let mut fields = work.account.open(config, Fate::left(words::UNKNOWN));
    let mut gone = BTreeSet::new();
    if let Some(receivers) = fields.take("receivers") {
        gone.extend(components(work, &receivers, service, Part::Receiver));
    }
    if !gone.is_empty() && !work.draft.edges.is_empty() {
        // The Collectors that stay for these send OTLP to the edge.
        let (name, mode) = (work.draft.otlp_pool(), work.draft.mode.of_pool());
        let _ = work.draft.pool(name, mode);
    }
    if let Some(exporters) = fields.take("exporters") {
        gone.extend(components(work, &exporters, service, Part::Exporter));
    }
    if let Some(processors) = fields.take("processors") {
        gone.extend(components(work, &processors, service, Part::Processor));
    }
    for (section, fate) in [
        ("connectors", extensions::connector as fn(&str) -> Fate),
        ("extensions", extensions::extension),
    ] {
        let Some(node) = fields.take(section) else { continue };
        let each = work.account.open(&node, Fate::not_needed("there is none"));
        work.account.rest(each, fate);
    }
    if let Some(node) = fields.take("service") {
        of_service(work, &node, service, &gone);
    }
    work.account.rest(fields, |_| Fate::left("no part of a Collector's configuration"));
}

/// Each component of a section. Says which of those in use stay behind as a whole.
fn components(
    work: &mut Work,
    node: &Node<'_>,
    service: &Service<'_>,
    part: Part,
) -> BTreeSet<(Part, String)> {
    // Each accounts for itself; a section without any, or that is none, does here.
    let _ = work.account.open(node, Fate::not_needed("there is none"));
    let mut gone = BTreeSet::new();
    let mut jobs = Vec::new();
    for (id, component) in node.entries() {
        let signals = match service.uses(part, &id) {
            Use::By(signals) => signals,
            Use::Unused => {
                let why = "no pipeline uses it: the Collector doesn't start it either";
                work.account.not_needed(&component, why);
                continue;
            }
            Use::NotTaken => {
                let instead = "its pipelines end neither in ClickHouse nor in Kafka: keep a \
                               Collector for them";
                work.account.left(&component, instead);
                continue;
            }
        };
        let taken = match part {
            Part::Receiver => receiver(work, &component, &id, (&signals, &mut jobs)),
            Part::Exporter => exporter(work, &component, &id, &signals),
            Part::Processor => processors::processor(work, &component, &id, service),
        };
        if !taken {
            gone.insert((part, id));
        }
    }
    if part == Part::Receiver {
        prometheus::finish(work, jobs);
    }
    gone
}

/// A receiver in use. False if it stays behind.
fn receiver(
    work: &mut Work,
    node: &Node<'_>,
    id: &str,
    (signals, jobs): (&[Signal], &mut Vec<Value>),
) -> bool {
    match &*type_of(id) {
        "otlp" => otlp::receiver(work, node),
        "filelog" => files::receiver(work, node, id),
        "prometheus" => prometheus::receiver(work, node, jobs),
        "kafka" => kafka::receiver(work, node, signals),
        _ => {
            work.account.left(node, words::OTHER_RECEIVERS);
            false
        }
    }
}

/// An exporter in use. False if it stays behind.
fn exporter(work: &mut Work, node: &Node<'_>, id: &str, signals: &[Signal]) -> bool {
    match &*type_of(id) {
        "clickhouse" => clickhouse::exporter(work, node, signals),
        "kafka" => kafka::exporter(work, node, signals),
        _ => {
            let fate = extensions::exporter(id);
            let stays = matches!(fate, Fate::Left { .. });
            work.account.put(node, fate);
            !stays
        }
    }
}

fn of_service(
    work: &mut Work,
    node: &Node<'_>,
    service: &Service<'_>,
    gone: &BTreeSet<(Part, String)>,
) {
    let mut fields = work.account.open(node, Fate::left(words::UNKNOWN));
    // Each pipeline accounts for itself.
    let _ = fields.take("pipelines");
    for pipeline in &service.pipelines {
        let fate = match (pipeline.signal, pipeline.taken) {
            (None, _) => Fate::left("Millrace has traces, logs and metrics"),
            (Some(_), false) => {
                Fate::left("it ends neither in ClickHouse nor in Kafka: keep a Collector for it")
            }
            (Some(signal), true) => {
                Fate::Carried { to: signal_path(signal), but: without(pipeline, gone) }
            }
        };
        work.account.put(&pipeline.node, fate);
    }
    if let Some(telemetry) = fields.take("telemetry") {
        let each = work.account.open(&telemetry, Fate::not_needed("it says nothing"));
        work.account.rest(each, extensions::telemetry);
    }
    work.account.rest(fields, |name| match name {
        "extensions" => Fate::not_needed("see each of them"),
        _ => Fate::left(words::UNKNOWN),
    });
}

/// Which components of a pipeline stay behind.
fn without(pipeline: &service::Pipeline<'_>, gone: &BTreeSet<(Part, String)>) -> Option<String> {
    let mut lost = Vec::new();
    for (part, list) in [
        (Part::Receiver, &pipeline.receivers),
        (Part::Processor, &pipeline.processors),
        (Part::Exporter, &pipeline.exporters),
    ] {
        lost.extend(list.iter().filter(|id| gone.contains(&(part, (*id).clone()))).cloned());
    }
    (!lost.is_empty()).then(|| format!("without {}", lost.join(", ")))
}

/// The pipeline's name and namespace.
fn names(
    work: &mut Work,
    object: Option<&Node<'_>>,
    wanted: &Wanted,
) -> Result<(String, Option<String>), Unreadable> {
    let of_object = |field: &str| object?.get("metadata")?.get(field)?.said();
    let namespace = wanted.namespace.clone().or_else(|| of_object("namespace"));
    if let Some(name) = &wanted.name {
        return match is_name(name) {
            true => Ok((name.clone(), namespace)),
            false => Err(Unreadable::Name(name.clone())),
        };
    }
    let name = of_object("name").filter(|name| is_name(name)).unwrap_or_else(|| {
        let is_told = work.account.entries.iter().any(|it| it.to() == Some("metadata.name"));
        if !is_told {
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

fn finish(
    mut work: Work,
    input: &Input,
    object: Option<&Node<'_>>,
    wanted: &Wanted,
) -> Result<Conversion, Unreadable> {
    let (name, namespace) = names(&mut work, object, wanted)?;
    if let [only] = &work.draft.edges[..] {
        // The one pool that a pipeline has anyway needs no words.
        let usual = PipelineEdge::default();
        let is_told = work.account.entries.iter().any(|it| it.to().is_some_and(of_clients));
        if *only == usual && !is_told {
            work.draft.edges.clear();
        }
    }
    let Work { mut account, draft } = work;
    let spec = draft.finish(&mut account);
    let mut pipeline = TelemetryPipeline::new(&name, spec);
    pipeline.metadata.namespace = namespace;
    let leaves = input.leaves();
    for path in account.forgotten(&leaves) {
        account.entries.push(Entry { at: Some(path), fate: Fate::left(FORGOTTEN) });
    }
    let mut entries = account.entries;
    // In the file's order: by the first leaf that each stands for.
    let mut first: HashMap<Path, usize> = HashMap::new();
    for (place, leaf) in leaves.iter().enumerate() {
        for path in leaf.and_above() {
            first.entry(path).or_insert(place);
        }
    }
    entries.sort_by_key(|entry| {
        let place = entry.at.as_ref().and_then(|at| first.get(at)).copied();
        place.unwrap_or(leaves.len())
    });
    let keep = entries.iter().filter_map(Entry::to).chain(["apiVersion", "kind"]);
    let keep: Vec<&str> = keep.collect();
    let tree = yaml::spare(&pipeline, &keep)?;
    let holes: Vec<Hole> = entries.iter().filter_map(hole).collect();
    let yaml = yaml::text(&tree, &holes)?;
    Ok(Conversion { pipeline, yaml, entries })
}

fn of_clients(path: &str) -> bool {
    path.starts_with(&draft::pool_path(CLIENTS))
}

fn hole(entry: &Entry) -> Option<Hole> {
    match &entry.fate {
        Fate::FillIn { to, what } => Some(Hole { to: to.clone(), what: what.clone() }),
        _ => None,
    }
}

#[cfg(test)]
#[path = "../tests/unit/words.rs"]
mod words_test;
