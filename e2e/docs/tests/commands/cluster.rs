//! Command lines of kubectl and helm: verbs and options that pages use, files, charts and values,
//! and what is said of our kinds: fields, annotations, patches.

use millrace_docs::shell::Command;
use serde_json::Value;

use crate::commands::tree::Tree;
use crate::commands::{Extent, judge};

/// Options of every verb; a value follows.
const NAMESPACE: [&str; 2] = ["-n", "--namespace"];

/// Verbs, with their options: a value follows those that end in `=`.
const VERBS: [(&str, &[&str]); 18] = [
    ("annotate", &["--overwrite"]),
    ("apply", &["-f=", "--field-manager=", "--server-side"]),
    ("delete", &["--all", "--cascade=", "--force"]),
    ("describe", &[]),
    ("events", &["--for="]),
    ("exec", &[]),
    ("explain", &[]),
    ("get", &["-A", "--all-namespaces", "-o=", "-w"]),
    ("krew", &["--archive=", "--manifest="]),
    ("logs", &["-f"]),
    ("patch", &["-p=", "--subresource=", "--type="]),
    ("port-forward", &[]),
    ("proxy", &[]),
    ("replace", &["-f="]),
    ("scale", &["--all", "--replicas="]),
    ("wait", &["--for=", "--timeout="]),
    ("create", &["-f="]),
    ("rollout", &[]),
];

/// Verbs whose first word is a kind.
const OF_KINDS: [&str; 7] =
    ["annotate", "delete", "describe", "get", "patch", "port-forward", "scale"];

/// The release that has a namespace of its own.
const OPERATOR: &str = "millrace";

const HELM: [(&str, &[&str]); 7] = [
    ("install", &["--create-namespace", "--set=", "-f=", "--version=", "--wait"]),
    ("uninstall", &[]),
    ("upgrade", &["--install", "--reuse-values", "--set=", "-f=", "--version=", "--wait"]),
    ("rollback", &[]),
    ("template", &["--set=", "-f="]),
    ("test", &[]),
    ("show", &[]),
];

/// A command's words, by what they are.
#[derive(Default)]
struct Parts<'a> {
    verb: &'a str,
    plain: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
    /// Behind `--`.
    inner: Vec<String>,
}

impl<'a> Parts<'a> {
    fn of(words: &'a [String], verbs: &[(&str, &[&str])]) -> Result<Self, String> {
        let mut parts = Self::default();
        let mut rest = words.iter().map(String::as_str).skip(1);
        // Options may stand before the verb, and are known by it.
        let is_value = |before: Option<&str>| before.is_some_and(|it| NAMESPACE.contains(&it));
        let verb = words.iter().enumerate().skip(1).find(|(number, word)| {
            !word.starts_with('-') && !is_value(words.get(number - 1).map(String::as_str))
        });
        let Some((at, verb)) = verb else { return Ok(parts) };
        let known = verbs.iter().find(|(name, _)| name == verb);
        let (_, options) = known.ok_or_else(|| format!("the verb {verb} is unknown"))?;
        parts.verb = verb;
        let mut number = 0;
        while let Some(word) = rest.next() {
            number += 1;
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if word == "--" {
                parts.inner = rest.map(str::to_owned).collect();
                break;
            } else if !word.starts_with('-') {
                parts.plain.extend((number != at).then_some(word));
            } else if NAMESPACE.contains(&name) || options.contains(&format!("{name}=").as_str()) {
                let value = if word.contains('=') { value } else { rest.next().unwrap_or("") };
                number += usize::from(!word.contains('='));
                parts.options.push((name, value));
            } else if options.contains(&name) {
                parts.options.push((name, ""));
            } else {
                return Err(format!("{verb} has no {name} here"));
            }
        }
        Ok(parts)
    }

