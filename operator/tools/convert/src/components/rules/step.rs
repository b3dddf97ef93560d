//! What the steps of all processors have in common: names, error modes, compilation, bounds.

use millrace_crds::v1alpha1::{ErrorMode, ProcessedSignal, ProcessingStep, Signal};
use millrace_rule_settings::{POOL_STEPS_MAX, build_settings, compile_rules};

use super::RuleProcessor;
use crate::account::{Fate, Fields};
use crate::tree::Node;
use crate::work::Work;

/// Maximum length of a step's name.
const NAME_BYTES_MAX: usize = 63;
/// Maximum statements, and maximum conditions, of a list.
pub(super) const RULES_MAX: usize = 128;
/// Maximum length of a statement or condition, in characters.
const RULE_CHARACTERS_MAX: usize = 8_192;

/// For rules with `${...}`.
pub(super) const VARIABLE: &str = "it has a variable of the Collector's: write its value";
/// For steps beyond the maximum.
const FULL: &str = "a pipeline has at most 32 steps: join statements to fewer steps";
/// For rules beyond the maximum of a list.
const LONG: &str = "a step has at most 128 rules of at most 8,192 characters: write another step";

impl RuleProcessor<'_> {
    /// Returns a step of this processor: its name has `part`, if the processor becomes several.
    pub(super) fn new_step(&self, work: &Work, part: &str) -> ProcessingStep {
        let mut base: String = self
            .id
            .chars()
            .chain((!part.is_empty()).then_some('-'))
            .chain(part.chars())
            .map(|one| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '-' })
            .collect();
        // Types begin with a letter, and the number below needs three characters.
        base.truncate(NAME_BYTES_MAX - 3);
        let base = base.trim_matches('-').to_owned();
        let is_known = |name: &str| work.draft.steps.iter().any(|(_, step)| step.name == name);
        let mut name = base.clone();
        let mut number = 2;
        while is_known(&name) {
            name = format!("{base}-{number}");
            number += 1;
        }
        ProcessingStep { name, ..ProcessingStep::default() }
    }

    /// Returns whether carried pipelines of a signal use the processor.
    pub(super) fn handles(&self, signal: Signal) -> bool {
        self.signals.contains(&signal)
    }

    /// Returns the fate of a value that a step has.
    pub(super) fn carried(&self, to: String, but: Option<&str>) -> Fate {
        let texts: Vec<&str> = but.into_iter().chain(self.but.as_deref()).collect();
        Fate::Carried { to, but: (!texts.is_empty()).then(|| texts.join("; ")) }
    }

    /// Adds a step to the pipeline. Returns false, and accounts for `node`, if there are too many
    /// or it doesn't compile.
    pub(super) fn push_step(&self, work: &mut Work, step: ProcessingStep) -> Result<(), String> {
        if work.draft.steps.len() == POOL_STEPS_MAX {
            return Err(FULL.to_owned());
        }
        check_step(&step)?;
        work.draft.steps.push((self.id.to_owned(), step));
        Ok(())
    }
}

/// Compiles a step.
///
/// # Errors
/// The first error, in one sentence.
pub(super) fn check_step(step: &ProcessingStep) -> Result<(), String> {
    let settings = build_settings(std::slice::from_ref(step), |_| String::new());
    let Err(error) = compile_rules(&settings) else { return Ok(()) };
    let first = error.errors.0.into_iter().next();
    let Some(first) = first else { return Err("the rules don't compile".to_owned()) };
    let nearest = first.nearest.map(|name| format!("; did you mean {name:?}?"));
    Err(format!(
        "{}{}; the page Rules lists what is supported",
        one_line(&first.message),
        nearest.unwrap_or_default()
    ))
}

/// Returns a message without the picture between its first and last line, as of regular
/// expressions.
fn one_line(message: &str) -> String {
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().to_owned();
    match lines.next_back() {
        Some(last) => format!("{first} {last}"),
        None => first,
    }
}

/// Returns the text of a rule, or accounts for it.
pub(super) fn rule_text(work: &mut Work, node: &Node<'_>) -> Option<String> {
    match node.plain_text() {
        Some(text) if text.is_empty() => {
            work.account.not_needed(node, "it is empty");
            None
        }
        Some(text) if text.chars().count() > RULE_CHARACTERS_MAX => {
            work.account.unsupported(node, LONG);
            None
        }
        Some(text) => Some(text),
        None if node.has_variable() => {
            work.account.unsupported(node, VARIABLE);
            None
        }
        None => {
            work.account.unsupported(node, "a rule in OTTL is expected here");
            None
        }
    }
}

/// Splits rules at the maximum of a list; accounts for those beyond.
pub(super) fn within_maximum<'a, T>(
    work: &mut Work,
    mut rules: Vec<(Node<'a>, T)>,
) -> Vec<(Node<'a>, T)> {
    for (node, _) in rules.drain(RULES_MAX.min(rules.len())..) {
        work.account.unsupported(&node, LONG);
    }
    rules
}

/// The error mode of a processor.
pub(super) struct ModeField<'a> {
    node: Option<Node<'a>>,
    mode: Option<ErrorMode>,
}

impl<'a> ModeField<'a> {
    /// Removes it from a processor's fields.
    pub(super) fn take(fields: &mut Fields<'a>) -> Self {
        let node = fields.take_field("error_mode");
        let mode = match node.as_ref().map(Node::plain_text) {
            // The Collector's default.
            None => Some(ErrorMode::Propagate),
            Some(text) => match text.as_deref() {
                Some("propagate") => Some(ErrorMode::Propagate),
                Some("ignore") => Some(ErrorMode::Ignore),
                Some("silent") => Some(ErrorMode::Silent),
                _ => None,
            },
        };
        Self { node, mode }
    }

    /// Returns the mode of the steps.
    pub(super) fn mode(&self) -> ErrorMode {
        self.mode.unwrap_or_default()
    }

    /// Returns the mode, or `other` if the file has none here.
    pub(super) fn mode_or(&self, other: ErrorMode) -> ErrorMode {
        if self.node.is_some() { self.mode() } else { other }
    }

    /// Accounts for it, once the steps are known: `first` is the name of the first one.
    pub(super) fn account(self, work: &mut Work, first: Option<&str>) {
        let Some(node) = self.node else { return };
        let fate = match (self.mode, first) {
            (None, _) => Fate::unsupported("write errorMode: Ignore, Silent or Propagate"),
            (_, None) => Fate::not_needed("none of its rules is carried over"),
            (Some(ErrorMode::Ignore), _) => Fate::not_needed("it is the default"),
            (Some(_), Some(name)) => Fate::carried(format!("{}.errorMode", step_path(name))),
        };
        work.account.add_entry(&node, fate);
    }
}

/// Returns the path of a step in the pipeline.
pub(super) fn step_path(name: &str) -> String {
    format!("spec.processing[{name}]")
}

/// Returns a signal's word in steps.
pub(super) const fn processed_signal(signal: Signal) -> ProcessedSignal {
    match signal {
        Signal::Traces => ProcessedSignal::Traces,
        Signal::Logs => ProcessedSignal::Logs,
        Signal::Metrics => ProcessedSignal::Metrics,
    }
}
