//! Finds the names that a Rust file binds: by `let`, `for`, parameters of functions and closures,
//! and the patterns of `match`, `select!` and `matches!`. It judges nothing.
//!
//! A field's name that a pattern takes over (`Point { x, y }`) is left out: the field's definition
//! names it. Limits: patterns in other macros are not found.

use super::definitions::{Definition, DefinitionKind, product_part};
use super::tokens::{Token, TokenKind, tokens};

/// Words that may be in a pattern and bind nothing.
const KEYWORDS: &[&str] = &[
    "_", "box", "const", "crate", "dyn", "else", "false", "impl", "in", "mut", "ref", "self",
    "super", "true",
];
/// Behind one of these a `|` begins a closure; elsewhere it separates patterns or is an operator.
const BEFORE_CLOSURE: &[&str] = &[
    "(", ",", "=", "{", ";", "=>", "&&", "||", "return", "move", "else", "[", ":", "&", "..",
    "break", "async",
];

/// All names that a file binds, up to its tests, by line.
pub(super) fn locals(text: &str) -> Vec<Definition<'_>> {
    let tokens = tokens(product_part(text));
    let closers = closers(&tokens);
    let mut scan = Scan { tokens: &tokens, closers, names: Vec::new() };
    for index in 0..tokens.len() {
        scan.bind_at(index);
    }
    let mut found = scan.names;
    found.sort_by_key(|token| token.line);
    let kind = DefinitionKind::Local;
    found.into_iter().map(|it| Definition { line: it.line, name: it.text, kind }).collect()
}

/// For each token that opens a bracket the index of the token that closes it; for others their own.
fn closers(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut closers: Vec<usize> = (0..tokens.len()).collect();
    let mut open = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => open.push(index),
            ")" | "]" | "}" => {
                if let Some(opener) = open.pop() {
                    closers[opener] = index;
                }
            }
            _ => {}
        }
    }
    closers
}

struct Scan<'s, 't> {
    tokens: &'s [Token<'t>],
    closers: Vec<usize>,
    names: Vec<Token<'t>>,
}

