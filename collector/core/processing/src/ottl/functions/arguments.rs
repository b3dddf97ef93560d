//! Matches the arguments of a call to the parameters of its function.

use crate::edit::memory::Ref;
use crate::ottl::compile::Compiler;
use crate::ottl::error::StatementError;
use crate::ottl::functions::{CONVERTERS, EDITORS, Form, Parameter, Signature, replacement_of};
use crate::ottl::parser::syntax::{Argument, Call, Value, ValueKind};
use crate::program::{Expr, Kind, Path, TextFn};
use crate::value;

/// A compiled argument.
#[derive(Clone, Debug)]
pub(crate) enum Compiled {
    Value(Expr),
    Values(Vec<Expr>),
    Path(Path),
    Text(String),
    Texts(Vec<String>),
    Int(i64),
    Bool(bool),
    Function(TextFn),
}

/// The arguments of a call, by parameter.
pub(crate) struct Arguments {
    pub(crate) at: usize,
    values: Vec<Option<Compiled>>,
    positions: Vec<usize>,
}

impl Arguments {
    fn take(&mut self, index: usize) -> Option<Compiled> {
        self.values.get_mut(index).and_then(Option::take)
    }

    /// Returns the position of an argument in the statement, or of the call.
    pub(crate) fn at(&self, index: usize) -> usize {
        self.positions.get(index).copied().unwrap_or(self.at)
    }

    pub(crate) fn value(&mut self, index: usize) -> Expr {
        self.optional_value(index).unwrap_or(Expr::Const(value::Value::Nil, Ref::EMPTY))
    }

