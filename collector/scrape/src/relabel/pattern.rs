//! Patterns in Go's syntax (RE2), which Prometheus has, in the engine's.
//!
//! Both match the leftmost alternative first. They differ in what is written: `\d`, `\w`, `\s` and
//! `\b` are ASCII alone in Go, `\s` has no vertical tab, `\Q...\E` and octal escapes are there,
//! `[` and `&&` in a class are characters, `{` that begins no count is one too, counts go up to
//! 1,000, nested ones (`a**`) are refused, and so are flags but `imsU`. Here each construct is read
//! as Go reads it, and written so that the engine can't read it as anything else.
//!
//! # Limits
//! A pattern that is no expression of its own (`a)|(b`), which Prometheus takes by accident, and a
//! count behind flags (`a(?i)*`) are refused. `\p{...}` takes the engine's names and Unicode's
//! version too. Unlike Go's, a count of counts over 1,000 is refused only by its compiled size.

use std::fmt::Write as _;

/// Go's greatest count.
const COUNT_MAX: u32 = 1000;

/// The deepest nesting of groups, far below the engine's own limit of 250.
const DEPTH_MAX: usize = 100;

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than `PATTERN_BYTES_MAX`.
    #[error("it is longer than {} bytes: write several rules", super::PATTERN_BYTES_MAX)]
    Long,
    /// It compiles to more than `COMPILED_BYTES_MAX`.
    #[error(
        "it compiles to more than {} bytes: write smaller counts, or several rules",
        super::COMPILED_BYTES_MAX
    )]
    Big,
    /// Brackets that don't match.
    #[error("its parentheses don't match")]
    Parentheses,
    /// Too many groups within each other.
    #[error("its groups are nested deeper than {DEPTH_MAX}")]
    Deep,
    /// A class without an end.
    #[error("a [ has no ]")]
    Bracket,
    /// A range such as `z-a`, or an unknown class such as `[:foo:]`.
    #[error("the class `{0}` is none")]
    Class(String),
    /// A `*` or the like without anything before it.
    #[error("a *, +, ? or count has nothing to repeat")]
    NothingToRepeat,
    /// `a**`.
    #[error("a *, +, ? or count follows another one: use a group, as in (?:a*)*")]
    RepeatTwice,
    /// `a{1001}` or `a{2,1}`.
    #[error("the count `{0}` is none: write 0 to {COUNT_MAX}, the lower one first")]
    Count(String),
    /// An unknown escape, a back reference.
    #[error("`{0}` is not in Prometheus' syntax")]
    Escape(String),
    /// `(?=`, `(?!`, `(?x)` and the like.
    #[error(
        "`{0}` is not in Prometheus' syntax: it has groups (?:...), (?P<name>...) and flags imsU"
    )]
    Group(String),
    /// The engine refuses it.
    #[error("{0}")]
    Engine(String),
}

/// A pattern that the engine reads, matching all of a value, and the names of its groups.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) text: String,
    pub(super) groups: Vec<Option<String>>,
}

/// Translates a pattern.
pub(super) fn translate(pattern: &str) -> Result<Translated, PatternError> {
    let mut reader = Reader {
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
        groups: vec![None],
        // Prometheus encloses patterns in `^(?s:...)$`.
        flags: Flags { has_lines: false, takes_line_ends: true, is_lazy: false },
        outer: Vec::new(),
        last: Last::Nothing,
    };
    reader.out.push_str(r"\A(?:");
    reader.read()?;
    reader.out.push_str(r")\z");
    Ok(Translated { text: reader.out, groups: reader.groups })
}

/// Flags but `i`, which both know in the same way.
#[derive(Debug, Clone, Copy)]
struct Flags {
    has_lines: bool,
    takes_line_ends: bool,
    is_lazy: bool,
}

/// What stands before a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Item,
    Repetition,
}