    fn option(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.options.iter().filter(move |(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// A word that stands for others.
fn is_placeholder(word: &str) -> bool {
    word.bytes().all(|it| it.is_ascii_uppercase() || it == b'-')
}

pub(crate) fn kubectl(tree: &Tree, words: &[String], extent: Extent) -> Vec<String> {
    let parts = match Parts::of(words, &VERBS) {
        Ok(parts) => parts,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    for file in parts.option("-f") {
        if file.contains('/') && !file.contains("://") && !tree.has(file) {
            faults.push(format!("there is no {file}"));
        }
    }
    if parts.verb == "explain" {
        faults.extend(parts.plain.iter().filter_map(|path| explained(tree, path)));
        return faults;
    }
    if parts.verb == "exec" && !parts.inner.is_empty() {
        let inner = Command { words: parts.inner.clone(), ..Command::default() };
        return judge(tree, &inner, extent).unwrap_or_else(|| vec!["no rule knows it".to_owned()]);
    }
    let Some(first) = parts.plain.first().filter(|_| OF_KINDS.contains(&parts.verb)) else {
        if OF_KINDS.contains(&parts.verb) && extent == Extent::Whole {
            faults.push("a kind is missing".to_owned());
        }
        return faults;
    };
    let kinds: Vec<&str> = first.split('/').next().unwrap_or_default().split(',').collect();
    let unknown = kinds.iter().filter(|kind| !tree.has_kind(kind) && !is_placeholder(kind));
    faults.extend(unknown.map(|kind| format!("there is no kind {kind}")));
    let Some(schema) = kinds.first().and_then(|kind| tree.schema(kind)) else { return faults };
    for path in parts.option("-o").filter_map(|it| it.strip_prefix("jsonpath={.")) {
        let path: Vec<&str> = path.trim_end_matches('}').split('.').collect();
        faults.extend(missing(schema, &path).map(|field| format!("there is no field {field}")));
    }
    for patch in parts.option("-p") {
        match serde_json::from_str(patch) {
            Ok(patch) => faults.extend(unknown_field(schema, &patch, "")),
            Err(error) => faults.push(format!("the patch is no JSON: {error}")),
        }
    }
    if parts.verb == "annotate" {
        let names = parts.plain.iter().filter_map(|it| {
            it.split_once('=').map(|(name, _)| name).or_else(|| it.strip_suffix('-'))
        });
        let unread = names.filter(|name| name.contains('/') && !tree.quotes(name));
        faults.extend(unread.map(|name| format!("nothing reads the annotation {name}")));
    }
    faults
}

/// What is wrong with what `kubectl explain` is asked.
fn explained(tree: &Tree, path: &str) -> Option<String> {
    let mut steps = path.split('.');
    let kind = steps.next().unwrap_or_default();
    let Some(schema) = tree.schema(kind) else { return Some(format!("there is no kind {kind}")) };
    missing(schema, &steps.collect::<Vec<_>>()).map(|field| format!("there is no field {field}"))
}

/// The first step that a schema hasn't.
fn missing(schema: &Value, path: &[&str]) -> Option<String> {
    let mut here = schema;
    for step in path {
        let (name, index) = step.split_once('[').unwrap_or((step, ""));
        here = match here["properties"].get(name) {
            Some(field) if index.is_empty() => field,
            Some(list) => &list["items"],
            None => return Some((*name).to_owned()),
        };
    }
    None
}

/// A field of a patch that a schema hasn't.
fn unknown_field(schema: &Value, patch: &Value, place: &str) -> Option<String> {
    patch.as_object()?.iter().find_map(|(name, value)| {
        let of_all = place.is_empty() && name == "metadata";
        let place = format!("{place}.{name}");
        match schema["properties"].get(name) {
            _ if of_all => None,
            Some(field) => unknown_field(field, value, &place),
            None => Some(format!("there is no field {place}")),
        }
    })
}

pub(crate) fn helm(tree: &Tree, words: &[String], extent: Extent) -> Vec<String> {
    let parts = match Parts::of(words, &HELM) {
        Ok(parts) => parts,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    let is_elsewhere = NAMESPACE.iter().any(|name| parts.option(name).next().is_some());
    if parts.plain.first() == Some(&OPERATOR) && !is_elsewhere {
        faults.push(format!("{OPERATOR} isn't looked for in its namespace"));
    }
    let named = parts.plain.iter().find(|it| it.contains('/'));
    let Some(chart) = named.and_then(|it| it.rsplit('/').next()) else {
        if ["install", "upgrade"].contains(&parts.verb) && extent == Extent::Whole {
            faults.push("a chart is missing".to_owned());
        }
        return faults;
    };
    let schema = tree.read(&format!("charts/{chart}/values.schema.json"));
    let Ok(schema) = serde_json::from_str::<Value>(&schema) else {
        return vec![format!("there is no chart {chart}")];
    };
    for (name, value) in parts.option("--set").filter_map(|it| it.split_once('=')) {
        let path: Vec<&str> = name.split('.').collect();
        if let Some(field) = missing(&schema, &path) {
            faults.push(format!("{chart} has no value {name}: {field} is unknown"));
            continue;
        }
        let place = format!("/properties/{}", path.join("/properties/"));
        let fits = match schema.pointer(&place).and_then(|it| it["type"].as_str()) {
            Some("boolean") => ["true", "false"].contains(&value),
            Some("integer") => value.parse::<i64>().is_ok(),
            Some("array") => value.starts_with('{'),
            Some("object") => false,
            _ => true,
        };
        if !fits {
            faults.push(format!("{name} can't be {value}"));
        }
    }
    faults
}
