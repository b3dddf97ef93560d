//! What both sides have, sample by sample. What may differ is in [`Rule`]; nothing else may.

use std::collections::{BTreeMap, BTreeSet};

use super::samples::{Exemplar, Labels, Sample, Value};
use super::sides::TIMEOUT;
use super::stored::Stored;

/// Differences of one metric that are told at most.
const TOLD_MAX: usize = 3;
/// From a scrape's time to when a target has its request: a busy machine's threads.
const SLACK_MILLIS: i64 = 1_500;
/// The clocks of two processes on one machine, and Prometheus' alignment of times.
const AHEAD_MILLIS: i64 = 5;

/// A difference that the specification of OTLP's points asks for. Whoever reads rows as Prometheus'
/// samples meets these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// `_created` is the start time of its series' points, and no series.
    Created,
    /// Gauge histograms have no point.
    GaugeHistogram,
    /// `target_info` is attributes of the resource, and no series.
    TargetInfo,
    /// A histogram that is still there without one of its bounds, or a summary without one of its
    /// quantiles, is one point: it lists what there is, and no mark stands for what isn't.
    Bound,
    /// `scrape_series_added` counts the series that the other rules say are none.
    Added,
    /// How long a scrape took is each side's own.
    Duration,
    /// Prometheus' remote write leaves a zero out, whichever its sign.
    Zero,
    /// Of a body with a fault Prometheus keeps in mind what stands before the fault, though it
    /// takes none of it: those series have no mark at this scrape, but at the next if they are gone
    /// then; and aren't counted as new there. Ours has all marks at the scrape that failed.
    BeforeFault,
}

impl Rule {
    pub(crate) const ALL: [Self; 8] = [
        Self::Created,
        Self::GaugeHistogram,
        Self::TargetInfo,
        Self::Bound,
        Self::Added,
        Self::Duration,
        Self::Zero,
        Self::BeforeFault,
    ];
}

/// When a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum When {
    /// At this scrape's time, counted from 0.
    Scrape(usize),
    /// At a time of its own, in milliseconds since 1970.
    Own(i64),
    /// When its target went.
    End,
}

/// A target's samples on one side.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The times of its scrapes, by `up`.
    pub(crate) scrapes: Vec<i64>,
    pub(crate) has_ended: bool,
    values: BTreeMap<(Labels, When), Value>,
}

/// What was compared.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Equal samples, marks and native histograms among them.
    pub(crate) equal: u64,
    pub(crate) marks: u64,
    pub(crate) natives: u64,
    pub(crate) own_times: u64,
    pub(crate) exemplars: u64,
    pub(crate) by_rule: BTreeMap<Rule, u64>,
    /// What is told of each metric of a target, and how many differences it has.
    faults: BTreeMap<String, (Vec<String>, usize)>,
}

impl Verdict {
    pub(crate) fn fault(&mut self, of: String, fault: String) {
        let (told, count) = self.faults.entry(of).or_default();
        *count += 1;
        if told.len() < TOLD_MAX {
            told.push(fault);
        }
    }

    /// All faults, if there are any.
    pub(crate) fn faults(&self) -> Option<String> {
        let all: usize = self.faults.values().map(|(_, count)| count).sum();
        let told = self.faults.iter().map(|(of, (told, count))| {
            format!("{of}: {count}, of them\n  {}\n", told.join("\n  "))
        });
        (all > 0).then(|| format!("{all} differences:\n{}", told.collect::<String>()))
    }
}