struct Reader<'a> {
    rest: &'a str,
    out: String,
    groups: Vec<Option<String>>,
    flags: Flags,
    /// Flags around each open group.
    outer: Vec<Flags>,
    last: Last,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), PatternError> {
        while let Some(one) = self.next() {
            match one {
                '(' => self.group()?,
                ')' => {
                    self.flags = self.outer.pop().ok_or(PatternError::Parentheses)?;
                    self.item(")");
                }
                '|' => {
                    self.out.push('|');
                    self.last = Last::Nothing;
                }
                '[' => {
                    self.class()?;
                    self.last = Last::Item;
                }
                '.' => self.item(if self.flags.takes_line_ends { "(?s:.)" } else { r"[^\n]" }),
                '^' => self.item(if self.flags.has_lines { "(?m:^)" } else { r"(?:\A)" }),
                '$' => self.item(if self.flags.has_lines { "(?m:$)" } else { r"(?:\z)" }),
                '*' | '+' | '?' => self.repeat(&one.to_string())?,
                '{' => match self.count()? {
                    Some(count) => self.repeat(&count)?,
                    None => self.literal('{'),
                },
                '\\' => self.escape()?,
                one => self.literal(one),
            }
        }
        if self.outer.is_empty() { Ok(()) } else { Err(PatternError::Parentheses) }
    }

    fn next(&mut self) -> Option<char> {
        let one = self.rest.chars().next()?;
        self.rest = &self.rest[one.len_utf8()..];
        Some(one)
    }

    fn takes(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn item(&mut self, text: &str) {
        self.out.push_str(text);
        self.last = Last::Item;
    }

    fn literal(&mut self, one: char) {
        put_char(&mut self.out, one);
        self.last = Last::Item;
    }

    /// What follows an opening parenthesis.
    fn group(&mut self) -> Result<(), PatternError> {
        if self.outer.len() == DEPTH_MAX {
            return Err(PatternError::Deep);
        }
        self.last = Last::Nothing;
        let outer = self.flags;
        if !self.takes("?") {
            self.groups.push(None);
            self.out.push('(');
            self.outer.push(outer);
            return Ok(());
        }
        if self.takes("P<") || self.takes("<") {
            let (name, rest) = self.rest.split_once('>').unwrap_or((self.rest, ""));
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name {
                return Err(PatternError::Group(format!("(?P<{name}>")));
            }
            self.groups.push(Some(name.to_owned()));
            self.rest = rest;
            self.out.push('(');
            self.outer.push(outer);
            return Ok(());
        }
        self.flags()?;
        Ok(())
    }

    /// Flags, alone or of a group.
    fn flags(&mut self) -> Result<(), PatternError> {
        let outer = self.flags;
        let (mut is_on, mut has_one, mut ignores_case) = (true, false, None);
        let start = self.rest;
        loop {
            let one = self.next();
            match one {
                Some('i') => ignores_case = Some(is_on),
                Some('m') => self.flags.has_lines = is_on,
                Some('s') => self.flags.takes_line_ends = is_on,
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
                        // An engine has no empty flags.
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

    /// A count behind its brace, with both braces. None: the brace is a character.
    fn count(&mut self) -> Result<Option<String>, PatternError> {
        let Some((inner, rest)) = self.rest.split_once('}') else { return Ok(None) };
        let (least, most) = match inner.split_once(',') {
            Some((least, "")) => (number(least), Some(None)),
            Some((least, most)) => (number(least), number(most).map(Some)),
            None => (number(inner), number(inner).map(Some)),
        };
        let (Some(least), Some(most)) = (least, most) else { return Ok(None) };
        let wrong = || PatternError::Count(format!("{{{inner}}}"));
        if least > COUNT_MAX || most.is_some_and(|most| most > COUNT_MAX || most < least) {
            return Err(wrong());
        }
        self.rest = rest;
        Ok(Some(format!("{{{inner}}}")))
    }

    fn repeat(&mut self, count: &str) -> Result<(), PatternError> {
        match self.last {
            Last::Nothing => return Err(PatternError::NothingToRepeat),
            Last::Repetition => return Err(PatternError::RepeatTwice),
            Last::Item => {}
        }
        self.out.push_str(count);
        if self.takes("?") != self.flags.is_lazy {
            self.out.push('?');
        }
        self.last = Last::Repetition;
        Ok(())
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<(), PatternError> {
        if self.takes("Q") {
            // Without an end it would take the parenthesis that Prometheus puts behind.
            let Some((text, rest)) = self.rest.split_once(r"\E") else {
                return Err(PatternError::Escape(r"\Q without \E".to_owned()));
            };
            self.rest = rest;
            for one in text.chars() {
                self.literal(one);
            }
            return Ok(());
        }
        let shorthands =
            [("A", r"(?:\A)"), ("z", r"(?:\z)"), ("b", r"(?-u:\b)"), ("B", r"(?-u:\B)")];
        for (letter, text) in shorthands {
            if self.takes(letter) {
                self.item(text);
                return Ok(());
            }
        }
        if let Some(class) = self.shorthand()? {
            self.item(&class);
            return Ok(());
        }
        let one = self.escaped()?;
        self.literal(one);
        Ok(())
    }

    /// A class that is written as one escape.
    fn shorthand(&mut self) -> Result<Option<String>, PatternError> {
        for (letter, class) in [
            ("d", "[0-9]"),
            ("D", "[^0-9]"),
            ("s", r"[\t\n\f\r ]"),
            ("S", r"[^\t\n\f\r ]"),
            ("w", "[0-9A-Za-z_]"),
            ("W", "[^0-9A-Za-z_]"),
        ] {
            if self.takes(letter) {
                return Ok(Some(class.to_owned()));
            }
        }
        let is_negated = self.rest.starts_with('P');
        if !is_negated && !self.rest.starts_with('p') {
            return Ok(None);
        }
        let wrong = |text: &str| PatternError::Escape(format!("\\{text}"));
        let whole = self.rest;
        self.next();
        let name = match self.takes("{") {
            true => {
                let (name, rest) = self.rest.split_once('}').ok_or_else(|| wrong("p{"))?;
                self.rest = rest;
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
            let shown: String = whole.chars().take(12).collect();
            return Err(PatternError::Escape(format!("\\{shown}")));
        }
        let letter = if is_negated { 'P' } else { 'p' };
        Ok(Some(format!("[\\{letter}{{{name}}}]")))
    }

    /// The character that an escape stands for.
    fn escaped(&mut self) -> Result<char, PatternError> {
        let start = self.rest;
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
            // A single digit but 0 would refer to a group.
            '1'..='7' if digit(self.rest).is_none() => return Err(wrong()),
            '0'..='7' => {
                let mut code = u32::from(one) - u32::from('0');
                for _ in 0..2 {
                    let Some(next) = digit(self.rest) else { break };
                    code = code * 8 + next;
                    self.next();
                }
                code
            }
            'x' => self.hexadecimal().ok_or_else(wrong)?,
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

    /// The code behind `\x`.
    fn hexadecimal(&mut self) -> Option<u32> {
        let is_braced = self.takes("{");
        let (digits, rest) = match is_braced {
            true => self.rest.split_once('}')?,
            false => self.rest.split_at_checked(2)?,
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.rest = rest;
        u32::from_str_radix(digits, 16).ok()
    }

    /// What follows an opening bracket.
    fn class(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if self.takes("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            if !is_first && self.takes("]") {
                self.out.push(']');
                return Ok(());
            }
            is_first = false;
            if self.rest.starts_with("[:")
                && let Some(end) = self.rest.find(":]")
            {
                let name = &self.rest[..end + 2];
                if !is_posix(name) {
                    return Err(PatternError::Class(name.to_owned()));
                }
                self.out.push_str(name);
                self.rest = &self.rest[end + 2..];
                continue;
            }
            let before = self.rest;
            if self.takes("\\") {
                if let Some(class) = self.shorthand()? {
                    self.out.push_str(&class);
                    continue;
                }
                self.rest = before;
            }
            let low = self.class_char()?;
            let mut high = low;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1 {
                self.next();
                high = self.class_char()?;
                if high < low {
                    let shown = &before[..before.len() - self.rest.len()];
                    return Err(PatternError::Class(shown.to_owned()));
                }
            }
            // Always as codes: no character of a class is an operator then.
            let _ = write!(self.out, "\\x{{{:x}}}", u32::from(low));
            if high > low {
                let _ = write!(self.out, "-\\x{{{:x}}}", u32::from(high));
            }
        }
    }

    fn class_char(&mut self) -> Result<char, PatternError> {
        match self.next() {
            Some('\\') => self.escaped(),
            Some(one) => Ok(one),
            None => Err(PatternError::Bracket),
        }
    }
}

/// Writes a character that stands for itself.
fn put_char(out: &mut String, one: char) {
    if one.is_ascii() && !one.is_ascii_alphanumeric() {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(one));
    } else {
        out.push(one);
    }
}

/// A count as Go reads one: without zeros before it.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

/// Whether it is a named class, such as `[:alpha:]`.
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
