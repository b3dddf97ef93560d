//! The section of the kernel's log.

use std::path::PathBuf;

use crate::document::check::Checker;
use crate::document::section::section;

section! {
    /// The kernel log.
    pub struct KernelReceiver {
        /// Device of the kernel log, which returns one record per read.
        pub device: PathBuf = PathBuf::from("/dev/kmsg"),
    }
}

impl Checker<'_> {
    pub(crate) fn check_kernel(&mut self, kernel: &KernelReceiver) {
        let KernelReceiver { device } = kernel;
        self.check_absolute("receivers.kernel.device", device);
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use proptest::prelude::Strategy;

    use super::KernelReceiver;

    pub(crate) fn kernel() -> impl Strategy<Value = KernelReceiver> {
        "/[ -~]{0,30}".prop_map(|device| KernelReceiver { device: device.into() })
    }
}
