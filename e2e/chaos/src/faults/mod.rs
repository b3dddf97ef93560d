//! The faults as data: a name, how often in each budget, and what is done. Each strikes a world in
//! full flow and returns when it has stopped; whether its promises held is the judge's business
//! (`run`).

mod answers;
mod clocks;
mod disks;
mod group;
mod log_files;
mod network;
mod points;
mod processes;
mod refusals;
mod servers;

use anyhow::Result;
use millrace_stack::random::Random;

use crate::logs::judge::Judged;
use crate::world::{Delivery, Flow, World};

pub use points::NAMES as POINTS;

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Budget {
    /// With every `make test-all`: minutes.
    Pr,
    /// Every night: some two and a half hours on two cores.
    Nightly,
    /// Before a release.
    Release,
}

/// A kind of fault.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Its name, as `FAULT=` takes it.
    pub name: &'static str,
    /// What is counted as one run.
    pub unit: &'static str,
    /// Runs in the three budgets.
    pub runs: [u32; 3],
    /// Runs under one load, with one verdict.
    pub per_round: u32,
    /// How the gateways deliver meanwhile.
    pub delivery: Delivery,
    /// Does it, as often as the scene says.
    pub strike: fn(&mut Scene<'_>) -> Result<()>,
}

impl Fault {
    /// How often it is done within a budget.
    pub fn runs(&self, budget: Budget) -> u32 {
        let [pr, nightly, release] = self.runs;
        match budget {
            Budget::Pr => pr,
            Budget::Nightly => nightly,
            Budget::Release => release,
        }
    }
}

/// What a strike works with.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The world, in full flow.
    pub world: &'a mut World,
    /// The load.
    pub flow: &'a mut Flow,
    /// Decides everything that is left to chance.
    pub random: Random,
    /// How often.
    pub runs: u32,
    /// How many runs of this fault came before, in other rounds.
    pub before: u32,
    /// Where a strike notes what it saw.
    pub notes: Notes,
}

impl Scene<'_> {
    /// Waits until everything is well after a fault has stopped, and notes how long that took.
    fn recover(&mut self) -> Result<()> {
        let seconds = self.world.recovered()?;
        self.notes.recovered_s_max = self.notes.recovered_s_max.max(seconds);
        Ok(())
    }
}

/// What a strike saw.
#[derive(Debug, Default)]
pub struct Notes {
    /// Promises of the fault's own that didn't hold.
    pub broken: Vec<String>,
    /// Records that may be doubled where delivery is at least once.
    pub bound: u64,
    /// The longest time from a fault's end until everything was well, in seconds.
    pub recovered_s_max: f64,
    /// Records must be doubled, or the fault has shown nothing.
    pub doubles: bool,
    /// Further loads, to be judged like the first.
    pub crowds: Vec<Flow>,
    /// What the lines of log files came to.
    pub lines: Option<Judged>,
}

const DISK_FULL: &str = "disk_full";
const LOG_FILES: &str = "log_files";
/// The faults for which a world needs disks of its own.
pub const ON_DISKS: [&str; 2] = [DISK_FULL, LOG_FILES];

const EFFECTIVELY: Delivery = Delivery::EffectivelyOnce;

