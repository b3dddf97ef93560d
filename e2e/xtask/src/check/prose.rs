//! Words in prose: comments and messages of the products, pages, comments of charts and manifests.
//! Refuses words of our own where the field has one, and sentences that begin with a noun clause.
//! Only words that are wrong nearly everywhere are listed; the rest is for a reader to judge.

mod passages;

use std::fs;

use anyhow::{Context, Result};

use self::passages::{Passage, passages};
use super::names::is_product;
use crate::shell;

/// Words and phrases, and what the field writes instead.
const BANNED: &[(&[&str], &str)] = &[
    (&["told", "tell", "tells", "telling"], "report, record, state, distinguish"),
    (&["asked", "ask", "asks", "asking"], "query, request, require; requested, declared"),
    (&["kept"], "stored, retained, cached, unchanged"),
    (&["seen"], "observed, received, visible"),
    (&["look", "looks", "looked", "looking"], "check, scan, poll, read; appear"),
    (&["stand", "stands", "stood"], "be, appear, apply, remain"),
    (&["beside"], "next to, alongside, in addition to, compared with"),
    (&["meanwhile"], "in the meantime, until then; or nothing"),
    (&["likewise"], "also, the same"),
    (&["anew"], "again, from the start"),
    (&["nought"], "zero"),
    (&["mend", "mends", "mended", "mending"], "fix, repair, correct"),
    (&["apart"], "separately; distinguish"),
    (&["whole"], "complete, entire, full"),
    (&["letters"], "dead letters"),
    (&["taken back", "take back", "takes back", "taking back", "took back"], "roll back, revert"),
    (&["by itself"], "automatically, without help, alone"),
    (&["of its own"], "separate, dedicated, its own ..."),
    (&["goes on", "go on", "went on", "going on"], "continue"),
    (&["for want of"], "without, for lack of"),
    (&["left out", "leave out", "leaves out", "leaving out"], "omit, exclude, skip"),
    (&["need be"], "required"),
    (&["a must"], "required"),
    (&["a second time"], "again, as a duplicate, on retry"),
    (&["in vain"], "without success, fails"),
    (&["no more than that"], "nothing else"),
    (&["says so"], "reports it, states it"),
];

/// Phrases in which a banned word is the field's, with reasons.
const ALLOWED: &[(&str, &str)] = &[
    ("apart from", "except for"),
    ("dead letters", "the field's word, of which \"letters\" is short for"),
    ("look up", "the field's, of names, keys and rows"),
    ("looked up", "the field's, of names, keys and rows"),
    ("looks up", "the field's, of names, keys and rows"),
    ("looking up", "the field's, of names, keys and rows"),
    ("whole bytes", "without a fraction"),
    ("whole days", "without a fraction"),
    ("whole mebibytes", "without a fraction"),
    ("whole milliseconds", "without a fraction"),
    ("whole number", "an integer, for users"),
    ("whole numbers", "integers, for users"),
    ("whole seconds", "without a fraction, for users"),
    ("whole second", "without a fraction, for users"),
    ("of its own namespace", "namespace is the noun, not what is left out"),
    ("three letters", "of the alphabet: a month's name"),
    ("greek letters", "of the alphabet"),
    ("other letters", "of the alphabet: in a pattern"),
    ("letters and decimal", "of the alphabet: what a name may contain"),
    ("letters or digits", "of the alphabet: what a key may contain"),
    ("ascii letters", "of the alphabet: in a pattern"),
    ("two letters", "of the alphabet: a country's code"),
    ("lower-case letters", "of the alphabet: in a pattern"),
    ("letters digits", "of the alphabet: what a name may contain"),
    ("letters and digits", "of the alphabet: what a name may contain"),
];

/// Pages that are written by programs, from texts that are checked where they come from.
const GENERATED: &[&str] =
    &["docs/reference/", "manifests/install.yaml", "manifests/monitoring.yaml"];
/// Quotes subjects of commits.
const CHANGELOG: &str = "CHANGELOG.md";

/// Verbs of a sentence whose subject is a clause.
const COPULAS: &[&str] = &["is", "isn't", "are", "aren't"];
/// Behind these words the verb is another clause's: "What to do when a broker is down".
const CONJUNCTIONS: &[&str] = &["if", "so", "that", "to", "when", "where", "which", "while"];

/// One line for each broken rule.
pub(super) fn broken_rules() -> Result<Vec<String>> {
    let listed = shell::output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let mut broken = Vec::new();
    for path in listed.lines().filter(|path| is_prose(path)) {
        let full = shell::root().join(path);
        if !full.exists() {
            continue; // deleted, not yet committed
        }
        let text = fs::read_to_string(&full).with_context(|| format!("cannot read {path}"))?;
        broken.extend(passages(path, &text).iter().flat_map(|passage| check(path, passage)));
    }
    Ok(broken)
}

