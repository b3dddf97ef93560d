//! Finds the prose in a file: comments and messages of Rust, paragraphs of Markdown, comments of
//! YAML and of templates. It judges nothing.
//!
//! Limits: code spans in backticks and what links lead to are masked, not removed; a message that
//! is put together from parts is read part by part.

/// What follows in a file is its tests.
const TESTS: &str = "#[cfg(test)]\nmod tests {";
/// A literal with fewer words is a name, a format or a unit.
const MESSAGE_WORDS_MIN: usize = 3;
/// Keys of YAML whose values are sentences for users.
const DESCRIPTIONS: &[&str] = &["description:", "summary:"];
/// How literals begin that are SQL, JSON, YAML or HTML.
const DATA: &[&str] = &[
    "{",
    "[",
    "<",
    "SELECT ",
    "INSERT ",
    "CREATE ",
    "ALTER ",
    "DROP ",
    "SYSTEM ",
    "WITH ",
    "PRIMARY ",
    "ORDER ",
    "PARTITION ",
    "apiVersion:",
    "---",
];

/// Consecutive lines that are read as one text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Passage {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

impl Passage {
    fn new(line: usize, text: &str) -> Self {
        Self { line, text: text.to_owned() }
    }
}

/// The prose of a file, by its kind; none of a kind that isn't known.
pub(super) fn passages(path: &str, text: &str) -> Vec<Passage> {
    let mut found = match path.rsplit('.').next().unwrap_or_default() {
        "rs" => rust(text.split(TESTS).next().unwrap_or_default()),
        "md" => markdown(text),
        "txt" => numbered(text).map(|(line, text)| Passage::new(line, text)).collect(),
        "yaml" | "tpl" => yaml(text),
        _ => Vec::new(),
    };
    for passage in &mut found {
        passage.text = masked(&passage.text);
    }
    found
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Appends a line to the last passage if it ends on the line before.
fn append(found: &mut Vec<Passage>, line: usize, text: &str) {
    match found.last_mut().filter(|last| last.line + last.text.matches('\n').count() + 1 == line) {
        Some(last) => {
            last.text.push('\n');
            last.text.push_str(text);
        }
        None => found.push(Passage::new(line, text)),
    }
}

/// Comments, then messages.
fn rust(text: &str) -> Vec<Passage> {
    let (mut comments, mut messages) = (Vec::new(), Vec::new());
    let (mut rest, mut line, mut is_behind_code) = (text, 1, false);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            let comment = rest[..length].trim_start_matches(['/', '!']).trim();
            let before = text[..text.len() - rest.len()].rsplit('\n').next().unwrap_or_default();
            match (before.trim().is_empty(), comment.is_empty()) {
                (_, true) => {}
                (true, false) if !is_behind_code => append(&mut comments, line, comment),
                _ => comments.push(Passage::new(line, comment)),
            }
            is_behind_code = !before.trim().is_empty();
            length
        } else if let Some(Quotes { open, close, is_raw }) = quotes(rest) {
            let body = literal(&rest[open..], &close, is_raw);
            let message = if is_raw { body.to_owned() } else { unescaped(body) };
            if is_message(&message) {
                messages.push(Passage::new(line, &message));
            }
            open + body.len() + close.len()
        } else {
            character(rest).unwrap_or(first.len_utf8()).max(word(rest))
        };
        let (read, behind) = rest.split_at(length.min(rest.len()));
        line += read.matches('\n').count();
        rest = behind;
    }
    comments.append(&mut messages);
    comments
}

/// What is around a literal.
struct Quotes {
    /// How long what opens it is.
    open: usize,
    close: String,
    /// Without escapes.
    is_raw: bool,
}

/// The quotes of the literal with which a text begins.
fn quotes(text: &str) -> Option<Quotes> {
    let behind = text.strip_prefix('b').unwrap_or(text);
    let raw = behind.strip_prefix('r');
    let hashed = raw.unwrap_or(behind);
    let hashes =
        if raw.is_some() { hashed.len() - hashed.trim_start_matches('#').len() } else { 0 };
    let body = hashed[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(Quotes { open: text.len() - body.len(), close, is_raw: raw.is_some() })
}

/// The body of a literal, without its quotes.
fn literal<'t>(text: &'t str, close: &str, is_raw: bool) -> &'t str {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        if !is_escaped && text[at..].starts_with(close) {
            return &text[..at];
        }
        is_escaped = !is_raw && character == '\\' && !is_escaped;
    }
    text
}

/// With escapes as spaces, and continued lines without their indent.
fn unescaped(body: &str) -> String {
    let mut plain = String::new();
    let mut characters = body.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some('\n')) => {
                plain.push('\n');
                characters.next();
                while characters.next_if(|next| *next == ' ').is_some() {}
            }
            ('\\', Some('n' | 't' | 'r')) => {
                plain.push(' ');
                characters.next();
            }
            ('\\', _) => plain.extend(characters.next()),
            _ => plain.push(character),
        }
    }
    plain
}

fn is_message(text: &str) -> bool {
    let start = text.trim_start();
    text.split_whitespace().count() >= MESSAGE_WORDS_MIN
        && !DATA.iter().any(|data| start.starts_with(data))
}

/// The length of the character literal with which a text begins.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let length = match body.strip_prefix('\\') {
        Some(escaped) => 2 + escaped.get(1..)?.find('\'')?,
        None => body.chars().next()?.len_utf8(),
    };
    body[length..].starts_with('\'').then_some(length + 2)
}

/// The length of the word with which a text begins, so that no literal begins within one.
fn word(text: &str) -> usize {
    text.find(|character: char| !character.is_alphanumeric() && character != '_')
        .unwrap_or(text.len())
}

