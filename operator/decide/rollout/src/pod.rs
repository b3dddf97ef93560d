//! Finds why a pod does not run, from the figures that the caller read of it. No I/O, no clock.

/// The figures of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFigures {
    /// The pod's name.
    pub name: String,
    /// Why its container waits, as the kubelet's reason, if it does (`ImagePullBackOff`, ...).
    pub waiting: Option<String>,
    /// Why its container last ended, as the kubelet's reason, if it did (`OOMKilled`, `Error`,
    /// ...).
    pub last_ended: Option<String>,
    /// How often the kubelet restarted its container.
    pub restarts: u32,
    /// How long the scheduler has found no node for it; `None` when it has one.
    pub unschedulable_seconds: Option<i64>,
    /// Its node has not reported for long: the other figures are older.
    pub node_lost: bool,
    /// The pod should exist and does not, although no other pod has to end first.
    pub missing: bool,
    /// The message of the kubelet or the scheduler; for a lost node, the node's name.
    pub message: String,
}

/// A reason why a pod will not recover automatically, worst first: reasons that a person must fix
/// come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// The image cannot be pulled.
    ImagePull,
    /// The container cannot be created: a missing Secret or ConfigMap, an invalid field.
    Configuration,
    /// The kernel killed the container because it exceeded its memory limit.
    OutOfMemory,
    /// The container ends repeatedly.
    CrashLoop,
    /// Its node does not answer.
    NodeLost,
    /// No node fits the pod.
    Unschedulable,
}

/// Restarts in a row that count as a loop even before the kubelet reports one: a dependency that
/// was not yet available may explain the first two.
const RESTARTS_MIN: u32 = 3;
/// How long a pod may be without a node before a person must act, in seconds: a cluster autoscaler
/// checks every 10 s, and a cloud makes a node ready in one to four minutes.
const NO_NODE_SECONDS: i64 = 300;

impl Trouble {
    /// Returns whether the cluster causes the trouble, whatever the pod runs.
    #[must_use]
    pub fn is_the_clusters(self) -> bool {
        matches!(self, Self::NodeLost | Self::Unschedulable)
    }
}

impl PodFigures {
    /// Returns the pod's trouble, if it has one that does not pass automatically.
    #[must_use]
    pub fn find_trouble(&self) -> Option<Trouble> {
        if self.node_lost {
            return Some(Trouble::NodeLost);
        }
        match self.waiting.as_deref() {
            Some(
                "ImagePullBackOff"
                | "ErrImagePull"
                | "InvalidImageName"
                | "ErrImageNeverPull"
                | "ImageInspectError"
                | "RegistryUnavailable",
            ) => return Some(Trouble::ImagePull),
            Some("CreateContainerConfigError" | "CreateContainerError" | "RunContainerError") => {
                return Some(Trouble::Configuration);
            }
            Some("CrashLoopBackOff") => return Some(self.classify_crash()),
            _ => {}
        }
        if self.restarts >= RESTARTS_MIN {
            return Some(self.classify_crash());
        }
        self.unschedulable_seconds.map(|_| Trouble::Unschedulable)
    }

    /// Returns the same, unless a cluster autoscaler may still add a node.
    pub(crate) fn lasting_trouble(&self) -> Option<Trouble> {
        let may_pass = self.unschedulable_seconds.is_some_and(|it| it < NO_NODE_SECONDS);
        self.find_trouble().filter(|it| *it != Trouble::Unschedulable || !may_pass)
    }

    fn classify_crash(&self) -> Trouble {
        match self.last_ended.as_deref() {
            Some("OOMKilled") => Trouble::OutOfMemory,
            _ => Trouble::CrashLoop,
        }
    }
}