fn is_prose(path: &str) -> bool {
    let is_page = path.ends_with(".md")
        && (path.starts_with("docs/") || !path.contains('/'))
        && path != CHANGELOG;
    let is_chart = path.starts_with("charts/")
        && !path.contains("/files/")
        && [".yaml", ".tpl", ".txt"].iter().any(|ending| path.ends_with(ending));
    let is_manifest = path.starts_with("manifests/") && path.ends_with(".yaml");
    (is_page || is_chart || is_manifest || is_product(path))
        && !GENERATED.iter().any(|generated| path.starts_with(generated))
}

/// A word of a passage.
struct Word<'t> {
    line: usize,
    text: &'t str,
    lower: String,
    /// What separates it from the next.
    gap: &'t str,
}

impl Word<'_> {
    /// Whether the sentence, or the cell of a table, ends behind it.
    fn ends_sentence(&self) -> bool {
        self.gap.contains(['.', '?', '!', '|'])
    }
}

/// One line for each banned word and noun clause of a passage.
fn check(path: &str, passage: &Passage) -> Vec<String> {
    let words = words(passage);
    let mut broken = Vec::new();
    for at in 0..words.len() {
        let found = banned(&words[at..]).filter(|(phrase, _)| !is_allowed(&words, at, phrase));
        let near =
            || words[at..].iter().take(8).map(|word| word.text).collect::<Vec<_>>().join(" ");
        if let Some((phrase, instead)) = found {
            let line = words[at].line;
            broken.push(format!(
                "{path}:{line}: \"{phrase}\" ({} ...): write {instead} (prose.rs)",
                near()
            ));
        }
        let begins = at == 0 || words[at - 1].ends_sentence();
        if begins && is_noun_clause(&words[at..]) {
            let line = words[at].line;
            broken.push(format!(
                "{path}:{line}: \"{} ...\": begin with a noun, not with a clause (prose.rs)",
                near()
            ));
        }
    }
    broken
}

fn words(passage: &Passage) -> Vec<Word<'_>> {
    let begins = |character: char| character.is_alphanumeric() || character == '_';
    let is_part = |character: char| begins(character) || "-'".contains(character);
    let mut words: Vec<Word<'_>> = Vec::new();
    let (mut line, mut rest) = (passage.line, passage.text.as_str());
    while !rest.is_empty() {
        let (gap, behind) = rest.split_at(rest.find(begins).unwrap_or(rest.len()));
        line += gap.matches('\n').count();
        if let Some(last) = words.last_mut() {
            last.gap = gap;
        }
        let length = behind.find(|character| !is_part(character)).unwrap_or(behind.len());
        let (text, _) = behind.split_at(length);
        let (text, behind) = behind.split_at(text.trim_end_matches(['-', '\'']).len());
        if !text.is_empty() {
            words.push(Word { line, text, lower: text.to_lowercase(), gap: "" });
        }
        rest = behind;
    }
    words
}

