//! Determines which pipelines use which components, and which pipelines are carried over.
//!
//! A pipeline is carried over if its records reach ClickHouse or Kafka, through connectors too. If
//! none does (an agent that sends to another Collector), all are.

use std::collections::BTreeSet;

use millrace_crds::v1alpha1::Signal;

use crate::tree::Node;

/// A pipeline of the file.
#[derive(Debug)]
pub(crate) struct Pipeline<'a> {
    pub(crate) node: Node<'a>,
    /// `None` for signals that Millrace doesn't have.
    pub(crate) signal: Option<Signal>,
    pub(crate) receivers: Vec<String>,
    pub(crate) processors: Vec<String>,
    pub(crate) exporters: Vec<String>,
    /// Whether it is carried over.
    pub(crate) is_carried: bool,
}

/// All pipelines of the file.
#[derive(Debug)]
pub(crate) struct ServiceSection<'a> {
    pub(crate) pipelines: Vec<Pipeline<'a>>,
}

/// A role in pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ComponentRole {
    Receiver,
    Processor,
    Exporter,
}

/// The use of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// No pipeline uses it: the Collector doesn't start it.
    Unused,
    /// Only pipelines that aren't carried over use it.
    NotCarried,
    /// Carried pipelines of these signals use it.
    By(Vec<Signal>),
}

impl<'a> ServiceSection<'a> {
    /// Reads the pipelines; `None` if the file has none.
    pub(crate) fn read(config: &Node<'a>) -> Option<Self> {
        let written = config.get("service")?.get("pipelines")?;
        let mut pipelines: Vec<Pipeline<'a>> = written
            .entries()
            .map(|(id, node)| {
                let list = |name| node.get(name).map(|it| it.list_texts()).unwrap_or_default();
                Pipeline {
                    signal: signal_of(&id),
                    receivers: list("receivers"),
                    processors: list("processors"),
                    exporters: list("exporters"),
                    is_carried: false,
                    node,
                }
            })
            .collect();
        let stored = stored_pipelines(&pipelines);
        for (index, pipeline) in pipelines.iter_mut().enumerate() {
            pipeline.is_carried =
                pipeline.signal.is_some() && (stored.is_empty() || stored.contains(&index));
        }
        (!pipelines.is_empty()).then_some(Self { pipelines })
    }

    /// Returns the signals that are carried over.
    pub(crate) fn carried_signals(&self) -> Vec<Signal> {
        let carried = self.pipelines.iter().filter(|it| it.is_carried).filter_map(|it| it.signal);
        carried.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the use of a component.
    pub(crate) fn use_of(&self, part: ComponentRole, id: &str) -> Use {
        let by =
            self.pipelines.iter().filter(|it| it.components_of(part).iter().any(|one| one == id));
        let by: Vec<_> = by.collect();
        let carried = by.iter().filter(|it| it.is_carried).filter_map(|it| it.signal);
        let signals: BTreeSet<Signal> = carried.collect();
        match (by.is_empty(), signals.is_empty()) {
            (true, _) => Use::Unused,
            (false, true) => Use::NotCarried,
            (false, false) => Use::By(signals.into_iter().collect()),
        }
    }

    /// Returns whether a carried pipeline with the processor has a receiver of a matching type.
    pub(crate) fn has_receiver(&self, processor: &str, is_such: impl Fn(&str) -> bool) -> bool {
        self.pipelines.iter().filter(|it| it.is_carried).any(|it| {
            it.processors.iter().any(|one| one == processor)
                && it.receivers.iter().any(|one| is_such(&type_of(one)))
        })
    }
}

impl ServiceSection<'_> {
    /// Returns how the use of a processor widens when its steps run on all records of its signals;
    /// `None` if each carried pipeline of these signals has it.
    pub(crate) fn wider_use(&self, processor: &str) -> Option<String> {
        let has_it = |it: &&Pipeline<'_>| it.processors.iter().any(|one| one == processor);
        let carried = || self.pipelines.iter().filter(|it| it.is_carried);
        let mut wider = Vec::new();
        for signal in Signal::ALL {
            let of_signal = || carried().filter(|it| it.signal == Some(signal));
            if of_signal().any(|it| has_it(&it)) && !of_signal().all(|it| has_it(&it)) {
                wider.push(signal.as_str());
            }
        }
        (!wider.is_empty()).then(|| {
            format!("it runs on all records of {}, not of some pipelines", wider.join(" and "))
        })
    }
}

impl Pipeline<'_> {
    fn components_of(&self, part: ComponentRole) -> &[String] {
        match part {
            ComponentRole::Receiver => &self.receivers,
            ComponentRole::Processor => &self.processors,
            ComponentRole::Exporter => &self.exporters,
        }
    }
}

/// Returns the indexes of pipelines whose records are stored, or go to Kafka.
fn stored_pipelines(pipelines: &[Pipeline<'_>]) -> BTreeSet<usize> {
    let stores = |id: &String| ["clickhouse", "kafka"].contains(&&*type_of(id));
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for (index, pipeline) in pipelines.iter().enumerate() {
            let continues = |id: &String| {
                found
                    .iter()
                    .filter_map(|next: &usize| pipelines.get(*next))
                    .any(|next| next.signal == pipeline.signal && next.receivers.contains(id))
            };
            if pipeline.exporters.iter().any(|id| stores(id) || continues(id)) {
                found.insert(index);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Returns the signal of a pipeline's id, such as `logs/app`.
fn signal_of(id: &str) -> Option<Signal> {
    let name = id.split('/').next().unwrap_or_default();
    Signal::ALL.into_iter().find(|signal| signal.as_str() == name)
}

/// Returns a component's type, without its name, in one spelling: `file_log/app` and `filelog` are
/// `filelog`.
pub(crate) fn type_of(id: &str) -> String {
    id.split('/').next().unwrap_or_default().trim().replace('_', "")
}

/// Returns the path of a pipeline's signal in the TelemetryPipeline.
pub(crate) fn signal_path(signal: Signal) -> String {
    format!("spec.signals.{}", signal.as_str())
}
