//! The receiver's operators: one parser with severity, time and body, and lines that are one
//! record, have counterparts. Of containers' files, what takes their format apart is built in.

mod parsers;

use millrace_crds::v1alpha1::{Multiline, Parse, ParseFormat, Timestamp};

use super::field::{Field, Of};
use super::starting;
use crate::account::Fate;
use crate::tree::{Node, Text};
use crate::words;
use crate::work::Work;
use parsers::{is_name, parser, severity, time};

/// Where Docker keeps its containers' log files.
const DOCKER_DIRECTORY: &str = "/var/lib/docker/containers";

const OTHER_PARSERS: &str = "the parsers are JSON, Logfmt and Regex: keep a Collector for others";
const IN_A_PATH: &str = "what a container's path says is written as attributes of the resource";
const CONTAINERS_FORMAT: &str = "the container runtime's format is taken apart";
const ALL_LINES: &str = "it holds for all lines; a pod may have another parser by the annotation \
     millrace.dev/logs-parser";
const LIMITS: &str = "the reader's limits are its own: a record has 256 KiB";

/// What operators ask for so far.
#[derive(Debug)]
pub(super) struct Plan {
    base: String,
    pub(super) reads_pods: bool,
    format: ParseFormat,
    pattern: Option<String>,
    body: Vec<String>,
    severity: Vec<String>,
    timestamp: Option<Timestamp>,
    multiline: Option<Multiline>,
    docker: bool,
}

/// What they come to.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) parse: Option<Parse>,
    pub(super) multiline: Option<Multiline>,
    pub(super) docker_directory: Option<String>,
}

impl Plan {
    pub(super) fn new(base: &str, reads_pods: bool) -> Self {
        Self {
            base: base.to_owned(),
            reads_pods,
            format: ParseFormat::None,
            pattern: None,
            body: Vec::new(),
            severity: Vec::new(),
            timestamp: None,
            multiline: None,
            docker: false,
        }
    }

    /// The path of a field of the receiver.
    pub(super) fn path(&self, field: &str) -> String {
        format!("{}.{field}", self.base)
    }

    /// Takes a pattern of a record's first line. False if it can't be one, or there is one.
    pub(super) fn starts(&mut self, pattern: &str) -> bool {
        let found = starting(pattern).filter(|_| self.multiline.is_none());
        let is_usable = found.is_some();
        if is_usable {
            self.multiline = found;
        }
        is_usable
    }

    /// Whether a field has a place.
    fn has_place(&self, name: &str) -> bool {
        let of_time = self.timestamp.iter().flat_map(|it| &it.fields);
        self.body.iter().chain(&self.severity).chain(of_time).any(|one| one == name)
    }

    pub(super) fn finish(self) -> Done {
        let parses = self.format != ParseFormat::None;
        Done {
            // What no operator gives a place is an attribute, as in the Collector.
            parse: parses.then_some(Parse {
                format: self.format,
                pattern: self.pattern,
                body: Some(self.body),
                severity: Some(self.severity),
                timestamp: self.timestamp,
            }),
            multiline: self.multiline,
            docker_directory: self.docker.then(|| DOCKER_DIRECTORY.to_owned()),
        }
    }
}

/// Accounts for all operators.
pub(super) fn read(work: &mut Work, list: &Node<'_>, plan: &mut Plan) {
    for item in work.account.items(list, "there is none") {
        operator(work, &item, plan);
    }
}

