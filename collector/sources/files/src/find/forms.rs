//! Builds the forms of files whose pods' annotations choose how they are read: one form for each
//! choice, shared by all files with that choice.
//!
//! Pods can change the parser and the multiline setting, and nothing else: neither limits nor the
//! attributes that the collector adds. Patterns of pods are bounded in number and size; a pattern
//! above the limit is skipped and counted, and the other parts of the choice apply.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use millrace_lines::{MultilineRule, ParseRules, RecordRules, Roles, TraceRuntime};
use millrace_pipeline::pods::{PodMultiline as Lines, Reading, TextParser};

/// The maximum patterns of pods in use at a time. Each takes up to 64 KiB compiled: 2 MiB in all.
const PATTERNS_MAX: usize = 32;

/// A pod's choice; the other settings come from the one source that has pods.
type FormKey = (Option<TextParser>, Option<Lines>);

/// The forms of pods' choices, while files use them.
#[derive(Debug, Default)]
pub(crate) struct Forms {
    known: HashMap<FormKey, Weak<RecordRules>>,
    rejected: u64,
    has_reported: bool,
}

impl Forms {
    /// Returns the form for a pod's choice, or None without one. `usual` is the source's form, and
    /// `roles` are the configured roles of fields.
    pub(super) fn form_of(
        &mut self,
        reading: Reading,
        usual: &RecordRules,
        roles: &Roles,
    ) -> Option<Arc<RecordRules>> {
        let Reading { logs: _, parser, multiline } = reading;
        if parser.is_none() && multiline.is_none() {
            return None;
        }
        let choice = (parser, multiline);
        if let Some(form) = self.known.get(&choice).and_then(Weak::upgrade) {
            return Some(form);
        }
        self.known.retain(|_, form| form.strong_count() > 0);
        let mut form = usual.clone();
        match choice.0 {
            None => {}
            Some(TextParser::None) => form.parse = None,
            Some(TextParser::Json) => form.parse = Some(ParseRules::json(roles.clone())),
            Some(TextParser::Logfmt) => form.parse = Some(ParseRules::logfmt(roles.clone())),
        }
        match &choice.1 {
            None => {}
            Some(Lines::None) => form.multiline = None,
            Some(Lines::Traces(of)) => form.multiline = Some(MultilineRule::Traces(to_traces(*of))),
            Some(Lines::Start(pattern)) => {
                let compiled =
                    self.has_capacity().then(|| MultilineRule::from_foreign_pattern(pattern));
                let Some(Ok(compiled)) = compiled else {
                    self.reject_pattern(pattern);
                    let reading = Reading { parser: choice.0, ..Reading::default() };
                    return self.form_of(reading, usual, roles);
                };
                form.multiline = Some(compiled);
            }
        }
        let form = Arc::new(form);
        self.known.insert(choice, Arc::downgrade(&form));
        Some(form)
    }

    /// Returns the number of patterns rejected since the last call.
    pub(crate) fn take_rejected(&mut self) -> u64 {
        std::mem::take(&mut self.rejected)
    }

    fn has_capacity(&self) -> bool {
        let patterns =
            self.known.keys().filter(|(_, lines)| matches!(lines, Some(Lines::Start(_))));
        patterns.count() < PATTERNS_MAX
    }

    fn reject_pattern(&mut self, pattern: &str) {
        self.rejected += 1;
        if !std::mem::replace(&mut self.has_reported, true) {
            tracing::warn!(
                pattern,
                "pods of this node have more than {PATTERNS_MAX} patterns in \
                 millrace.dev/logs-multiline: this one, and possibly others, are not used; \
                 millrace_files_patterns_skipped_total counts the files"
            );
        }
    }
}

/// Converts the configured runtime of stack traces.
pub(super) fn to_traces(of: millrace_config::StackTraces) -> TraceRuntime {
    match of {
        millrace_config::StackTraces::Java => TraceRuntime::Java,
        millrace_config::StackTraces::Python => TraceRuntime::Python,
        millrace_config::StackTraces::Go => TraceRuntime::Go,
        millrace_config::StackTraces::NodeJs => TraceRuntime::NodeJs,
        millrace_config::StackTraces::Rust => TraceRuntime::Rust,
    }
}

#[cfg(test)]
mod tests;
