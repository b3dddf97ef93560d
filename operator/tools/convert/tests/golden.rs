//! Realistic configurations, each with its expected pipeline and list as committed files.
//! `GOLDEN=write` rewrites them; read the difference before you commit it.

use std::path::{Path, PathBuf};

use millrace_convert::{Conversion, ConvertOptions, Fate, convert_config};

use crate::support;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata")
}

fn configurations() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".yaml")?.to_owned();
            (!name.ends_with(".pipeline")).then(|| (name, std::fs::read_to_string(&path).unwrap()))
        })
        .collect();
    files.sort();
    assert!(files.len() >= 5, "{} configurations", files.len());
    files
}

fn converted(text: &str) -> Conversion {
    convert_config(text, &ConvertOptions::default()).unwrap()
}

/// Renders the list as lines: fate, path, field, text.
fn list(conversion: &Conversion) -> String {
    let mut lines = String::new();
    for entry in &conversion.entries {
        let at = entry.at.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let line = match &entry.fate {
            Fate::Carried { to, but: None } => format!("carried    {at} -> {to}"),
            Fate::Carried { to, but: Some(but) } => format!("carried    {at} -> {to}: {but}"),
            Fate::FillIn { to, what } => format!("fill in    {at} -> {to}: {what}"),
            Fate::NotNeeded { why } => format!("not needed {at}: {why}"),
            Fate::Left { instead } => format!("left       {at}: {instead}"),
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

fn compare(name: &str, text: &str, wrong: &mut Vec<String>) {
    let path = folder().join(name);
    if std::env::var("GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if committed != text {
        wrong.push(format!("{name} should be:\n{text}"));
    }
}

/// Scenario: configurations as people have them. Guarantee: the committed pipeline and list.
#[test]
fn each_configuration_comes_to_its_pipeline_and_list() {
    let mut wrong = Vec::new();
    for (name, text) in configurations() {
        let conversion = converted(&text);
        compare(&format!("{name}.pipeline.yaml"), &conversion.yaml, &mut wrong);
        compare(&format!("{name}.list.txt"), &list(&conversion), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Scenario: the same. Guarantee: each pipeline passes the definition's schema and rules, reads
/// back as what was converted, and has each field that the list names.
#[test]
fn each_pipeline_is_one_that_the_api_server_takes() {
    for (name, text) in configurations() {
        support::sound(&converted(&text)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Scenario: the same, with passwords in them. Guarantee: neither pipeline nor list has one.
#[test]
fn no_password_comes_out() {
    let mut planted = 0;
    for (name, text) in configurations() {
        planted += text.matches("s3cret").count();
        let conversion = converted(&text);
        let out = format!("{}{}", conversion.yaml, list(&conversion));
        assert!(!out.contains("s3cret"), "{name}");
    }
    assert!(planted >= 3);
}