fn operator(work: &mut Work, node: &Node<'_>, plan: &mut Plan) {
    let said = |name: &str| node.get(name).and_then(|it| it.said());
    let kind = said("type").unwrap_or_default().replace('-', "_");
    let field = |name: &str| said(name).as_deref().and_then(Field::read);
    if plan.reads_pods && is_of_container_format(node, &kind) {
        return work.account.not_needed(node, CONTAINERS_FORMAT);
    }
    let of_path = |it: &Field| it.keys == ["log.file.path"] || it.keys == ["log.file.name"];
    if plan.reads_pods && field("parse_from").as_ref().is_some_and(of_path) {
        return work.account.not_needed(node, IN_A_PATH);
    }
    match &*kind {
        "container" => container(work, node, plan),
        "json_parser" => parser(work, node, plan, ParseFormat::Json),
        "regex_parser" => parser(work, node, plan, ParseFormat::Regex),
        "key_value_parser" => parser(work, node, plan, ParseFormat::Logfmt),
        "severity_parser" | "time_parser" => {
            let fields = work.account.open(node, Fate::not_needed("it asks for nothing"));
            match kind == "time_parser" {
                true => time(work, fields, plan),
                false => severity(work, fields, plan),
            }
        }
        "recombine" => recombine(work, node, plan),
        "move" => moved(work, node, plan, (field("from"), field("to"))),
        "remove" => removed(work, node, plan, field("field")),
        "noop" => work.account.not_needed(node, "it does nothing"),
        kind if kind.ends_with("_parser") => work.account.left(node, OTHER_PARSERS),
        _ => work.account.left(node, format!("{} {}", words::PROCESSORS, words::IN_FRONT)),
    }
}

/// Whether an operator takes a container runtime's format apart, as files did before there was a
/// `container` operator: by the usual names, or by what the pattern finds.
fn is_of_container_format(node: &Node<'_>, kind: &str) -> bool {
    let said = |name: &str| node.get(name).and_then(|it| it.said()).unwrap_or_default();
    let id = said("id");
    match kind {
        "regex_parser" => {
            let regex = said("regex");
            regex.contains("stdout|stderr") && regex.contains("<stream>")
        }
        "json_parser" => id == "parser-docker",
        "router" => id == "get-format",
        "recombine" => said("is_last_entry").contains("logtag"),
        _ => false,
    }
}

/// Fields that all operators have.
fn common(name: &str) -> Fate {
    match name {
        "id" | "output" | "type" => Fate::not_needed("operators follow each other"),
        "on_error" => {
            Fate::not_needed("a text without the format is the body as it stands, and counted")
        }
        "if" => Fate::left(ALL_LINES),
        "parse_to" => Fate::left("fields become attributes"),
        "source_identifier" => Fate::not_needed("lines of one stream are joined"),
        "overwrite_with" => Fate::not_needed("a record has the time of its first line"),
        "cache"
        | "max_batch_size"
        | "max_sources"
        | "max_log_size"
        | "max_unmatched_batch_size"
        | "force_flush_period" => Fate::not_needed(LIMITS),
        "preserve_to" => Fate::left("the text stays the body where no field takes its place"),
        _ => Fate::left(words::UNKNOWN),
    }
}

fn container(work: &mut Work, node: &Node<'_>, plan: &mut Plan) {
    let mut fields = work.account.open(node, Fate::not_needed(CONTAINERS_FORMAT));
    if let Some(kind) = fields.take("type") {
        match plan.reads_pods {
            true => work.account.not_needed(&kind, CONTAINERS_FORMAT),
            false => {
                work.account.left(&kind, "containers' files are read from /var/log/pods alone")
            }
        }
    }
    if let Some(format) = fields.take("format") {
        match format.said().as_deref() {
            Some("docker") if plan.reads_pods => {
                plan.docker = true;
                work.account.differs(
                    &format,
                    plan.path("dockerDirectory"),
                    "for cri-dockerd, whose files are links to Docker's; every node of the pool \
                     must have it",
                );
            }
            _ => work.account.not_needed(&format, CONTAINERS_FORMAT),
        }
    }
    work.account.rest(fields, |name| match name {
        "add_metadata_from_filepath" => Fate::not_needed(IN_A_PATH),
        name => common(name),
    });
}

