//! Memory and CPU time of one pod. Pure.

/// Resources of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Memory requested, in bytes.
    pub memory_request_bytes: u64,
    /// Memory limit, in bytes.
    pub memory_limit_bytes: u64,
    /// CPU time requested, in thousandths of a core.
    pub cpu_request_millicores: u64,
    /// CPU limit, in thousandths of a core, if there is one.
    pub cpu_limit_millicores: Option<u64>,
}

impl Resources {
    /// Returns the amount of CPU time that the rule changes, in thousandths of a core: the limit,
    /// or the request without one.
    #[must_use]
    pub fn cpu_millicores(&self) -> u64 {
        self.cpu_limit_millicores.unwrap_or(self.cpu_request_millicores)
    }
}
