//! Reads values: literals, lists, maps, paths, calls and calculations.

use super::Parser;
use crate::ottl::error::StatementError;
use crate::ottl::parser::lexer::Token;
use crate::ottl::parser::syntax::{
    Argument, Call, Key, KeyKind, MathOp, Path, Segment, Value, ValueKind,
};
use crate::ottl::parser::unquote::unquote;

impl<'s> Parser<'s> {
    /// Reads a value.
    pub(super) fn value(&mut self) -> Result<Value, StatementError> {
        let (at, token) = self.peek();
        let kind = match token {
            Token::Text(literal) => {
                self.advance();
                ValueKind::Text(text(literal, at)?)
            }
            Token::Bytes(digits) => {
                self.advance();
                ValueKind::Bytes(bytes(digits, at)?)
            }
            Token::BracketOpen => self.nested(Self::list)?,
            Token::BraceOpen => self.nested(Self::map)?,
            Token::Open if self.is_lambda() => {
                return Err(StatementError::new(at, "lambda expressions are not supported"));
            }
            Token::Name(name) => match self.word(name) {
                Some(kind) => {
                    self.advance();
                    kind
                }
                None => return self.nested(Self::sum),
            },
            _ => return self.nested(Self::sum),
        };
        if let (at, Token::Math(_)) = self.peek() {
            return Err(StatementError::new(at, "calculations take numbers, paths and converters"));
        }
        Ok(Value { at, kind })
    }

    /// Returns the value of a name that begins neither a path nor a call.
    fn word(&self, name: &str) -> Option<ValueKind> {
        match name {
            "nil" => Some(ValueKind::Nil),
            "true" => Some(ValueKind::Bool(true)),
            "false" => Some(ValueKind::Bool(false)),
            _ if self.peek_after(1).1 == Token::Open || is_lower(name) => None,
            _ if name.bytes().any(|byte| byte.is_ascii_lowercase()) => {
                Some(ValueKind::Function(name.to_owned()))
            }
            _ => Some(ValueKind::Enum(name.to_owned())),
        }
    }

    /// Whether the parenthesis that is next begins a lambda's parameters.
    fn is_lambda(&self) -> bool {
        let names = (1..).take_while(|skipped| {
            matches!(self.peek_after(*skipped).1, Token::Name(_) | Token::Comma)
        });
        let close = names.count() + 1;
        self.peek_after(close).1 == Token::Close && self.peek_after(close + 1).1 == Token::Arrow
    }

    fn list(&mut self) -> Result<ValueKind, StatementError> {
        self.expect(Token::BracketOpen)?;
        let mut values = Vec::new();
        if self.take(Token::BracketClose) {
            return Ok(ValueKind::List(values));
        }
        loop {
            values.push(self.value()?);
            if self.take(Token::BracketClose) {
                return Ok(ValueKind::List(values));
            }
            if !self.take(Token::Comma) {
                return Err(self.unexpected("\",\" or \"]\""));
            }
        }
    }

    fn map(&mut self) -> Result<ValueKind, StatementError> {
        self.expect(Token::BraceOpen)?;
        let mut members: Vec<(String, Value)> = Vec::new();
        loop {
            if self.take(Token::BraceClose) {
                return Ok(ValueKind::Map(members));
            }
            let (at, token) = self.peek();
            let Token::Text(literal) = token else {
                return Err(self.unexpected("a key in double quotes or \"}\""));
            };
            self.advance();
            self.expect(Token::Colon)?;
            let (key, value) = (text(literal, at)?, self.value()?);
            // The last of several values counts.
            members.retain(|(known, _)| *known != key);
            members.push((key, value));
            self.take(Token::Comma);
        }
    }

    /// Reads sums and differences.
    fn sum(&mut self) -> Result<Value, StatementError> {
        self.calculation(Self::product, |op| matches!(op, MathOp::Add | MathOp::Subtract))
    }

    /// Reads products and quotients.
    fn product(&mut self) -> Result<Value, StatementError> {
        self.calculation(Self::factor, |op| matches!(op, MathOp::Multiply | MathOp::Divide))
    }

