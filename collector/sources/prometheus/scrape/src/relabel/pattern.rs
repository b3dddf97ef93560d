//! Translates patterns from Go's syntax (RE2), which Prometheus uses, to the engine's.
//!
//! Both prefer the leftmost alternative. Go's syntax differs: `\d`, `\w`, `\s` and `\b` are ASCII
//! only, `\s` has no vertical tab, `\Q...\E` and octal escapes exist, `[` and `&&` in a class are
//! characters, so is a `{` that begins no count, counts go up to 1,000, and nested ones (`a**`) and
//! flags except `imsU` are refused. Each construct is parsed as Go does, and written so that the
//! engine can't misread it.
//!
//! # Limits
//! A pattern that is invalid on its own (`a)|(b`), which Prometheus accepts by accident, and a
//! count after flags (`a(?i)*`) are refused. `\p{...}` accepts the engine's names and Unicode
//! version too. Unlike in Go, a count of counts over 1,000 is refused only by its compiled size.

use std::fmt::Write as _;

/// Go's greatest count.
const COUNT_MAX: u32 = 1000;

/// The deepest nesting of groups, far below the engine's own limit of 250.
const DEPTH_MAX: usize = 100;

/// The reason why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is longer than `PATTERN_BYTES_MAX`.
    #[error("it is longer than {} bytes: use several rules", super::PATTERN_BYTES_MAX)]
    Long,
    /// It compiles to more than `COMPILED_BYTES_MAX`.
    #[error(
        "it compiles to more than {} bytes: use smaller counts, or several rules",
        super::COMPILED_BYTES_MAX
    )]
    Big,
    /// Its parentheses don't match.
    #[error("its parentheses don't match")]
    Parentheses,
    /// Its groups are nested too deeply.
    #[error("its groups are nested deeper than {DEPTH_MAX}")]
    Deep,
    /// A class has no end.
    #[error("a [ has no ]")]
    Bracket,
    /// A range such as `z-a`, or an unknown class such as `[:foo:]`.
    #[error("`{0}` is not a character class")]
    Class(String),
    /// A `*` or other repetition follows nothing.
    #[error("a *, +, ? or count has nothing to repeat")]
    NothingToRepeat,
    /// Repetitions follow each other, as in `a**`.
    #[error("a *, +, ? or count follows another one: use a group, as in (?:a*)*")]
    RepeatTwice,
    /// A count is out of range, as in `a{1001}` or `a{2,1}`.
    #[error("`{0}` is not a valid count: use 0 to {COUNT_MAX}, the lower one first")]
    Count(String),
    /// An escape is unknown, or a back reference.
    #[error("`{0}` is not in Prometheus' syntax")]
    Escape(String),
    /// A group such as `(?=`, `(?!` or `(?x)`.
    #[error(
        "`{0}` is not in Prometheus' syntax: it has groups (?:...), (?P<name>...) and flags imsU"
    )]
    Group(String),
    /// The engine refuses the pattern.
    #[error("{0}")]
    Engine(String),
}

/// A pattern in the engine's syntax that matches complete values, and the names of its groups.
#[derive(Debug)]
pub(super) struct TranslatedPattern {
    pub(super) text: String,
    pub(super) groups: Vec<Option<String>>,
}

pub(super) fn translate_pattern(pattern: &str) -> Result<TranslatedPattern, PatternError> {
    let mut reader = PatternReader {
        remaining: pattern,
        out: String::with_capacity(pattern.len() + 16),
        groups: vec![None],
        // Prometheus encloses patterns in `^(?s:...)$`.
        flags: Flags { has_lines: false, matches_line_ends: true, is_lazy: false },
        outer: Vec::new(),
        last: LastToken::Nothing,
    };
    reader.out.push_str(r"\A(?:");
    reader.read()?;
    reader.out.push_str(r")\z");
    Ok(TranslatedPattern { text: reader.out, groups: reader.groups })
}

/// The flags except `i`, which is the same in both syntaxes.
#[derive(Debug, Clone, Copy)]
struct Flags {
    has_lines: bool,
    matches_line_ends: bool,
    is_lazy: bool,
}

/// The token before a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastToken {
    Nothing,
    Item,
    Repetition,
}

