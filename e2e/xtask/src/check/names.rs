//! Names in the products' sources: no words of our own that a reader from the field can't guess,
//! and no type name with a meaning in each crate. Names are judged where they are defined or bound;
//! the uses follow. What users read or write as text keeps the API's names.

mod definitions;
mod locals;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};

use self::definitions::{Definition, DefinitionKind, definitions};
use self::locals::locals;
use crate::shell;

/// Where the products' sources are.
const PRODUCTS: &[&str] = &["collector/", "operator/", "crds/"];
/// Folders below them that aren't shipped.
const NOT_SHIPPED: &[&str] = &["/tests/", "/benches/", "/examples/"];

/// Words that may not be part of a name, and what the field says instead (docs/glossary.md).
const BANNED: &[(&[&str], &str)] = &[
    (&["apart"], "separate, distinguish"),
    (&["ask", "asked", "asker", "asks"], "query, request, desired, declared"),
    (&["been"], "a past tense"),
    (&["board"], "table, cache, status"),
    (&["given"], "configured, present"),
    (&["goes", "gone"], "continue, deleted, missing, ended"),
    (&["keep", "keeps", "kept"], "retain, store, cache"),
    (&["letter", "letters"], "dead_letter"),
    (&["look", "looked", "looks"], "scan, poll, check"),
    (&["meanwhile"], "nothing"),
    (&["place", "places"], "slot, position, scope"),
    (&["rest", "rests"], "remaining, cool_down"),
    (&["said", "say", "says"], "report, state, quote"),
    (&["seen"], "observed, observation"),
    (&["stand", "standing", "stands"], "state, remaining"),
    (&["taken"], "accepted, received, applied"),
    (&["tell", "tells", "told"], "report, record, distinguish"),
    (&["turn", "turns"], "share, schedule, loop"),
    (&["want", "wanted", "wants"], "request, desired, declared, expected"),
    (&["way", "ways"], "path, mode"),
    (&["whole"], "complete, exact"),
];
/// A banned word behind another with which it is the field's: `dead_letter`, `in_place`.
const PHRASES: &[(&str, &str)] =
    &[("dead", "letter"), ("dead", "letters"), ("four", "letter"), ("in", "place")];
/// Words that names bound in functions may have, and why they mislead nobody there.
const ALLOWED_IN_LOCALS: &[(&[&str], &str)] = &[
    (&["rest", "rests"], "Rust's usual word for what is left of a slice, a text or an iterator"),
    (&["letter", "letters"], "letters of the alphabet, which parsers read"),
];
/// Names that are the field's as they are.
const ALLOWED: &[(&str, &str)] = &[
    ("KEEP_ALIVE", "of HTTP and TCP"),
    ("KEEP_ALIVE_INTERVAL", "of TCP"),
    ("KEEP_ALIVE_RETRIES", "of TCP"),
    ("Keep", "an action of Prometheus' relabelling"),
    ("KeepEqual", "an action of Prometheus' relabelling"),
    ("LabelKeep", "an action of Prometheus' relabelling"),
    ("keep_rule", "makes a rule with that action"),
    ("KeepKeys", "an editor of OTTL"),
    ("keep_keys", "an editor of OTTL"),
    ("Letters", "letters of the alphabet"),
    ("letters", "letters of the alphabet"),
    ("is_letter_pair", "letters of the alphabet"),
    ("PodGone", "a reason of a move that metrics and pages show"),
    ("Whole", "a table's setting, by a macro the same word on the command line"),
];

/// A type's name may be in so many crates: a setting's in the API and in the collector's file.
const CRATES_MAX: usize = 2;
/// Type names that mean the same in every crate; at most ten.
const SHARED_TYPES: &[(&str, &str)] = &[
    ("Cli", "a program's command line"),
    ("Command", "a program's subcommands"),
    ("StartError", "why a part of the collector can't start"),
];

