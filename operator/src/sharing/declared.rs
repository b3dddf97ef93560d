//! Reads from a pool's spec what the sharing needs. Pure.

use millrace_config::TARGETS_MAX;
use millrace_crds::v1alpha1::{EdgePool, OverflowPolicy, TargetAssignment};
use millrace_monitors::DiscoveryResult;
use millrace_share_documents::Weight;
use millrace_shares::SharingPolicy;

use super::sources::{self, Sources};
use crate::error::Invalid;
use crate::pool::scrape;
use crate::pool::secrets::SecretUses;
use crate::pool::settings::variants::same_variant;

/// Returns the targets to share out: those of the spec's own jobs, and those discovered in the
/// cluster.
///
/// # Errors
/// When the spec can't work as written.
pub(super) fn declared_sources(
    pool: &EdgePool,
    found: Option<&DiscoveryResult>,
) -> Result<Sources, Invalid> {
    let Some(receiver) = &pool.spec.settings.receivers.prometheus else {
        return Ok(Sources::default());
    };
    // The pool's own reconcile mounts the files: here their paths are enough.
    let jobs = scrape::build_jobs(receiver, &mut SecretUses::default())?;
    let mut sources = Sources::from_scraped(&sources::scraped_from_jobs(jobs));
    if let Some(found) = found {
        sources.add_scraped(found);
    }
    Ok(sources)
}

pub(super) fn sharing_policy(pool: &EdgePool) -> SharingPolicy {
    let receiver = pool.spec.settings.receivers.prometheus.as_ref();
    let Some(TargetAssignment { max_samples_per_second_per_pod, overflow_policy }) =
        receiver.map(|receiver| &receiver.assignment)
    else {
        return SharingPolicy { targets_max: TARGETS_MAX as u64, ..SharingPolicy::default() };
    };
    SharingPolicy {
        targets_max: TARGETS_MAX as u64,
        cap: max_samples_per_second_per_pod.map(|most| Weight::new(u64::from(most) * 1_000)),
        overflow_policy: same_variant!(
            overflow_policy,
            OverflowPolicy => millrace_shares::OverflowPolicy { Scrape, Wait }
        ),
        ..SharingPolicy::default()
    }
}