/// Samples by target. `is_theirs`: the first of equal samples counts, as in Prometheus' head.
pub(crate) fn arranged(
    samples: Vec<Sample>,
    is_theirs: bool,
    verdict: &mut Verdict,
) -> BTreeMap<String, Taken> {
    let mut all: BTreeMap<String, (Taken, Vec<Sample>)> = BTreeMap::new();
    for sample in samples {
        let target = sample.labels.get("target").cloned().unwrap_or_default();
        let (taken, of) = all.entry(target).or_default();
        if sample.labels["__name__"] == "up" {
            taken.scrapes.push(sample.time_millis);
            taken.has_ended |= sample.value == Value::Stale;
        }
        of.push(sample);
    }
    let mut arranged = BTreeMap::new();
    for (target, (mut taken, samples)) in all {
        taken.scrapes.sort_unstable();
        let end = if taken.has_ended { taken.scrapes.pop() } else { None };
        for Sample { labels, time_millis, value } in samples {
            let name = &labels["__name__"];
            let is_own = name.starts_with("timed") && target != "unstamped";
            let when = match taken.scrapes.binary_search(&time_millis) {
                _ if is_own => When::Own(time_millis),
                Ok(scrape) => When::Scrape(scrape),
                Err(_) if Some(time_millis) == end => When::End,
                Err(_) => {
                    let fault = format!("{time_millis}: {labels:?} {value:?}");
                    verdict.fault(format!("{target}: at no scrape's time"), fault);
                    continue;
                }
            };
            let before = taken.values.insert((labels.clone(), when), value.clone());
            if let Some(before) = before
                && (!is_theirs || before != value)
            {
                let fault = format!("{labels:?} {when:?}: {before:?} {value:?}");
                verdict.fault(format!("{target}: twice"), fault);
            }
        }
        arranged.insert(target, taken);
    }
    arranged
}

/// One target on both sides.
pub(crate) struct Pair<'a> {
    pub(crate) target: &'a str,
    pub(crate) ours: &'a Taken,
    pub(crate) theirs: &'a Taken,
    pub(crate) stored: &'a Stored,
    /// Scrapes whose body had a fault behind what is well.
    pub(crate) faulty: &'a BTreeSet<usize>,
    /// Where times of the target's own begin.
    pub(crate) epoch_millis: i64,
}