/// Every fault, in the order they are run: the longest first, so that lanes end together.
pub const TABLE: &[Fault] = &[
    Fault {
        name: LOG_FILES,
        unit: "a reader of rotating log files: SIGKILL, SIGKILL and away for a while, its newest \
               positions damaged, Kafka away, no room for positions, all positions damaged; in turn",
        runs: [log_files::STRIKES, 20 * log_files::STRIKES, 200 * log_files::STRIKES],
        per_round: log_files::STRIKES,
        delivery: EFFECTIVELY,
        strike: log_files::log_files,
    },
    Fault {
        name: "kill_gateway",
        unit: "SIGKILL of a gateway at a random moment",
        runs: [6, 200, 1_000],
        per_round: 10,
        delivery: EFFECTIVELY,
        strike: processes::kill_gateway,
    },
    Fault {
        name: "kill_edge",
        unit: "SIGKILL of the edge at a random moment",
        runs: [2, 50, 250],
        per_round: 10,
        delivery: EFFECTIVELY,
        strike: processes::kill_edge,
    },
    Fault {
        name: "kill_at_point",
        unit: "abort of a collector at a named point, each in turn",
        runs: [POINTS.len() as u32, 20 * POINTS.len() as u32, 100 * POINTS.len() as u32],
        per_round: POINTS.len() as u32,
        delivery: EFFECTIVELY,
        strike: points::kill_at_point,
    },
    Fault {
        name: "drain",
        unit: "rolling restart: SIGTERM to the edge and to each gateway",
        runs: [3, 50, 200],
        per_round: 3,
        delivery: EFFECTIVELY,
        strike: processes::drain,
    },
    Fault {
        name: "freeze",
        unit: "SIGSTOP of a gateway or the edge for 5 s",
        runs: [2, 20, 100],
        per_round: 4,
        delivery: EFFECTIVELY,
        strike: processes::freeze,
    },
    Fault {
        name: "late_revoke",
        unit: "SIGSTOP of a gateway past its session, whose partitions others own when it goes on",
        runs: [1, 10, 100],
        per_round: 2,
        delivery: EFFECTIVELY,
        strike: group::late_revoke,
    },
    Fault {
        name: "rebalance_storm",
        unit: "a member joins or leaves, every 2 s",
        runs: [10, 300, 1_800],
        per_round: 30,
        delivery: EFFECTIVELY,
        strike: group::rebalance_storm,
    },
    Fault {
        name: "broker_restart",
        unit: "orderly restart of the broker",
        runs: [3, 50, 200],
        per_round: 3,
        delivery: EFFECTIVELY,
        strike: servers::broker_restart,
    },
    Fault {
        name: "broker_kill",
        unit: "SIGKILL of the broker, and start",
        runs: [1, 20, 100],
        per_round: 3,
        delivery: EFFECTIVELY,
        strike: servers::broker_kill,
    },
    Fault {
        name: "engine_kill",
        unit: "SIGKILL of the ClickHouse engine, and start",
        runs: [2, 50, 200],
        per_round: 5,
        delivery: EFFECTIVELY,
        strike: servers::engine_kill,
    },
    Fault {
        name: "clickhouse_errors",
        unit: "insert answered 500, 502, 503 or 429 and not carried out",
        runs: [100, 5_000, 20_000],
        per_round: 500,
        delivery: EFFECTIVELY,
        strike: answers::errors,
    },
    Fault {
        name: "unknown_outcome",
        unit: "insert carried out, its answer lost",
        runs: [50, 2_000, 10_000],
        per_round: 500,
        delivery: EFFECTIVELY,
        strike: answers::unknown_outcome,
    },
    Fault {
        name: "damaged_answers",
        unit: "insert's answer cut, an exception behind status 200, or a row too few in it",
        runs: [40, 1_000, 4_000],
        per_round: 500,
        delivery: EFFECTIVELY,
        strike: answers::damaged,
    },
    Fault {
        name: "forgetful_table",
        unit: "insert carried out, its answer lost; in turn the table remembers one insert (records \
               must be doubled) and 10,000 (none may be)",
        runs: [
            2 * answers::FORGETFUL_ROUND,
            20 * answers::FORGETFUL_ROUND,
            200 * answers::FORGETFUL_ROUND,
        ],
        per_round: answers::FORGETFUL_ROUND,
        delivery: EFFECTIVELY,
        strike: answers::forgetful_table,
    },
    Fault {
        name: "overload",
        unit: "10 s in which inserts are refused: too many parts, no disk space, the memory limit; in turn",
        runs: [1, 10, 50],
        per_round: 2,
        delivery: EFFECTIVELY,
        strike: answers::overload,
    },
    Fault {
        name: "refusing_view",
        unit: "5 s with a view that throws for some rows, of inserts that the table has",
        runs: [2, 40, 200],
        per_round: 2,
        delivery: EFFECTIVELY,
        strike: refusals::refusing_view,
    },
    Fault {
        name: "few_replicas",
        unit: "8 s in which the topic wants more replicas than it has",
        runs: [2, 40, 200],
        per_round: 2,
        delivery: EFFECTIVELY,
        strike: refusals::few_replicas,
    },
    Fault {
        name: "long_stall",
        unit: "60 s without an answer from the broker: longer than clients wait",
        runs: [1, 10, 50],
        per_round: 1,
        delivery: EFFECTIVELY,
        strike: refusals::long_stall,
    },
    Fault {
        name: "network_partition",
        unit: "2 to 8 s without a network to broker or ClickHouse, both ways or answers only",
        runs: [4, 80, 400],
        per_round: 4,
        delivery: EFFECTIVELY,
        strike: network::partition,
    },
    Fault {
        name: "lost_connections",
        unit: "every connection to broker or ClickHouse reset, some after requests had landed",
        runs: [4, 100, 500],
        per_round: 10,
        delivery: EFFECTIVELY,
        strike: network::lost_connections,
    },
    Fault {
        name: "slow_sink",
        unit: "30 s at 1 % of the bandwidth to ClickHouse",
        runs: [1, 30, 480],
        per_round: 1,
        delivery: EFFECTIVELY,
        strike: network::slow_sink,
    },
    Fault {
        name: "slow_broker",
        unit: "30 s at 1 % of the bandwidth to the broker",
        runs: [1, 5, 50],
        per_round: 1,
        delivery: EFFECTIVELY,
        strike: network::slow_broker,
    },
    Fault {
        name: "poison",
        unit: "message that is no OTLP, or whose row is refused, among good ones",
        runs: [1_000, 100_000, 1_000_000],
        per_round: 5_000,
        delivery: EFFECTIVELY,
        strike: servers::poison,
    },
    Fault {
        name: DISK_FULL,
        unit: "no room for 10 s on the disk of the broker, of ClickHouse, or of an edge's buffer",
        runs: [3, 15, 60],
        per_round: 3,
        delivery: EFFECTIVELY,
        strike: disks::full,
    },
    Fault {
        name: "clock_step",
        unit: "wall clocks of some collectors an hour or a day off, either way, and right again",
        runs: [4, 100, 1_000],
        per_round: 20,
        delivery: EFFECTIVELY,
        strike: clocks::step,
    },
    Fault {
        name: "kill_gateway_at_least_once",
        unit: "SIGKILL of a gateway that delivers at least once",
        runs: [3, 20, 100],
        per_round: 5,
        delivery: Delivery::AtLeastOnce,
        strike: processes::kill_gateway,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the table as it is. Guarantee: names are unique, budgets grow, every round has
    /// something to do, and no fault is left out of a budget.
    #[test]
    fn the_table_is_well_made() {
        for (at, fault) in TABLE.iter().enumerate() {
            let [pr, nightly, release] = fault.runs;
            assert!(pr > 0 && pr < nightly && nightly < release, "{}", fault.name);
            assert!(fault.per_round > 0, "{}", fault.name);
            assert!(TABLE[..at].iter().all(|other| other.name != fault.name), "{}", fault.name);
        }
    }
}
