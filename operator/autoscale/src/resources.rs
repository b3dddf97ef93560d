//! Memory and processor time of one pod. Pure.

/// Resources of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Memory requested, in bytes.
    pub memory_request_bytes: u64,
    /// Memory limit, in bytes.
    pub memory_limit_bytes: u64,
    /// Processor time requested, in thousandths of a core.
    pub cpu_request_millicores: u64,
    /// Processor time limit, in thousandths of a core, if there is one.
    pub cpu_limit_millicores: Option<u64>,
}

impl Resources {
    /// The one amount of processor time that moves, in thousandths of a core: the limit, or what is
    /// requested without one.
    #[must_use]
    pub fn cpu_millicores(&self) -> u64 {
        self.cpu_limit_millicores.unwrap_or(self.cpu_request_millicores)
    }
}
