//! docs/reference/collector-settings.md: every field of the collector's settings.
//!
//! Names, types, defaults and meanings are the types' own, by `millrace-config`'s feature
//! `json-schema`. A number's range is what the check itself says to a number that is out of it, so
//! it is written nowhere else. `tests/settings.rs` holds names and defaults against the reader.

use std::collections::BTreeMap;
use std::fmt::Write;

use millrace_config::{Config, ConfigError};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Where it is written, from the repository's root.
pub const PAGE: &str = "docs/reference/collector-settings.md";

/// The page cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A field could not be tried.
    #[error("no document of `bases` (e2e/docs/src/settings.rs) has a place for {0}")]
    NoPlace(String),
    /// A document that should be good is refused.
    #[error("a document of `bases` (e2e/docs/src/settings.rs) is refused: {0}")]
    Base(#[from] ConfigError),
    /// A document is no YAML.
    #[error("a document cannot be written as YAML")]
    Yaml(#[from] serde_norway::Error),
}

/// A field of the settings, or one of its sections.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its path: `receivers.files[].include`.
    pub path: String,
    /// Its schema, without references and without the null that stands for "absent".
    pub schema: Value,
    /// Whether a document is refused that has the section without it.
    pub required: bool,
}

impl Field {
    /// The schema of what it has or, if it is a list, of one entry.
    #[must_use]
    pub fn entry(&self) -> &Value {
        self.schema.get("items").unwrap_or(&self.schema)
    }

    /// Whether it has fields, or could.
    #[must_use]
    pub fn is_section(&self) -> bool {
        is_section(self.entry())
    }

    /// What stands for it where it is left out: null if nothing does.
    #[must_use]
    pub fn default(&self) -> Value {
        let is_map = has_type(&self.schema, "object") && !self.is_section();
        // Where an empty one is also left out when settings are written, the schema is silent.
        let silent = match has_type(&self.schema, "array") {
            true => json!([]),
            false if is_map => json!({}),
            false => Value::Null,
        };
        self.schema.get("default").cloned().unwrap_or(silent)
    }

    fn is_number(&self) -> bool {
        has_type(&self.schema, "integer") || self.schema["x-takes"] == "size"
    }
}

/// All fields of the settings, each section before its own fields.
#[must_use]
pub fn fields() -> Vec<Field> {
    let inline = SchemaSettings::draft2020_12().with(|it| it.inline_subschemas = true);
    let schema = inline.into_generator().into_root_schema_for::<Config>();
    let mut found = Vec::new();
    below(schema.as_value(), "", &mut found);
    found
}

fn below(schema: &Value, path: &str, found: &mut Vec<Field>) {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|it| it.iter().any(|one| one == name));
    // By name: the order of a JSON object depends on which features other crates ask for.
    let properties: BTreeMap<_, _> =
        schema["properties"].as_object().into_iter().flatten().collect();
    for (name, field) in properties {
        let field = present(field);
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let (items, inner) = match field.get("items") {
            Some(items) => (present(items), format!("{path}[]")),
            None => (field.clone(), path.clone()),
        };
        let required = is_required(name);
        found.push(Field { path, schema: field, required });
        below(&items, &inner, found);
    }
}

