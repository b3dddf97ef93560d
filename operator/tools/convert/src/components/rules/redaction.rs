//! Converts the redaction processor: its lists of keys and patterns become a redact step.

use millrace_crds::v1alpha1::{
    BlockedKeys, ErrorMode, KeyList, ProcessingStep, ReadySet, RedactPattern, RedactStep, Signal,
};

use super::RuleProcessor;
use super::step::{check_step, processed_signal, step_path};
use crate::account::{Fate, Fields};
use crate::advice;
use crate::tree::Node;
use crate::work::Work;

/// The bounds of a redact step's lists: names of keys, patterns, and characters of each.
const NAMES_MAX: usize = 256;
const PATTERNS_MAX: usize = 64;
const NAME_CHARACTERS_MAX: usize = 256;
const PATTERN_CHARACTERS_MAX: usize = 1_024;

/// For what a list can't hold.
const LONG: &str = "a redact step has at most 256 names of 256 characters and 64 patterns of 1,024";
/// How a list with fewer entries than the file's would differ.
const INCOMPLETE: &str = "an entry of the list can't be read, and without it attributes would be \
                          removed: write allowedKeys by hand";

pub(super) fn convert(work: &mut Work, node: &Node<'_>, processor: &RuleProcessor<'_>) {
    let mut fields = work.account.open_block(node, Fate::unsupported("it removes all attributes"));
    let mut step = processor.new_step(work, "");
    step.error_mode = ErrorMode::default();
    let chosen = processor.signals;
    if chosen.len() < Signal::ALL.len() {
        step.signals = chosen.iter().map(|signal| processed_signal(*signal)).collect();
    }
    // The processor has no ready sets.
    let none: Vec<ReadySet> = Vec::new();
    let redact = RedactStep { sets: Some(none), ..RedactStep::default() };
    let path = step_path(&step.name);
    let mut found = Found { processor, path, redact, entries: Vec::new(), further: Vec::new() };
    found.take_allowed(work, &mut fields);
    found.take_lists(work, &mut fields);
    found.finish(work, step);
    work.account.account_remaining(fields, |name| match name {
        "hash_function" | "hmac_key" => Fate::unsupported(
            "write action: {hash: {}} and hashKeySecret; until then matches are masked",
        ),
        "summary" => Fate::not_needed("metrics count what each rule redacts, by step"),
        "redact_all_types" => Fate::unsupported("texts alone are searched"),
        "allowed_values" => Fate::unsupported("write patterns that don't match these values"),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

/// The step so far, and the entries of its values.
struct Found<'a, 'n> {
    processor: &'a RuleProcessor<'a>,
    path: String,
    redact: RedactStep,
    entries: Vec<(Node<'n>, Fate)>,
    /// Patterns whose automaton would be too large with those of the step: each gets its own.
    further: Vec<(Node<'n>, RedactPattern)>,
}

impl<'n> Found<'_, 'n> {
    fn carry(&mut self, node: Node<'n>, to: &str, but: Option<&str>) {
        let fate = self.processor.carried(format!("{}.redact.{to}", self.path), but);
        self.entries.push((node, fate));
    }

    /// Reads the list without which attributes are removed.
    fn take_allowed(&mut self, work: &mut Work, fields: &mut Fields<'n>) {
        let (all, list) = (fields.take_field("allow_all_keys"), fields.take_field("allowed_keys"));
        let is_all = all.as_ref().is_some_and(Node::is_true);
        if let Some(node) = all {
            match is_all {
                true => work.account.not_needed(&node, "without allowedKeys all are allowed"),
                false => work.account.not_needed(&node, "it is the default"),
            }
        }
        if is_all {
            if let Some(list) = list {
                work.account.not_needed(&list, "all keys are allowed");
            }
            return;
        }
        let Some(list) = list else { return };
        let items = work.account.list_items(&list, "it is empty");
        let names: Option<Vec<String>> = items.iter().map(name_of).collect();
        match names.filter(|names| !names.is_empty() && names.len() <= NAMES_MAX) {
            Some(names) => {
                self.redact.allowed_keys = Some(KeyList { names, patterns: Vec::new() });
                items.into_iter().for_each(|item| self.carry(item, "allowedKeys.names", None));
            }
            None => items.iter().for_each(|item| work.account.unsupported(item, INCOMPLETE)),
        }
    }

    fn take_lists(&mut self, work: &mut Work, fields: &mut Fields<'n>) {
        let mut ignored = KeyList::default();
        let mut blocked = KeyList::default();
        for (field, list, is_pattern, to) in [
            ("ignored_keys", &mut ignored.names, false, "ignoredKeys.names"),
            ("ignored_key_patterns", &mut ignored.patterns, true, "ignoredKeys.patterns"),
            ("blocked_key_patterns", &mut blocked.patterns, true, "blockedKeys.patterns"),
        ] {
            let Some(node) = fields.take_field(field) else { continue };
            for item in work.account.list_items(&node, "it is empty") {
                let (text, max) = match is_pattern {
                    true => (pattern_of(&item), PATTERNS_MAX),
                    false => (name_of(&item), NAMES_MAX),
                };
                match text.filter(|_| list.len() < max) {
                    Some(text) => {
                        list.push(text);
                        self.carry(item, to, None);
                    }
                    None => work.account.unsupported(&item, LONG),
                }
            }
        }
        if let Some(node) = fields.take_field("blocked_values") {
            for item in work.account.list_items(&node, "it is empty") {
                self.add_pattern(work, item);
            }
        }
        self.redact.ignored_keys = (ignored != KeyList::default()).then_some(ignored);
        self.redact.blocked_keys =
            (blocked != KeyList::default()).then_some(BlockedKeys { keys: blocked, action: None });
    }

    fn add_pattern(&mut self, work: &mut Work, item: Node<'n>) {
        let number = self.redact.patterns.len() + self.further.len() + 1;
        let Some(pattern) = pattern_of(&item).filter(|_| number <= PATTERNS_MAX) else {
            return work.account.unsupported(&item, LONG);
        };
        let name = format!("value-{number}");
        let pattern = RedactPattern { name: name.clone(), pattern, action: None };
        let with_it = [self.redact.patterns.clone(), vec![pattern.clone()]].concat();
        match (check_step(&alone(with_it)), check_step(&alone(vec![pattern.clone()]))) {
            (Ok(()), _) => {
                self.redact.patterns.push(pattern);
                self.carry(item, &format!("patterns[{name}]"), None);
            }
            (Err(_), Ok(())) => self.further.push((item, pattern)),
            (Err(_), Err(why)) => work.account.unsupported(&item, why),
        }
    }

    fn finish(self, work: &mut Work, step: ProcessingStep) {
        let Self { processor, redact, entries, further, .. } = self;
        if entries.is_empty() {
            return;
        }
        let (signals, ignored_keys) = (step.signals.clone(), redact.ignored_keys.clone());
        let step = ProcessingStep { redact: Some(redact), ..step };
        match processor.push_step(work, step) {
            Ok(()) => entries.into_iter().for_each(|(it, fate)| work.account.add_entry(&it, fate)),
            Err(why) => entries.iter().for_each(|(it, _)| work.account.unsupported(it, &*why)),
        }
        for (item, pattern) in further {
            let to = format!("redact.patterns[{}]", pattern.name);
            let own = processor.new_step(work, "");
            let path = step_path(&own.name);
            let redact = RedactStep {
                ignored_keys: ignored_keys.clone(),
                ..alone(vec![pattern]).redact.unwrap_or_default()
            };
            let step = ProcessingStep { signals: signals.clone(), redact: Some(redact), ..own };
            match processor.push_step(work, step) {
                Ok(()) => {
                    let fate = processor.carried(format!("{path}.{to}"), None);
                    work.account.add_entry(&item, fate);
                }
                Err(why) => work.account.unsupported(&item, why),
            }
        }
    }
}

/// Returns a step with these patterns alone.
fn alone(patterns: Vec<RedactPattern>) -> ProcessingStep {
    let redact = RedactStep { sets: Some(Vec::new()), patterns, ..RedactStep::default() };
    ProcessingStep { name: "check".to_owned(), redact: Some(redact), ..ProcessingStep::default() }
}

fn name_of(item: &Node<'_>) -> Option<String> {
    let fits = |text: &String| !text.is_empty() && text.chars().count() <= NAME_CHARACTERS_MAX;
    item.plain_text().filter(fits)
}

fn pattern_of(item: &Node<'_>) -> Option<String> {
    let fits = |text: &String| !text.is_empty() && text.chars().count() <= PATTERN_CHARACTERS_MAX;
    item.plain_text().filter(fits)
}
