//! Resources and instrumentation scopes of records.

use super::{AttributeList, SentValue};
use crate::plan::{LoadPlan, LoadShape, SERVICES};

/// Number of hosts of a run.
const HOSTS: u64 = 50;

/// Resources repeat after this many groups: services times hosts, a multiple of the other
/// variations (4 processes, 2 flags).
pub(crate) const RESOURCE_CYCLE: u64 = SERVICES * HOSTS;

/// The resource of a group of records: three attributes with lean spans, six with all other shapes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resource {
    pub(crate) service_name: String,
    host_name: String,
    process_id: i64,
    more: Option<More>,
}

#[derive(Clone, Debug, PartialEq)]
struct More {
    pod_name: String,
    is_sampled: bool,
}

impl Resource {
    /// Returns the resource of a group: one of ten services, on one of fifty hosts.
    pub(crate) fn of_group(plan: &LoadPlan, group: u64) -> Self {
        let (service, host) = (group % SERVICES, (group / SERVICES) % HOSTS);
        let more = || More {
            pod_name: format!("shop-{service}-{host:04x}"),
            is_sampled: group.is_multiple_of(2),
        };
        Self {
            service_name: format!("{}{service}", plan.service_prefix()),
            host_name: format!("node-{host}"),
            process_id: 1 + (group % 4) as i64,
            more: (!plan.shape.is_lean()).then(more),
        }
    }

    /// Returns the schema URL of the group; lean spans have none.
    pub(crate) fn schema_url(plan: &LoadPlan) -> &'static str {
        if plan.shape.is_lean() { "" } else { "https://opentelemetry.io/schemas/1.27.0" }
    }
}

impl AttributeList for Resource {
    fn for_each(&self, take: &mut dyn FnMut(&str, SentValue<'_>)) {
        take("service.name", SentValue::Text(&self.service_name));
        take("host.name", SentValue::Text(&self.host_name));
        take("process.pid", SentValue::Int(self.process_id));
        if let Some(More { pod_name, is_sampled }) = &self.more {
            take("deployment.environment.name", SentValue::Text("production"));
            take("k8s.pod.name", SentValue::Text(pod_name));
            take("load.sampled", SentValue::Bool(*is_sampled));
        }
    }
}

/// The scope of every record; with attributes and a schema where the tables store them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeContent {
    shape: LoadShape,
}

impl ScopeContent {
    pub(crate) const NAME: &'static str = "millrace.loadgen";
    pub(crate) const VERSION: &'static str = "1";

    pub(crate) const fn of_plan(plan: &LoadPlan) -> Self {
        Self { shape: plan.shape }
    }

    /// Returns the number of attributes that the scope reports as dropped.
    pub(crate) const fn dropped_count(self) -> u32 {
        match self.shape {
            LoadShape::Metrics => 3,
            LoadShape::Lean | LoadShape::Rich | LoadShape::Ruled | LoadShape::Logs => 0,
        }
    }

    pub(crate) const fn schema_url(self) -> &'static str {
        match self.shape {
            LoadShape::Lean | LoadShape::Rich | LoadShape::Ruled => "",
            LoadShape::Logs | LoadShape::Metrics => "https://opentelemetry.io/schemas/1.26.0",
        }
    }
}

impl AttributeList for ScopeContent {
    fn for_each(&self, take: &mut dyn FnMut(&str, SentValue<'_>)) {
        if matches!(self.shape, LoadShape::Logs | LoadShape::Metrics) {
            take("library.language", SentValue::Text("rust"));
            take("library.stable", SentValue::Bool(true));
        }
    }
}
