//! The reference of the collector's settings, held against the reader that collectors have.

use std::collections::BTreeSet;
use std::path::Path;

use millrace_config::Config;
use millrace_docs::settings::{Field, PAGE, fields, page};
use serde_json::{Value, json};

/// Names in meanings that are no fields of ours.
const OTHERS_NAMES: [&str; 3] = ["_dead_letter", "otel_traces", "scrape_configs"];

/// No field can have this name.
const NO_FIELD: &str = "noSuchField";

/// A document with one field; a list on the way has one entry. Of `fields`, those that must be
/// given are there in each section on the way.
fn document(path: &str, value: Value, fields: &[Field]) -> Value {
    let mut document = value;
    let mut path = path;
    loop {
        let (section, step) = path.rsplit_once('.').unwrap_or(("", path));
        let name = step.trim_end_matches("[]");
        let inner = if step.ends_with("[]") { json!([document]) } else { document };
        let beside = fields.iter().filter(|it| it.required && parted(it).0 == section);
        let mut outer: Value = beside.map(|it| (parted(it).1.to_owned(), filled(it))).collect();
        outer[name] = inner;
        document = outer;
        if section.is_empty() {
            return document;
        }
        path = section;
    }
}

/// A field's section and its name there.
fn parted(field: &Field) -> (&str, &str) {
    field.path.rsplit_once('.').unwrap_or(("", &field.path))
}

fn read(document: &Value) -> Result<Config, String> {
    let text = serde_norway::to_string(document).map_err(|error| error.to_string())?;
    Config::parse(&text).map_err(|error| error.to_string())
}

/// The names that the reader itself takes in a section: what it says to one that it doesn't know.
fn taken(section: &str) -> BTreeSet<String> {
    let path = match section {
        "" => NO_FIELD.to_owned(),
        _ => format!("{section}.{NO_FIELD}"),
    };
    let said = read(&document(&path, Value::Null, &[])).unwrap_err();
    let (_, names) = said.split_once(NO_FIELD).unwrap_or_else(|| panic!("{section}: {said}"));
    names.split('`').skip(2).step_by(2).map(str::to_owned).collect()
}

/// Sections with the names of their fields, as the page has them.
fn sections(fields: &[Field]) -> Vec<(String, BTreeSet<String>)> {
    let lists = fields.iter().filter(|field| field.is_section());
    let paths = lists.map(|field| match field.schema.get("items") {
        Some(_) => format!("{}[]", field.path),
        None => field.path.clone(),
    });
    let paths = std::iter::once(String::new()).chain(paths);
    let names = |section: &str| {
        let below = |field: &Field| {
            let (above, name) = parted(field);
            (above == section).then(|| name.to_owned())
        };
        fields.iter().filter_map(below).collect()
    };
    paths.map(|path| (path.clone(), names(&path))).collect()
}

/// What page and reader don't have in common.
fn differences(fields: &[Field]) -> Vec<String> {
    let mut found = Vec::new();
    for (section, named) in sections(fields) {
        let taken = taken(&section);
        let missing = taken.difference(&named).map(|name| format!("{section}: {name} is missing"));
        found.extend(missing);
        let invented = named.difference(&taken).map(|name| format!("{section}: no {name} is read"));
        found.extend(invented);
    }
    found
}

/// A value for a field that must be given.
fn filled(field: &Field) -> Value {
    let word = |it: &Value| it["const"].as_str().map(str::to_owned);
    let first = field.schema["oneOf"].as_array().and_then(|all| word(&all[0]));
    match field.schema["x-takes"].as_str() {
        // Sections that must be given: exactly one of its fields, or none.
        _ if field.path.ends_with(".action") => json!({"mask": {}}),
        _ if field.path.ends_with(".podMetadata") => json!({}),
        _ if field.path.ends_with(".ratio") => json!(0.5),
        Some(what) if what.contains("URL") => json!("http://a:1"),
        _ => first.map_or_else(|| json!("/a"), Value::String),
    }
}

/// Scenario: types or comments changed and nobody ran `make codegen`. Guarantee: this fails.
#[test]
fn the_page_is_what_the_types_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page().unwrap(), "{PAGE} is out of date: run `make codegen`");
}

/// Scenario: each section, with a field in it that there can't be. Guarantee: the names that the
/// reader then says it takes are those of the page: none missing, none invented.
#[test]
fn every_section_has_the_fields_that_the_reader_takes() {
    let fields = fields();
    assert!(sections(&fields).len() > 30, "{} sections", sections(&fields).len());
    assert_eq!(differences(&fields), Vec::<String>::new());
}

/// Scenario: the fields without one of them, and with one more. Guarantee: the comparison says so.
#[test]
fn a_field_too_few_or_too_many_is_found() {
    let mut few = fields();
    let like = few.iter().find(|field| !field.is_section()).unwrap().clone();
    few.retain(|field| field.path != "exporters.kafka.lingerMillis");
    assert_eq!(differences(&few), ["exporters.kafka: lingerMillis is missing"]);
    let mut many = fields();
    many.push(Field { path: "receivers.files[].sparkle".to_owned(), ..like });
    assert_eq!(differences(&many), ["receivers.files[]: no sparkle is read"]);
}

/// Scenario: each field that may be left out, once left out and once with the default that the page
/// names for it. Guarantee: the same settings. One that must be given: refused without it.
#[test]
fn each_default_is_what_the_reader_takes_for_nothing() {
    let fields = fields();
    let (mut left_out, mut must) = (0, 0);
    for field in &fields {
        if field.required {
            must += 1;
            assert!(read(&document(&field.path, filled(field), &fields)).is_ok(), "{}", field.path);
        }
        // Without the field itself: its section with those that must be given.
        let mut without = document(&field.path, Value::Null, &fields);
        let place = format!("/{}", field.path.replace("[]", "/0").replace('.', "/"));
        let (parent, last) = place.rsplit_once('/').unwrap();
        without.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(last);
        if field.required {
            let said = read(&without).unwrap_err();
            assert!(said.contains(&format!("missing field `{last}`")), "{}: {said}", field.path);
            continue;
        }
        left_out += 1;
        let default = field.default();
        let with = document(&field.path, default.clone(), &fields);
        let (with, without) = (read(&with), read(&without));
        assert!(with.is_ok() && with == without, "{}: not {default}: {with:?}", field.path);
    }
    assert!(left_out > 150 && must > 10, "{left_out} left out, {must} must be given");
}

/// Scenario: the whole page. Guarantee: each field has a meaning that is a sentence and names
/// fields as documents write them; each number but a divisor has a range.
#[test]
fn each_field_is_described() {
    let page = page().unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.matches(" | ").count() == 3).collect();
    let rows: Vec<&&str> = rows.iter().filter(|row| row.starts_with("| `")).collect();
    assert!(rows.len() > 150, "{} rows", rows.len());
    for row in rows {
        assert!(row.ends_with(". |"), "no sentence: {row}");
        let is_free = ["| number |", "| size |"].iter().any(|it| row.contains(it));
        // Numbers of rules have theirs in the sentence: compiling says it, not the check.
        let has_range = row.contains("modulus") || row.contains(", from ");
        assert!(!is_free || has_range, "no range: {row}");
        assert!(!row.contains("[`") && !row.contains("Self::"), "words of the source: {row}");
        let words = row.split('`').skip(1).step_by(2).filter(|word| word.contains('_'));
        let is_snake = |word: &&str| word.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
        let mut snake = words.filter(is_snake).filter(|word| !OTHERS_NAMES.contains(word));
        assert_eq!(snake.next(), None, "no field's name: {row}");
    }
}
