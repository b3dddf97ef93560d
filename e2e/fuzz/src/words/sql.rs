//! Reads a statement as ClickHouse's lexer does, as far as it takes to tell what is inside quotes
//! and what is outside. Independent of the code that renders.

/// A statement, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// What stands outside quotes, with a mark for each quoted text and each interval.
    pub(crate) outside: String,
    /// Quoted texts in order, unescaped: names and literals.
    pub(crate) quoted: Vec<String>,
    /// Intervals in order, in seconds.
    pub(crate) intervals: Vec<u64>,
}

impl Tokens {
    /// Takes a statement apart. `None` if a quote is left open.
    pub(crate) fn of(sql: &str) -> Option<Self> {
        let mut tokens = Self::default();
        let mut rest = sql;
        while let Some(at) = rest.find(['\'', '`', '"']) {
            tokens.outside(&rest[..at]);
            let quote = rest[at..].chars().next()?;
            let (text, behind) = unquoted(&rest[at + 1..], quote)?;
            tokens.outside.push(quote);
            tokens.quoted.push(text);
            rest = behind;
        }
        tokens.outside(rest);
        Some(tokens)
    }

    /// Text between quotes; intervals are noted by their length.
    fn outside(&mut self, mut text: &str) {
        while let Some(at) = text.find("toInterval") {
            let (before, call) = text.split_at(at + "toInterval".len());
            self.outside.push_str(before);
            text = call;
            let Some((unit, arguments)) = call.split_once('(') else { continue };
            let Some((count, behind)) = arguments.split_once(')') else { continue };
            let unit_seconds = match unit {
                "Second" => 1,
                "Minute" => 60,
                "Hour" => 3600,
                "Day" => 86_400,
                _ => continue,
            };
            if let Ok(count) = count.parse::<u64>() {
                self.intervals.push(count * unit_seconds);
                text = behind;
            }
        }
        self.outside.push_str(text);
    }

    /// Outside quotes there is one statement, no comment, and every bracket is closed.
    pub(crate) fn are_one_statement(&self) -> bool {
        let text = &self.outside;
        let count = |byte| text.bytes().filter(|each| *each == byte).count();
        !text.contains([';', '#', '\\', '\0'])
            && !text.contains("--")
            && !text.contains("/*")
            && count(b'(') == count(b')')
    }
}

/// The text up to its closing quote, and what is behind that.
fn unquoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut read = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => read.push(match characters.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'b' => '\u{8}',
                other => other,
            }),
            end if end == quote => {
                let behind = &text[at + end.len_utf8()..];
                // A doubled quote is one of the text.
                if !behind.starts_with(quote) {
                    return Some((read, behind));
                }
                read.push(quote);
                characters.next();
            }
            other => read.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Tokens;

    /// Scenario: a statement with names, literals and an interval. Guarantee: each is found, what
    /// breaks out of its quotes is seen.
    #[test]
    fn a_statement_is_taken_apart() {
        let tokens =
            Tokens::of(r"TTL `a\`b` + toIntervalDay(2) TO VOLUME 'x''y\n'").unwrap_or_default();
        assert_eq!(tokens.outside, "TTL ` + toInterval TO VOLUME '");
        assert_eq!(
            (tokens.quoted, tokens.intervals),
            (vec!["a`b".into(), "x'y\n".into()], vec![172_800])
        );
        assert_eq!(Tokens::of("DROP 'x"), None);
        let broken = Tokens::of("DROP TABLE `a`; DROP TABLE `b`").unwrap_or_default();
        assert!(!broken.are_one_statement());
    }
}