fn recombine(work: &mut Work, node: &Node<'_>, plan: &mut Plan) {
    let mut fields = work.account.open(node, Fate::not_needed("it asks for nothing"));
    let to = plan.path("multiline.start");
    let of_body = node
        .get("combine_field")
        .and_then(|it| it.said())
        .as_deref()
        .and_then(Field::read)
        .is_some_and(|it| it.is_body());
    if let Some(first) = fields.take("is_first_entry") {
        let pattern = first.said().as_deref().and_then(matched);
        match pattern.filter(|_| of_body) {
            Some(pattern) if plan.starts(&pattern) => work.account.carried(&first, to),
            _ => work.account.left(
                &first,
                "a record begins with a line that has a match: multiline.start, or indented, or \
                 traces of a runtime",
            ),
        }
    }
    for name in ["combine_field", "combine_with"] {
        let Some(node) = fields.take(name) else { continue };
        let fits = match node.text() {
            Text::Said(text) if name == "combine_with" => text == "\n" || text == "\\n",
            Text::Said(_) => of_body,
            _ => false,
        };
        match fits {
            true => work.account.not_needed(&node, "lines of a record are joined by line feeds"),
            false => work.account.left(&node, "lines of the body are joined, by line feeds"),
        }
    }
    work.account.rest(fields, |name| match name {
        "is_last_entry" => Fate::left("say how a record begins: multiline.start"),
        name => common(name),
    });
}

/// The pattern of `body matches "PATTERN"`.
fn matched(expression: &str) -> Option<String> {
    let text = expression.trim().strip_prefix("body")?.trim_start().strip_prefix("matches")?;
    let text = text.trim();
    let quote = text.chars().next().filter(|one| matches!(one, '"' | '\'' | '`'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    if quote == '`' {
        return Some(inner.to_owned());
    }
    let mut pattern = String::new();
    let mut rest = inner.chars();
    while let Some(one) = rest.next() {
        match one {
            '\\' => pattern.push(rest.next()?),
            one if one == quote => return None,
            one => pattern.push(one),
        }
    }
    Some(pattern)
}

fn moved(
    work: &mut Work,
    node: &Node<'_>,
    plan: &mut Plan,
    (from, to): (Option<Field>, Option<Field>),
) {
    let (Some(from), Some(to)) = (from, to) else {
        return work.account.left(node, "fields keep their names");
    };
    let is_path =
        |it: &Field| it.of == Of::Resource && it.keys.iter().all(|key| key.starts_with("k8s."));
    let usual = ["log.iostream", "stream", "time", "logtag", "log"];
    let of_container = |it: &Field| it.keys.iter().any(|key| usual.contains(&&**key));
    if plan.reads_pods && (is_path(&to) && !to.keys.is_empty()) {
        return work.account.not_needed(node, IN_A_PATH);
    }
    if plan.reads_pods && plan.format == ParseFormat::None && of_container(&from) {
        return work.account.not_needed(node, CONTAINERS_FORMAT);
    }
    match from.parsed().filter(|name| is_name(name) && !plan.has_place(name)) {
        Some(name) if to.is_body() && plan.format != ParseFormat::None && plan.body.is_empty() => {
            plan.body.push(name.to_owned());
            work.account.carried(node, plan.path("parse.body"));
        }
        _ => work.account.left(node, "fields keep their names: one of them can become the body"),
    }
}

fn removed(work: &mut Work, node: &Node<'_>, plan: &Plan, field: Option<Field>) {
    let name = field.as_ref().and_then(Field::parsed);
    if name.is_some_and(|name| plan.has_place(name)) {
        return work.account.not_needed(node, "a field that takes a place is no attribute");
    }
    let of_container = ["time", "stream", "logtag", "log.file.path", "log"];
    match name.filter(|name| plan.reads_pods && of_container.contains(name)) {
        Some(_) => work.account.not_needed(node, CONTAINERS_FORMAT),
        None => work
            .account
            .left(node, format!("no field is removed: {} {}", words::PROCESSORS, words::IN_FRONT)),
    }
}

#[cfg(test)]
mod tests {
    use super::matched;

    /// Scenario: conditions of a record's first line. Guarantee: the pattern, with the expression's
    /// escapes undone; nothing for other expressions.
    #[test]
    fn patterns_are_read_out_of_expressions() {
        for (text, pattern) in [
            (r#"body matches "^\\d{4}""#, Some(r"^\d{4}")),
            (r"body matches '^[^\\s]'", Some(r"^[^\s]")),
            (r"body  matches `^\d`", Some(r"^\d")),
            (r#"body matches "a" or body matches "b""#, None),
            ("body == 'x'", None),
            ("attributes.x matches '^a'", None),
        ] {
            assert_eq!(matched(text).as_deref(), pattern, "{text}");
        }
    }
}