    fn calculation(
        &mut self,
        operand: impl Fn(&mut Self) -> Result<Value, StatementError>,
        is_operator: impl Fn(MathOp) -> bool,
    ) -> Result<Value, StatementError> {
        let mut left = operand(self)?;
        while let (_, Token::Math(op)) = self.peek()
            && is_operator(op)
        {
            self.advance();
            let right = operand(self)?;
            let at = left.at;
            left = Value { at, kind: ValueKind::Math(op, Box::new(left), Box::new(right)) };
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Value, StatementError> {
        let (at, token) = self.peek();
        match token {
            Token::Math(op @ (MathOp::Add | MathOp::Subtract)) => {
                self.advance();
                let value = self.operand()?;
                Ok(if op == MathOp::Subtract { negative(at, value) } else { value })
            }
            _ => self.operand(),
        }
    }

    fn operand(&mut self) -> Result<Value, StatementError> {
        let (at, token) = self.peek();
        let kind = match token {
            Token::Open => {
                self.advance();
                let value = self.nested(Self::sum)?;
                self.expect(Token::Close)?;
                return Ok(value);
            }
            Token::Int(digits) => {
                self.advance();
                let number = digits.parse().map_err(|_| {
                    StatementError::new(at, format!("{digits} doesn't fit into 64 bits"))
                })?;
                ValueKind::Int(number)
            }
            Token::Double(digits) => {
                self.advance();
                let number = digits
                    .parse()
                    .map_err(|_| StatementError::new(at, format!("{digits} is not a number")))?;
                ValueKind::Double(number)
            }
            Token::Name(name) if self.peek_after(1).1 == Token::Open => {
                if is_lower(name) {
                    let message = format!(
                        "{name} is an editor or unknown; values are made by converters, whose \
                         names begin with a capital letter"
                    );
                    return Err(StatementError::new(at, message));
                }
                ValueKind::Call(self.call()?)
            }
            Token::Name(name) if is_lower(name) && !is_keyword(name) => {
                ValueKind::Path(self.path()?)
            }
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Value { at, kind })
    }

    /// Reads `name(arguments)` and the keys behind it.
    pub(super) fn call(&mut self) -> Result<Call, StatementError> {
        let (at, token) = self.peek();
        let Token::Name(name) = token else { return Err(self.unexpected("a function")) };
        self.advance();
        self.expect(Token::Open)?;
        let mut arguments = Vec::new();
        if !self.take(Token::Close) {
            loop {
                arguments.push(self.nested(Self::argument)?);
                if self.take(Token::Close) {
                    break;
                }
                if !self.take(Token::Comma) {
                    return Err(self.unexpected("\",\" or \")\""));
                }
            }
        }
        let keys = self.keys()?;
        Ok(Call { at, name: name.to_owned(), arguments, keys })
    }

    fn argument(&mut self) -> Result<Argument, StatementError> {
        let (at, token) = self.peek();
        if let (Token::Name(name), (_, Token::Equal)) = (token, self.peek_after(1)) {
            self.advance();
            self.advance();
            let value = self.value()?;
            return Ok(Argument { at, name: Some(name.to_owned()), value });
        }
        Ok(Argument { at, name: None, value: self.value()? })
    }

    fn path(&mut self) -> Result<Path, StatementError> {
        let (at, _) = self.peek();
        let mut segments = Vec::new();
        loop {
            let (segment_at, token) = self.peek();
            let Token::Name(name) = token else { return Err(self.unexpected("a field's name")) };
            if !is_lower(name) {
                return Err(self.unexpected("a field's name in lower case"));
            }
            self.advance();
            let keys = self.keys()?;
            segments.push(Segment { at: segment_at, name: name.to_owned(), keys });
            if !self.take(Token::Dot) {
                return Ok(Path { at, segments });
            }
        }
    }

    fn keys(&mut self) -> Result<Vec<Key>, StatementError> {
        let mut keys = Vec::new();
        while self.take(Token::BracketOpen) {
            let (at, token) = self.peek();
            let kind = match (token, self.peek_after(1).1) {
                (Token::Text(literal), _) => {
                    self.advance();
                    KeyKind::Text(text(literal, at)?)
                }
                (Token::Int(digits), Token::BracketClose) => {
                    self.advance();
                    let index = digits.parse().map_err(|_| {
                        StatementError::new(at, format!("{digits} doesn't fit into 64 bits"))
                    })?;
                    KeyKind::Index(index)
                }
                _ => KeyKind::Value(self.nested(Self::sum)?),
            };
            self.expect(Token::BracketClose)?;
            keys.push(Key { kind });
        }
        Ok(keys)
    }
}

fn negative(at: usize, value: Value) -> Value {
    let kind = match value.kind {
        ValueKind::Int(number) => ValueKind::Int(number.wrapping_neg()),
        ValueKind::Double(number) => ValueKind::Double(-number),
        _ => ValueKind::Negative(Box::new(value)),
    };
    Value { at, kind }
}

fn is_lower(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
}

fn is_keyword(name: &str) -> bool {
    matches!(name, "and" | "or" | "not" | "nil" | "true" | "false" | "where")
}

fn text(literal: &str, at: usize) -> Result<String, StatementError> {
    unquote(literal).map_err(|(position, message)| StatementError::new(at + position, message))
}

fn bytes(digits: &str, at: usize) -> Result<Vec<u8>, StatementError> {
    if !digits.len().is_multiple_of(2) {
        return Err(StatementError::new(at, "bytes have two hexadecimal digits each"));
    }
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).unwrap_or_default();
        u8::from_str_radix(pair, 16).unwrap_or_default()
    };
    Ok(digits.as_bytes().chunks(2).map(byte).collect())
}