/// One line for each broken rule.
pub(super) fn broken_rules() -> Result<Vec<String>> {
    let listed = shell::output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let crates: BTreeSet<_> =
        listed.lines().filter_map(|path| path.strip_suffix("/Cargo.toml")).collect();
    let mut broken = Vec::new();
    let mut types = CratesByType::new();
    for path in listed.lines().filter(|path| is_product(path)) {
        let full = shell::root().join(path);
        if !full.exists() {
            continue; // deleted, not yet committed
        }
        let text = fs::read_to_string(&full).with_context(|| format!("cannot read {path}"))?;
        let mut found = definitions(&text);
        found.extend(locals(&text));
        broken.extend(found.iter().filter_map(|definition| check_words(path, definition)));
        let home = crate_of(&crates, path);
        for definition in found.iter().filter(|definition| definition.kind == DefinitionKind::Type)
        {
            types.entry(definition.name.to_owned()).or_default().insert(home.to_owned());
        }
    }
    broken.extend(check_types(&types, SHARED_TYPES));
    Ok(broken)
}

/// The crates that define a type of this name.
type CratesByType = BTreeMap<String, BTreeSet<String>>;

pub(super) fn is_product(path: &str) -> bool {
    path.ends_with(".rs")
        && !path.ends_with("/tests.rs")
        && PRODUCTS.iter().any(|folder| path.starts_with(folder))
        && !NOT_SHIPPED.iter().any(|folder| path.contains(folder))
}

/// The innermost crate around a file.
fn crate_of<'c>(crates: &BTreeSet<&'c str>, path: &str) -> &'c str {
    let mut folders = path.match_indices('/').rev().map(|(at, _)| path.split_at(at).0);
    folders.find_map(|folder| crates.get(folder).copied()).unwrap_or_default()
}

/// What is wrong with the words of a name, if anything is.
fn check_words(path: &str, definition: &Definition<'_>) -> Option<String> {
    let Definition { name, line, kind } = definition;
    if ALLOWED.iter().any(|(allowed, _)| allowed == name) {
        return None;
    }
    let words = words(name);
    let before = std::iter::once("").chain(words.iter().map(String::as_str));
    let mut pairs = before.zip(words.iter().map(String::as_str));
    let (word, instead) = pairs.find_map(|pair| {
        let (_, instead) = BANNED.iter().find(|(banned, _)| banned.contains(&pair.1))?;
        let is_allowed = *kind == DefinitionKind::Local
            && ALLOWED_IN_LOCALS.iter().any(|(allowed, _)| allowed.contains(&pair.1));
        (!PHRASES.contains(&pair) && !is_allowed).then_some((pair.1, instead))
    })?;
    Some(format!("{path}:{line}: `{name}`: instead of \"{word}\" write {instead} (names.rs)"))
}

/// Names in too many crates, and exceptions that nothing needs.
fn check_types(types: &CratesByType, shared: &[(&str, &str)]) -> Vec<String> {
    let is_shared = |name: &str| shared.iter().any(|(known, _)| *known == name);
    let mut broken = Vec::new();
    for (name, crates) in types {
        if crates.len() > CRATES_MAX && !is_shared(name) {
            let crates = crates.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            broken.push(format!("type `{name}` is in {crates}: name what it is in each of them"));
        }
    }
    for (name, _) in shared {
        if types.get(*name).is_none_or(|crates| crates.len() <= CRATES_MAX) {
            broken.push(format!("type `{name}` needs no exception: remove it from names.rs"));
        }
    }
    broken
}

