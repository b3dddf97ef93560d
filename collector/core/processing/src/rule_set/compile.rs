//! Compiles a configuration.

use millrace_wire::Signal;

use crate::config::{Config, DropConditions, RouteConfig, Step, StepAction};
use crate::error::{CompileError, CompileErrors};
use crate::limits::{ROUTE_TOPICS, RULES, STEPS};
use crate::ottl::compile::{Compiler, named_context};
use crate::ottl::context::StatementContext;
use crate::ottl::error::StatementError;
use crate::ottl::parser::syntax;
use crate::ottl::parser::{parse_condition, parse_statement};
use crate::program;
use crate::program::{Pass, Unit};
use crate::rule_set::{RouteTopic, Rule, RuleSet};

const STATEMENTS: &str = "statements";

/// Replaces the key of hashes: any key of an accepted length.
const PLACEHOLDER_KEY: [u8; 32] = [0; 32];

impl RuleSet {
    /// Compiles rules that need no secrets: steps with a `hashKeyFile` are refused.
    ///
    /// # Errors
    /// As [`Self::compile_with_secrets`].
    pub fn compile(config: &Config) -> Result<Self, CompileErrors> {
        let refuse = |_: &str| Err("keys can't be read here".to_owned());
        Self::compile_with_secrets(config, &refuse)
    }

    /// Compiles rules whose hashes have a placeholder for their key: for whoever checks or tries
    /// rules and may read no secret. The result must not process records of users.
    ///
    /// # Errors
    /// As [`Self::compile_with_secrets`].
    pub fn compile_without_secrets(config: &Config) -> Result<Self, CompileErrors> {
        Self::compile_with_secrets(config, &|_| Ok(PLACEHOLDER_KEY.to_vec()))
    }

    /// Compiles rules. `read_secret` returns the content of a `hashKeyFile`, or why it can't be
    /// read.
    ///
    /// # Errors
    /// All errors that are found, each with its step, statement, line and column.
    pub fn compile_with_secrets(
        config: &Config,
        read_secret: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Self, CompileErrors> {
        let mut build = Build {
            read_secret,
            units: Default::default(),
            constants: Vec::new(),
            rules: Vec::new(),
            route_topics: Vec::new(),
            errors: Vec::new(),
        };
        if config.steps.len() > STEPS {
            let step = config.steps.get(STEPS).map_or("", |step| &step.name);
            build.fail(step, format!("more than {STEPS} steps"));
        }
        for (position, step) in config.steps.iter().take(STEPS).enumerate() {
            if step.name.is_empty() {
                build.fail("", format!("step {position} has no name"));
            }
            if config.steps[..position].iter().any(|other| other.name == step.name) {
                build.fail(&step.name, "another step has the same name".to_owned());
            }
            build.step(step);
        }
        build.finish()
    }
}

/// The rule set so far.
pub(super) struct Build<'s> {
    pub(super) read_secret: &'s dyn Fn(&str) -> Result<Vec<u8>, String>,
    units: [Vec<Unit>; 3],
    pub(super) constants: Vec<u8>,
    pub(super) rules: Vec<Rule>,
    route_topics: Vec<RouteTopic>,
    pub(super) errors: Vec<CompileError>,
}

