//! Which components are used by which pipelines, and which pipelines are carried over.
//!
//! A pipeline is carried over if its records come to ClickHouse or Kafka, through connectors too.
//! Where none does (an agent that sends to another Collector), all are.

use std::collections::BTreeSet;

use millrace_crds::v1alpha1::Signal;

use crate::tree::Node;

/// A pipeline of the file.
#[derive(Debug)]
pub(crate) struct Pipeline<'a> {
    pub(crate) node: Node<'a>,
    /// None for signals that Millrace doesn't have.
    pub(crate) signal: Option<Signal>,
    pub(crate) receivers: Vec<String>,
    pub(crate) processors: Vec<String>,
    pub(crate) exporters: Vec<String>,
    /// Whether it is carried over.
    pub(crate) taken: bool,
}

/// All pipelines of the file.
#[derive(Debug)]
pub(crate) struct Service<'a> {
    pub(crate) pipelines: Vec<Pipeline<'a>>,
}

/// A role in pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Receiver,
    Processor,
    Exporter,
}

/// Who uses a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// No pipeline: the Collector doesn't start it.
    Unused,
    /// Pipelines that aren't carried over.
    NotTaken,
    /// Pipelines of these signals that are.
    By(Vec<Signal>),
}

impl<'a> Service<'a> {
    /// The pipelines; none if the file has none.
    pub(crate) fn read(config: &Node<'a>) -> Option<Self> {
        let written = config.get("service")?.get("pipelines")?;
        let mut pipelines: Vec<Pipeline<'a>> = written
            .entries()
            .map(|(id, node)| {
                let list = |name| node.get(name).map(|it| it.texts()).unwrap_or_default();
                Pipeline {
                    signal: signal(&id),
                    receivers: list("receivers"),
                    processors: list("processors"),
                    exporters: list("exporters"),
                    taken: false,
                    node,
                }
            })
            .collect();
        let stored = stored(&pipelines);
        for (place, pipeline) in pipelines.iter_mut().enumerate() {
            pipeline.taken =
                pipeline.signal.is_some() && (stored.is_empty() || stored.contains(&place));
        }
        (!pipelines.is_empty()).then_some(Self { pipelines })
    }

    /// The signals that are carried over.
    pub(crate) fn signals(&self) -> Vec<Signal> {
        let taken = self.pipelines.iter().filter(|it| it.taken).filter_map(|it| it.signal);
        taken.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Who uses a component.
    pub(crate) fn uses(&self, part: Part, id: &str) -> Use {
        let by = self.pipelines.iter().filter(|it| it.list(part).iter().any(|one| one == id));
        let by: Vec<_> = by.collect();
        let taken = by.iter().filter(|it| it.taken).filter_map(|it| it.signal);
        let signals: BTreeSet<Signal> = taken.collect();
        match (by.is_empty(), signals.is_empty()) {
            (true, _) => Use::Unused,
            (false, true) => Use::NotTaken,
            (false, false) => Use::By(signals.into_iter().collect()),
        }
    }

    /// Whether a receiver of such a type is in a pipeline with the processor.
    pub(crate) fn follows(&self, processor: &str, is_such: impl Fn(&str) -> bool) -> bool {
        self.pipelines.iter().filter(|it| it.taken).any(|it| {
            it.processors.iter().any(|one| one == processor)
                && it.receivers.iter().any(|one| is_such(&type_of(one)))
        })
    }
}

impl Pipeline<'_> {
    fn list(&self, part: Part) -> &[String] {
        match part {
            Part::Receiver => &self.receivers,
            Part::Processor => &self.processors,
            Part::Exporter => &self.exporters,
        }
    }
}

/// The places of pipelines whose records are stored, or go to Kafka.
fn stored(pipelines: &[Pipeline<'_>]) -> BTreeSet<usize> {
    let stores = |id: &String| ["clickhouse", "kafka"].contains(&&*type_of(id));
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for (place, pipeline) in pipelines.iter().enumerate() {
            let goes_on = |id: &String| {
                found
                    .iter()
                    .filter_map(|next: &usize| pipelines.get(*next))
                    .any(|next| next.signal == pipeline.signal && next.receivers.contains(id))
            };
            if pipeline.exporters.iter().any(|id| stores(id) || goes_on(id)) {
                found.insert(place);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// The signal of a pipeline's id, such as `logs/app`.
fn signal(id: &str) -> Option<Signal> {
    let name = id.split('/').next().unwrap_or_default();
    Signal::ALL.into_iter().find(|signal| signal.as_str() == name)
}

/// A component's type, without its name, in one spelling: `file_log/app` and `filelog` are
/// `filelog`.
pub(crate) fn type_of(id: &str) -> String {
    id.split('/').next().unwrap_or_default().trim().replace('_', "")
}

/// The path of a pipeline's signal in the TelemetryPipeline.
pub(crate) fn signal_path(signal: Signal) -> String {
    format!("spec.signals.{}", signal.as_str())
}
