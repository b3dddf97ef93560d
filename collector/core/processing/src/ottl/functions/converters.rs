//! Compiles calls of converters.

use crate::edit::memory::Ref;
use crate::eval::converters::types::parse_double;
use crate::ottl::compile::Compiler;
use crate::ottl::context::StatementContext;
use crate::ottl::error::StatementError;
use crate::ottl::functions::arguments::{Arguments, find_function};
use crate::ottl::functions::strptime::{DIRECTIVES, TimeLayout, TimeLayoutError};
use crate::ottl::go_regex;
use crate::ottl::parser::syntax;
use crate::program::{Affix, Call, DatePart, Expr, Kind, TextFn, TypeName};
use crate::value::Value;

/// The nanoseconds of the units of time since 1970.
const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;

impl Compiler<'_> {
    /// Compiles a call of a converter with the keys behind it.
    pub(crate) fn converter(&mut self, call: &syntax::Call) -> Result<Expr, StatementError> {
        let (name, parameters) = find_function(call, false)?;
        let mut arguments = self.arguments(call, parameters)?;
        let compiled = match self.text_call(name, &mut arguments)? {
            Some(compiled) => compiled,
            None => self.other_call(name, call, &mut arguments)?,
        };
        let compiled = Expr::Call(Box::new(compiled));
        if call.keys.is_empty() {
            return Ok(compiled);
        }
        Ok(Expr::Member(Box::new(compiled), self.keys(&call.keys)?))
    }

    /// Compiles converters that read text.
    fn text_call(
        &mut self,
        name: &str,
        arguments: &mut Arguments,
    ) -> Result<Option<Call>, StatementError> {
        if let Some(function) = TextFn::named(name) {
            return Ok(Some(Call::Text(function, arguments.value(0))));
        }
        Ok(Some(match name {
            "ConvertCase" => {
                let case = case(arguments)?;
                Call::Text(case, arguments.value(0))
            }
            "Concat" => match arguments.optional_value(0) {
                Some(list) => Call::ConcatList { list, delimiter: arguments.value(1) },
                None => Call::Concat { values: arguments.values(0), delimiter: arguments.value(1) },
            },
            "Split" => Call::Split { target: arguments.value(0), delimiter: arguments.value(1) },
            "Substring" => Call::Substring {
                target: arguments.value(0),
                start: arguments.value(1),
                length: arguments.value(2),
            },
            "Trim" => Call::Trim {
                target: arguments.value(0),
                characters: arguments.text(1).unwrap_or_else(|| " ".to_owned()).chars().collect(),
            },
            "TrimPrefix" | "TrimSuffix" => Call::TrimAffix {
                affix: affix(name),
                target: arguments.value(0),
                text: arguments.value(1),
            },
            "HasPrefix" | "HasSuffix" => Call::HasAffix {
                affix: affix(name),
                target: arguments.value(0),
                text: arguments.value(1),
            },
            "FNV" => Call::Fnv(arguments.value(0)),
            "Base64Encode" => base64_encode(arguments)?,
            "Base64Decode" => Call::Base64Decode(arguments.value(0)),
            "IsMatch" => {
                Call::IsMatch { target: arguments.value(0), pattern: regex(arguments, 1)? }
            }
            "ExtractPatterns" => {
                let pattern = regex(arguments, 1)?;
                if pattern.capture_names().flatten().next().is_none() {
                    let message = "the pattern needs a named group, such as (?P<name>...)";
                    return Err(StatementError::new(arguments.at(1), message));
                }
                Call::ExtractPatterns { target: arguments.value(0), pattern }
            }
            "ParseInt" => Call::ParseInt { target: arguments.value(0), base: arguments.value(1) },
            "ParseJSON" => Call::ParseJson(arguments.value(0)),
            "Time" => time(arguments)?,
            _ => return Ok(None),
        }))
    }

    fn other_call(
        &mut self,
        name: &str,
        call: &syntax::Call,
        arguments: &mut Arguments,
    ) -> Result<Call, StatementError> {
        if let Some(part) = date_part(name) {
            return Ok(Call::DatePart(part, arguments.value(0)));
        }
        if let Some(tested) = tested_type(name) {
            let value = arguments.value(0);
            check_tested(tested, &value, arguments.at(0))?;
            return Ok(Call::IsType(tested, value));
        }
        let unix =
            |arguments: &mut Arguments, unit| Call::UnixNanos { target: arguments.value(0), unit };
        Ok(match name {
            "Index" => Call::Index { target: arguments.value(0), value: arguments.value(1) },
            "Hex" => Call::Hex(arguments.value(0)),
            "Int" => Call::Int(self.convertible(arguments, |text| text.parse::<i64>().is_ok())?),
            "Double" => {
                Call::Double(self.convertible(arguments, |text| parse_double(text).is_some())?)
            }
            "String" => Call::String(arguments.value(0)),
            "Bool" => Call::Bool(arguments.value(0)),
            "Len" => Call::Len(arguments.value(0)),
            "Unix" => {
                Call::Unix { seconds: arguments.value(0), nanos: arguments.optional_value(1) }
            }
            "UnixNano" => unix(arguments, 1),
            "UnixMicro" => unix(arguments, MICROSECOND),
            "UnixMilli" => unix(arguments, MILLISECOND),
            "UnixSeconds" => unix(arguments, SECOND),
            "Coalesce" => Call::Coalesce(arguments.values(0)),
            "ContainsValue" => {
                Call::ContainsValue { target: arguments.value(0), item: arguments.value(1) }
            }
            "Keys" => Call::Keys(arguments.value(0)),
            "Values" => Call::Values(arguments.value(0)),
            "TraceID" => Call::TraceId(self.constant_id(arguments, 16)?),
            "SpanID" => Call::SpanId(self.constant_id(arguments, 8)?),
            "IsRootSpan" if self.context == StatementContext::Span => {
                self.usage.note(StatementContext::Span, Kind::SpanId, [4, 0, 0, 0]);
                Call::IsRootSpan
            }
            _ => {
                let message = format!("{name} applies to spans only");
                return Err(StatementError::new(call.at, message));
            }
        })
    }

    /// Returns the argument of `TraceID` or `SpanID`, and checks the length of a literal.
    fn constant_id(
        &mut self,
        arguments: &mut Arguments,
        length: usize,
    ) -> Result<Expr, StatementError> {
        let value = arguments.value(0);
        if let Expr::Const(Value::Str(id) | Value::Bytes(id), _) = value
            && id.len() != length
            && id.len() != 2 * length
        {
            let message = format!("expected {length} bytes or {} hexadecimal digits", 2 * length);
            return Err(StatementError::new(arguments.at(0), message));
        }
        Ok(value)
    }

    /// Returns the argument of a converter of numbers, and checks that it converts a literal.
    fn convertible(
        &mut self,
        arguments: &mut Arguments,
        is_number: impl Fn(&str) -> bool,
    ) -> Result<Expr, StatementError> {
        let value = arguments.value(0);
        let is_convertible = match &value {
            Expr::Const(Value::Str(text), _) => {
                let text = &self.constants[text.end() - text.len()..text.end()];
                std::str::from_utf8(text).is_ok_and(is_number)
            }
            Expr::Const(Value::Bytes(_) | Value::List(_) | Value::Map(_), _) => false,
            _ => true,
        };
        if is_convertible {
            return Ok(value);
        }
        Err(StatementError::new(arguments.at(0), "this literal isn't a number"))
    }

    /// Stores a text among the constants.
    pub(crate) fn constant_text(&mut self, text: &str) -> Ref {
        let start = self.constants.len();
        self.constants.extend_from_slice(text.as_bytes());
        Ref::constant(start, text.len())
    }
}

