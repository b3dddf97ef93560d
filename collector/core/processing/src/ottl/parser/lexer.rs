//! Splits a statement into tokens.

use crate::ottl::error::StatementError;
use crate::ottl::parser::syntax::{CompareOp, MathOp};

/// A token. Texts are as written, with their quotes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'s> {
    /// A name, keyword or enum.
    Name(&'s str),
    Text(&'s str),
    Int(&'s str),
    Double(&'s str),
    /// The hexadecimal digits after `0x`.
    Bytes(&'s str),
    Compare(CompareOp),
    Math(MathOp),
    /// `=>`.
    Arrow,
    Equal,
    Open,
    Close,
    BracketOpen,
    BracketClose,
    BraceOpen,
    BraceClose,
    Colon,
    Comma,
    Dot,
    End,
}

impl Token<'_> {
    /// Returns the token as a message shows it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Name(name) => format!("{name:?}"),
            Self::Text(text) => format!("the string {text}"),
            Self::Int(number) | Self::Double(number) => format!("the number {number}"),
            Self::Bytes(digits) => format!("the bytes 0x{digits}"),
            Self::End => "the end".to_owned(),
            Self::Compare(_) => "a comparison".to_owned(),
            Self::Math(op) => match op {
                MathOp::Add => "\"+\"",
                MathOp::Subtract => "\"-\"",
                MathOp::Multiply => "\"*\"",
                MathOp::Divide => "\"/\"",
            }
            .to_owned(),
            Self::Arrow => "\"=>\"".to_owned(),
            Self::Equal => "\"=\"".to_owned(),
            Self::Open => "\"(\"".to_owned(),
            Self::Close => "\")\"".to_owned(),
            Self::BracketOpen => "\"[\"".to_owned(),
            Self::BracketClose => "\"]\"".to_owned(),
            Self::BraceOpen => "\"{\"".to_owned(),
            Self::BraceClose => "\"}\"".to_owned(),
            Self::Colon => "\":\"".to_owned(),
            Self::Comma => "\",\"".to_owned(),
            Self::Dot => "\".\"".to_owned(),
        }
    }
}

/// Returns a statement's tokens with their positions; the last one is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, StatementError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, length) = token(&text[at..], at)?;
        tokens.push((at, token));
        at += length;
    }
    tokens.push((text.len(), Token::End));
    Ok(tokens)
}

fn token(rest: &str, at: usize) -> Result<(Token<'_>, usize), StatementError> {
    let bytes = rest.as_bytes();
    match bytes[0] {
        b'"' => text(rest, at),
        b'0'..=b'9' => Ok(number(rest)),
        b'.' if bytes.get(1).is_some_and(u8::is_ascii_digit) => Ok(number(rest)),
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
            let length = count(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
            Ok((Token::Name(&rest[..length]), length))
        }
        _ => symbol(rest, at),
    }
}

fn symbol(rest: &str, at: usize) -> Result<(Token<'_>, usize), StatementError> {
    let pair = match rest.as_bytes() {
        [b'=', b'=', ..] => Some(Token::Compare(CompareOp::Equal)),
        [b'!', b'=', ..] => Some(Token::Compare(CompareOp::NotEqual)),
        [b'<', b'=', ..] => Some(Token::Compare(CompareOp::LessOrEqual)),
        [b'>', b'=', ..] => Some(Token::Compare(CompareOp::GreaterOrEqual)),
        [b'=', b'>', ..] => Some(Token::Arrow),
        _ => None,
    };
    if let Some(pair) = pair {
        return Ok((pair, 2));
    }
    let single = match rest.as_bytes()[0] {
        b'<' => Token::Compare(CompareOp::Less),
        b'>' => Token::Compare(CompareOp::Greater),
        b'=' => Token::Equal,
        b'+' => Token::Math(MathOp::Add),
        b'-' => Token::Math(MathOp::Subtract),
        b'*' => Token::Math(MathOp::Multiply),
        b'/' => Token::Math(MathOp::Divide),
        b'(' => Token::Open,
        b')' => Token::Close,
        b'[' => Token::BracketOpen,
        b']' => Token::BracketClose,
        b'{' => Token::BraceOpen,
        b'}' => Token::BraceClose,
        b':' => Token::Colon,
        b',' => Token::Comma,
        b'.' => Token::Dot,
        b'\'' => {
            return Err(StatementError::new(at, "strings are written in double quotes"));
        }
        _ => {
            let character = rest.chars().next().unwrap_or_default();
            return Err(StatementError::new(at, format!("unexpected character {character:?}")));
        }
    };
    Ok((single, 1))
}

fn text(rest: &str, at: usize) -> Result<(Token<'_>, usize), StatementError> {
    let mut is_escaped = false;
    for (position, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Ok((Token::Text(&rest[..=position]), position + 1)),
            _ => {}
        }
    }
    Err(StatementError::new(at, "the string isn't closed"))
}

fn number(rest: &str) -> (Token<'_>, usize) {
    if let Some(digits) = rest.strip_prefix("0x") {
        let length = count(digits, |byte| byte.is_ascii_hexdigit());
        if length > 0 {
            return (Token::Bytes(&digits[..length]), length + 2);
        }
    }
    let integer_len = count(rest, |byte| byte.is_ascii_digit());
    if rest.as_bytes().get(integer_len) != Some(&b'.') {
        return (Token::Int(&rest[..integer_len]), integer_len);
    }
    let mut length =
        integer_len + 1 + count(&rest[integer_len + 1..], |byte| byte.is_ascii_digit());
    if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let digits = count(&exponent[sign..], |byte| byte.is_ascii_digit());
        if digits > 0 {
            length += 1 + sign + digits;
        }
    }
    (Token::Double(&rest[..length]), length)
}

fn count(text: &str, is_part: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| is_part(*byte)).count()
}
