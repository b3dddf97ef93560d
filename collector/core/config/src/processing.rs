//! Checks rules by compiling them: each error becomes a problem at its statement.

use std::collections::HashSet;

use millrace_processing::{CompileError, Config as Steps, RouteConfig, RuleSet};

use crate::document::check::Checker;
use crate::kafka::Topics;
use crate::values::names::TopicName;

impl Checker<'_> {
    /// Compiles the rules of a collector that runs them.
    pub(crate) fn check_processing(&mut self, steps: &Steps) {
        if !self.check_step_names(steps) {
            return;
        }
        let Err(errors) = RuleSet::compile_without_secrets(steps) else { return };
        for error in errors.0 {
            self.add_problem(&field_of(steps, &error), message_of(&error));
        }
    }

    /// Checks the topics of `route` steps: names that Kafka accepts, and none of the exporter's
    /// own, whose readers would store the records too.
    pub(crate) fn check_routes(&mut self, steps: &Steps, own: &Topics) {
        for (index, step) in steps.steps.iter().enumerate() {
            let Some(RouteConfig { topic, .. }) = &step.route else { continue };
            let field = format!("processing[{index}].route.topic");
            if let Err(error) = TopicName::new(topic) {
                self.add_problem(&field, error.to_string());
            } else if own.configured_topics().any(|(_, own)| own.as_str() == topic) {
                let message = format!("`{topic}` is in exporters.kafka.topics: name another topic");
                self.add_problem(&field, message);
            }
        }
    }

    /// An exporter to ClickHouse has no other destinations.
    pub(crate) fn check_no_routes(&mut self, steps: &Steps) {
        for (index, _) in steps.steps.iter().enumerate().filter(|(_, step)| step.route.is_some()) {
            self.add_problem(
                &format!("processing[{index}].route"),
                "only an exporter to Kafka has routes: remove the step, or send by \
                 exporters.kafka",
            );
        }
    }

    /// A gateway reads what edges have processed, and repeats must give the same rows.
    pub(crate) fn check_no_processing(&mut self, steps: &Steps) {
        if !steps.steps.is_empty() {
            self.add_problem(
                "processing",
                "a gateway runs no rules: a message that is read again must give the same rows, \
                 whatever the settings are by then; move the steps to the edges",
            );
        }
    }

    /// Errors name their step, so names must be unique. Returns whether they are.
    fn check_step_names(&mut self, steps: &Steps) -> bool {
        let mut names = HashSet::new();
        let mut is_good = true;
        for (index, step) in steps.steps.iter().enumerate() {
            let field = format!("processing[{index}].name");
            if step.name.is_empty() {
                self.add_problem(&field, "a step needs a name, for metrics and messages");
            } else if !names.insert(step.name.as_str()) {
                let message = format!("`{}` is also the name of a step before", step.name);
                self.add_problem(&field, message);
            } else {
                continue;
            }
            is_good = false;
        }
        is_good
    }
}

/// Returns the path of the list's entry, the step or the list of steps.
fn field_of(steps: &Steps, error: &CompileError) -> String {
    let Some(step) = steps.steps.iter().position(|step| step.name == error.step) else {
        return "processing".to_owned();
    };
    match error.path() {
        path if path.is_empty() => format!("processing[{step}]"),
        path => format!("processing[{step}].{path}"),
    }
}

fn message_of(error: &CompileError) -> String {
    let CompileError { line, column, message, nearest, supported, .. } = error;
    let mut text = match line {
        0 => message.clone(),
        _ => format!("{message} (line {line}, column {column} of the text)"),
    };
    if let Some(nearest) = nearest {
        text.push_str(&format!("; did you mean {nearest:?}?"));
    }
    if !supported.is_empty() {
        text.push_str(&format!("; supported: {}", supported.join(", ")));
    }
    text
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use millrace_processing::{Config as Steps, DropConditions, ErrorMode, SignalName, Step};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::Strategy;
    use proptest::sample::select;

    /// Steps of statements and of conditions; the crate of rules has its own tests of the others.
    pub(crate) fn processing() -> impl Strategy<Value = Steps> {
        let texts = || vec("[ -~]{1,20}", 0..3);
        let drop = option::of((texts(), texts()).prop_map(|(resources, logs)| DropConditions {
            resources,
            logs,
            ..DropConditions::default()
        }));
        let mode = select(vec![ErrorMode::Ignore, ErrorMode::Silent, ErrorMode::Propagate]);
        let signals = vec(select(vec![SignalName::Traces, SignalName::Metrics]), 0..3);
        let step = ("[ -~]{0,10}", mode, signals, texts(), drop);
        let step = step.prop_map(|(name, error_mode, signals, statements, drop)| Step {
            name,
            error_mode,
            signals,
            statements,
            drop,
            ..Step::default()
        });
        vec(step, 0..3).prop_map(|steps| Steps { steps })
    }
}