    pub(crate) fn optional_value(&mut self, index: usize) -> Option<Expr> {
        if !matches!(self.values.get(index), Some(Some(Compiled::Value(_)))) {
            return None;
        }
        match self.take(index) {
            Some(Compiled::Value(value)) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn values(&mut self, index: usize) -> Vec<Expr> {
        match self.take(index) {
            Some(Compiled::Values(values)) => values,
            _ => Vec::new(),
        }
    }

    pub(crate) fn text(&mut self, index: usize) -> Option<String> {
        match self.take(index) {
            Some(Compiled::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn texts(&mut self, index: usize) -> Vec<String> {
        match self.take(index) {
            Some(Compiled::Texts(texts)) => texts,
            _ => Vec::new(),
        }
    }

    pub(crate) fn int(&mut self, index: usize) -> Option<i64> {
        match self.take(index) {
            Some(Compiled::Int(number)) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn bool(&mut self, index: usize) -> Option<bool> {
        match self.take(index) {
            Some(Compiled::Bool(truth)) => Some(truth),
            _ => None,
        }
    }

    pub(crate) fn function(&mut self, index: usize) -> Option<TextFn> {
        match self.take(index) {
            Some(Compiled::Function(function)) => Some(function),
            _ => None,
        }
    }

    /// Returns the path to change. Matching the arguments made sure that there is one.
    pub(crate) fn target(&mut self, index: usize) -> Result<Path, StatementError> {
        match self.take(index) {
            Some(Compiled::Path(path)) => Ok(path),
            _ => Err(StatementError::new(self.at(index), "expected a path")),
        }
    }
}

/// Returns the signature of the function that a call names.
pub(crate) fn find_function(
    call: &Call,
    is_editor: bool,
) -> Result<&'static Signature, StatementError> {
    let functions = if is_editor { EDITORS } else { CONVERTERS };
    if let Some(signature) = functions.iter().find(|(name, _)| *name == call.name) {
        return Ok(signature);
    }
    let kind = if is_editor { "editor" } else { "converter" };
    let mut message = format!("unknown {kind} {:?}", call.name);
    if let Some(replacement) = replacement_of(&call.name) {
        message.push_str(": ");
        message.push_str(replacement);
    }
    let names = functions.iter().map(|(name, _)| *name);
    Err(StatementError::unknown(call.at, message, &call.name, names))
}

impl Compiler<'_> {
    /// Matches a call's arguments to its function's parameters.
    pub(crate) fn arguments(
        &mut self,
        call: &Call,
        parameters: &[Parameter],
    ) -> Result<Arguments, StatementError> {
        let mut arguments = Arguments {
            at: call.at,
            values: vec![None; parameters.len()],
            positions: vec![call.at; parameters.len()],
        };
        let mut is_named = false;
        for (position, argument) in call.arguments.iter().enumerate() {
            let index = parameter_index(call, parameters, position, argument, &mut is_named)?;
            if arguments.values[index].is_some() {
                let message = format!("the argument {:?} is given twice", parameters[index].name);
                return Err(StatementError::new(argument.at, message));
            }
            arguments.positions[index] = argument.value.at;
            let compiled = self.argument(&argument.value, &parameters[index]);
            arguments.values[index] = Some(compiled.map_err(|mut error| {
                if error.at == argument.value.at && error.nearest.is_none() {
                    error.message = format!("{}: {}", parameters[index].name, error.message);
                }
                error
            })?);
        }
        for (parameter, value) in parameters.iter().zip(&arguments.values) {
            if value.is_none() && !parameter.is_optional {
                let message = format!(
                    "{} needs the argument {:?}: {}",
                    call.name,
                    parameter.name,
                    usage(call, parameters)
                );
                return Err(StatementError::new(call.at, message));
            }
        }
        Ok(arguments)
    }

    fn argument(
        &mut self,
        argument: &Value,
        parameter: &Parameter,
    ) -> Result<Compiled, StatementError> {
        let wrong =
            |expected: &str| Err(StatementError::new(argument.at, format!("expected {expected}")));
        Ok(match (parameter.form, &argument.kind) {
            (Form::Target | Form::MapTarget, ValueKind::Path(path)) => {
                Compiled::Path(self.target(path, parameter.form == Form::MapTarget)?)
            }
            (Form::Target | Form::MapTarget, _) => return wrong("a path"),
            (Form::Values | Form::ValuesOrList | Form::Texts, ValueKind::List(values)) => {
                let is_text = parameter.form == Form::Texts;
                let form = if is_text { Form::Text } else { Form::Any };
                let values = values.iter().map(|value| self.checked(value, form));
                Compiled::Values(values.collect::<Result<_, _>>()?)
            }
            (Form::Values | Form::Texts, _) => return wrong("a list in brackets"),
            (Form::ValuesOrList, _) => Compiled::Value(self.checked(argument, Form::List)?),
            (Form::ConstText, ValueKind::Text(text)) => Compiled::Text(text.clone()),
            (Form::ConstText, _) => return wrong("a string literal"),
            (Form::ConstTexts, ValueKind::List(values)) => {
                let texts = values.iter().map(|value| match &value.kind {
                    ValueKind::Text(text) => Ok(text.clone()),
                    _ => Err(StatementError::new(value.at, "expected a string literal")),
                });
                Compiled::Texts(texts.collect::<Result<_, _>>()?)
            }
            (Form::ConstTexts, _) => return wrong("a list of string literals"),
            (Form::ConstInt, ValueKind::Int(number)) => Compiled::Int(*number),
            (Form::ConstInt, _) => return wrong("a whole number"),
            (Form::ConstBool, ValueKind::Bool(truth)) => Compiled::Bool(*truth),
            (Form::ConstBool, _) => return wrong("true or false"),
            (Form::Function, ValueKind::Enum(name) | ValueKind::Function(name)) => {
                Compiled::Function(text_function(name, argument.at)?)
            }
            (Form::Function, _) => return wrong("a converter's name without parentheses"),
            (form, _) => Compiled::Value(self.checked(argument, form)?),
        })
    }

    /// Compiles a value, and checks the type of a literal.
    fn checked(&mut self, value: &Value, form: Form) -> Result<Expr, StatementError> {
        let compiled = self.value(value)?;
        let (is_accepted, expected) = match (&compiled, form) {
            (Expr::Const(constant, _), Form::Text) => {
                (matches!(constant, value::Value::Str(_)), "a string")
            }
            (Expr::Const(constant, _), Form::Int) => {
                (matches!(constant, value::Value::Int(_)), "a whole number")
            }
            (Expr::Const(constant, _), Form::Map) => {
                (matches!(constant, value::Value::Map(_)), "a map")
            }
            (Expr::Const(constant, _), Form::List) => {
                (matches!(constant, value::Value::List(_)), "a list")
            }
            (Expr::Const(..), Form::Time) => (false, "a time"),
            _ => (true, ""),
        };
        if is_accepted {
            return Ok(compiled);
        }
        Err(StatementError::new(value.at, format!("expected {expected}")))
    }

    fn target(
        &mut self,
        path: &crate::ottl::parser::syntax::Path,
        is_map: bool,
    ) -> Result<Path, StatementError> {
        let target = self.path(path)?;
        if !target.kind.is_settable() {
            return Err(StatementError::new(path.at, "this field can't be changed"));
        }
        if is_map && !matches!(target.kind, Kind::Map | Kind::Body) {
            return Err(StatementError::new(path.at, "expected a path to a map"));
        }
        self.usage.note_write(target.context, target.kind);
        Ok(target)
    }
}

fn parameter_index(
    call: &Call,
    parameters: &[Parameter],
    position: usize,
    argument: &Argument,
    is_named: &mut bool,
) -> Result<usize, StatementError> {
    let Some(name) = &argument.name else {
        if *is_named {
            let message = "arguments without a name come before those with one";
            return Err(StatementError::new(argument.at, message));
        }
        if position >= parameters.len() {
            let message = format!("too many arguments: {}", usage(call, parameters));
            return Err(StatementError::new(argument.at, message));
        }
        return Ok(position);
    };
    *is_named = true;
    parameters.iter().position(|parameter| parameter.name == name).ok_or_else(|| {
        let message = format!("{} has no argument {name:?}", call.name);
        let names = parameters.iter().map(|parameter| parameter.name);
        StatementError::unknown(argument.at, message, name, names)
    })
}

/// Returns a call with its parameters, as `set(target, value)`.
fn usage(call: &Call, parameters: &[Parameter]) -> String {
    let names: Vec<String> = parameters
        .iter()
        .map(|parameter| {
            let mark = if parameter.is_optional { "?" } else { "" };
            format!("{}{mark}", parameter.name)
        })
        .collect();
    format!("{}({})", call.name, names.join(", "))
}

fn text_function(name: &str, at: usize) -> Result<TextFn, StatementError> {
    TextFn::named(name).ok_or_else(|| {
        let supported =
            ["SHA256", "SHA512", "ToCamelCase", "ToLowerCase", "ToSnakeCase", "ToUpperCase"];
        let message = format!("{name} can't be applied to a replacement");
        StatementError::unknown(at, message, name, supported)
    })
}
