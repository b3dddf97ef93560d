//! How the files of single pods are read, where their annotations say so: a form for each choice,
//! which all files with that choice share.
//!
//! What pods ask for changes the parser and which lines are one record, and nothing else: neither
//! limits nor what the collector writes of a file. Patterns of pods are bounded in number and size;
//! one without room is left out and counted, and the rest of the choice holds.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use millrace_lines::{Form, Multiline, Parse, Roles};
use millrace_pipeline::pods::{Multiline as Lines, Parser, Reading};

use super::source::traces;

/// Most patterns of pods in use at a time. Each takes up to 128 KiB compiled and as much for each
/// of two tables while it is used: 12 MiB in all.
const PATTERNS_MAX: usize = 32;

/// A choice, beside the settings of the one source that has pods.
type Choice = (Option<Parser>, Option<Lines>);

/// The forms of pods that chose, while files are read by them.
#[derive(Debug, Default)]
pub(super) struct Forms {
    known: HashMap<Choice, Weak<Form>>,
    left_out: u64,
    has_named: bool,
}

impl Forms {
    /// The form for what a pod chose. None: it chose nothing. `usual` is the form of others, and
    /// `roles` are the places of fields, as in the settings.
    pub(super) fn of(
        &mut self,
        reading: Reading,
        usual: &Form,
        roles: &Roles,
    ) -> Option<Arc<Form>> {
        let Reading { wanted: _, parser, multiline } = reading;
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
            Some(Parser::None) => form.parse = None,
            Some(Parser::Json) => form.parse = Some(Parse::json(roles.clone())),
            Some(Parser::Logfmt) => form.parse = Some(Parse::logfmt(roles.clone())),
        }
        match &choice.1 {
            None => {}
            Some(Lines::None) => form.multiline = None,
            Some(Lines::Traces(of)) => form.multiline = Some(Multiline::Traces(traces(*of))),
            Some(Lines::Start(pattern)) => {
                let compiled = self.has_room().then(|| Multiline::foreign_start(pattern));
                let Some(Ok(compiled)) = compiled else {
                    self.leave_out(pattern);
                    let reading = Reading { parser: choice.0, ..Reading::default() };
                    return self.of(reading, usual, roles);
                };
                form.multiline = Some(compiled);
            }
        }
        let form = Arc::new(form);
        self.known.insert(choice, Arc::downgrade(&form));
        Some(form)
    }

    /// Patterns that had no room, since the last call.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    fn has_room(&self) -> bool {
        let patterns =
            self.known.keys().filter(|(_, lines)| matches!(lines, Some(Lines::Start(_))));
        patterns.count() < PATTERNS_MAX
    }

    fn leave_out(&mut self, pattern: &str) {
        self.left_out += 1;
        if !std::mem::replace(&mut self.has_named, true) {
            tracing::warn!(
                pattern,
                "pods of this node have more than {PATTERNS_MAX} patterns in \
                 millrace.dev/logs-multiline: this one, and maybe others, are not used, as \
                 millrace_files_patterns_left_out_total counts"
            );
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/forms.rs"]
mod tests;