/// Compiles an argument that is a pattern.
pub(crate) fn regex(
    arguments: &mut Arguments,
    index: usize,
) -> Result<regex::Regex, StatementError> {
    let pattern = arguments.text(index).unwrap_or_default();
    go_regex::compile(&pattern).map_err(|message| StatementError::new(arguments.at(index), message))
}

fn affix(name: &str) -> Affix {
    if name.ends_with("Prefix") { Affix::Prefix } else { Affix::Suffix }
}

fn case(arguments: &mut Arguments) -> Result<TextFn, StatementError> {
    match arguments.text(1).unwrap_or_default().as_str() {
        "lower" => Ok(TextFn::Lower),
        "upper" => Ok(TextFn::Upper),
        "snake" => Ok(TextFn::Snake),
        "camel" => Ok(TextFn::Camel),
        other => Err(StatementError::unknown(
            arguments.at(1),
            format!("unknown case {other:?}"),
            other,
            ["lower", "upper", "snake", "camel"],
        )),
    }
}

fn base64_encode(arguments: &mut Arguments) -> Result<Call, StatementError> {
    const VARIANTS: [&str; 4] = ["base64", "base64-raw", "base64-url", "base64-raw-url"];
    let variant = arguments.text(1).unwrap_or_else(|| VARIANTS[0].to_owned());
    if !VARIANTS.contains(&variant.as_str()) {
        let message = format!("unknown variant {variant:?}");
        return Err(StatementError::unknown(arguments.at(1), message, &variant, VARIANTS));
    }
    Ok(Call::Base64Encode {
        target: arguments.value(0),
        is_url: variant.ends_with("url"),
        is_padded: !variant.contains("raw"),
    })
}