struct PatternReader<'a> {
    remaining: &'a str,
    out: String,
    groups: Vec<Option<String>>,
    flags: Flags,
    /// The flags outside of each open group.
    outer: Vec<Flags>,
    last: LastToken,
}

impl PatternReader<'_> {
    fn read(&mut self) -> Result<(), PatternError> {
        while let Some(one) = self.next() {
            match one {
                '(' => self.read_group()?,
                ')' => {
                    self.flags = self.outer.pop().ok_or(PatternError::Parentheses)?;
                    self.push_item(")");
                }
                '|' => {
                    self.out.push('|');
                    self.last = LastToken::Nothing;
                }
                '[' => {
                    self.read_class()?;
                    self.last = LastToken::Item;
                }
                '.' => {
                    self.push_item(if self.flags.matches_line_ends { "(?s:.)" } else { r"[^\n]" })
                }
                '^' => self.push_item(if self.flags.has_lines { "(?m:^)" } else { r"(?:\A)" }),
                '$' => self.push_item(if self.flags.has_lines { "(?m:$)" } else { r"(?:\z)" }),
                '*' | '+' | '?' => self.push_repetition(&one.to_string())?,
                '{' => match self.read_count()? {
                    Some(count) => self.push_repetition(&count)?,
                    None => self.push_literal('{'),
                },
                '\\' => self.read_escape()?,
                one => self.push_literal(one),
            }
        }
        if self.outer.is_empty() { Ok(()) } else { Err(PatternError::Parentheses) }
    }

    fn next(&mut self) -> Option<char> {
        let one = self.remaining.chars().next()?;
        self.remaining = &self.remaining[one.len_utf8()..];
        Some(one)
    }

    fn skip_prefix(&mut self, text: &str) -> bool {
        let rest = self.remaining.strip_prefix(text);
        self.remaining = rest.unwrap_or(self.remaining);
        rest.is_some()
    }

    fn push_item(&mut self, text: &str) {
        self.out.push_str(text);
        self.last = LastToken::Item;
    }

    fn push_literal(&mut self, one: char) {
        put_char(&mut self.out, one);
        self.last = LastToken::Item;
    }

    /// Reads the rest of an opening parenthesis.
    fn read_group(&mut self) -> Result<(), PatternError> {
        if self.outer.len() == DEPTH_MAX {
            return Err(PatternError::Deep);
        }
        self.last = LastToken::Nothing;
        let outer = self.flags;
        if !self.skip_prefix("?") {
            self.groups.push(None);
            self.out.push('(');
            self.outer.push(outer);
            return Ok(());
        }
        if self.skip_prefix("P<") || self.skip_prefix("<") {
            let (name, rest) = self.remaining.split_once('>').unwrap_or((self.remaining, ""));
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name {
                return Err(PatternError::Group(format!("(?P<{name}>")));
            }
            self.groups.push(Some(name.to_owned()));
            self.remaining = rest;
            self.out.push('(');
            self.outer.push(outer);
            return Ok(());
        }
        self.read_flags()?;
        Ok(())
    }

    /// Reads flags, alone or of a group.
    fn read_flags(&mut self) -> Result<(), PatternError> {
        let outer = self.flags;
        let (mut is_on, mut has_one, mut ignores_case) = (true, false, None);
        let start = self.remaining;
        loop {
            let one = self.next();
            match one {
                Some('i') => ignores_case = Some(is_on),
                Some('m') => self.flags.has_lines = is_on,
                Some('s') => self.flags.matches_line_ends = is_on,
                Some('U') => self.flags.is_lazy = is_on,
                Some('-') if is_on => {
                    (is_on, has_one) = (false, false);
                    continue;
                }
                Some(':' | ')') if is_on || has_one => {
                    self.out.push_str("(?");
                    self.out.push_str(match ignores_case {
                        Some(true) => "i",
                        Some(false) => "-i",
                        None => "",
                    });
                    let is_group = one == Some(':');
                    match (is_group, ignores_case) {
                        (true, _) => {
                            self.out.push(':');
                            self.outer.push(outer);
                        }
                        (false, Some(_)) => self.out.push(')'),
                        // The engine doesn't support empty flags.
                        (false, None) => self.out.push_str(":)"),
                    }
                    return Ok(());
                }
                _ => {
                    let shown: String = start.chars().take(3).collect();
                    return Err(PatternError::Group(format!("(?{shown}")));
                }
            }
            has_one = true;
        }
    }

    /// Reads the rest of a count after its brace. Returns it with both braces; `None` if the brace
    /// is a character.
    fn read_count(&mut self) -> Result<Option<String>, PatternError> {
        let Some((inner, rest)) = self.remaining.split_once('}') else { return Ok(None) };
        let (least, most) = match inner.split_once(',') {
            Some((least, "")) => (parse_count(least), Some(None)),
            Some((least, most)) => (parse_count(least), parse_count(most).map(Some)),
            None => (parse_count(inner), parse_count(inner).map(Some)),
        };
        let (Some(least), Some(most)) = (least, most) else { return Ok(None) };
        let wrong = || PatternError::Count(format!("{{{inner}}}"));
        if least > COUNT_MAX || most.is_some_and(|most| most > COUNT_MAX || most < least) {
            return Err(wrong());
        }
        self.remaining = rest;
        Ok(Some(format!("{{{inner}}}")))
    }

    fn push_repetition(&mut self, count: &str) -> Result<(), PatternError> {
        match self.last {
            LastToken::Nothing => return Err(PatternError::NothingToRepeat),
            LastToken::Repetition => return Err(PatternError::RepeatTwice),
            LastToken::Item => {}
        }
        self.out.push_str(count);
        if self.skip_prefix("?") != self.flags.is_lazy {
            self.out.push('?');
        }
        self.last = LastToken::Repetition;
        Ok(())
    }

    /// Reads the rest of an escape.
    fn read_escape(&mut self) -> Result<(), PatternError> {
        if self.skip_prefix("Q") {
            // Without an end it would include the parenthesis that Prometheus appends.
            let Some((text, rest)) = self.remaining.split_once(r"\E") else {
                return Err(PatternError::Escape(r"\Q without \E".to_owned()));
            };
            self.remaining = rest;
            for one in text.chars() {
                self.push_literal(one);
            }
            return Ok(());
        }
        let shorthands =
            [("A", r"(?:\A)"), ("z", r"(?:\z)"), ("b", r"(?-u:\b)"), ("B", r"(?-u:\B)")];
        for (letter, text) in shorthands {
            if self.skip_prefix(letter) {
                self.push_item(text);
                return Ok(());
            }
        }
        if let Some(class) = self.read_shorthand()? {
            self.push_item(&class);
            return Ok(());
        }
        let one = self.read_escaped_char()?;
        self.push_literal(one);
        Ok(())
    }

    /// Reads a class that is written as one escape.
    fn read_shorthand(&mut self) -> Result<Option<String>, PatternError> {
        for (letter, class) in [
            ("d", "[0-9]"),
            ("D", "[^0-9]"),
            ("s", r"[\t\n\f\r ]"),
            ("S", r"[^\t\n\f\r ]"),
            ("w", "[0-9A-Za-z_]"),
            ("W", "[^0-9A-Za-z_]"),
        ] {
            if self.skip_prefix(letter) {
                return Ok(Some(class.to_owned()));
            }
        }
        let is_negated = self.remaining.starts_with('P');
        if !is_negated && !self.remaining.starts_with('p') {
            return Ok(None);
        }
        let wrong = |text: &str| PatternError::Escape(format!("\\{text}"));
        let unread = self.remaining;
        self.next();
        let name = match self.skip_prefix("{") {
            true => {
                let (name, rest) = self.remaining.split_once('}').ok_or_else(|| wrong("p{"))?;
                self.remaining = rest;
                name.to_owned()
            }
            false => self.next().ok_or_else(|| wrong("p"))?.to_string(),
        };
        let inner = name.strip_prefix('^');
        let is_negated = is_negated != inner.is_some();
        let name = inner.unwrap_or(&name);
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        if !is_name {
            let shown: String = unread.chars().take(12).collect();
            return Err(PatternError::Escape(format!("\\{shown}")));
        }
        let letter = if is_negated { 'P' } else { 'p' };
        Ok(Some(format!("[\\{letter}{{{name}}}]")))
    }

    /// Reads the character of an escape.
    fn read_escaped_char(&mut self) -> Result<char, PatternError> {
        let start = self.remaining;
        let wrong = || {
            let shown: String = start.chars().take(3).collect();
            PatternError::Escape(format!("\\{shown}"))
        };
        let digit = |text: &str| {
            let byte = *text.as_bytes().first()?;
            (b'0'..=b'7').contains(&byte).then(|| u32::from(byte - b'0'))
        };
        let one = self.next().ok_or_else(wrong)?;
        let code = match one {
            // A single digit except 0 would refer to a group.
            '1'..='7' if digit(self.remaining).is_none() => return Err(wrong()),
            '0'..='7' => {
                let mut code = u32::from(one) - u32::from('0');
                for _ in 0..2 {
                    let Some(next) = digit(self.remaining) else { break };
                    code = code * 8 + next;
                    self.next();
                }
                code
            }
            'x' => self.read_hex_code().ok_or_else(wrong)?,
            'a' => 7,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            one if one.is_ascii() && !one.is_ascii_alphanumeric() => u32::from(one),
            _ => return Err(wrong()),
        };
        char::from_u32(code).ok_or_else(wrong)
    }

    /// Reads the code after `\x`.
    fn read_hex_code(&mut self) -> Option<u32> {
        let is_braced = self.skip_prefix("{");
        let (digits, rest) = match is_braced {
            true => self.remaining.split_once('}')?,
            false => self.remaining.split_at_checked(2)?,
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.remaining = rest;
        u32::from_str_radix(digits, 16).ok()
    }

    /// Reads the rest of a class.
    fn read_class(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if self.skip_prefix("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            if !is_first && self.skip_prefix("]") {
                self.out.push(']');
                return Ok(());
            }
            is_first = false;
            if self.remaining.starts_with("[:")
                && let Some(end) = self.remaining.find(":]")
            {
                let name = &self.remaining[..end + 2];
                if !is_posix(name) {
                    return Err(PatternError::Class(name.to_owned()));
                }
                self.out.push_str(name);
                self.remaining = &self.remaining[end + 2..];
                continue;
            }
            let before = self.remaining;
            if self.skip_prefix("\\") {
                if let Some(class) = self.read_shorthand()? {
                    self.out.push_str(&class);
                    continue;
                }
                self.remaining = before;
            }
            let low = self.class_char()?;
            let mut high = low;
            if self.remaining.starts_with('-')
                && !self.remaining.starts_with("-]")
                && self.remaining.len() > 1
            {
                self.next();
                high = self.class_char()?;
                if high < low {
                    let shown = &before[..before.len() - self.remaining.len()];
                    return Err(PatternError::Class(shown.to_owned()));
                }
            }
            // Codes ensure that no character of a class is an operator.
            let _ = write!(self.out, "\\x{{{:x}}}", u32::from(low));
            if high > low {
                let _ = write!(self.out, "-\\x{{{:x}}}", u32::from(high));
            }
        }
    }

    fn class_char(&mut self) -> Result<char, PatternError> {
        match self.next() {
            Some('\\') => self.read_escaped_char(),
            Some(one) => Ok(one),
            None => Err(PatternError::Bracket),
        }
    }
}

/// Writes a literal character.
fn put_char(out: &mut String, one: char) {
    if one.is_ascii() && !one.is_ascii_alphanumeric() {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(one));
    } else {
        out.push(one);
    }
}

/// Parses a count as Go does: without leading zeros.
fn parse_count(text: &str) -> Option<u32> {
    let is_number = !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

/// Whether a text is a named class, such as `[:alpha:]`.
fn is_posix(text: &str) -> bool {
    let name = text.strip_prefix("[:").and_then(|text| text.strip_suffix(":]"));
    let name = name.map_or(text, |name| name.strip_prefix('^').unwrap_or(name));
    matches!(
        name,
        "alnum"
            | "alpha"
            | "ascii"
            | "blank"
            | "cntrl"
            | "digit"
            | "graph"
            | "lower"
            | "print"
            | "punct"
            | "space"
            | "upper"
            | "word"
            | "xdigit"
    )
}
