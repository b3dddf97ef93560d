//! Lists the sources of an edge's records, and runs those that the settings contain until the
//! drain. It knows no exporter: sources hand records to a publisher.

use std::io;

use millrace_config::{CollectorMode, Positions, Receivers};
use millrace_pipeline::component::{ComponentError, Source, SourceContext};
use millrace_pipeline::readiness::{Readiness, ReadinessPart};
use millrace_source_files::LogFiles;
use millrace_source_kernel::KernelSource;
use millrace_source_otlp::OtlpSource;
use millrace_source_prometheus::{PrometheusSource, TargetStatus};
use tokio::task::JoinSet;

use crate::common::RunError;
use crate::edge::pods::EdgeWatches;

/// What sources need besides their settings.
#[derive(Default)]
pub(crate) struct SourceNeeds {
    /// The threads for compression and checks of requests.
    pub(crate) threads: usize,
    /// The status of targets.
    pub(crate) target_status: TargetStatus,
    /// What is watched at the API server.
    pub(crate) watches: EdgeWatches,
}

/// Lists the sources that the settings contain.
fn list_sources(
    settings: &Receivers,
    positions: &Positions,
    needs: SourceNeeds,
) -> Vec<Box<dyn Source>> {
    let SourceNeeds { threads, target_status, watches } = needs;
    let EdgeWatches { pods, namespaces, share, reserved_bytes: _ } = watches;
    let Receivers { otlp, kafka: _, containers, files, kernel, prometheus } = settings.clone();
    let positions = || positions.clone();
    let listed = [
        otlp.map(|settings| boxed(OtlpSource { settings, threads })),
        LogFiles::new(containers, files, positions(), pods, namespaces).map(boxed),
        kernel.map(|settings| boxed(KernelSource { settings, positions: positions() })),
        prometheus.map(|settings| boxed(PrometheusSource::new(settings, target_status, share))),
    ];
    listed.into_iter().flatten().collect()
}

fn boxed(source: impl Source + 'static) -> Box<dyn Source> {
    Box::new(source)
}

/// Checks what otherwise only starting would show, such as patterns.
pub(crate) fn check_sources(mode: &CollectorMode) -> Result<(), String> {
    match mode {
        CollectorMode::Edge { sources, positions, .. } => {
            let listed = list_sources(sources, positions, SourceNeeds::default());
            listed.iter().try_for_each(|source| source.check())
        }
        CollectorMode::Gateway { .. } => Ok(()),
    }
}

/// The sources of an edge, with their parts of readiness.
pub(crate) struct EdgeSources(Vec<(Box<dyn Source>, ReadinessPart)>);

impl EdgeSources {
    /// Lists the sources. Registers what must be ready before clients connect: call it before the
    /// process reports that it has started.
    pub(crate) fn register(
        settings: &Receivers,
        positions: &Positions,
        needs: SourceNeeds,
        readiness: &Readiness,
    ) -> Self {
        let register = |source: Box<dyn Source>| {
            let part = readiness.add_part(source.name());
            (source, part)
        };
        Self(list_sources(settings, positions, needs).into_iter().map(register).collect())
    }

    /// Starts all sources, and runs them until the drain.
    pub(crate) async fn run(self, context: SourceContext) -> Result<(), RunError> {
        // What still runs when one fails ends when this set is dropped.
        let mut running = JoinSet::new();
        for (source, ready) in self.0 {
            let starting = source.start(context.clone());
            running.spawn(async move {
                let run = starting.await?;
                ready.set_ready();
                Ok::<bool, ComponentError>(run.await)
            });
        }
        drop(context);
        let mut is_safe = true;
        while let Some(ended) = running.join_next().await {
            is_safe &= ended.map_err(io::Error::from)??;
        }
        if is_safe { Ok(()) } else { Err(RunError::Deadline) }
    }
}
