//! What a shell would run: commands of a text, as words.
//!
//! It knows quotes, comments, pipes, continued lines, redirections and variables set for one
//! command. It expands nothing: `$HOME` stays a word.

use std::iter::Peekable;
use std::str::Chars;

/// A command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Variables set for it alone.
    pub variables: Vec<(String, String)>,
    /// The program, and what it is given.
    pub words: Vec<String>,
}

/// The commands of a text, in order; those of a pipe one after the other.
#[must_use]
pub fn commands(text: &str) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut command = Command::default();
    let mut chars = text.chars().peekable();
    let mut is_target = false;
    while let Some(&next) = chars.peek() {
        match next {
            '\n' | ';' | '|' | '&' => {
                chars.next();
                commands.extend(Some(std::mem::take(&mut command)).filter(|it| !it.is_empty()));
            }
            '#' => while chars.next_if(|it| *it != '\n').is_some() {},
            '>' | '<' => {
                chars.next();
                // `2>&1`: the number before belongs to it, and so does what follows.
                let _ =
                    command.words.pop_if(|it| it.len() == 1 && it.as_bytes()[0].is_ascii_digit());
                while chars.next_if(|it| matches!(it, '>' | '&')).is_some() {}
                is_target = true;
            }
            _ if next.is_whitespace() => {
                chars.next();
            }
            _ => {
                let (word, quoted) = word(&mut chars);
                match word {
                    // A line that goes on.
                    None => {}
                    Some(_) if std::mem::take(&mut is_target) => {}
                    Some(word) => command.push(word, quoted),
                }
            }
        }
    }
    commands.extend(Some(command).filter(|it| !it.is_empty()));
    commands
}

/// The lines of a text as a shell takes them: one that ends in a backslash goes on in the next. Those
/// that are empty, or a remark alone, are left out.
#[must_use]
pub fn lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        open.push_str(line);
        if line.ends_with('\\') {
            open.push('\n');
            continue;
        }
        let whole = std::mem::take(&mut open);
        lines.extend(Some(whole.trim().to_owned()).filter(|it| !commands(it).is_empty()));
    }
    lines
}

/// The next word, and whether its beginning is quoted.
fn word(chars: &mut Peekable<Chars<'_>>) -> (Option<String>, bool) {
    let quoted = chars.peek().is_some_and(|it| matches!(it, '\'' | '"'));
    let mut word = None;
    let mut quote = None;
    while let Some(&next) = chars.peek() {
        match (quote, next) {
            (None, '\'' | '"') => {
                quote = Some(next);
                word.get_or_insert_with(String::new);
            }
            (Some(open), _) if open == next => quote = None,
            (None | Some('"'), '\\') => {
                chars.next();
                match chars.peek() {
                    Some('\n') => {}
                    Some(&escaped) => word.get_or_insert_with(String::new).push(escaped),
                    None => break,
                }
            }
            (None, '\n' | ';' | '|' | '&' | '>' | '<') => break,
            (None, _) if next.is_whitespace() => break,
            (_, _) => word.get_or_insert_with(String::new).push(next),
        }
        chars.next();
    }
    (word, quoted)
}

impl Command {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.variables.is_empty()
    }

    fn push(&mut self, word: String, quoted: bool) {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|it| it == b'_' || it.is_ascii_uppercase() || it.is_ascii_digit())
        };
        match word.split_once('=') {
            Some((name, value)) if self.words.is_empty() && !quoted && is_name(name) => {
                self.variables.push((name.to_owned(), value.to_owned()));
            }
            _ => self.words.push(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{commands, lines};

    /// Scenario: variables, quotes, a continued line, comments, a pipe, redirections, two commands
    /// on a line. Guarantee: the words that a shell would make.
    #[test]
    fn commands_are_read_as_a_shell_does() {
        let text = "A=1 make b C='d e'   # remark\nrun \\\n  --x \"it's\" 'a\"b' > out.txt 2>&1\n\n\
                    one a#b | two; three\n# nothing\n";
        let read: Vec<String> = commands(text)
            .iter()
            .map(|command| {
                let set: Vec<_> = command
                    .variables
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                format!("[{}] {}", set.join(","), command.words.join("|"))
            })
            .collect();
        let wanted =
            ["[A=1] make|b|C=d e", "[] run|--x|it's|a\"b", "[] one|a#b", "[] two", "[] three"];
        assert_eq!(read, wanted);
    }

    /// Scenario: a line that goes on, remarks, an empty line. Guarantee: what a shell would take at
    /// once, with its own remark.
    #[test]
    fn lines_that_go_on_are_one() {
        let text = "# all of it\none \\\n  --two   # why\n\n  three | four\n";
        assert_eq!(lines(text), ["one \\\n  --two   # why", "three | four"]);
    }
}
