//! No value of a configuration is dropped silently, and every result is a pipeline: tested with
//! real configurations whose parts are cut, replaced, added and moved.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use millrace_convert::{ConvertOptions, Fate, convert_config};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_norway::Value;

use crate::support;

/// Replacement values: of each type, valid and invalid ones.
const VALUES: &str = r#"
- null
- true
- false
- 0
- 4096
- -1
- 1.5
- ""
- "${env:VALUE}"
- "$${NAME}"
- word
- "a b"
- otlp
- clickhouse
- kafka
- "0.0.0.0:4317"
- "tcp://a:9000,b:9000/db?secure=true&x=1"
- "http://user:pass@a:8123"
- "https://a"
- "10m"
- end
- /var/log/pods/a_*/*/*.log
- /var/log/containers/*.log
- /var/log/app/*.log
- /srv/x.log
- "^(?P<level>\\w+) (?P<message>.*)$"
- "("
- body
- attributes.level
- attributes["a.b"]
- '%Y-%m-%d %H:%M:%S'
- ReplacingMergeTree
- SCRAM-SHA-256
- gzip
- json_parser
- regex_parser
- container
- daemonset
- []
- {}
- [word]
- [4096, null]
- {key: word}
- {name: word, key: {}}
- [{type: json_parser}, {type: move, from: attributes.a, to: body}]
- {cert_file: a, key_file: b}
- {matchLabels: {a: b}}
"#;

static BASES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let is_input = |path: &&std::path::PathBuf| {
        let name = path.to_str().unwrap();
        name.ends_with(".yaml") && !name.ends_with(".pipeline.yaml")
    };
    paths
        .iter()
        .filter(is_input)
        .map(|path| base(&std::fs::read_to_string(path).unwrap()))
        .collect()
});

static POOL: LazyLock<Vec<Value>> = LazyLock::new(|| serde_norway::from_str(VALUES).unwrap());

static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut keys = BTreeSet::new();
    BASES.iter().for_each(|base| all_keys(base, &mut keys));
    keys.extend(
        ["unheard_of", "a.b", "", "x y", "topic", "tls", "auth", "json"].map(str::to_owned),
    );
    keys.into_iter().collect()
});

/// Returns a configuration as a structure, also where its object has it as text.
fn base(text: &str) -> Value {
    let mut value: Value = serde_norway::from_str(text).unwrap();
    value.apply_merge().unwrap();
    if let Some(Value::String(inner)) = value.get("spec").and_then(|spec| spec.get("config")) {
        let mut inner: Value = serde_norway::from_str(inner).unwrap();
        inner.apply_merge().unwrap();
        value["spec"]["config"] = inner;
    }
    value
}

fn all_keys(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Mapping(fields) => {
            for (key, inner) in fields {
                keys.extend(key.as_str().map(str::to_owned));
                all_keys(inner, keys);
            }
        }
        Value::Sequence(items) => items.iter().for_each(|item| all_keys(item, keys)),
        _ => {}
    }
}

/// One change of a tree: position, operation, value and name.
#[derive(Clone, Copy, Debug)]
struct Change {
    place: u16,
    kind: u8,
    value: u8,
    key: u16,
}

fn change(tree: &mut Value, change: Change) {
    let mut count = 0;
    walk(tree, &mut |_| count += 1);
    let wanted = usize::from(change.place) % count;
    let mut now = 0;
    walk(tree, &mut |value| {
        if now == wanted {
            apply(value, change);
        }
        now += 1;
    });
}

fn walk(value: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Mapping(fields) => fields.iter_mut().for_each(|(_, inner)| walk(inner, visit)),
        Value::Sequence(items) => items.iter_mut().for_each(|item| walk(item, visit)),
        _ => {}
    }
    visit(value);
}

fn apply(value: &mut Value, change: Change) {
    let from_pool = POOL[usize::from(change.value) % POOL.len()].clone();
    let key = KEYS[usize::from(change.key) % KEYS.len()].clone();
    match (change.kind % 4, value) {
        (0, Value::Mapping(fields)) => drop(fields.insert(Value::String(key), from_pool)),
        (0, Value::Sequence(items)) => items.push(from_pool),
        (1, Value::Mapping(fields)) if !fields.is_empty() => {
            let place = usize::from(change.key) % fields.len();
            let gone = fields.keys().nth(place).unwrap().clone();
            fields.shift_remove(&gone);
        }
        (1, Value::Sequence(items)) if !items.is_empty() => {
            items.remove(usize::from(change.key) % items.len());
        }
        (2, Value::Sequence(items)) if !items.is_empty() => {
            let again = items[usize::from(change.key) % items.len()].clone();
            items.push(again);
        }
        (2, Value::Mapping(fields)) if !fields.is_empty() => {
            let place = usize::from(change.key) % fields.len();
            let again = fields.values().nth(place).unwrap().clone();
            fields.insert(Value::String(key), again);
        }
        (_, value) => *value = from_pool,
    }
}

fn configuration() -> impl Strategy<Value = Value> {
    let one = (any::<u16>(), any::<u8>(), any::<u8>(), any::<u16>())
        .prop_map(|(place, kind, value, key)| Change { place, kind, value, key });
    (0..BASES.len(), prop::collection::vec(one, 0..12)).prop_map(|(base, changes)| {
        let mut tree = BASES[base].clone();
        changes.into_iter().for_each(|one| change(&mut tree, one));
        tree
    })
}

/// Collects the leaves of a tree, each as its path and those above it, written as the list writes
/// them. It does not use the product's traversal.
fn leaves(value: &Value, above: &[String], out: &mut Vec<Vec<String>>) {
    let here = above.last().cloned().unwrap_or_default();
    let mut below = |step: String, inner: &Value| {
        let mut path = above.to_vec();
        path.push(format!("{here}{step}"));
        leaves(inner, &path, out);
    };
    match value {
        Value::Mapping(fields) if !fields.is_empty() => {
            for (key, inner) in fields {
                let key = key.as_str().unwrap();
                let quoted = key.is_empty() || key.contains(['.', '[', ' ', '"']);
                let step = match (quoted, here.is_empty()) {
                    (true, _) => format!("[{key:?}]"),
                    (false, true) => key.to_owned(),
                    (false, false) => format!(".{key}"),
                };
                below(step, inner);
            }
        }
        Value::Sequence(items) if !items.is_empty() => {
            for (place, inner) in items.iter().enumerate() {
                below(format!("[{place}]"), inner);
            }
        }
        _ => out.push(above.to_vec()),
    }
}

/// Returns an object with its configuration as text, as in its older form.
fn as_text(tree: &Value) -> Option<Value> {
    let config = tree.get("spec")?.get("config")?;
    let text = serde_norway::to_string(config).ok()?;
    let mut tree = tree.clone();
    tree["spec"]["config"] = Value::String(text);
    Some(tree)
}

/// 150 cases take 7 s of a processor, as the rules of the schema compile their patterns at each use;
/// `PROPTEST_CASES` requests more.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig { cases: if asked { usual.cases } else { 150 }, ..usual }
}

proptest! {
    #![proptest_config(config())]

    /// Scenario: a configuration with any parts cut, replaced, added or doubled, of right and wrong
    /// types. Guarantee: each leaf has one entry, which is never the one for forgotten leaves; the
    /// pipeline passes the definition's schema and rules, reads back as itself, and has each field
    /// that the list names; neither has a password; an object's older form gives the same. Slow:
    /// 150 configurations are converted and checked.
    #[test]
    fn each_leaf_is_accounted_for_and_what_comes_out_is_a_pipeline(tree in configuration()) {
        let text = serde_norway::to_string(&tree).unwrap();
        let Ok(conversion) = convert_config(&text, &ConvertOptions::default()) else { return Ok(()) };
        let at: Vec<String> =
            conversion.entries.iter().filter_map(|it| it.at.as_ref()).map(ToString::to_string).collect();
        let mut all = Vec::new();
        leaves(&tree, &[], &mut all);
        for path in &all {
            let covering = at.iter().filter(|at| path.contains(at)).count();
            prop_assert_eq!(covering, 1, "{:?}\n{:#?}", path.last(), conversion.entries);
        }
        for entry in &conversion.entries {
            if let Fate::Left { instead } = &entry.fate {
                prop_assert!(!instead.contains("this tool doesn't know it"), "{:?}", entry);
            }
        }
        let sound = support::sound(&conversion);
        prop_assert!(sound.is_ok(), "{}\n{}", sound.unwrap_err(), text);
        let told = format!("{:?}", conversion.entries);
        prop_assert!(!conversion.yaml.contains("s3cret") && !told.contains("s3cret"));
        if let Some(older) = as_text(&tree) {
            let older = serde_norway::to_string(&older).unwrap();
            let same = convert_config(&older, &ConvertOptions::default()).unwrap();
            prop_assert_eq!(same.yaml, conversion.yaml);
        }
    }

    /// Scenario: any text. Guarantee: a result or an error, and no panic.
    #[test]
    fn any_text_has_an_answer(text in ".{0,200}") {
        let _ = convert_config(&text, &ConvertOptions::default());
    }
}

/// Scenario: the same changes. Guarantee: most of them still have a pipeline, so the property above
/// tests something. Slow: 100 configurations, each checked by the API's schema.
#[test]
fn most_changed_configurations_are_converted() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut converted = 0;
    for _ in 0..100 {
        let tree = configuration().new_tree(&mut runner).unwrap().current();
        let text = serde_norway::to_string(&tree).unwrap();
        converted += u32::from(convert_config(&text, &ConvertOptions::default()).is_ok());
    }
    assert!(converted > 60, "{converted} of 100");
}
