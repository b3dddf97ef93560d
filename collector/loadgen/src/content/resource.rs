//! Where records come from: resources and instrumentation scopes.

use super::{Attributes, Value};
use crate::plan::{Plan, SERVICES, Shape};

/// Hosts a run comes from.
const HOSTS: u64 = 50;

/// After this many groups the same resources come by again: services times hosts, a multiple of
/// what else varies (4 processes, 2 flags).
pub(crate) const RESOURCE_CYCLE: u64 = SERVICES * HOSTS;

/// The resource of a group of records: three attributes with lean spans, six with all else.
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
    /// The resource of a group: one of ten services, on one of fifty hosts.
    pub(crate) fn at(plan: &Plan, group: u64) -> Self {
        let (service, host) = (group % SERVICES, (group / SERVICES) % HOSTS);
        let more = || More {
            pod_name: format!("shop-{service}-{host:04x}"),
            is_sampled: group.is_multiple_of(2),
        };
        Self {
            service_name: format!("{}{service}", plan.service_prefix()),
            host_name: format!("node-{host}"),
            process_id: 1 + (group % 4) as i64,
            more: (plan.shape != Shape::Lean).then(more),
        }
    }

    /// The schema of the group; lean spans have none.
    pub(crate) fn schema_url(plan: &Plan) -> &'static str {
        if plan.shape == Shape::Lean { "" } else { "https://opentelemetry.io/schemas/1.27.0" }
    }
}

impl Attributes for Resource {
    fn each(&self, take: &mut dyn FnMut(&str, Value<'_>)) {
        take("service.name", Value::Text(&self.service_name));
        take("host.name", Value::Text(&self.host_name));
        take("process.pid", Value::Int(self.process_id));
        if let Some(More { pod_name, is_sampled }) = &self.more {
            take("deployment.environment.name", Value::Text("production"));
            take("k8s.pod.name", Value::Text(pod_name));
            take("load.sampled", Value::Bool(*is_sampled));
        }
    }
}

/// The scope of every record; with attributes and a schema where the tables keep them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    shape: Shape,
}

impl Scope {
    pub(crate) const NAME: &'static str = "millrace.loadgen";
    pub(crate) const VERSION: &'static str = "1";

    pub(crate) const fn of(plan: &Plan) -> Self {
        Self { shape: plan.shape }
    }

    /// Attributes the scope claims to have dropped.
    pub(crate) const fn dropped(self) -> u32 {
        match self.shape {
            Shape::Metrics => 3,
            Shape::Lean | Shape::Rich | Shape::Logs => 0,
        }
    }

    pub(crate) const fn schema_url(self) -> &'static str {
        match self.shape {
            Shape::Lean | Shape::Rich => "",
            Shape::Logs | Shape::Metrics => "https://opentelemetry.io/schemas/1.26.0",
        }
    }
}

impl Attributes for Scope {
    fn each(&self, take: &mut dyn FnMut(&str, Value<'_>)) {
        if matches!(self.shape, Shape::Logs | Shape::Metrics) {
            take("library.language", Value::Text("rust"));
            take("library.stable", Value::Bool(true));
        }
    }
}
