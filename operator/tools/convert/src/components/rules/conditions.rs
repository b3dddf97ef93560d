//! Texts of OTTL, as far as a conversion reads them: contexts that paths name, and the `where` of a
//! statement. Quoted text is skipped.

use millrace_crds::v1alpha1::StatementContext;

/// The contexts' names, the lowest first.
const NAMES: [(&str, StatementContext); 7] = [
    ("datapoint", StatementContext::DataPoint),
    ("spanevent", StatementContext::SpanEvent),
    ("metric", StatementContext::Metric),
    ("span", StatementContext::Span),
    ("log", StatementContext::Log),
    ("scope", StatementContext::Scope),
    ("resource", StatementContext::Resource),
];

/// Returns the context of a name.
pub(super) fn context_named(name: &str) -> Option<StatementContext> {
    // An earlier name of scope.
    let name = if name == "instrumentation_scope" { "scope" } else { name };
    NAMES.iter().find(|(one, _)| *one == name).map(|(_, context)| *context)
}

/// Returns the lowest context that a path in any of the texts names.
pub(super) fn lowest_context<'a>(
    texts: impl Iterator<Item = &'a str> + Clone,
) -> Option<StatementContext> {
    let names_it = |name: &str| texts.clone().any(|text| has_path(text, name));
    NAMES.iter().find(|(name, _)| names_it(name)).map(|(_, context)| *context)
}

/// Returns whether a path in the text begins with a context's name.
fn has_path(text: &str, name: &str) -> bool {
    words(text).any(|(start, word)| {
        let is_first = !text.get(..start).is_some_and(|before| before.ends_with('.'));
        let rest = text.get(start + word.len()..).unwrap_or_default();
        word == name && is_first && rest.starts_with('.')
    })
}

/// Returns a statement that also requires a condition.
pub(super) fn with_condition(statement: &str, condition: &str) -> String {
    let offset = words(statement).find(|(_, word)| *word == "where").map(|(start, _)| start);
    match offset.and_then(|offset| statement.split_at_checked(offset)) {
        Some((editor, own)) => {
            let own = own.trim_start_matches("where").trim();
            format!("{} where ({own}) and ({condition})", editor.trim_end())
        }
        None => format!("{} where {condition}", statement.trim_end()),
    }
}

/// Returns the words outside of quotes, with their positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut found = Vec::new();
    let mut begin = None;
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (index, one) in text.char_indices() {
        let is_word = !is_quoted && (one.is_ascii_alphanumeric() || one == '_');
        if !is_word && let Some(start) = begin.take() {
            found.push((start, index));
        }
        match (is_quoted, one) {
            (true, _) if is_escaped => is_escaped = false,
            (true, '\\') => is_escaped = true,
            (_, '"') => is_quoted = !is_quoted,
            _ if is_word && begin.is_none() => begin = Some(index),
            _ => {}
        }
    }
    found.extend(begin.map(|start| (start, text.len())));
    found.into_iter().filter_map(|(start, end)| Some((start, text.get(start..end)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: statements with paths, words in quotes, escaped quotes. Guarantee: the lowest
    /// context that a path names, and no other word.
    #[test]
    fn contexts_are_those_of_paths() {
        let lowest = |text: &str| lowest_context(std::iter::once(text));
        let cases = [
            (r#"set(log.body, resource.attributes["a"])"#, Some(StatementContext::Log)),
            (r#"set(resource.attributes["log.b"], "span.x")"#, Some(StatementContext::Resource)),
            (r#"set(resource.attributes["a"], "\"log.b")"#, Some(StatementContext::Resource)),
            (r#"delete_key(attributes, "a")"#, None),
            (r#"set(catalog.x, 1) where span.name == "a""#, Some(StatementContext::Span)),
            (r#"set(spanevent.name, span.name)"#, Some(StatementContext::SpanEvent)),
        ];
        for (text, expected) in cases {
            assert_eq!(lowest(text), expected, "{text}");
        }
    }

    /// Scenario: statements with and without a condition, and the word in quotes. Guarantee: both
    /// conditions apply.
    #[test]
    fn a_condition_is_added_to_a_statement() {
        let cases = [
            (r#"set(body, "x")"#, r#"set(body, "x") where a == 1 or b == 2"#),
            (
                r#"set(body, "where") where c == 3"#,
                r#"set(body, "where") where (c == 3) and (a == 1 or b == 2)"#,
            ),
        ];
        for (statement, expected) in cases {
            assert_eq!(with_condition(statement, "a == 1 or b == 2"), expected);
        }
    }
}
