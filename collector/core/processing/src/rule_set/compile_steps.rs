//! Compiles steps of redaction, sampling and enrichment.

use std::sync::Arc;

use millrace_wire::Signal;

use crate::config::Step;
use crate::edit::memory::Ref;
use crate::enrich::{EnrichConfig, POD_IP, POD_NAME, POD_NAMESPACE, POD_UID};
use crate::ottl::compile::{Compiler, condition_context};
use crate::ottl::context::StatementContext;
use crate::ottl::parser::parse_condition;
use crate::ottl::parser::syntax;
use crate::program::step::{PodKeys, REDACTED, SampleKeys};
use crate::program::{Condition, EnrichStep, PassAction, RedactStep, SampleStep, Usage};
use crate::redact::{RedactConfig, Redactor};
use crate::rule_set::Rule;
use crate::rule_set::compile::Build;
use crate::sample::{LOG_RANDOMNESS_ATTRIBUTE, LOG_THRESHOLD_ATTRIBUTE, RatioTable, SampleConfig};

/// The objects that are sampled, and their signals.
const SAMPLED: [(StatementContext, Signal); 2] =
    [(StatementContext::Log, Signal::Logs), (StatementContext::Span, Signal::Traces)];

impl Build<'_> {
    pub(super) fn redact(&mut self, step: &Step, config: &RedactConfig) {
        let mut key = None;
        if let Some(path) = &config.hash_key_file {
            match (self.read_secret)(path) {
                Ok(bytes) => key = Some(bytes),
                Err(message) => return self.fail_field(step, "redact.hashKeyFile", message),
            }
        }
        let redactor = match Redactor::compile(config, key.as_deref()) {
            Ok(redactor) => redactor,
            Err(problems) => {
                for problem in problems {
                    let field = format!("redact.{}", problem.path);
                    self.fail_field(step, &field, problem.kind.to_string());
                }
                return;
            }
        };
        let detectors = redactor.detectors();
        let sets = detectors.len() - config.patterns.len();
        let rule = |list: &'static str, index: usize, text: &str| Rule {
            step: step.name.clone(),
            list,
            index,
            text: text.to_owned(),
        };
        let mut rules = Vec::with_capacity(detectors.len() + 2);
        for (index, name) in detectors.iter().enumerate() {
            rules.push(match index.checked_sub(sets) {
                Some(pattern) => rule("redact.patterns", pattern, name),
                None => rule("redact.sets", index, name),
            });
        }
        let blocked_rule = rules.len();
        if redactor.has_blocked_keys() {
            rules.push(rule("redact.blockedKeys", 0, ""));
        }
        let removed_rule = rules.len();
        if redactor.has_allowed_keys() {
            rules.push(rule("redact.allowedKeys", 0, ""));
        }
        let action = Arc::new(RedactStep { redactor, blocked_rule, removed_rule });
        let first_rule = self.add_rules(rules);
        for (context, more) in REDACTED {
            let usage = RedactStep::usage(context, more);
            self.add_unit(step, context, first_rule, PassAction::Redact(action.clone()), usage);
        }
    }

    pub(super) fn sample(&mut self, step: &Step, config: &SampleConfig) {
        let table = match RatioTable::compile(config) {
            Ok(table) => table,
            Err(problems) => {
                for problem in problems {
                    let field = format!("sample.{}", problem.path);
                    self.fail_field(step, &field, problem.kind.to_string());
                }
                return;
            }
        };
        let (rules, conditions) = sample_rules(step, config);
        let errors = self.errors.len();
        let mut parsed: Vec<Option<syntax::Condition>> = Vec::with_capacity(rules.len());
        for (rule, condition) in rules.iter().zip(conditions) {
            let condition = condition.map(parse_condition).transpose();
            parsed.push(condition.unwrap_or_else(|error| {
                self.fail_at(rule, error);
                None
            }));
        }
        if self.errors.len() > errors {
            return;
        }
        let chosen: Vec<(StatementContext, Signal)> =
            SAMPLED.into_iter().filter(|(_, signal)| step.applies_to(*signal)).collect();
        if chosen.is_empty() {
            return self.fail(&step.name, "only traces and logs can be sampled".to_owned());
        }
        for (rule, condition) in rules.iter().zip(&parsed) {
            let named = condition.as_ref().and_then(condition_context);
            let is_known = named.is_none_or(|named| {
                chosen.iter().any(|(context, _)| context.visible().contains(&named))
            });
            if !is_known {
                let name = named.map_or("", StatementContext::name);
                let message = format!("no sampled record of the step has a {name}");
                self.fail_field(step, &format!("{}[{}]", rule.list, rule.index), message);
            }
        }
        let keys = self.sample_keys();
        let hashed_attribute = config.logs.attribute.as_deref().map(|key| self.constant(key));
        let first_rule = self.rules.len();
        for (context, _) in &chosen {
            let (conditions, mut usage) =
                self.sample_conditions(*context, &rules, &parsed, chosen.len() > 1);
            let sampling = SampleStep {
                table: table.clone(),
                conditions,
                missing: config.missing_randomness,
                hashed_attribute,
                seed: u64::from(config.logs.seed),
                keys,
            };
            sampling.note_usage(*context, &mut usage);
            let action = PassAction::Sample(Arc::new(sampling));
            self.add_unit(step, *context, first_rule, action, usage);
        }
        self.add_rules(rules);
    }

    /// Compiles the conditions for one context: those that name another one don't apply.
    fn sample_conditions(
        &mut self,
        context: StatementContext,
        rules: &[Rule],
        parsed: &[Option<syntax::Condition>],
        is_one_of_several: bool,
    ) -> (Vec<Option<Condition>>, Usage) {
        let mut compiler = Compiler::new(&mut self.constants, context, false);
        let mut compiled = Vec::with_capacity(parsed.len());
        let mut errors = Vec::new();
        for (rule, condition) in rules.iter().zip(parsed) {
            let applies = |condition: &&syntax::Condition| {
                condition_context(condition).is_none_or(|named| context.visible().contains(&named))
            };
            let Some(condition) = condition.as_ref().filter(applies) else {
                compiled.push(None);
                continue;
            };
            match compiler.condition(condition) {
                Ok(condition) => compiled.push(Some(condition)),
                Err(mut error) => {
                    if is_one_of_several {
                        let name = context.name();
                        error.message.push_str(&format!(
                            " on a {name}: name the context, as in {name}.attributes, or list the \
                             signals of the step"
                        ));
                    }
                    errors.push((rule, error));
                }
            }
        }
        let usage = compiler.usage;
        errors.into_iter().for_each(|(rule, error)| self.fail_at(rule, error));
        (compiled, usage)
    }

    pub(super) fn enrich(&mut self, step: &Step, config: &EnrichConfig) {
        const LIST: &str = "enrich.podMetadata";
        let config = &config.pod_metadata;
        let faults = config.find_faults();
        for (field, message) in faults {
            self.fail_field(step, &format!("{LIST}.{field}"), message);
        }
        if self.rules.iter().any(|rule| rule.list == LIST) {
            let message = "another step adds pods' metadata: join the two".to_owned();
            return self.fail(&step.name, message);
        }
        let keys = PodKeys {
            uid: self.constant(POD_UID),
            ip: self.constant(POD_IP),
            namespace: self.constant(POD_NAMESPACE),
            name: self.constant(POD_NAME),
        };
        let names: Vec<&str> = config.association.iter().map(|one| one.as_str()).collect();
        let text = names.join(", ");
        let first_rule =
            self.add_rules(vec![Rule { step: step.name.clone(), list: LIST, index: 0, text }]);
        let association = config.association.clone();
        let action = Arc::new(EnrichStep { association, on_conflict: config.on_conflict, keys });
        let resource = StatementContext::Resource;
        self.add_unit(step, resource, first_rule, PassAction::Enrich(action), EnrichStep::usage());
    }

    fn sample_keys(&mut self) -> SampleKeys {
        SampleKeys {
            threshold: self.constant(LOG_THRESHOLD_ATTRIBUTE),
            randomness: self.constant(LOG_RANDOMNESS_ATTRIBUTE),
            service: self.constant("service.name"),
            namespaces: ["k8s.namespace.name", "service.namespace"].map(|key| self.constant(key)),
        }
    }

    fn constant(&mut self, text: &str) -> Ref {
        let start = self.constants.len();
        self.constants.extend_from_slice(text.as_bytes());
        Ref::constant(start, text.len())
    }
}

/// Returns the rules that are counted, with their conditions: those of `keep`, the rules, and the
/// ratio of all other records.
fn sample_rules<'c>(step: &Step, config: &'c SampleConfig) -> (Vec<Rule>, Vec<Option<&'c str>>) {
    let rule = |list, index, text: &str| Rule {
        step: step.name.clone(),
        list,
        index,
        text: text.to_owned(),
    };
    let mut rules = Vec::new();
    let mut conditions = Vec::new();
    for (index, condition) in config.keep.iter().enumerate() {
        rules.push(rule("sample.keep", index, condition));
        conditions.push(Some(condition.as_str()));
    }
    for (index, own) in config.rules.iter().enumerate() {
        // A condition's text, so that errors have lines and columns in it.
        let text = own.condition.as_ref().unwrap_or(&own.name);
        rules.push(rule("sample.rules", index, text));
        conditions.push(own.condition.as_deref());
    }
    rules.push(rule("sample.ratio", 0, &config.ratio.0.to_string()));
    conditions.push(None);
    (rules, conditions)
}
