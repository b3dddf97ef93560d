//! Compares relabeling with Prometheus' own package: random rules on random labels, each with
//! Prometheus' result. `e2e/relabel` generates such cases; 2,000 are stored here, and
//! `MILLRACE_RELABEL_CASES=FILE` names a file with others (`cargo xtask relabel`).

use millrace_scrape::relabel::{Action, LabelSet, RelabelScratch, Rule, Rules};
use millrace_wire::decompress::{ContentEncoding, Decompressor};
use serde_json::Value;

/// The most bytes of the stored cases, as text.
const TEXT_BYTES_MAX: usize = 16 << 20;

fn rule(written: &Value) -> Rule {
    let text = |name: &str| written[name].as_str().map(str::to_owned);
    let source = written["source"].as_array().into_iter().flatten();
    let default = Rule::default();
    Rule {
        action: Action::from_name(written["action"].as_str().unwrap()).unwrap(),
        source_labels: source.map(|name| name.as_str().unwrap().to_owned()).collect(),
        separator: text("separator").unwrap_or(default.separator),
        regex: text("regex").unwrap_or(default.regex),
        modulus: written["modulus"].as_u64().unwrap_or(0),
        replacement: text("replacement").unwrap_or(default.replacement),
        target_label: text("target").unwrap_or_default(),
    }
}

/// Returns our result of a case, in the form of Prometheus' result.
fn ours(rules: &Value, before: &Value) -> Value {
    let rules: Vec<_> = rules.as_array().unwrap().iter().map(rule).collect();
    let Ok(rules) = Rules::new(&rules) else { return Value::Null };
    let pair = |pair: &Value| [0, 1].map(|at| pair[at].as_str().unwrap().to_owned());
    let pairs: Vec<_> = before.as_array().unwrap().iter().map(pair).collect();
    let mut labels: LabelSet =
        pairs.iter().map(|[name, value]| (name.as_str(), value.as_str())).collect();
    match rules.apply(&mut labels, &mut RelabelScratch::default()) {
        Ok(true) => labels.iter().map(|(name, value)| serde_json::json!([name, value])).collect(),
        Ok(false) => Value::Bool(false),
        Err(error) => panic!("{error}"),
    }
}

fn cases() -> String {
    if let Ok(path) = std::env::var("MILLRACE_RELABEL_CASES") {
        return std::fs::read_to_string(path).unwrap();
    }
    let packed = include_bytes!("data/relabel.jsonl.gz");
    let mut text = Vec::new();
    let unpacked =
        Decompressor::new().decompress(ContentEncoding::Gzip, packed, TEXT_BYTES_MAX, &mut text);
    unpacked.unwrap();
    String::from_utf8(text).unwrap()
}

/// Guarantee: for random rules of all actions, refused rules, dropped labels and resulting labels
/// equal Prometheus'.
#[test]
fn rules_do_what_prometheus_makes_of_them() {
    let (mut count, mut refused, mut dropped, mut wrong) = (0, 0, 0, Vec::new());
    for line in cases().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (found, expected) = (ours(&case[0], &case[1]), &case[2]);
        count += 1;
        refused += usize::from(expected.is_null());
        dropped += usize::from(*expected == Value::Bool(false));
        if found != *expected {
            wrong.push(format!("{line}\n  ours: {found}"));
        }
    }
    println!("{count} cases, of which Prometheus refuses {refused} and drops {dropped}");
    assert!(count >= 2000 && refused < count / 2 && dropped < count / 3);
    let shown = &wrong[..wrong.len().min(40)];
    assert!(wrong.is_empty(), "{} differ, such as\n{}", wrong.len(), shown.join("\n"));
}
