//! Runs steps of redaction, sampling and enrichment on one object.

use crate::eval::redact::ObjectRedaction;
use crate::ottl::context::StatementContext;
use crate::program::{EnrichStep, PassAction, RedactStep, SampleStep, Unit};
use crate::sample::{Outgoing, ResourceRules, SamplingItem};
use crate::walk::units::Verdict;
use crate::walk::{Stop, Walk};

impl Walk<'_> {
    /// Redacts the open object of a context.
    pub(super) fn redact(&mut self, unit: &Unit, step: &RedactStep) -> Result<Verdict, Stop> {
        let counts = self.counts.rules.get_mut(unit.first_rule..).unwrap_or_default();
        let redaction = ObjectRedaction::new(&mut self.machine, step, counts);
        match redaction.run(unit.context) {
            Ok(()) => Ok(Verdict::Retained),
            Err(error) => {
                let verdict = self.fail(unit, unit.first_rule, error)?;
                Ok(verdict.unwrap_or(Verdict::Retained))
            }
        }
    }

    /// Redacts the open object of a context, which is as it was received because its rules exceeded
    /// a limit: nothing becomes longer by it. Does nothing if no rule redacts.
    pub(super) fn redact_over_limit(&mut self, context: StatementContext) -> Result<(), Stop> {
        let pass = self.pass;
        if !pass.redacts() {
            return Ok(());
        }
        let length = self.machine.objects[context.index()].content_len();
        self.machine.memory.raise_limit(length);
        let is_over_limit = std::mem::replace(&mut self.machine.is_over_limit, true);
        for unit in pass.units(context) {
            if let PassAction::Redact(step) = &unit.action {
                self.redact(unit, step)?;
            }
        }
        self.machine.is_over_limit = is_over_limit;
        Ok(())
    }

    /// Samples the open span or log record.
    pub(super) fn sample(&mut self, unit: &Unit, step: &SampleStep) -> Result<Verdict, Stop> {
        let resource = self.resource_rules(unit, step);
        let mut ended = None;
        let choice = step.table.choose(resource, |rule| {
            let condition = step.conditions.get(rule).and_then(Option::as_ref);
            let (Some(condition), None) = (condition, &ended) else { return ended.is_some() };
            let mark = self.machine.memory.mark();
            match self.machine.test(condition) {
                Ok(true) => true,
                Ok(false) => {
                    self.machine.memory.truncate(mark);
                    false
                }
                Err(error) => match self.fail(unit, unit.first_rule + rule, error) {
                    Ok(None) => false,
                    Ok(Some(verdict)) => ended.insert(Ok(verdict)).is_ok(),
                    Err(stop) => ended.insert(Err(stop)).is_err(),
                },
            }
        });
        if let Some(verdict) = ended {
            return verdict;
        }
        let rule = unit.first_rule + choice.rule.unwrap_or(step.table.rules());
        let (item, hashed) = if choice.sampling.needs_randomness() {
            self.machine.sampling_item(unit.context, step)
        } else {
            (SamplingItem { randomness: None, incoming: None }, None)
        };
        let decision = choice.sampling.decide(item, step.missing);
        if let Some(counts) = self.counts.rules.get_mut(rule) {
            counts.matched += 1;
        }
        if !decision.is_sampled {
            return Ok(Verdict::Dropped { rule });
        }
        let threshold = match decision.outgoing {
            Outgoing::Unchanged => return Ok(Verdict::Retained),
            Outgoing::Write(threshold) => Some(threshold),
            Outgoing::Erase => None,
        };
        match self.machine.write_threshold(unit.context, step, threshold, hashed) {
            Ok(()) => {
                if let Some(counts) = self.counts.rules.get_mut(rule) {
                    counts.changed += 1;
                }
                Ok(Verdict::Retained)
            }
            Err(error) => {
                let verdict = self.fail(unit, rule, error)?;
                Ok(verdict.unwrap_or(Verdict::Retained))
            }
        }
    }

    /// Labels the open resource with the metadata of its pod.
    pub(super) fn enrich(&mut self, unit: &Unit, step: &EnrichStep) -> Result<Verdict, Stop> {
        let rule = unit.first_rule;
        let pod = match self.machine.find_pod(step) {
            None => return Ok(Verdict::Retained),
            Some(Err(reason)) => {
                self.unlabeled = Some(reason);
                return Ok(Verdict::Retained);
            }
            Some(Ok(pod)) => pod,
        };
        match self.machine.label_resource(step, &pod) {
            Ok(is_changed) => {
                if let Some(counts) = self.counts.rules.get_mut(rule) {
                    counts.matched += 1;
                    counts.changed += u64::from(is_changed);
                }
                Ok(Verdict::Retained)
            }
            Err(error) => {
                let verdict = self.fail(unit, rule, error)?;
                Ok(verdict.unwrap_or(Verdict::Retained))
            }
        }
    }

    /// Returns the rules of a step that the open resource matches, which are found once for all of
    /// its records.
    fn resource_rules(&mut self, unit: &Unit, step: &SampleStep) -> ResourceRules {
        if !step.table.reads_resources() {
            return step.table.for_resource(None, None);
        }
        let known = self.machine.buffers.resource_rules.iter();
        if let Some((_, rules)) = known.copied().find(|(first, _)| *first == unit.first_rule) {
            return rules;
        }
        let text = |key| self.machine.text_attribute(StatementContext::Resource, key);
        let namespace = step.keys.namespaces.into_iter().find_map(text);
        let rules = step.table.for_resource(text(step.keys.service), namespace);
        self.machine.buffers.resource_rules.push((unit.first_rule, rules));
        rules
    }
}
