//! Why a pod does not run, from its figures.

/// What was read of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFigures {
    /// The pod's name.
    pub name: String,
    /// Why its container waits, in the kubelet's word, if it does (`ImagePullBackOff`, ...).
    pub waiting: Option<String>,
    /// Why its container ended last, in the kubelet's word, if it did (`OOMKilled`, `Error`, ...).
    pub last_ended: Option<String>,
    /// How often its container was started again.
    pub restarts: u32,
    /// The scheduler found no node.
    pub unschedulable: bool,
    /// Its node hasn't told of it for long: what else is known of it is from before.
    pub node_lost: bool,
    /// What the kubelet or the scheduler said about it; of a lost node, which one.
    pub message: String,
}

/// A reason why a pod will not run by itself, worst first: what a person must do comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// The image cannot be pulled.
    ImagePull,
    /// The container cannot be made: a missing Secret or ConfigMap, a bad field.
    Configuration,
    /// The container was ended for using more memory than its limit.
    OutOfMemory,
    /// The container ends again and again.
    CrashLoop,
    /// Its node doesn't answer.
    NodeLost,
    /// No node fits.
    Unschedulable,
}

/// Restarts in a row that count as a loop even before the kubelet says so: the first two may be a
/// dependency that was not there yet.
const RESTARTS_MIN: u32 = 3;

impl Trouble {
    /// Whether it is the cluster's, whatever the pod runs.
    #[must_use]
    pub fn is_the_clusters(self) -> bool {
        matches!(self, Self::NodeLost | Self::Unschedulable)
    }
}

impl PodFigures {
    /// The pod's trouble, if it has one that does not pass by itself.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
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
            Some("CrashLoopBackOff") => return Some(self.crash()),
            _ => {}
        }
        if self.restarts >= RESTARTS_MIN {
            return Some(self.crash());
        }
        self.unschedulable.then_some(Trouble::Unschedulable)
    }

    fn crash(&self) -> Trouble {
        match self.last_ended.as_deref() {
            Some("OOMKilled") => Trouble::OutOfMemory,
            _ => Trouble::CrashLoop,
        }
    }
}
