//! The section of targets that are scraped.

use std::collections::BTreeMap;

use crate::network::TargetAddress;
use crate::section::section;
use crate::units::ByteSize;

section! {
    /// Targets that are scraped over HTTP, in Prometheus' formats.
    pub struct PrometheusReceiver {
        /// What is scraped. At least one job must be given.
        pub jobs: Vec<ScrapeJob> = Vec::new(),
        /// Whether targets may have loopback and link-local addresses. Without it such a target is
        /// down, so that no list of targets reaches what only this machine should.
        pub allow_local_addresses: bool = false,
    }
}

section! {
    /// Targets of one service.
    pub struct ScrapeJob {
        /// Its name: `service.name` of all its metrics. It must be given.
        pub name: String = String::new(),
        /// The targets, as `host:port`. At least one must be given.
        pub targets: Vec<TargetAddress> = Vec::new(),
        /// The time from a target's scrape to its next one, in seconds.
        pub interval_seconds: u32 = 60,
        /// The time for a scrape, in seconds.
        pub timeout_seconds: u32 = 10,
        /// The path, with a query if there is one.
        pub path: String = "/metrics".to_owned(),
        /// Labels of all points.
        pub labels: BTreeMap<String, String> = BTreeMap::new(),
        /// Where a scraped label has the name of one of `labels`, or is `job` or `instance`:
        /// whether it is kept. Otherwise it becomes `exported_NAME`.
        pub honor_labels: bool = false,
        /// Whether times in a body are kept. Otherwise its points have the scrape's time.
        pub honor_timestamps: bool = true,
        /// Whether targets are asked for the protobuf format, which alone has native histograms.
        /// Those become exponential histograms; targets without that format answer in text.
        pub native_histograms: bool = false,
        /// What a target may send.
        pub limits: ScrapeLimits = ScrapeLimits::default(),
    }
}

section! {
    /// What a target may send. A scrape that passes a limit fails.
    pub struct ScrapeLimits {
        /// The longest body, after decompression. It is never held whole.
        pub body_bytes: ByteSize = ByteSize::mib(256),
        /// Most samples of a scrape.
        pub samples: u32 = 1_000_000,
        /// Most labels of a sample.
        pub labels: u32 = 64,
    }
}
