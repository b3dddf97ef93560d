//! Changes of a pool, and playing one rule on one of them.

use cpu_time::ProcessTime;
use millrace_share_documents::Weight;
use millrace_shares::{OverflowPolicy, PodState, SharingPolicy};

use crate::fleet::{Fleet, INTERVAL_SECONDS};
use crate::rules::{Answer, Assigned, Rule};
use crate::score::{Evenness, Moved, evenness, moved};

/// Most decisions in a row after one change.
const DECISIONS_MAX: usize = 60;
/// A rollout replaces a quarter at once, a Deployment's default.
const ROLLOUT_STEPS: usize = 4;
/// Rounds of drifting weights.
const DRIFTS: u64 = 10;
/// The cap of all scenarios: a tenth over the mean of the untouched pool.
const CAP_PERCENT: u64 = 110;

/// One change, or several in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A pool that has nothing yet.
    Start,
    /// One pod dies.
    PodDies,
    /// A tenth more pods.
    ScaleOut,
    /// A tenth fewer.
    ScaleIn,
    /// All pods are replaced, a quarter at a time, the new ones first.
    Rollout,
    /// Each weight changes by up to a fifth, ten times.
    Drift,
    /// One job of huge targets appears: a fifth as many as pods, twice a fair share each.
    Huge,
    /// All weights double, so the cap binds everywhere.
    CapBinds,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Start,
        Self::PodDies,
        Self::ScaleOut,
        Self::ScaleIn,
        Self::Rollout,
        Self::Drift,
        Self::Huge,
        Self::CapBinds,
    ];

    /// As the page calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start: nothing is assigned",
            Self::PodDies => "a pod dies",
            Self::ScaleOut => "a tenth more pods",
            Self::ScaleIn => "a tenth fewer pods",
            Self::Rollout => "rollout: all pods replaced, a quarter at a time, new ones first",
            Self::Drift => "weights change by up to 20 %, ten times",
            Self::Huge => "a job of huge targets appears, each twice a fair share",
            Self::CapBinds => "all weights double: the cap binds everywhere",
        }
    }
}

/// How a rule did.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// How even it ended.
    pub end: Evenness,
    /// The worst on the way, after the first decision of each change.
    pub worst_over_percent: f64,
    /// What moved, all changes together.
    pub moved: Moved,
    /// Decisions that moved something.
    pub decisions: usize,
    /// The slowest first decision after a change, in milliseconds of processor time.
    pub first_ms: f64,
    /// The fullest pod against the cap, in percent of it.
    pub of_cap_percent: f64,
    /// Pods needed, where the rule says so.
    pub needed_pods: Option<u64>,
}

/// A pool and the policy for it.
#[derive(Clone, Debug)]
pub struct Play {
    /// The pool before anything happens.
    pub fleet: Fleet,
    policy: SharingPolicy,
    cap: f64,
}

impl Play {
    /// Of a pool.
    #[must_use]
    pub fn new(fleet: Fleet) -> Self {
        let all: u64 = fleet.targets.keys().map(|id| fleet.weight(id)).sum();
        let cap = all / fleet.pods.len().max(1) as u64 * CAP_PERCENT / 100;
        let policy = SharingPolicy {
            cap: Some(Weight::new(cap)),
            overflow_policy: OverflowPolicy::Scrape,
            ..SharingPolicy::default()
        };
        Self { fleet, policy, cap: cap as f64 / 1_000.0 }
    }

    /// Plays one rule on these scenarios.
    #[must_use]
    pub fn play(&self, rule: Rule, scenarios: &[Scenario]) -> Vec<Played> {
        let mut start = Run {
            rule,
            fleet: self.fleet.clone(),
            policy: self.policy,
            assigned: Assigned::new(),
            played: Played::default(),
            told: Answer::default(),
        };
        start.settle();
        scenarios.iter().map(|scenario| self.play_from(&start, *scenario)).collect()
    }

    fn play_from(&self, start: &Run, scenario: Scenario) -> Played {
        let mut run = start.clone();
        if scenario != Scenario::Start {
            run.played = Played::default();
            run.change(scenario);
        }
        let mut played = run.played;
        played.end = evenness(&run.fleet, &run.assigned);
        played.of_cap_percent = played.end.fullest / self.cap * 100.0;
        played.needed_pods = run.told.needed_pods;
        played
    }
}

#[derive(Clone, Debug)]
struct Run {
    rule: Rule,
    fleet: Fleet,
    policy: SharingPolicy,
    assigned: Assigned,
    played: Played,
    told: Answer,
}

impl Run {
    fn change(&mut self, scenario: Scenario) {
        let pods = self.fleet.pods.len();
        match scenario {
            Scenario::Start => {}
            Scenario::PodDies => {
                self.fleet.set_first(1, PodState::Ended);
                self.settle();
            }
            Scenario::ScaleOut => {
                (0..pods / 10).for_each(|_| self.fleet.join());
                self.settle();
            }
            Scenario::ScaleIn => {
                self.fleet.set_first(pods / 10, PodState::Leaving);
                self.settle();
            }
            Scenario::Rollout => self.rollout(pods),
            Scenario::Drift => {
                for seed in 0..DRIFTS {
                    self.fleet.drift(20.0, seed);
                    self.settle();
                }
            }
            Scenario::Huge => {
                let all: u64 = self.fleet.targets.keys().map(|id| self.fleet.weight(id)).sum();
                let fair = all / pods.max(1) as u64 / 1_000 * u64::from(INTERVAL_SECONDS);
                self.fleet.add_huge(pods / 5, fair * 2, 1);
                self.settle();
            }
            Scenario::CapBinds => {
                for target in self.fleet.targets.values_mut() {
                    target.weight = target.weight.map(|it| Weight::new(it.milli() * 2));
                }
                self.settle();
            }
        }
    }

    /// New pods are ready before old ones leave; what isn't forced waits until the end.
    fn rollout(&mut self, pods: usize) {
        let moves_max = std::mem::take(&mut self.policy.moves_max);
        let batch = pods.div_ceil(ROLLOUT_STEPS);
        for _ in 0..ROLLOUT_STEPS {
            self.fleet.join_beside_first(batch);
            self.settle();
            self.fleet.set_first(batch, PodState::Leaving);
            self.settle();
            self.fleet.forget_others();
        }
        self.policy.moves_max = moves_max;
        self.settle();
    }

    /// Decides until nothing moves.
    fn settle(&mut self) {
        for nth in 0..DECISIONS_MAX {
            // Processor time: others may use the machine.
            let before = ProcessTime::now();
            let answer = self.rule.answer(&self.fleet, &self.assigned, &self.policy);
            let ms = before.elapsed().as_secs_f64() * 1_000.0;
            if nth == 0 {
                self.played.first_ms = self.played.first_ms.max(ms);
                let over = evenness(&self.fleet, &answer.assigned).over_percent;
                self.played.worst_over_percent = self.played.worst_over_percent.max(over);
            }
            let moved = moved(&self.fleet, &self.assigned, &answer.assigned);
            self.played.moved.targets += moved.targets;
            self.played.moved.samples_percent += moved.samples_percent;
            let new = answer.assigned.len() > self.assigned.len();
            self.played.decisions += usize::from(moved.targets > 0 || new);
            let more = answer.more && self.policy.moves_max > 0;
            self.assigned.clone_from(&answer.assigned);
            self.told = answer;
            if !more {
                break;
            }
        }
    }
}
