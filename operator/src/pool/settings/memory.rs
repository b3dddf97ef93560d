//! Computes the share of a pod's memory limit for records, by allocator. Pure.
//!
//! The memory that a process uses besides its records depends on its allocator. Measured at the
//! edge with a limit of 128 MiB, half of it for records, under a burst
//! (docs/internals/failure-behaviour.md): `system` used up to 102 MiB, `mimalloc` up to 153. So
//! `mimalloc` gets at most a third, and needs a limit half as large again for the same records.
//! Limits: `jemalloc` gets the share of `system`.

use millrace_config as config;
use millrace_crds::v1alpha1::Allocator;

use crate::error::Invalid;

/// The collector's own default: half of the limit.
const SHARE_PERCENT: u8 = 50;
/// The share with `mimalloc`: a little less than the third that the measurement allows.
const MIMALLOC_SHARE_PERCENT: u8 = 30;
/// The share with `mimalloc` if less would not hold the longest request: 50 % / 1.5.
const MIMALLOC_SHARE_PERCENT_MAX: u8 = 33;

/// Returns the collector's memory section for pods with this limit, whose records need
/// `least_bytes`.
///
/// # Errors
/// When the limit leaves less than `least_bytes`; the message states a sufficient limit.
pub fn memory_settings(
    allocator: Allocator,
    limit_bytes: u64,
    least_bytes: u64,
) -> Result<config::Memory, Invalid> {
    let (usual, most) = match allocator {
        Allocator::Mimalloc => (MIMALLOC_SHARE_PERCENT, MIMALLOC_SHARE_PERCENT_MAX),
        Allocator::System | Allocator::Jemalloc => (SHARE_PERCENT, SHARE_PERCENT),
    };
    // The collector also divides first.
    let holds = |percent: u8| limit_bytes / 100 * u64::from(percent) >= least_bytes;
    let percent = (usual..=most).find(|percent| holds(*percent)).ok_or_else(|| {
        let needed = (least_bytes.div_ceil(u64::from(most)) * 100).div_ceil(1 << 20);
        Invalid::spec_invalid(format!(
            "spec.resources.limits.memory: {} MiB are too few: the longest requests need {} MiB, \
             and with the allocator {} at most {most} % of the limit are for requests; write \
             {needed}Mi or more",
            limit_bytes >> 20,
            least_bytes >> 20,
            allocator.as_str(),
        ))
    })?;
    Ok(config::Memory { budget_percent: percent, ..config::Memory::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn budget_percent(allocator: Allocator, limit_mib: u64, least_mib: u64) -> Option<u8> {
        let settings = memory_settings(allocator, limit_mib * MIB, least_mib * MIB);
        settings.ok().map(|it| it.budget_percent)
    }

    /// Scenario: pods of each allocator have large limits and the smallest possible ones.
    /// Guarantee: records have half of the limit, with `mimalloc` at most a third, and the longest
    /// requests always fit.
    #[test]
    fn the_share_for_records_goes_by_the_allocator() {
        for allocator in [Allocator::System, Allocator::Jemalloc] {
            assert_eq!(budget_percent(allocator, 1_024, 40), Some(50));
            assert_eq!(budget_percent(allocator, 81, 40), Some(50));
            assert_eq!(budget_percent(allocator, 79, 40), None);
        }
        assert_eq!(budget_percent(Allocator::Mimalloc, 1_024, 40), Some(30));
        assert_eq!(budget_percent(Allocator::Mimalloc, 128, 40), Some(32));
        assert_eq!(budget_percent(Allocator::Mimalloc, 122, 40), Some(33));
        assert_eq!(budget_percent(Allocator::Mimalloc, 121, 40), None);
        assert_eq!(budget_percent(Allocator::Mimalloc, 64, 0), Some(30));
    }

    /// Scenario: limits are too small. Guarantee: the message names the field, and the limit that
    /// it advises is accepted.
    #[test]
    fn the_limit_that_is_advised_is_taken() {
        for allocator in [Allocator::System, Allocator::Mimalloc] {
            let refused = memory_settings(allocator, 64 * MIB, 40 * MIB).unwrap_err().message;
            assert!(refused.starts_with("spec.resources.limits.memory: 64 MiB"), "{refused}");
            let advised = refused.rsplit_once("write ").unwrap().1.split_once("Mi").unwrap().0;
            assert!(budget_percent(allocator, advised.parse().unwrap(), 40).is_some(), "{refused}");
        }
    }
}
