//! Why rules don't compile, and why a rule failed on a record.

use std::fmt;

use millrace_wire::WireErrorKind;
use millrace_wire::protobuf::WireFault;

/// Why a rule failed on a record. It holds none of the record's content, so it can be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleFailure {
    /// A value of the wrong type.
    #[error("expected {expected} but got {found}")]
    Type {
        /// The accepted types.
        expected: &'static str,
        /// The value's type.
        found: &'static str,
    },
    /// An attribute can't hold this type.
    #[error("an attribute can't hold a {found}")]
    Unstorable {
        /// The value's type.
        found: &'static str,
    },
    /// A key on a value that is neither a list nor a map.
    #[error("a {found} can't be indexed")]
    NotIndexable {
        /// The value's type.
        found: &'static str,
    },
    /// A text key on a list, or a number on a map.
    #[error("maps take keys of type string, lists take keys of type int")]
    KeyType,
    /// An index that a list doesn't have.
    #[error("the index is outside of the list")]
    Index,
    /// A key that a converter's result doesn't have.
    #[error("the result doesn't have this key")]
    Key,
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A field that this kind of data point doesn't have.
    #[error("this kind of data point doesn't have the field")]
    Field,
    /// An argument outside of its range.
    #[error("{0}")]
    Argument(&'static str),
    /// Text that a converter can't read.
    #[error("the text is not {0}")]
    Text(&'static str),
    /// A string that isn't UTF-8.
    #[error("a string is not valid utf-8")]
    Utf8,
    /// The request would become longer than the caller allows.
    #[error("the request would become too long")]
    TooLong,
    /// The record would have more attributes or deeper values than readers accept.
    #[error("the record would have too many attributes or too deep values")]
    TooDeep,
    /// The bytes are no OTLP.
    #[error("{0}")]
    Malformed(WireErrorKind),
}

impl From<WireFault> for RuleFailure {
    fn from(fault: WireFault) -> Self {
        Self::Malformed(fault.kind())
    }
}

impl RuleFailure {
    /// Returns a short name for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Type { .. } => "type",
            Self::Unstorable { .. } => "unstorable",
            Self::NotIndexable { .. } => "not_indexable",
            Self::KeyType => "key_type",
            Self::Index => "index",
            Self::Key => "key",
            Self::DivisionByZero => "division_by_zero",
            Self::Field => "field",
            Self::Argument(_) => "argument",
            Self::Text(_) => "text",
            Self::Utf8 => "utf8",
            Self::TooLong => "too_long",
            Self::TooDeep => "too_deep",
            Self::Malformed(_) => "malformed",
        }
    }

    /// Whether the record is left as it was, whatever the error mode.
    pub(crate) const fn is_limit(self) -> bool {
        matches!(self, Self::TooLong | Self::TooDeep)
    }
}

/// Why one statement, condition or step doesn't compile, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The step's name.
    pub step: String,
    /// The list in the step, such as `statements` or `drop.logs`; empty for the step itself.
    pub list: &'static str,
    /// The position in that list, from 0.
    pub index: usize,
    /// The field of `redact` or `sample`, such as `redact.patterns[2].pattern`, instead of a list.
    pub field: String,
    /// The line in the statement, from 1; 0 for the step itself.
    pub line: usize,
    /// The column in the line, in characters from 1; 0 for the step itself.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// The supported name that is nearest to an unknown one.
    pub nearest: Option<String>,
    /// What is supported instead.
    pub supported: Vec<String>,
}

impl CompileError {
    /// Returns the field's path in the step, such as `statements[0]` or `redact.hashKeyFile`; empty
    /// for the step itself.
    #[must_use]
    pub fn path(&self) -> String {
        if self.list.is_empty() {
            self.field.clone()
        } else {
            format!("{}[{}]", self.list, self.index)
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "step {:?}", self.step)?;
        let path = self.path();
        if !path.is_empty() {
            write!(formatter, ", {path}")?;
        }
        if self.line > 0 {
            write!(formatter, ", line {}, column {}", self.line, self.column)?;
        }
        write!(formatter, ": {}", self.message)?;
        if let Some(nearest) = &self.nearest {
            write!(formatter, "; did you mean {nearest:?}?")?;
        }
        if !self.supported.is_empty() {
            write!(formatter, "; supported: {}", self.supported.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileError {}

/// All errors of a rule set, in its order. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileErrors(pub Vec<CompileError>);

impl fmt::Display for CompileErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            if position > 0 {
                formatter.write_str("\n")?;
            }
            error.fmt(formatter)?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileErrors {}