impl Build<'_> {
    fn finish(mut self) -> Result<RuleSet, CompileErrors> {
        if self.rules.len() > RULES {
            self.fail("", format!("more than {RULES} statements and conditions"));
        }
        if self.route_topics.len() > ROUTE_TOPICS {
            self.fail("", format!("more than {ROUTE_TOPICS} topics of routes"));
        }
        if !self.errors.is_empty() {
            return Err(CompileErrors(self.errors));
        }
        let passes = std::mem::take(&mut self.units).map(Pass::plan);
        let Self { constants, rules, route_topics, .. } = self;
        Ok(RuleSet { passes, constants, rules, route_topics })
    }

    /// Notes an error of a step itself.
    pub(super) fn fail(&mut self, step: &str, message: String) {
        self.errors.push(CompileError {
            step: step.to_owned(),
            list: "",
            index: 0,
            field: String::new(),
            line: 0,
            column: 0,
            message,
            nearest: None,
            supported: Vec::new(),
        });
    }

    /// Notes an error of a field of a step.
    pub(super) fn fail_field(&mut self, step: &Step, field: &str, message: String) {
        self.fail(&step.name, message);
        if let Some(error) = self.errors.last_mut() {
            error.field = field.to_owned();
        }
    }

    /// Notes an error of a statement or condition.
    pub(super) fn fail_at(&mut self, rule: &Rule, error: StatementError) {
        let (line, column) = error.line_and_column(&rule.text);
        self.errors.push(CompileError {
            step: rule.step.clone(),
            list: rule.list,
            index: rule.index,
            field: String::new(),
            line,
            column,
            message: error.message,
            nearest: error.nearest,
            supported: error.supported,
        });
    }

    fn step(&mut self, step: &Step) {
        match step.action() {
            Ok(StepAction::Statements(texts)) => self.statements(step, texts),
            Ok(StepAction::Drop(conditions)) => self.drop_conditions(step, conditions),
            Ok(StepAction::Redact(config)) => self.redact(step, config),
            Ok(StepAction::Sample(config)) => self.sample(step, config),
            Ok(StepAction::Route(config)) => self.route(step, config),
            Ok(StepAction::Enrich(config)) => self.enrich(step, config),
            Err(message) => self.fail(&step.name, message.to_owned()),
        }
    }

    fn statements(&mut self, step: &Step, texts: &[String]) {
        let rules: Vec<Rule> = rules_of(step, STATEMENTS, texts);
        let mut parsed: Vec<syntax::Statement> = Vec::with_capacity(texts.len());
        for rule in &rules {
            match parse_statement(&rule.text) {
                Ok(statement) => parsed.push(statement),
                Err(error) => self.fail_at(rule, error),
            }
        }
        if parsed.len() < rules.len() {
            return;
        }
        let named = parsed.iter().filter_map(named_context).max_by_key(|context| context.depth());
        let context = match (step.context, named) {
            (Some(name), _) => StatementContext::from(name),
            (None, Some(context)) => context,
            (None, None) => {
                let message = "the step has no context: set context, or write it before each \
                               path, as in log.attributes[\"key\"]";
                return self.fail(&step.name, message.to_owned());
            }
        };
        let mut compiler = Compiler::new(&mut self.constants, context, step.context.is_none());
        let mut compiled: Vec<program::Statement> = Vec::with_capacity(parsed.len());
        let mut errors = Vec::new();
        for (rule, statement) in rules.iter().zip(&parsed) {
            match compiler.statement(statement) {
                Ok(statement) => compiled.push(statement),
                Err(error) => errors.push((rule, error)),
            }
        }
        let usage = compiler.usage;
        errors.into_iter().for_each(|(rule, error)| self.fail_at(rule, error));
        let action = program::PassAction::Statements(compiled);
        self.add(step, context, rules, (action, None), usage);
    }

    fn drop_conditions(&mut self, step: &Step, conditions: &DropConditions) {
        let lists = [
            (StatementContext::Resource, "drop.resources", &conditions.resources),
            (StatementContext::Scope, "drop.scopes", &conditions.scopes),
            (StatementContext::Log, "drop.logs", &conditions.logs),
            (StatementContext::Span, "drop.spans", &conditions.spans),
            (StatementContext::SpanEvent, "drop.spanEvents", &conditions.span_events),
            (StatementContext::Metric, "drop.metrics", &conditions.metrics),
            (StatementContext::DataPoint, "drop.dataPoints", &conditions.data_points),
        ];
        self.conditions(step, "drop", &lists, None);
    }

    fn route(&mut self, step: &Step, config: &RouteConfig) {
        let RouteConfig { topic, logs, spans, metrics } = config;
        let lists = [
            (Signal::Logs, StatementContext::Log, "route.logs", logs),
            (Signal::Traces, StatementContext::Span, "route.spans", spans),
            (Signal::Metrics, StatementContext::Metric, "route.metrics", metrics),
        ];
        let mut used = lists.into_iter().filter(|(_, _, _, texts)| !texts.is_empty());
        let (Some((signal, context, list, texts)), None) = (used.next(), used.next()) else {
            let message = "write one of logs, spans and metrics: a topic holds one signal";
            return self.fail_field(step, "route", message.to_owned());
        };
        let known = self.route_topics.iter().position(|known| known.topic == *topic);
        let route = known.unwrap_or(self.route_topics.len());
        match self.route_topics.get(route) {
            None => self.route_topics.push(RouteTopic { signal, topic: topic.clone() }),
            Some(known) if known.signal == signal => {}
            Some(known) => {
                let message = format!("topic {topic:?} holds {} by another step", known.signal);
                return self.fail_field(step, "route.topic", message);
            }
        }
        self.conditions(step, "route", &[(context, list, texts)], Some(route));
    }

    /// Adds conditions on which objects are dropped, or go to another topic.
    fn conditions(
        &mut self,
        step: &Step,
        action: &str,
        lists: &[(StatementContext, &'static str, &Vec<String>)],
        route: Option<usize>,
    ) {
        if lists.iter().all(|(_, _, texts)| texts.is_empty()) {
            return self.fail(&step.name, format!("{action} has no conditions"));
        }
        for &(context, list, texts) in lists {
            if texts.is_empty() {
                continue;
            }
            let rules = rules_of(step, list, texts);
            let mut compiler = Compiler::new(&mut self.constants, context, false);
            let mut compiled = Vec::with_capacity(texts.len());
            let mut errors = Vec::new();
            for rule in &rules {
                let condition =
                    parse_condition(&rule.text).and_then(|parsed| compiler.condition(&parsed));
                match condition {
                    Ok(condition) => compiled.push(condition),
                    Err(error) => errors.push((rule, error)),
                }
            }
            let usage = compiler.usage;
            errors.into_iter().for_each(|(rule, error)| self.fail_at(rule, error));
            let action = program::PassAction::Drop(compiled);
            self.add(step, context, rules, (action, route), usage);
        }
    }

    /// Adds rules with their unit to the signals that have such objects.
    fn add(
        &mut self,
        step: &Step,
        context: StatementContext,
        rules: Vec<Rule>,
        (action, route): (program::PassAction, Option<usize>),
        usage: program::Usage,
    ) {
        let error_mode = step.error_mode;
        let first_rule = self.add_rules(rules);
        let unit = Unit { context, error_mode, first_rule, action, usage, route };
        if !self.push_unit(step, &unit) {
            let message = format!("no signal of the step has a {}", context.name());
            self.fail(&step.name, message);
        }
    }

    /// Adds rules. Returns the position of the first.
    pub(super) fn add_rules(&mut self, rules: Vec<Rule>) -> usize {
        let first_rule = self.rules.len();
        self.rules.extend(rules);
        first_rule
    }

    /// Adds a unit that routes nothing to the signals of the step.
    pub(super) fn add_unit(
        &mut self,
        step: &Step,
        context: StatementContext,
        first_rule: usize,
        action: program::PassAction,
        usage: program::Usage,
    ) {
        let (error_mode, route) = (step.error_mode, None);
        let unit = Unit { context, error_mode, first_rule, action, usage, route };
        self.push_unit(step, &unit);
    }

    /// Adds a unit to the signals of the step that have such objects. Returns whether any has.
    fn push_unit(&mut self, step: &Step, unit: &Unit) -> bool {
        let mut is_used = false;
        for signal in Signal::ALL {
            if unit.context.is_in(signal) && step.applies_to(signal) {
                self.units[signal.index()].push(unit.clone());
                is_used = true;
            }
        }
        is_used
    }
}

fn rules_of(step: &Step, list: &'static str, texts: &[String]) -> Vec<Rule> {
    let rule = |(index, text): (usize, &String)| Rule {
        step: step.name.clone(),
        list,
        index,
        text: text.clone(),
    };
    texts.iter().enumerate().map(rule).collect()
}
