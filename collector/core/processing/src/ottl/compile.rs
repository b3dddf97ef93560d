//! Compiles parsed statements and conditions of one context.

use crate::ottl::context::StatementContext;
use crate::ottl::error::StatementError;
use crate::ottl::parser::syntax::{Call, Condition, Key, KeyKind, Statement, Value, ValueKind};
use crate::program;
use crate::program::Usage;

/// The state while statements of one step and context are compiled.
pub(crate) struct Compiler<'c> {
    /// The texts and values that are known now.
    pub(crate) constants: &'c mut Vec<u8>,
    pub(crate) context: StatementContext,
    /// Whether every path has to name its context, because the step doesn't.
    pub(crate) is_context_required: bool,
    pub(crate) usage: Usage,
}

impl<'c> Compiler<'c> {
    pub(crate) fn new(
        constants: &'c mut Vec<u8>,
        context: StatementContext,
        is_context_required: bool,
    ) -> Self {
        Self { constants, context, is_context_required, usage: Usage::default() }
    }

    /// Compiles a statement.
    pub(crate) fn statement(
        &mut self,
        statement: &Statement,
    ) -> Result<program::Statement, StatementError> {
        let editor = self.editor(&statement.editor)?;
        let condition = match &statement.condition {
            Some(condition) => Some(self.condition(condition)?),
            None => None,
        };
        Ok(program::Statement { condition, editor })
    }
}

/// Returns the innermost context that a statement's paths name.
pub(crate) fn named_context(statement: &Statement) -> Option<StatementContext> {
    let mut names = Vec::new();
    call_contexts(&statement.editor, &mut names);
    if let Some(condition) = &statement.condition {
        condition_contexts(condition, &mut names);
    }
    names.into_iter().max_by_key(|context| context.depth())
}

/// Returns the innermost context that a condition's paths name.
pub(crate) fn condition_context(condition: &Condition) -> Option<StatementContext> {
    let mut names = Vec::new();
    condition_contexts(condition, &mut names);
    names.into_iter().max_by_key(|context| context.depth())
}

fn call_contexts(call: &Call, names: &mut Vec<StatementContext>) {
    for argument in &call.arguments {
        value_contexts(&argument.value, names);
    }
    key_contexts(&call.keys, names);
}

fn key_contexts(keys: &[Key], names: &mut Vec<StatementContext>) {
    for key in keys {
        if let KeyKind::Value(value) = &key.kind {
            value_contexts(value, names);
        }
    }
}

fn value_contexts(value: &Value, names: &mut Vec<StatementContext>) {
    match &value.kind {
        ValueKind::Path(path) => {
            if path.segments.len() > 1 {
                names.extend(StatementContext::named(&path.segments[0].name));
            }
            for segment in &path.segments {
                key_contexts(&segment.keys, names);
            }
        }
        ValueKind::Call(call) => call_contexts(call, names),
        ValueKind::List(values) => values.iter().for_each(|value| value_contexts(value, names)),
        ValueKind::Map(members) => {
            members.iter().for_each(|(_, value)| value_contexts(value, names));
        }
        ValueKind::Math(_, left, right) => {
            value_contexts(left, names);
            value_contexts(right, names);
        }
        ValueKind::Negative(inner) => value_contexts(inner, names),
        ValueKind::Nil
        | ValueKind::Bool(_)
        | ValueKind::Int(_)
        | ValueKind::Double(_)
        | ValueKind::Text(_)
        | ValueKind::Bytes(_)
        | ValueKind::Enum(_)
        | ValueKind::Function(_) => {}
    }
}

fn condition_contexts(condition: &Condition, names: &mut Vec<StatementContext>) {
    match condition {
        Condition::Const(_) => {}
        Condition::Call(call) => call_contexts(call, names),
        Condition::Compare(_, left, right) => {
            value_contexts(left, names);
            value_contexts(right, names);
        }
        Condition::Not(inner) => condition_contexts(inner, names),
        Condition::And(inner) | Condition::Or(inner) => {
            inner.iter().for_each(|condition| condition_contexts(condition, names));
        }
    }
}
