//! Pods as the decision uses them, and their state by what was last heard of them.

/// The state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It has not reported yet: it gets no targets.
    Starting,
    /// It works.
    Ready,
    /// It works, and is about to end: its targets are handed over, and it gets none.
    Leaving,
    /// It doesn't answer the operator, but Kubernetes counts it as ready: the network between them
    /// is closed, or it is busy. It continues to scrape its targets, so it retains them, and it
    /// gets no more.
    Unreachable,
    /// It doesn't answer, and Kubernetes doesn't count it as ready: it counts as dead, as soon as
    /// another pod can have its targets.
    Silent,
    /// It has ended, or its object is deleted. No step waits for it.
    Ended,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidatePod {
    /// Its state.
    pub state: PodState,
    /// The zone of its node, if known.
    pub zone: Option<String>,
}

/// What was observed of a pod. Times are seconds on the caller's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodObservation {
    /// Its object is deleted, so its process has ended too.
    pub deleted: bool,
    /// It is terminating.
    pub terminating: bool,
    /// Kubernetes counts it as ready: the kubelet's probes, which no network policy blocks, are
    /// answered.
    pub is_ready: bool,
    /// When it was last heard from, or first polled: a new operator counts from its own start.
    pub heard_at: i64,
    /// The version of its share that it last reported as applied; `None` while it starts.
    pub reported: Option<u64>,
}

/// Returns the state of a pod at `now`.
#[must_use]
pub fn pod_state(observation: &PodObservation, now: i64, silent_seconds: i64) -> PodState {
    let silent = now.saturating_sub(observation.heard_at) >= silent_seconds;
    match observation {
        PodObservation { deleted: true, .. } => PodState::Ended,
        // A pod that never reported may still hold targets: the operator may be new.
        PodObservation { is_ready: true, .. } if silent => PodState::Unreachable,
        _ if silent => PodState::Silent,
        PodObservation { terminating: true, .. } => PodState::Leaving,
        PodObservation { reported: None, .. } => PodState::Starting,
        PodObservation { .. } => PodState::Ready,
    }
}