impl Pair<'_> {
    /// How many scrapes are compared: all but the last, which the end may have cut.
    pub(crate) fn scrapes(&self) -> usize {
        let whole =
            |taken: &Taken| taken.scrapes.len().saturating_sub(usize::from(!taken.has_ended));
        whole(self.ours).min(whole(self.theirs))
    }

    /// Compares all samples.
    pub(crate) fn judge(&self, verdict: &mut Verdict) {
        if self.ours.has_ended != self.theirs.has_ended {
            let (ours, theirs) = (self.ours.has_ended, self.theirs.has_ended);
            verdict.fault(self.target.to_owned(), format!("ended: ours {ours}, theirs {theirs}"));
        }
        let scrapes = self.scrapes();
        let last_own = self.epoch_millis + scrapes as i64 * 1_000;
        let keys: BTreeSet<_> = self.ours.values.keys().chain(self.theirs.values.keys()).collect();
        for (labels, when) in keys {
            let is_judged = match when {
                When::Scrape(scrape) => *scrape < scrapes,
                When::Own(millis) => *millis < last_own,
                When::End => true,
            };
            if is_judged {
                self.judge_sample(labels, *when, verdict);
            }
        }
    }

    fn judge_sample(&self, labels: &Labels, when: When, verdict: &mut Verdict) {
        let key = (labels.clone(), when);
        let (ours, theirs) = (self.ours.values.get(&key), self.theirs.values.get(&key));
        if ours == theirs {
            verdict.equal += 1;
            verdict.marks += u64::from(ours == Some(&Value::Stale));
            verdict.natives += u64::from(matches!(ours, Some(Value::Native(_))));
            verdict.own_times += u64::from(matches!(when, When::Own(_)));
            return;
        }
        match self.rule(labels, when, ours, theirs) {
            Some(rule) => *verdict.by_rule.entry(rule).or_default() += 1,
            None => verdict.fault(
                format!("{} {}", self.target, labels["__name__"]),
                format!("{when:?} {labels:?}: ours {}, theirs {}", told(ours), told(theirs)),
            ),
        }
    }

    /// The rule that a difference is by.
    fn rule(
        &self,
        labels: &Labels,
        when: When,
        ours: Option<&Value>,
        theirs: Option<&Value>,
    ) -> Option<Rule> {
        let name = labels["__name__"].as_str();
        match (ours, theirs) {
            (Some(Value::Number(ours)), Some(Value::Number(theirs))) => {
                let (ours, theirs) = (f64::from_bits(*ours), f64::from_bits(*theirs));
                match name {
                    "scrape_duration_seconds" => {
                        let most = TIMEOUT.as_secs_f64() + 1.0;
                        let is_one = |seconds| (0.0..most).contains(&seconds);
                        (is_one(ours) && is_one(theirs)).then_some(Rule::Duration)
                    }
                    "scrape_series_added" => self.rule_of_added(when, theirs - ours),
                    _ => (ours == 0.0 && theirs == 0.0).then_some(Rule::Zero),
                }
            }
            (None, Some(value)) if self.of_open(labels, when, value).is_some() => {
                self.of_open(labels, when, value)
            }
            _ if self.is_bound(labels, when, ours, theirs) => Some(Rule::Bound),
            _ => self.is_before_fault(when, ours, theirs).then_some(Rule::BeforeFault),
        }
    }

    /// Marks of series that stand before a fault.
    fn is_before_fault(&self, when: When, ours: Option<&Value>, theirs: Option<&Value>) -> bool {
        let When::Scrape(at) = when else { return false };
        let is_after = at.checked_sub(1).is_some_and(|before| self.faulty.contains(&before));
        match (ours, theirs) {
            (Some(Value::Stale), None) => self.faulty.contains(&at),
            (None, Some(Value::Stale)) => is_after,
            _ => false,
        }
    }

    /// By how much they count more new series than ours: those that are none with us.
    fn rule_of_added(&self, when: When, more: f64) -> Option<Rule> {
        let When::Scrape(at) = when else { return None };
        let is_up = |scrape: &usize| {
            let ups = self.theirs.values.iter().filter(|((labels, when), _)| {
                *when == When::Scrape(*scrape) && labels["__name__"] == "up"
            });
            ups.map(|(_, value)| value).eq([&Value::of(1.0)])
        };
        let before = (0..at).rev().find(is_up);
        // They keep them in mind beyond the next good scrape.
        let earlier = (0..before.unwrap_or(0)).rev().find(is_up).unwrap_or(0);
        if (earlier..=at).any(|scrape| self.faulty.contains(&scrape)) {
            return Some(Rule::BeforeFault);
        }
        let is_new = |labels: &Labels| {
            let has = |at| self.theirs.values.get(&(labels.clone(), When::Scrape(at)));
            before.and_then(has).is_none_or(|value| *value == Value::Stale)
        };
        let now = self.theirs.values.iter().filter(|((labels, when), value)| {
            *when == When::Scrape(at) && **value != Value::Stale && is_new(labels)
        });
        let none = now.filter(|((labels, when), value)| {
            let is_bound = labels.contains_key("le") || labels.contains_key("quantile");
            // Ours counts a histogram's lines, its time of creation among them.
            let is_of_histogram = labels["__name__"] == "wait_seconds_created";
            self.of_open(labels, *when, value).is_some() && !is_of_histogram
                || is_bound && before.is_some_and(|before| self.has_point(labels, before))
        });
        (none.count() as f64 == more).then_some(Rule::Added)
    }

    /// What OpenMetrics has and OTLP hasn't as a series.
    fn of_open(&self, labels: &Labels, when: When, theirs: &Value) -> Option<Rule> {
        if self.target != "open" {
            return None;
        }
        let name = labels["__name__"].as_str();
        let time_millis = match when {
            When::Scrape(scrape) => self.ours.scrapes[scrape],
            _ => return None,
        };
        if name.starts_with("depth_") {
            return Some(Rule::GaugeHistogram);
        }
        if name == "target_info" {
            let info = self.stored.infos.get(&(self.target.to_owned(), time_millis));
            let is_told = info.is_some_and(|info| {
                ["region", "version"].iter().all(|label| info.get(*label) == labels.get(*label))
            });
            return (is_told || *theirs == Value::Stale).then_some(Rule::TargetInfo);
        }
        let base = name.strip_suffix("_created")?;
        let begun_millis = theirs.number().map(|seconds| (seconds * 1e3).round() as i64);
        let is_begun = ["", "_total"].iter().any(|end| {
            let mut series = labels.clone();
            series.insert("__name__".to_owned(), format!("{base}{end}"));
            let begun = self.stored.begun.get(&(series, time_millis)).copied();
            begun.is_some() && (begun_millis.is_none() || begun == begun_millis)
        });
        (is_begun || *theirs == Value::Stale).then_some(Rule::Created)
    }

    /// Whether it is the mark of a bound of something that is still there.
    fn is_bound(
        &self,
        labels: &Labels,
        when: When,
        ours: Option<&Value>,
        theirs: Option<&Value>,
    ) -> bool {
        let When::Scrape(at) = when else { return false };
        ours.is_none() && theirs == Some(&Value::Stale) && self.has_point(labels, at)
    }

    /// Whether the histogram or summary that a bound is of has a point at a scrape.
    fn has_point(&self, labels: &Labels, at: usize) -> bool {
        let name = labels["__name__"].as_str();
        let base = match (labels.contains_key("le"), labels.contains_key("quantile")) {
            (true, _) => name.strip_suffix("_bucket"),
            (_, true) => Some(name),
            _ => None,
        };
        let Some(base) = base else { return false };
        let mut count = labels.clone();
        count.remove("le");
        count.remove("quantile");
        count.insert("__name__".to_owned(), format!("{base}_count"));
        let key = (count, When::Scrape(at));
        [self.ours, self.theirs]
            .iter()
            .all(|taken| matches!(taken.values.get(&key), Some(Value::Number(_))))
    }

    /// Compares exemplars: each is once with us and with them, however often it was scraped.
    pub(crate) fn judge_exemplars(&self, theirs: &[Exemplar], verdict: &mut Verdict) {
        let before = self.epoch_millis + self.scrapes() as i64 * 1_000;
        let own = |exemplars: &[Exemplar]| -> BTreeSet<Exemplar> {
            let own = exemplars.iter().filter(|it| {
                it.time_millis < before && it.series.get("target") == Some(&self.target.to_owned())
            });
            own.cloned().map(of_whole_series).collect()
        };
        let (ours, theirs) = (own(&self.stored.exemplars), own(theirs));
        verdict.exemplars += ours.intersection(&theirs).count() as u64;
        for exemplar in ours.symmetric_difference(&theirs) {
            let side = if ours.contains(exemplar) { "ours" } else { "theirs" };
            verdict.fault(format!("{}: exemplars", self.target), format!("{side}: {exemplar:?}"));
        }
    }
}