/// Paragraphs, headings, items of lists and rows of tables, outside of code.
fn markdown(text: &str) -> Vec<Passage> {
    let mut found = Vec::new();
    let (mut in_code, mut begins) = (false, true);
    for (number, line) in numbered(text) {
        let line = line.trim();
        if line.starts_with("```") {
            in_code = !in_code;
        }
        if in_code || line.is_empty() || line.starts_with("```") {
            begins = true;
            continue;
        }
        let alone = line.starts_with(['#', '|']);
        let is_item = ["- ", "* "].iter().any(|mark| line.starts_with(mark))
            || line.trim_start_matches(|digit: char| digit.is_ascii_digit()).starts_with(". ");
        if begins || alone || is_item {
            found.push(Passage::new(number, line));
        } else {
            append(&mut found, number, line);
        }
        begins = alone;
    }
    found
}

/// Comments behind `#`, those of templates, and descriptions.
fn yaml(text: &str) -> Vec<Passage> {
    let mut found = Vec::new();
    let mut in_template = false;
    for (number, line) in numbered(text) {
        in_template |= ["{{/*", "{{- /*"].iter().any(|mark| line.contains(mark));
        let marks = line.match_indices('#');
        let is_mark = |at: usize| at == 0 || line[..at].ends_with([' ', '#']);
        let mark = marks.map(|(at, _)| at).find(|at| is_mark(*at));
        if in_template {
            append(&mut found, number, line.trim_matches(['{', '}', '-', '/', '*', ' ']));
        } else if let Some(text) = description(line) {
            found.push(Passage::new(number, text));
        } else if let Some(at) = mark {
            append(&mut found, number, line[at..].trim_matches(['#', ' ']));
        }
        in_template &= !line.contains("*/");
    }
    found
}

/// The sentence of a line that describes something to users.
fn description(line: &str) -> Option<&str> {
    let line = line.trim_start();
    DESCRIPTIONS.iter().find_map(|key| line.strip_prefix(key)).map(str::trim)
}

/// With code spans, the addresses of links and the names in braces of formats as underscores.
fn masked(text: &str) -> String {
    let (mut in_code, mut in_address, mut in_braces, mut before) = (false, false, false, ' ');
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        in_code ^= character == '`';
        in_address |= !in_code && before == ']' && character == '(';
        in_address &= character != ')';
        in_braces |= character == '{';
        in_braces &= character != '}' && !character.is_whitespace();
        let is_hidden = (in_code || in_address || in_braces) && character != '\n';
        plain.push(if is_hidden { '_' } else { character });
        before = character;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::passages;

    fn lines(path: &str, text: &str) -> Vec<(usize, String)> {
        passages(path, text).into_iter().map(|it| (it.line, it.text)).collect()
    }

    fn expected(lines: &[(usize, &str)]) -> Vec<(usize, String)> {
        lines.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
    }

    /// Scenario: comments of each kind, behind code, and apart by an empty one; messages over one
    /// line and two, raw ones, with quotes in them; quotes in comments and characters; SQL, JSON,
    /// short literals, tests. Guarantee: comments and messages alone are found, with their lines.
    #[test]
    fn comments_and_messages_of_rust_are_found() {
        let text = "\
//! The file.
//!
//! More, with a \" in it.
fn a<'a>(b: &'a str) { // behind
    /// Two
    /// lines.
    c('\"', '\\'', \"a \\\"quoted\\\" message\", b\"with bytes too\");
    d(\"short one\", \"{\\\"a\\\": 1, \\\"b\\\": 2}\", \"SELECT a FROM b\", br);
    e(
        \"goes over \\
         lines\\nand on\",
        \"held by {told}\",
        r#\"raw, with \" in it\"#,
    );
}
#[cfg(test)]
mod tests {
    // A test's.
}
";
        let found = [
            (1, "The file."),
            (3, "More, with a \" in it."),
            (4, "behind"),
            (5, "Two\nlines."),
            (7, "a \"quoted\" message"),
            (7, "with bytes too"),
            (10, "goes over \nlines and on"),
            (12, "held by _____}"),
            (13, "raw, with \" in it"),
        ];
        assert_eq!(lines("a.rs", text), expected(&found));
    }

    /// Scenario: a page with a heading, a paragraph, items, a table, a fence, code spans over two
    /// lines and links. Guarantee: each piece is one passage; code and addresses are masked.
    #[test]
    fn pieces_of_pages_are_found_and_code_is_masked() {
        let text = "# One\nTwo `told\nkept` and\nmore.\n```sh\n# told\n```\n- Three\n  lines\n\
                    1. Four\n| a | b |\n| c | [d](told.md) |\nEnd.\n";
        let found = [
            (1, "# One"),
            (2, "Two _____\n____` and\nmore."),
            (8, "- Three\nlines"),
            (10, "1. Four"),
            (11, "| a | b |"),
            (12, "| c | [d]________) |"),
            (13, "End."),
        ];
        assert_eq!(lines("a.md", text), expected(&found));
    }

    /// Scenario: comments of values and templates, behind values and over lines; a colour and an
    /// anchor. Guarantee: the comments alone are found.
    #[test]
    fn comments_of_yaml_and_templates_are_found() {
        let text = "# One\n# two.\na: b # three\nc: \"d#e\"\n{{- /* Four\nlines. */}}\nf: g\n  \
                    description: Six. # No.\n";
        let found = [(1, "One\ntwo.\nthree"), (5, "Four\nlines."), (8, "Six. # No.")];
        assert_eq!(lines("a.tpl", text), expected(&found));
        assert_eq!(lines("a.lua", text), Vec::new());
    }
}
