//! Reads statements and conditions.

pub(crate) mod lexer;
pub(crate) mod syntax;
mod unquote;
mod values;

use crate::limits::{EXPRESSION_DEPTH, STATEMENT_BYTES};
use crate::ottl::error::StatementError;
use crate::ottl::parser::lexer::{Token, tokens};
use crate::ottl::parser::syntax::{Condition, Statement, ValueKind};

/// Reads a statement: `editor(arguments) where condition`.
pub(crate) fn parse_statement(text: &str) -> Result<Statement, StatementError> {
    let mut parser = Parser::new(text)?;
    let (at, token) = parser.peek();
    match token {
        Token::Name(name) if name.starts_with(|first: char| first.is_ascii_uppercase()) => {
            let message = format!(
                "a statement begins with an editor, whose name is in lower case; {name} is a \
                 converter"
            );
            return Err(StatementError::new(at, message));
        }
        Token::Name(_) => {}
        other => {
            let message =
                format!("expected an editor, such as set, but found {}", other.describe());
            return Err(StatementError::new(at, message));
        }
    }
    let editor = parser.call()?;
    let mut condition = None;
    if parser.take_keyword("where") {
        condition = Some(parser.condition()?);
    }
    parser.expect_end("\"where\" or the end")?;
    Ok(Statement { editor, condition })
}

/// Reads a condition.
pub(crate) fn parse_condition(text: &str) -> Result<Condition, StatementError> {
    let mut parser = Parser::new(text)?;
    let condition = parser.condition()?;
    parser.expect_end("\"and\", \"or\" or the end")?;
    Ok(condition)
}

struct Parser<'s> {
    tokens: Vec<(usize, Token<'s>)>,
    next: usize,
    depth: u32,
}

impl<'s> Parser<'s> {
    fn new(text: &'s str) -> Result<Self, StatementError> {
        if text.len() > STATEMENT_BYTES {
            let message = format!("the statement is longer than {STATEMENT_BYTES} bytes");
            return Err(StatementError::new(0, message));
        }
        Ok(Self { tokens: tokens(text)?, next: 0, depth: 0 })
    }

    fn peek(&self) -> (usize, Token<'s>) {
        self.peek_after(0)
    }

    /// Returns the token after `skipped` others. The last token, [`Token::End`], repeats.
    fn peek_after(&self, skipped: usize) -> (usize, Token<'s>) {
        let index = (self.next + skipped).min(self.tokens.len() - 1);
        self.tokens[index]
    }

    fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    /// Skips the next token if it is `token`.
    fn take(&mut self, token: Token<'_>) -> bool {
        let is_next = self.peek().1 == token;
        if is_next {
            self.advance();
        }
        is_next
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        self.take(Token::Name(keyword))
    }

    fn expect(&mut self, token: Token<'_>) -> Result<(), StatementError> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected(&token.describe())) }
    }

    fn expect_end(&self, expected: &str) -> Result<(), StatementError> {
        if self.peek().1 == Token::End { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> StatementError {
        let (at, token) = self.peek();
        StatementError::new(at, format!("expected {expected} but found {}", token.describe()))
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, StatementError>,
    ) -> Result<T, StatementError> {
        if self.depth >= EXPRESSION_DEPTH {
            let message = format!("more than {EXPRESSION_DEPTH} levels of nesting");
            return Err(StatementError::new(self.peek().0, message));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn condition(&mut self) -> Result<Condition, StatementError> {
        let first = self.conjunction()?;
        if self.peek().1 != Token::Name("or") {
            return Ok(first);
        }
        let mut any = vec![first];
        while self.take_keyword("or") {
            any.push(self.conjunction()?);
        }
        Ok(Condition::Or(any))
    }

    fn conjunction(&mut self) -> Result<Condition, StatementError> {
        let first = self.negation()?;
        if self.peek().1 != Token::Name("and") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.take_keyword("and") {
            all.push(self.negation()?);
        }
        Ok(Condition::And(all))
    }

    fn negation(&mut self) -> Result<Condition, StatementError> {
        if self.take_keyword("not") {
            return Ok(Condition::Not(Box::new(self.primary()?)));
        }
        self.primary()
    }

    /// Reads a comparison, a converter, a truth value or a condition in parentheses.
    fn primary(&mut self) -> Result<Condition, StatementError> {
        let start = self.next;
        // A parenthesis begins a calculation or a condition: the one that reads further is meant.
        let compared = self.nested(Self::comparison);
        let Err(error) = compared else { return compared };
        self.next = start;
        if !self.take(Token::Open) {
            return Err(error);
        }
        let inner = self.nested(|parser| {
            let condition = parser.condition()?;
            parser.expect(Token::Close)?;
            Ok(condition)
        });
        inner.map_err(|other| if other.at > error.at { other } else { error })
    }

    fn comparison(&mut self) -> Result<Condition, StatementError> {
        let left = self.value()?;
        let (at, token) = self.peek();
        if let Token::Compare(op) = token {
            self.advance();
            return Ok(Condition::Compare(op, left, self.value()?));
        }
        match left.kind {
            ValueKind::Bool(truth) => Ok(Condition::Const(truth)),
            ValueKind::Call(call) => Ok(Condition::Call(call)),
            _ => Err(StatementError::new(
                at,
                format!(
                    "expected a comparison (==, !=, <, <=, >, >=) but found {}; whether a value \
                     exists is written as a comparison with nil",
                    token.describe()
                ),
            )),
        }
    }
}
