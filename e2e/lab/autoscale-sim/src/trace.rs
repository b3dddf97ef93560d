//! The loads and faults that rules are played on. Data only.
//!
//! Loads are told in pods' worth: 4 means that four pods at full use are just enough. Faults happen
//! at fixed times; noise comes from the run's seed.

/// Seconds in an hour.
pub const HOUR: usize = 3_600;

/// What happens besides the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// One partition gets this many pods' worth on top of its share.
    Hot {
        /// From this second.
        from: usize,
        /// To this one.
        to: usize,
        /// Pods' worth that go to the first partition alone.
        load: f64,
    },
    /// A broker is away: a third of the partitions neither take nor give messages, and nobody tells
    /// the lag for the first minute. What producers held back comes when it is over.
    BrokerLoss {
        /// From this second.
        from: usize,
        /// To this one.
        to: usize,
    },
    /// The sink takes only so many pods' worth.
    Sink {
        /// From this second.
        from: usize,
        /// To this one.
        to: usize,
        /// Pods' worth it still takes; 0 is an outage.
        load: f64,
    },
    /// Pods leak memory all the time.
    Leak {
        /// Bytes per second and pod.
        bytes_per_second: f64,
    },
    /// Signals are bad all the time.
    Signals {
        /// Probability that one is missing.
        missing: f64,
        /// Relative error of rates.
        noise: f64,
    },
}

/// A load over time with its faults.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Name, as in the table.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// Length.
    pub seconds: usize,
    /// Pods at the start.
    pub start: u32,
    /// Partitions.
    pub partitions: usize,
    /// Relative noise of the load.
    pub noise: f64,
    /// How unlike keys spread: standard deviation of the partitions' weights.
    pub skew: f64,
    /// Pods' worth at a second.
    pub load: fn(usize) -> f64,
    /// Pools of this kind that run at once; each has its own seed and size.
    pub pools: u32,
    /// What goes wrong.
    pub faults: &'static [Fault],
}

const PLAIN: Trace = Trace {
    name: "",
    about: "",
    seconds: 2 * HOUR,
    start: 4,
    partitions: 24,
    noise: 0.04,
    skew: 0.1,
    load: |_| 3.0,
    pools: 1,
    faults: &[],
};

/// All traces, in the order of the table.
#[must_use]
pub fn all() -> Vec<Trace> {
    let mut traces = loads();
    traces.extend(faults());
    traces
}

fn loads() -> Vec<Trace> {
    vec![
        Trace {
            name: "constant",
            about: "The same load for four hours, with noise.",
            seconds: 4 * HOUR,
            ..PLAIN
        },
        Trace {
            name: "step",
            about: "Three times the load from one second to the next, for 50 minutes.",
            load: |at| if (1_800..4_800).contains(&at) { 7.5 } else { 2.5 },
            ..PLAIN
        },
        Trace {
            name: "ramp",
            about: "Six times the load within 90 minutes, then down again as slowly.",
            seconds: 4 * HOUR,
            start: 3,
            load: |at| {
                let minute = at as f64 / 60.0;
                let up = ((minute - 15.0) / 90.0).clamp(0.0, 1.0);
                let down = ((minute - 135.0) / 90.0).clamp(0.0, 1.0);
                2.0 + 10.0 * (up - down)
            },
            ..PLAIN
        },
        Trace {
            name: "diurnal",
            about: "A day: low at night, high at noon, with noise.",
            seconds: 24 * HOUR,
            start: 3,
            noise: 0.08,
            load: |at| {
                let turn = at as f64 / (24 * HOUR) as f64 * std::f64::consts::TAU;
                5.5 - 4.0 * turn.cos()
            },
            ..PLAIN
        },
        Trace {
            name: "spike",
            about: "Four times the load for five minutes, once.",
            load: |at| if (2_400..2_700).contains(&at) { 12.0 } else { 3.0 },
            ..PLAIN
        },
        Trace {
            name: "estate",
            about: "A thousand pools, ten thousand pods in all, each with its own day squeezed \
                    into two hours.",
            start: 10,
            load: |at| {
                let turn = at as f64 / (2 * HOUR) as f64 * std::f64::consts::TAU;
                8.0 - 5.0 * turn.cos()
            },
            pools: 1_000,
            ..PLAIN
        },
    ]
}

fn faults() -> Vec<Trace> {
    vec![
        Trace {
            name: "hot partition",
            about: "One partition gets more than one pod can do, for 40 minutes.",
            faults: &[Fault::Hot { from: 1_800, to: 4_200, load: 1.2 }],
            ..PLAIN
        },
        Trace {
            name: "broker loss",
            about: "A broker is away for three minutes, and with it a third of the partitions.",
            load: |_| 5.0,
            start: 6,
            faults: &[Fault::BrokerLoss { from: 2_400, to: 2_580 }],
            ..PLAIN
        },
        Trace {
            name: "sink brown-out",
            about: "ClickHouse takes three fifths of the load for 20 minutes.",
            seconds: 3 * HOUR,
            load: |_| 5.0,
            start: 6,
            faults: &[Fault::Sink { from: 2_400, to: 3_600, load: 3.0 }],
            ..PLAIN
        },
        Trace {
            name: "slow leak",
            about: "Each pod leaks 60 KiB a second for six hours.",
            seconds: 6 * HOUR,
            load: |_| 4.0,
            start: 5,
            faults: &[Fault::Leak { bytes_per_second: 60.0 * 1_024.0 }],
            ..PLAIN
        },
        Trace {
            name: "after an outage",
            about: "ClickHouse is away for half an hour; the backlog is then worked off.",
            seconds: 4 * HOUR,
            load: |_| 4.0,
            start: 5,
            faults: &[Fault::Sink { from: 1_800, to: 3_600, load: 0.0 }],
            ..PLAIN
        },
        Trace {
            name: "bad signals",
            about: "A quarter of the signals is missing and the others are off by a tenth, while the \
                    load goes up and down.",
            seconds: 6 * HOUR,
            load: |at| {
                let turn = at as f64 / (3 * HOUR) as f64 * std::f64::consts::TAU;
                5.0 - 2.5 * turn.cos()
            },
            start: 3,
            faults: &[Fault::Signals { missing: 0.25, noise: 0.1 }],
            ..PLAIN
        },
    ]
}
