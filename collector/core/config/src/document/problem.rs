//! What is wrong with a document: field, line, column, and what to write instead.
//!
//! Messages never repeat a value that could be a secret: settings hold secrets as file names only.

use std::fmt;

/// One thing wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field's path, such as `receivers.otlp.grpc.address`; empty for the complete document.
    pub field: String,
    /// Its line, from 1, and the column, from 1; none where the document has no text
    /// or the field is not written in it.
    pub position: Option<(usize, usize)>,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl Problem {
    /// A problem of the complete document.
    pub(crate) fn of_document(message: String) -> Self {
        Self { field: String::new(), position: None, message }
    }

    /// A problem found by the YAML reader, which knows the place and puts the path first.
    pub(crate) fn of_yaml(error: &serde_norway::Error) -> Self {
        let text = error.to_string();
        let position = error.location().map(|location| (location.line(), location.column()));
        // The reader ends its text with the place; a problem prints that in front.
        let text = match text.rfind(" at line ") {
            Some(at) if position.is_some() => &text[..at],
            _ => &text,
        };
        let (field, message) = match text.split_once(": ") {
            Some((path, rest)) if is_path(path) => (path, rest),
            _ => ("", text),
        };
        Self { field: field.to_owned(), position, message: message.to_owned() }
    }
}

/// Whether a prefix of the reader's message is a path of ours: no blanks, only path characters.
fn is_path(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '[' | ']' | '_'))
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.position {
            write!(f, "line {line}, column {column}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// A document that cannot be used, with everything found wrong in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(crate) fn from_problem(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }

    /// `None` when there is nothing wrong.
    pub(crate) fn from_problems(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self { problems })
    }

    /// What was found, in the document's order where lines are known. Never empty.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