/// A field's schema where it is there: of `T` for an `Option<T>`.
fn present(field: &Value) -> Value {
    let mut field = field.clone();
    let choices = field["anyOf"].as_array().cloned().unwrap_or_default();
    let given = choices.iter().find(|it| it["type"] != "null").and_then(Value::as_object);
    if let (Some(given), Some(fields)) = (given, field.as_object_mut()) {
        for (name, value) in given {
            fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    field
}

fn has_type(schema: &Value, wanted: &str) -> bool {
    let types = &schema["type"];
    types == wanted || types.as_array().is_some_and(|all| all.iter().any(|one| one == wanted))
}

fn is_section(schema: &Value) -> bool {
    has_type(schema, "object") && schema["additionalProperties"] == false
}

/// Good documents that have a place for each number: one for each mode. Limits that follow other
/// fields (`shutdown.announceSeconds`, a job's `timeoutSeconds`) are at their widest.
fn bases() -> [Value; 2] {
    let multiline = json!({"indented": true});
    let job = json!({
        "name": "a", "targets": ["a:1"], "intervalSeconds": 3600, "http": [{"url": "http://a/b"}],
        "relabel": [{}], "metricRelabel": [{}],
    });
    let own = json!({"otlp": {"endpoint": "http://a:1"}});
    let mask = json!({"mask": {}});
    let redact = json!({
        "patterns": [{"name": "a", "pattern": "a", "action": mask}],
        "setActions": [{"set": "Email", "action": mask}],
    });
    let edge = json!({
        "processing": [{"name": "a", "redact": redact}],
        "telemetry": own,
        "shutdown": {"deadlineSeconds": 600},
        "receivers": {
            "otlp": {},
            "containers": {"multiline": multiline, "weights": [{"namespace": "a"}]},
            "files": [{"include": ["/a"], "multiline": multiline}],
            "prometheus": {"jobs": [job]},
        },
        "exporters": {"kafka": {
            "connection": {"bootstrapServers": ["a:1"]},
            "buffer": {"path": "/a"},
        }},
    });
    let gateway = json!({
        "receivers": {"kafka": {"connection": {"bootstrapServers": ["a:1"]}}},
        "exporters": {"clickhouse": {"endpoints": ["http://a:1"]}},
    });
    [edge, gateway]
}

/// The section that a path's field stands in, if a document has it. Sections that may be left out
/// are made; a list's first entry stands for all.
fn section<'a>(document: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let mut here = document;
    let (sections, _) = path.rsplit_once('.').unwrap_or_default();
    for step in sections.split('.').filter(|step| !step.is_empty()) {
        here = match step.strip_suffix("[]") {
            Some(list) => here.get_mut(list)?.get_mut(0)?,
            None if has_no_default(step) => here.get_mut(step)?,
            None => here.as_object_mut()?.entry(step).or_insert_with(|| json!({})),
        };
    }
    here.as_object_mut()
}

/// Sections that make another document of one that lacks them.
fn has_no_default(step: &str) -> bool {
    ["otlp", "kafka", "containers", "kernel", "prometheus", "clickhouse", "multiline", "buffer"]
        .contains(&step)
}

fn read(document: &Value) -> Result<Result<(), ConfigError>, PageError> {
    Ok(Config::load(&serde_norway::to_string(document)?).map(drop))
}

/// What the check says that a number must be; none if it takes any.
fn range(field: &Field) -> Result<Option<String>, PageError> {
    let Field { path, schema, .. } = field;
    let top = schema["format"].as_str().map_or(u64::MAX, |format| match format {
        "uint8" => u8::MAX.into(),
        "uint16" => u16::MAX.into(),
        "uint32" => u32::MAX.into(),
        _ => u64::MAX,
    });
    let (_, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut tried = false;
    for base in bases() {
        read(&base)??;
        for extreme in [0, top] {
            let mut document = base.clone();
            let Some(section) = section(&mut document, path) else { continue };
            section.insert(name.to_owned(), extreme.into());
            tried = true;
            let Err(error) = read(&document)? else { continue };
            let written = path.replace("[]", "[0]");
            let own = error.problems().iter().find(|problem| problem.field == written);
            let said = own.and_then(|it| it.message.split_once(" is out of range: use "));
            if let Some((_, range)) = said {
                return Ok(Some(range.to_owned()));
            }
        }
    }
    if tried { Ok(None) } else { Err(PageError::NoPlace(path.clone())) }
}

/// What may be written, in words.
fn takes(field: &Field) -> Result<String, PageError> {
    if !field.is_number() {
        return Ok(words(&field.schema));
    }
    let what = if field.schema["x-takes"] == "size" { "size" } else { "number" };
    Ok(range(field)?.map_or_else(|| what.to_owned(), |range| format!("{what}, {range}")))
}

fn words(schema: &Value) -> String {
    let choices: Vec<String> = choices(schema).map(|(word, _)| format!("`{word}`")).collect();
    if let Some(what) = schema["x-takes"].as_str() {
        what.to_owned()
    } else if !choices.is_empty() {
        choices.join(", ")
    } else if let Some(items) = schema.get("items") {
        match is_section(items) {
            true => "list of sections".to_owned(),
            false => format!("list: {}", words(items)),
        }
    } else if is_section(schema) {
        "section".to_owned()
    } else if has_type(schema, "object") {
        format!("map of names to {}", words(&schema["additionalProperties"]))
    } else if has_type(schema, "boolean") {
        "`true`, `false`".to_owned()
    } else if has_type(schema, "number") {
        "number".to_owned()
    } else {
        "text".to_owned()
    }
}

/// The words that a field may be, each with its meaning.
fn choices(schema: &Value) -> impl Iterator<Item = (&str, &str)> {
    let all = schema["oneOf"].as_array().into_iter().flatten();
    all.filter_map(|one| Some((one["const"].as_str()?, one["description"].as_str()?)))
}

fn default(field: &Field) -> String {
    let value = field.default();
    match &value {
        _ if field.required => "must be given".to_owned(),
        Value::Object(fields) if fields.is_empty() && field.is_section() => String::new(),
        Value::Null => "not given".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Object(fields) if fields.is_empty() => "none".to_owned(),
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => format!("`{text}`"),
        Value::Array(items) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            format!("`[{}]`", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(name, it)| Some((name, it.as_str()?)));
            let fields: BTreeMap<_, _> = fields.collect();
            let fields: Vec<String> =
                fields.into_iter().map(|(name, it)| format!("{name}: {it}")).collect();
            format!("`{{{}}}`", fields.join(", "))
        }
        Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
    }
}

fn meaning(field: &Field) -> String {
    let mut text = field.schema["description"].as_str().unwrap_or_default().to_owned();
    for (word, means) in choices(&field.schema) {
        let _ = write!(text, " `{word}`: {means}");
    }
    text
}

/// Table cells have no lines and no bars.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

const HEAD: &str = include_str!("settings.md");

/// The page.
///
/// # Errors
/// When a number has no place in the documents that ranges are asked with, or these are refused.
pub fn page() -> Result<String, PageError> {
    let mut parts: Vec<Part> = Vec::new();
    for field in fields() {
        let title = part(&field.path);
        if field.path == title {
            parts.push(Part { title, meaning: cell(&meaning(&field)), rows: String::new() });
        } else if let Some(part) = parts.last_mut() {
            let cells = [takes(&field)?, default(&field), meaning(&field)].map(|it| cell(&it));
            let _ = writeln!(part.rows, "| `{}` | {} |", field.path, cells.join(" | "));
        }
    }
    let mut page = HEAD.to_owned();
    for Part { title, meaning, rows } in parts.iter().filter(|part| !part.rows.is_empty()) {
        let head = "| field | takes | default | meaning |\n| --- | --- | --- | --- |\n";
        let _ = write!(page, "\n## `{title}`\n\n{meaning}\n\n{head}{rows}");
    }
    Ok(page)
}

/// A heading with its table.
struct Part {
    title: String,
    meaning: String,
    rows: String,
}

/// The part of the page that a field stands in: its first step, or two of receivers and exporters.
fn part(path: &str) -> String {
    let steps: Vec<&str> = path.split('.').map(|step| step.trim_end_matches("[]")).collect();
    let depth = if matches!(steps[0], "receivers" | "exporters") { 2 } else { 1 };
    steps.iter().take(depth).copied().collect::<Vec<_>>().join(".")
}
