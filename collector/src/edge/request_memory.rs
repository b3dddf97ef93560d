//! Checks that the memory budget holds the longest request that the limits allow: each request must
//! fit when it is alone in an idle process.

use millrace_config::{ByteSize, OtlpLimits};
use millrace_source_otlp::idle_bytes;

use crate::common::RunError;

const MIB: u64 = 1 << 20;

/// More than any request needs: 128 MiB eight times, in a budget of a tenth of it.
const MAX_LIMIT_MIB: u64 = 16 * 1024;

/// The memory that requests take of a budget.
pub(crate) struct RequestMemory {
    pub(crate) budget_bytes: u64,
    /// The budget's share of the memory limit, in percent.
    pub(crate) percent: u8,
    /// The maximum memory of a request, in quarters of its length.
    pub(crate) quarters: u64,
    /// Threads that read requests.
    pub(crate) threads: usize,
}

impl RequestMemory {
    /// Returns the limits, with default lengths reduced to the budget: a small process answers
    /// longer requests with 413, which is better than 429 for ever.
    ///
    /// # Errors
    /// The budget doesn't hold a configured length; the error has the setting to write.
    pub(crate) fn fit_limits(&self, mut limits: OtlpLimits) -> Result<OtlpLimits, RunError> {
        let default = OtlpLimits::default();
        let largest = self.largest_request(&limits);
        let mut unfit = Vec::new();
        let mut longest = largest;
        let fields = [
            ("grpcMessageBytes", &mut limits.grpc_message_bytes, default.grpc_message_bytes),
            ("httpBodyBytes", &mut limits.http_body_bytes, default.http_body_bytes),
        ];
        for (name, limit, default) in fields {
            if *limit > largest && *limit == default {
                tracing::info!(
                    field = name, bytes = %largest, default = %default,
                    "lowered the limit to the longest request that the memory budget holds"
                );
                *limit = largest;
            } else if *limit > largest {
                unfit.push(name);
                longest = longest.max(*limit);
            }
        }
        if unfit.is_empty() {
            return Ok(limits);
        }
        let (needed_bytes, limit) = self.needed_budget(&limits, longest.get());
        let (budget_bytes, fields) = (self.budget_bytes, unfit.join(" and "));
        Err(RunError::SmallBudget { budget_bytes, needed_bytes, longest, limit, largest, fields })
    }

    /// Returns the longest request that the budget holds, in whole mebibytes if it has any.
    fn largest_request(&self, limits: &OtlpLimits) -> ByteSize {
        let idle_bytes = idle_bytes(self.budget_bytes, limits, self.threads);
        let bytes = self.budget_bytes.saturating_sub(idle_bytes) * 4 / self.quarters;
        ByteSize::bytes(if bytes < MIB { bytes } else { bytes / MIB * MIB })
    }

    /// Returns the minimum budget, of a memory limit in whole mebibytes, that holds a request of
    /// this length, and that limit.
    fn needed_budget(&self, limits: &OtlpLimits, bytes: u64) -> (u64, ByteSize) {
        let budgets =
            (1..=MAX_LIMIT_MIB).map(|mib| (mib * MIB / 100 * u64::from(self.percent), mib));
        let holds = |budget_bytes: u64| {
            let idle_bytes = idle_bytes(budget_bytes, limits, self.threads);
            budget_bytes >= bytes * self.quarters / 4 + idle_bytes
        };
        let found = budgets.into_iter().find(|(budget_bytes, _)| holds(*budget_bytes));
        let (budget_bytes, mib) = found.unwrap_or((u64::MAX, MAX_LIMIT_MIB));
        (budget_bytes, ByteSize::mib(mib))
    }
}