fn time(arguments: &mut Arguments) -> Result<Call, StatementError> {
    let format = arguments.text(1).unwrap_or_default();
    let layout = TimeLayout::compile(&format).map_err(|error| match error {
        TimeLayoutError::Directive(directive) => StatementError::unknown(
            arguments.at(1),
            format!("unknown directive {directive:?}"),
            &directive,
            DIRECTIVES.iter().copied(),
        ),
        TimeLayoutError::Other(reason) => StatementError::new(arguments.at(1), reason),
    })?;
    if let Some(location) = arguments.text(2)
        && !matches!(location.as_str(), "" | "UTC" | "Etc/UTC" | "GMT")
    {
        let message = format!("unknown location {location:?}: rules have no database of zones");
        return Err(StatementError::unknown(arguments.at(2), message, &location, ["UTC"]));
    }
    if let Some(locale) = arguments.text(3)
        && !locale.starts_with("en")
    {
        let message = format!("unknown locale {locale:?}: names of months are read in English");
        return Err(StatementError::unknown(arguments.at(3), message, &locale, ["en"]));
    }
    Ok(Call::Time { target: arguments.value(0), layout })
}

/// Checks that a literal has the tested type: a test of another one would always be false.
fn check_tested(tested: TypeName, value: &Expr, at: usize) -> Result<(), StatementError> {
    let Expr::Const(value, _) = value else { return Ok(()) };
    let (is_tested, expected) = match tested {
        TypeName::String => (matches!(value, Value::Str(_)), "a string"),
        TypeName::Int => (matches!(value, Value::Int(_)), "a whole number"),
        TypeName::Double => (matches!(value, Value::Double(_)), "a number with a fraction"),
        TypeName::Bool => (matches!(value, Value::Bool(_)), "true or false"),
        TypeName::Map => (matches!(value, Value::Map(_)), "a map"),
        TypeName::List => (true, ""),
    };
    if is_tested {
        return Ok(());
    }
    Err(StatementError::new(at, format!("expected {expected}")))
}

fn date_part(name: &str) -> Option<DatePart> {
    Some(match name {
        "Year" => DatePart::Year,
        "Month" => DatePart::Month,
        "Day" => DatePart::Day,
        "Hour" => DatePart::Hour,
        "Minute" => DatePart::Minute,
        "Second" => DatePart::Second,
        "Nanosecond" => DatePart::Nanosecond,
        "Weekday" => DatePart::Weekday,
        _ => return None,
    })
}

fn tested_type(name: &str) -> Option<TypeName> {
    Some(match name {
        "IsString" => TypeName::String,
        "IsInt" => TypeName::Int,
        "IsDouble" => TypeName::Double,
        "IsBool" => TypeName::Bool,
        "IsMap" => TypeName::Map,
        "IsList" => TypeName::List,
        _ => return None,
    })
}
