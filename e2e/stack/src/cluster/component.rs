//! The long-running processes of the stack, in the order they start.

use std::fmt;
use std::time::Duration;

/// One process of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The API server's store.
    Etcd,
    /// The Kubernetes API.
    ApiServer,
    /// Kubernetes' own controllers.
    ControllerManager,
    /// Places pods on the node.
    Scheduler,
    /// Runs containers.
    Containerd,
    /// The node agent.
    Kubelet,
    /// Makes services reachable.
    Proxy,
    /// The Kafka broker.
    Kafka,
    /// The ClickHouse engine behind its HTTP front.
    ClickHouse,
}

impl Component {
    /// All of them, in the order they start.
    pub const ALL: [Self; 9] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Containerd,
        Self::Kubelet,
        Self::Proxy,
        Self::Kafka,
        Self::ClickHouse,
    ];

    /// Its name, as on the command line and of its log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
            Self::Kafka => "kafka",
            Self::ClickHouse => "clickhouse",
        }
    }

    /// The component of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.name() == name)
    }

    /// How long it gets to end by itself before it is killed. A broker writes its state and an
    /// engine finishes inserts; an API server would wait for its watches, which nobody needs it to.
    pub(crate) fn grace(self) -> Duration {
        match self {
            Self::Kafka | Self::ClickHouse => Duration::from_secs(20),
            Self::ApiServer => Duration::from_secs(5),
            _ => Duration::from_secs(10),
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Component;

    /// `millrace-stack restart kafka` must find what `status` printed.
    #[test]
    fn every_component_is_found_by_its_name() {
        for component in Component::ALL {
            assert_eq!(Component::from_name(component.name()), Some(component));
        }
    }
}
