//! What a pool's spec asks for, as the sharing needs it. Pure.

use millrace_crds::v1alpha1::{AtCap, EdgePool, SharingSettings};
use millrace_shares::{Policy, Weight};

use super::sources::{self, Sources};
use crate::error::Invalid;
use crate::pool::scrape;
use crate::pool::secrets::SecretUses;

/// What is to be shared out.
///
/// # Errors
/// When the spec can't work as written.
pub(super) fn sources(pool: &EdgePool) -> Result<Sources, Invalid> {
    let Some(receiver) = &pool.spec.settings.receivers.prometheus else {
        return Ok(Sources::default());
    };
    // The files are mounted by the pool's own reconcile: here their paths are enough.
    let jobs = scrape::jobs(receiver, &mut SecretUses::default())?;
    Ok(Sources::of(&sources::written(jobs)))
}

/// How it is shared out.
pub(super) fn policy(pool: &EdgePool) -> Policy {
    let receiver = pool.spec.settings.receivers.prometheus.as_ref();
    let Some(SharingSettings { pod_samples_per_second_max, at_cap }) =
        receiver.map(|receiver| &receiver.sharing)
    else {
        return Policy::default();
    };
    Policy {
        cap: pod_samples_per_second_max.map(|most| Weight::new(u64::from(most) * 1_000)),
        at_cap: match at_cap {
            AtCap::Scrape => millrace_shares::AtCap::Scrape,
            AtCap::LeaveOut => millrace_shares::AtCap::LeaveOut,
        },
        ..Policy::default()
    }
}