impl<'t> Scan<'_, 't> {
    /// The token's text, or none beyond the end.
    fn text(&self, index: usize) -> &'t str {
        self.tokens.get(index).map_or("", |token| token.text)
    }

    /// The index behind a token, or behind the brackets or the `::<K, V>` that it begins.
    fn after(&self, index: usize) -> usize {
        if self.text(index) == "::" && self.text(index + 1) == "<" {
            return self.after_angles(index + 1);
        }
        self.closers.get(index).copied().unwrap_or(index) + 1
    }

    /// The index behind the `>` that ends what a `<` begins.
    fn after_angles(&self, index: usize) -> usize {
        let (mut at, mut depth) = (index, 0);
        loop {
            match self.text(at) {
                "<" => depth += 1,
                ">" => depth -= 1,
                "" => return at,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return at;
            }
        }
    }

    /// The first of some texts outside of brackets, at most `limit`.
    fn find(&self, from: usize, limit: usize, texts: &[&str]) -> usize {
        let mut at = from;
        while at < limit && !texts.contains(&self.text(at)) {
            at = self.after(at);
        }
        at.min(limit)
    }

    /// Collects the names of the bindings that a token begins.
    fn bind_at(&mut self, index: usize) {
        let (end, next) = (self.tokens.len(), self.text(index + 1));
        match self.text(index) {
            "let" => {
                self.bind_pattern(index + 1, end, &["=", ":", ";"]);
            }
            // `for<'a>` and `impl Trait for Type` bind nothing.
            "for" if next != "<" => {
                let count = self.names.len();
                let stop = self.bind_pattern(index + 1, end, &["in"]);
                if stop.is_none_or(|stop| stop == end) {
                    self.names.truncate(count);
                }
            }
            // `fn(u8)` is a type.
            "fn" if next != "(" => self.bind_function(index + 2),
            "|" if index > 0 && BEFORE_CLOSURE.contains(&self.text(index - 1)) => {
                let close = self.find(index + 1, end, &["|"]);
                self.bind_parameters(index + 1, close);
            }
            "match" => self.bind_arms(index + 1),
            "select" if next == "!" => self.bind_arms(index + 2),
            "matches" if next == "!" => {
                let close = self.after(index + 2) - 1;
                let comma = self.find(index + 3, close, &[","]);
                self.bind_pattern(comma + 1, close, &["if", ","]);
            }
            _ => {}
        }
    }

    /// Collects the names of a function's parameters; `from` is behind its name.
    fn bind_function(&mut self, from: usize) {
        let open = if self.text(from) == "<" { self.after_angles(from) } else { from };
        if self.text(open) == "(" {
            self.bind_parameters(open + 1, self.after(open) - 1);
        }
    }

    /// Collects the names of parameters, each a pattern with or without a type.
    fn bind_parameters(&mut self, from: usize, limit: usize) {
        let mut at = from;
        while at < limit {
            let Some(stop) = self.bind_pattern(at, limit, &[":", ","]) else { return };
            at = stop;
            while at < limit && self.text(at) != "," {
                at = if self.text(at) == "<" { self.after_angles(at) } else { self.after(at) };
            }
            at += 1;
        }
    }

    /// Collects the names in the patterns of arms; `from` is behind `match` or `select!`.
    fn bind_arms(&mut self, from: usize) {
        let open = self.find(from, self.tokens.len(), &["{", ";", ")", "}"]);
        if self.text(open) != "{" {
            return;
        }
        let close = self.after(open) - 1;
        let mut at = if self.text(open + 1) == "biased" { open + 3 } else { open + 1 };
        while at < close {
            let Some(stop) = self.bind_pattern(at, close, &["=>", "=", "if"]) else { return };
            let body = self.find(stop, close, &["=>"]) + 1;
            at = if self.text(body) == "{" {
                let behind = self.after(body);
                behind + usize::from(self.text(behind) == ",")
            } else {
                self.find(body, close, &[","]) + 1
            };
        }
    }

    /// Collects the names of a pattern up to one of `ends` outside of its brackets. Returns the
    /// index of that end, or of `limit`; none if this is no pattern.
    fn bind_pattern(&mut self, from: usize, limit: usize, ends: &[&str]) -> Option<usize> {
        let count = self.names.len();
        let stop = self.collect_names(from, limit, (ends, false));
        if stop.is_none() {
            self.names.truncate(count);
        }
        stop
    }

    /// Within the braces of a struct a name binds only behind its field's (`x: left`).
    fn collect_names(
        &mut self,
        from: usize,
        limit: usize,
        (ends, in_fields): (&[&str], bool),
    ) -> Option<usize> {
        let (mut at, mut is_behind_field) = (from, false);
        while at < limit && !ends.contains(&self.text(at)) {
            match self.text(at) {
                "#" => at += 1,
                ";" | ")" | "]" | "}" => return None,
                opener @ ("(" | "[" | "{") => {
                    let is_struct = opener == "{";
                    self.collect_names(at + 1, self.after(at) - 1, (&[], is_struct))?;
                }
                "," => is_behind_field = false,
                ":" => is_behind_field = true,
                _ if (!in_fields || is_behind_field) && self.is_name(at) => {
                    self.names.push(self.tokens[at]);
                }
                _ => {}
            }
            at = self.after(at);
        }
        Some(at.min(limit))
    }

    /// Whether the word of a pattern is a name that it binds, not a part of a path, a constant, a
    /// macro's or a keyword.
    fn is_name(&self, index: usize) -> bool {
        let Token { kind, text, .. } = self.tokens[index];
        let begins_small = text.starts_with(|first: char| first == '_' || first.is_lowercase());
        let before = index.checked_sub(1).map_or("", |before| self.text(before));
        kind == TokenKind::Word
            && begins_small
            && !KEYWORDS.contains(&text)
            && !["::", "$"].contains(&before)
            && !["::", "(", "!", "{"].contains(&self.text(index + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::locals;

    fn names(text: &str) -> Vec<&str> {
        locals(text).iter().map(|it| it.name).collect()
    }

    /// Scenario: each way to bind a name, in the layouts that rustfmt makes. Guarantee: exactly the
    /// bound names are found.
    #[test]
    fn bound_names_are_found() {
        let table: &[(&str, &[&str])] = &[
            ("let one = 1;", &["one"]),
            ("let mut one: Vec<u8>;", &["one"]),
            ("let (one, Some(ref two)) = three;", &["one", "two"]),
            ("let Point { x: left, y, .. } = point;", &["left"]),
            ("let Point { x: Some(Pair { a: one, b }), .. } = point else { return };", &["one"]),
            ("let [first, rest @ ..] = list;", &["first", "rest"]),
            ("if let Some(one) = two && let Ok(three) = four {}", &["one", "three"]),
            ("while let Some((one, _)) = two.next() {}", &["one"]),
            ("for (index, one) in list.iter().enumerate() {}", &["index", "one"]),
            ("for Point { x: left, y } in points {}", &["left"]),
            ("fn a(&self, mut one: u8, (two, three): (u8, u8)) {}", &["one", "two", "three"]),
            ("fn a<F: Fn(u8) -> B<C>>(one: Map<K, V>, two: F) -> u8 {}", &["one", "two"]),
            ("trait A {\n    fn a(one: u8);\n}", &["one"]),
            ("list.iter().map(|one| one + 1)", &["one"]),
            ("list.fold(0, |sum, Point { x: left, .. }: Point| sum + left)", &["sum", "left"]),
            ("let a = move |one: u8, two| one | two;", &["a", "one", "two"]),
            ("let a = |&(one, two): &(A<B, C>, D)| one;", &["a", "one", "two"]),
            (
                "match a {\n    A::B(one) if one > 1 => b::<K, V>(two),\n    A::C { d: three } | A::E(three) => {\n        \
                 four\n    }\n    five @ 0..=9 => match five {\n        six => 1,\n    },\n    MAX => 1,\n}",
                &["one", "three", "three", "five", "six"],
            ),
            ("matches!(a, Some(one) if one > 2)", &["one"]),
            (
                "tokio::select! {\n    biased;\n    one = two => one,\n    Some(three) = four.recv() => {}\n    \
                 () = five => {}\n}",
                &["one", "three"],
            ),
        ];
        for (text, expected) in table {
            assert_eq!(names(text), *expected, "{text}");
        }
    }

    /// Scenario: code that looks like a binding: operators, alternatives, implementations, paths,
    /// types, literals, comments, and tests. Guarantee: no name is found.
    #[test]
    fn other_names_are_left_out() {
        for text in [
            "a = b | c | d;",
            "match a {\n    1 | 2 => b | c,\n    A::B | A::C => d,\n}",
            "impl<'a> A for B<'a> {\n    const C: u8 = 1;\n}",
            "fn a(self: &Self) where F: for<'a> Fn(&'a u8) {}",
            "type A = fn(u8) -> u8;",
            "b(Point { x: left, y: right });",
            "// let one = 1;\n/* |two| */ b(\"let three = 3\");",
            "#[cfg(test)]\nmod tests {\n    fn a(one: u8) {}\n}",
        ] {
            assert_eq!(names(text), Vec::<&str>::new(), "{text}");
        }
    }

    /// Scenario: a file with bindings in several lines. Guarantee: each has its own line.
    #[test]
    fn bound_names_have_their_lines() {
        let found = locals("fn a(\n    one: u8,\n) {\n    // two\n    let three = |four| four;\n}");
        let found: Vec<_> = found.iter().map(|it| (it.line, it.name)).collect();
        assert_eq!(found, [(2, "one"), (5, "three"), (5, "four")]);
    }
}