/// Each scrape's time is that of the request, which the target had at `came`.
pub(crate) fn judge_times(
    side: &str,
    target: &str,
    (taken, came): (&Taken, &[i64]),
    verdict: &mut Verdict,
) {
    // The end may come between a scrape and what is said of it.
    if taken.scrapes.len().abs_diff(came.len()) > 1 {
        let (scrapes, came) = (taken.scrapes.len(), came.len());
        let fault = format!("{scrapes} scrapes, {came} at the target");
        verdict.fault(format!("{target}: {side}"), fault);
    }
    for (scrape, (at, came)) in taken.scrapes.iter().zip(came).enumerate() {
        let before = came - at;
        if !(-AHEAD_MILLIS..=SLACK_MILLIS).contains(&before) {
            let fault = format!("scrape {scrape} is {before} ms before it came");
            verdict.fault(format!("{target}: {side}"), fault);
        }
    }
}

/// A histogram's exemplars are those of its buckets.
fn of_whole_series(mut exemplar: Exemplar) -> Exemplar {
    if exemplar.series.remove("le").is_some() {
        exemplar.series.entry("__name__".to_owned()).and_modify(|name| {
            if let Some(base) = name.strip_suffix("_bucket") {
                *name = base.to_owned();
            }
        });
    }
    exemplar
}

fn told(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::Number(bits)) => f64::from_bits(*bits).to_string(),
        Some(other) => format!("{other:?}"),
    }
}