/// The banned phrase with which a text begins, and what to write instead.
fn banned(words: &[Word<'_>]) -> Option<(&'static str, &'static str)> {
    BANNED.iter().find_map(|(phrases, instead)| {
        let phrase = phrases.iter().find(|phrase| begins_with(words, phrase, true))?;
        Some((*phrase, *instead))
    })
}

/// Whether a text begins with a phrase; `joined` if only spaces may separate its words.
fn begins_with(words: &[Word<'_>], phrase: &str, joined: bool) -> bool {
    let parts: Vec<_> = phrase.split(' ').collect();
    let Some(words) = words.get(..parts.len()) else { return false };
    let is_joined = |word: &Word<'_>| !joined || word.gap.trim().is_empty();
    let (_, before) = words.split_last().unzip();
    words.iter().zip(parts).all(|(word, part)| word.lower == part)
        && before.unwrap_or_default().iter().all(is_joined)
}

/// Whether the phrase at a position is part of an allowed one.
fn is_allowed(words: &[Word<'_>], at: usize, phrase: &str) -> bool {
    ALLOWED.iter().any(|(allowed, _)| {
        let mut before = allowed.split(' ').enumerate().map(|(index, _)| index);
        allowed.contains(phrase)
            && before.any(|index| {
                at.checked_sub(index).is_some_and(|start| {
                    begins_with(&words[start..], allowed, false)
                        && allowed.split(' ').nth(index) == phrase.split(' ').next()
                })
            })
    })
}

/// Whether a sentence begins with "What" or "Who", and its verb comes behind that clause.
fn is_noun_clause(words: &[Word<'_>]) -> bool {
    let is_question =
        words.iter().find(|word| word.ends_sentence()).is_some_and(|last| last.gap.contains('?'));
    if is_question || !words.first().is_some_and(|word| matches!(word.text, "What" | "Who")) {
        return false;
    }
    let mut clause = 0;
    for (at, word) in words.iter().enumerate() {
        // "What is new" has its verb in front: the sentence's is the next.
        if CONJUNCTIONS.contains(&word.lower.as_str()) || !word.gap.trim().is_empty() {
            break;
        }
        if at > 1 && COPULAS.contains(&word.lower.as_str()) {
            clause = at;
        }
    }
    clause > 0
}

#[cfg(test)]
mod tests {
    use super::passages::{Passage, passages};
    use super::{ALLOWED, BANNED, check, is_prose, words};

    fn refused(text: &str) -> Vec<String> {
        check("docs/a.md", &Passage { line: 7, text: text.to_owned() })
    }

    /// Scenario: each banned word and phrase, at the beginning of a sentence, within one, and over
    /// the end of a line. Guarantee: each is one report with its line and what to write instead.
    #[test]
    fn each_banned_word_is_refused_with_its_line() {
        for (phrases, instead) in BANNED {
            for phrase in *phrases {
                let (first, behind) = phrase.split_at(1);
                let begins = format!("It is so. {}{behind} by it.", first.to_uppercase());
                let broken = format!("one\n{}, two", phrase.replace(' ', "\n"));
                for (text, line) in [(format!("It is {phrase}."), 7), (begins, 7), (broken, 8)] {
                    let found = refused(&text);
                    assert_eq!(found.len(), 1, "{text}: {found:?}");
                    let begin = format!("docs/a.md:{line}: \"{phrase}\"");
                    assert!(
                        found[0].starts_with(&begin) && found[0].contains(instead),
                        "{found:?}"
                    );
                }
            }
        }
    }

    /// Scenario: allowed phrases, words that contain a banned one, code, addresses, and phrases
    /// that a comma divides. Guarantee: none is refused, and a banned word next to one is.
    #[test]
    fn words_of_the_field_pass() {
        for (phrase, _) in ALLOWED {
            assert_eq!(refused(&format!("They are {phrase}.")), Vec::<String>::new());
            assert_eq!(refused(&format!("They are {phrase} and whole.")).len(), 1);
        }
        for text in [
            "A look-up or lookup of a stand-by, wholesale; a task that basks besides.",
            "It goes, on Monday. Names are letters, digits and dashes.",
        ] {
            assert_eq!(refused(text), Vec::<String>::new(), "{text}");
        }
        let page = "It is `told` by [that](kept.md#seen).\n```\ntold\n```\n";
        for passage in passages("a.md", page) {
            assert_eq!(check("a.md", &passage), Vec::<String>::new());
        }
        assert_eq!(refused("dead, letters").len(), 0, "only what follows a word counts");
        assert_eq!(refused("letters").len(), 1);
    }

    /// Scenario: sentences that begin with a clause; questions, clauses that are no sentence, and
    /// verbs behind a conjunction. Guarantee: the first alone are refused.
    #[test]
    fn sentences_that_begin_with_a_clause_are_refused() {
        for text in [
            "What isn't accepted is reported.",
            "One. What no rule\ntouches is copied.",
            "Who sends them isn't known.",
            "| a | What it has is here. |",
        ] {
            assert_eq!(refused(text).len(), 1, "{text}");
        }
        for text in [
            "What is it?",
            "What a pod that is new needs?",
            "What a pod needs.",
            "What to do is here.",
            "What happens when a broker is down.",
            "What is stored.",
            "This is what it is.",
        ] {
            assert_eq!(refused(text), Vec::<String>::new(), "{text}");
        }
    }

    /// Scenario: files of products, pages, charts and manifests; generated ones, tests.
    /// Guarantee: the first are read.
    #[test]
    fn prose_is_read_where_people_write_it() {
        for path in [
            "collector/src/main.rs",
            "docs/internals/a/b.md",
            "README.md",
            "charts/millrace/values.yaml",
            "charts/millrace/templates/NOTES.txt",
            "manifests/samples/a.yaml",
        ] {
            assert!(is_prose(path), "{path}");
        }
        for path in [
            "docs/reference/a.md",
            "manifests/install.yaml",
            "charts/millrace-crds/files/a.yaml",
            "collector/tests/a.rs",
            "e2e/src/lib.rs",
            "e2e/stack/README.md",
            "CHANGELOG.md",
        ] {
            assert!(!is_prose(path), "{path}");
        }
    }

    /// Scenario: a passage over lines. Guarantee: each word has its line and what follows it.
    #[test]
    fn words_have_lines_and_gaps() {
        let passage = Passage { line: 3, text: "One's, two\n- three_4.".to_owned() };
        let words = words(&passage);
        let found: Vec<_> = words.iter().map(|it| (it.line, it.text, it.gap)).collect();
        assert_eq!(found, [(3, "One's", ", "), (3, "two", "\n- "), (4, "three_4", ".")]);
    }
}
