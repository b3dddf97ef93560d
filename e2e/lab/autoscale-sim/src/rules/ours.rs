//! `millrace_autoscale` itself, with its defaults. Memory may move between 512 MiB and 2 GiB.

use millrace_autoscale::{Resources, ScalingPolicy, ScalingState, VerticalPolicy, decide_size};

use super::{Rule, Wish};
use crate::signals::Seen;
use crate::world::{MEMORY_LIMIT, MEMORY_MAX};

/// Our rule and its memory.
#[derive(Clone, Debug, Default)]
pub struct Ours {
    state: ScalingState,
    why: String,
}

impl Rule for Ours {
    fn name(&self) -> &'static str {
        "Millrace"
    }

    fn period_seconds(&self) -> usize {
        10
    }

    fn decide(&mut self, seen: &Seen) -> Wish {
        let written = Resources {
            memory_request_bytes: 512 << 20,
            memory_limit_bytes: MEMORY_LIMIT as u64,
            cpu_request_millicores: 1_000,
            cpu_limit_millicores: Some(1_000),
        };
        let vertical = VerticalPolicy {
            written,
            memory_min_bytes: 512 << 20,
            memory_max_bytes: MEMORY_MAX as u64,
            cpu_max_millicores: None,
        };
        let policy = ScalingPolicy {
            vertical: Some(vertical),
            ..ScalingPolicy::with_bounds(1, seen.partitions)
        };
        let decision = decide_size(&seen.observation(), &policy, &self.state);
        if decision.from != Some(decision.replicas) {
            self.why = decision.to_string();
        }
        self.state = decision.state;
        Wish {
            size: decision.replicas,
            memory_limit: decision.resources.map(|(it, _)| it.memory_limit_bytes as f64),
        }
    }

    fn why(&self) -> String {
        self.why.clone()
    }
}