/// The words of a name, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for character in name.chars() {
        let begins = character == '_' || (character.is_uppercase() && was_small);
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character != '_') {
            word.extend(character.to_lowercase());
        }
        was_small = !character.is_uppercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::definitions::definitions;
    use super::locals::locals;
    use super::{CratesByType, SHARED_TYPES, check_types, check_words, crate_of, is_product};

    /// More exceptions would be no rule.
    const SHARED_TYPES_MAX: usize = 10;

    fn refused(text: &str) -> Vec<String> {
        let found = definitions(text).into_iter().chain(locals(text));
        found.filter_map(|it| check_words("a/src/lib.rs", &it)).collect()
    }

    /// Scenario: a banned word in a function, a type, a constant, a module, a field, a variant, an
    /// associated type, a local and a parameter, in each way of writing. Guarantee: each is refused
    /// with its line and what to write instead.
    #[test]
    fn words_of_our_own_are_refused() {
        for text in [
            "pub(super) async fn take_told(one: u8) {}",
            "struct KeptManifest;",
            "const LOOK_EVERY: u8 = 1;",
            "mod turns;",
            "struct A {\n    pub wanted_at: u8,\n}",
            "enum A {\n    AsAsked,\n}",
            "enum A {\n    B { rest: u8 },\n}",
            "enum A {\n    B {\n        place: u8,\n    },\n}",
            "impl A {\n    type Seen = u8;\n}",
            "fn send_letter() {}",
            "#[derive(Clone)]\nstruct A {\n    way: u8,\n}",
            "fn a(\n    told: u8,\n) {\n}",
            "fn a() {\n    let kept = A { wanted: 1 };\n}",
            "fn a() {\n    b(|A { wanted: seen, .. }| 1);\n}",
        ] {
            let broken = refused(text);
            assert_eq!(broken.len(), 1, "{text}: {broken:?}");
            let says_what = broken[0].starts_with("a/src/lib.rs:") && broken[0].contains("write ");
            assert!(says_what, "{broken:?}");
        }
        assert!(refused("fn a() {}\n\nfn told() {}")[0].starts_with("a/src/lib.rs:3: `told`"));
    }

    /// Scenario: words of the field that contain a banned one, names that users see, words that
    /// mislead nobody in locals, comments, texts, uses, and tests. Guarantee: none is refused.
    #[test]
    fn words_of_the_field_and_of_users_pass() {
        for text in [
            "fn send_dead_letter() {}",
            "struct DeadLetters;",
            "enum Effect {\n    InPlace,\n}",
            "const KEEP_ALIVE: u8 = 1;",
            "fn restart_keeper_boards_ways2() {}",
            "#[derive(Clone, Serialize)]\nstruct A {\n    wanted: u8,\n}",
            "#[derive(\n    Args,\n)]\nstruct A {\n    #[arg(long)]\n    place: u8,\n}",
            "section! {\n    pub struct A {\n        pub wanted: u8 = 1,\n    }\n}",
            "fn a(letter: char) {\n    let [first, rest @ ..] = b else { return };\n}",
            "fn a(A { wanted, .. }: A) {\n    let b = A { wanted: 1 };\n}",
            "// fn told() {}\n/// mod kept;",
            "fn a() {\n    b(\"fn told()\");\n}",
            "use a::kept;",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn told() {}\n}",
        ] {
            assert_eq!(refused(text), Vec::<String>::new(), "{text}");
        }
        let after = "#[derive(Error)]\nstruct A {\n    told: u8,\n}\nstruct B {\n    told: u8,\n}";
        assert_eq!(refused(after).len(), 1);
    }

    fn types(names: &[(&str, &[&str])]) -> CratesByType {
        let owned = |crates: &[&str]| crates.iter().map(|it| (*it).to_owned()).collect();
        names.iter().map(|(name, crates)| ((*name).to_owned(), owned(crates))).collect()
    }

    /// Scenario: a name in two crates, one in three, and one in three with an exception.
    /// Guarantee: the second alone is refused, with its crates.
    #[test]
    fn a_type_name_has_one_meaning() {
        let known = types(&[("Two", &["a", "b"]), ("Cli", &["a", "b", "c"])]);
        assert!(check_types(&known, &[("Cli", "")]).is_empty());
        let known = types(&[("State", &["a", "b", "c"])]);
        let broken = check_types(&known, &[]);
        assert_eq!(broken.len(), 1);
        assert!(broken[0].contains("`State` is in a, b, c"), "{broken:?}");
    }

    /// Scenario: exceptions for a name in two crates and for one in none. Guarantee: both are
    /// refused, and there are never more than ten.
    #[test]
    fn exceptions_are_few_and_needed() {
        let known = types(&[("Cli", &["a", "b"])]);
        assert_eq!(check_types(&known, &[("Cli", ""), ("Old", "")]).len(), 2);
        assert!(SHARED_TYPES.len() <= SHARED_TYPES_MAX);
    }

    /// Scenario: files of products and of tests, of a crate within another. Guarantee: the first
    /// are read, and belong to the innermost crate.
    #[test]
    fn files_of_products_belong_to_their_crate() {
        let crates = BTreeSet::from(["collector", "collector/sinks/kafka"]);
        assert_eq!(crate_of(&crates, "collector/sinks/kafka/src/a/b.rs"), "collector/sinks/kafka");
        assert_eq!(crate_of(&crates, "collector/src/main.rs"), "collector");
        assert!(is_product("crds/src/lib.rs") && is_product("operator/src/a.rs"));
        for other in ["e2e/src/lib.rs", "crds/tests/a.rs", "operator/src/a/tests.rs", "crds/a.md"] {
            assert!(!is_product(other), "{other}");
        }
    }
}
