//! Converts the receiver's operators: one parser with severity, time and body, and multiline
//! records, have counterparts. For containers' files, parsing of the runtime's format is built in.

mod parsers;

use millrace_crds::v1alpha1::{Multiline, Parse, ParseFormat, Timestamp};

use super::field::{EntryField, Of};
use super::multiline_from;
use crate::account::Fate;
use crate::advice;
use crate::tree::{Node, TextValue};
use crate::work::Work;
use parsers::{convert_parser, convert_severity, convert_time, is_name};

/// Docker's directory of containers' log files.
const DOCKER_DIRECTORY: &str = "/var/lib/docker/containers";

const OTHER_PARSERS: &str = "the parsers are JSON, Logfmt and Regex: keep a Collector for others";
const IN_A_PATH: &str = "a container's path is written as resource attributes";
const CONTAINERS_FORMAT: &str = "the container runtime's format is parsed";
const ALL_LINES: &str = "it applies to all lines; a pod can select another parser by the \
                         annotation millrace.dev/logs-parser";
const LIMITS: &str = "the reader has its own limits: 256 KiB per record";

/// The requests of the operators so far.
#[derive(Debug)]
pub(super) struct ParserPlan {
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

/// The resulting settings.
#[derive(Debug)]
pub(super) struct PlanOutcome {
    pub(super) parse: Option<Parse>,
    pub(super) multiline: Option<Multiline>,
    pub(super) docker_directory: Option<String>,
}

impl ParserPlan {
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

    /// Returns the path of a field of the receiver.
    pub(super) fn field_path(&self, field: &str) -> String {
        format!("{}.{field}", self.base)
    }

    /// Sets the pattern of a record's first line. Returns false if it is invalid, or one is already
    /// set.
    pub(super) fn set_start(&mut self, pattern: &str) -> bool {
        let found = multiline_from(pattern).filter(|_| self.multiline.is_none());
        let is_usable = found.is_some();
        if is_usable {
            self.multiline = found;
        }
        is_usable
    }

    /// Returns whether a field is used as body, severity or time.
    fn has_role(&self, name: &str) -> bool {
        let of_time = self.timestamp.iter().flat_map(|it| &it.fields);
        self.body.iter().chain(&self.severity).chain(of_time).any(|one| one == name)
    }

    pub(super) fn into_outcome(self) -> PlanOutcome {
        let parses = self.format != ParseFormat::None;
        PlanOutcome {
            // All other fields become attributes, as in the Collector.
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
pub(super) fn convert_operators(work: &mut Work, list: &Node<'_>, plan: &mut ParserPlan) {
    for item in work.account.list_items(list, "the list is empty") {
        convert_operator(work, &item, plan);
    }
}

fn convert_operator(work: &mut Work, node: &Node<'_>, plan: &mut ParserPlan) {
    let text_of = |name: &str| node.get(name).and_then(|it| it.plain_text());
    let kind = text_of("type").unwrap_or_default().replace('-', "_");
    let field = |name: &str| text_of(name).as_deref().and_then(EntryField::read);
    if plan.reads_pods && is_of_container_format(node, &kind) {
        return work.account.not_needed(node, CONTAINERS_FORMAT);
    }
    let of_path = |it: &EntryField| it.keys == ["log.file.path"] || it.keys == ["log.file.name"];
    if plan.reads_pods && field("parse_from").as_ref().is_some_and(of_path) {
        return work.account.not_needed(node, IN_A_PATH);
    }
    match &*kind {
        "container" => convert_container(work, node, plan),
        "json_parser" => convert_parser(work, node, plan, ParseFormat::Json),
        "regex_parser" => convert_parser(work, node, plan, ParseFormat::Regex),
        "key_value_parser" => convert_parser(work, node, plan, ParseFormat::Logfmt),
        "severity_parser" | "time_parser" => {
            let fields = work.account.open_block(node, Fate::not_needed("it is empty"));
            match kind == "time_parser" {
                true => convert_time(work, fields, plan),
                false => convert_severity(work, fields, plan),
            }
        }
        "recombine" => convert_recombine(work, node, plan),
        "move" => convert_move(work, node, plan, (field("from"), field("to"))),
        "remove" => convert_remove(work, node, plan, field("field")),
        "noop" => work.account.not_needed(node, "it does nothing"),
        kind if kind.ends_with("_parser") => work.account.unsupported(node, OTHER_PARSERS),
        _ => work.account.unsupported(node, format!("{} {}", advice::PROCESSORS, advice::IN_FRONT)),
    }
}

/// Returns whether an operator parses a container runtime's format, as files did before the
/// `container` operator existed: by the usual names, or by the fields that the pattern finds.
fn is_of_container_format(node: &Node<'_>, kind: &str) -> bool {
    let text_of = |name: &str| node.get(name).and_then(|it| it.plain_text()).unwrap_or_default();
    let id = text_of("id");
    match kind {
        "regex_parser" => {
            let regex = text_of("regex");
            regex.contains("stdout|stderr") && regex.contains("<stream>")
        }
        "json_parser" => id == "parser-docker",
        "router" => id == "get-format",
        "recombine" => text_of("is_last_entry").contains("logtag"),
        _ => false,
    }
}

/// Returns the fate of a field that all operators have.
fn common_fate(name: &str) -> Fate {
    match name {
        "id" | "output" | "type" => Fate::not_needed("operators run in order"),
        "on_error" => {
            Fate::not_needed("a line without the format becomes the body unchanged, and is counted")
        }
        "if" => Fate::unsupported(ALL_LINES),
        "parse_to" => Fate::unsupported("fields become attributes"),
        "source_identifier" => Fate::not_needed("lines of one stream are joined"),
        "overwrite_with" => Fate::not_needed("a record has the time of its first line"),
        "cache"
        | "max_batch_size"
        | "max_sources"
        | "max_log_size"
        | "max_unmatched_batch_size"
        | "force_flush_period" => Fate::not_needed(LIMITS),
        "preserve_to" => Fate::unsupported("the line stays the body unless a field replaces it"),
        _ => Fate::unsupported(advice::UNKNOWN),
    }
}

fn convert_container(work: &mut Work, node: &Node<'_>, plan: &mut ParserPlan) {
    let mut fields = work.account.open_block(node, Fate::not_needed(CONTAINERS_FORMAT));
    if let Some(kind) = fields.take_field("type") {
        match plan.reads_pods {
            true => work.account.not_needed(&kind, CONTAINERS_FORMAT),
            false => work
                .account
                .unsupported(&kind, "containers' files are read only from /var/log/pods"),
        }
    }
    if let Some(format) = fields.take_field("format") {
        match format.plain_text().as_deref() {
            Some("docker") if plan.reads_pods => {
                plan.docker = true;
                work.account.differs(
                    &format,
                    plan.field_path("dockerDirectory"),
                    "for cri-dockerd, whose files are links to Docker's; every node of the pool \
                     must have this directory",
                );
            }
            _ => work.account.not_needed(&format, CONTAINERS_FORMAT),
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "add_metadata_from_filepath" => Fate::not_needed(IN_A_PATH),
        name => common_fate(name),
    });
}

fn convert_recombine(work: &mut Work, node: &Node<'_>, plan: &mut ParserPlan) {
    let mut fields = work.account.open_block(node, Fate::not_needed("it is empty"));
    let to = plan.field_path("multiline.start");
    let of_body = node
        .get("combine_field")
        .and_then(|it| it.plain_text())
        .as_deref()
        .and_then(EntryField::read)
        .is_some_and(|it| it.is_body());
    if let Some(first) = fields.take_field("is_first_entry") {
        let pattern = first.plain_text().as_deref().and_then(match_pattern);
        match pattern.filter(|_| of_body) {
            Some(pattern) if plan.set_start(&pattern) => work.account.carried(&first, to),
            _ => work.account.unsupported(
                &first,
                "write a pattern of a record's first line: multiline.start, or use the presets for \
                 indented lines and stack traces",
            ),
        }
    }
    for name in ["combine_field", "combine_with"] {
        let Some(node) = fields.take_field(name) else { continue };
        let fits = match node.scalar_text() {
            TextValue::Plain(text) if name == "combine_with" => text == "\n" || text == "\\n",
            TextValue::Plain(_) => of_body,
            _ => false,
        };
        match fits {
            true => work.account.not_needed(&node, "lines of a record are joined by line feeds"),
            false => work.account.unsupported(&node, "lines of the body are joined, by line feeds"),
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "is_last_entry" => Fate::unsupported("write the beginning of a record: multiline.start"),
        name => common_fate(name),
    });
}

/// Returns the pattern of `body matches "PATTERN"`.
fn match_pattern(expression: &str) -> Option<String> {
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

fn convert_move(
    work: &mut Work,
    node: &Node<'_>,
    plan: &mut ParserPlan,
    (from, to): (Option<EntryField>, Option<EntryField>),
) {
    let (Some(from), Some(to)) = (from, to) else {
        return work.account.unsupported(node, "fields can't be renamed");
    };
    let is_path = |it: &EntryField| {
        it.of == Of::Resource && it.keys.iter().all(|key| key.starts_with("k8s."))
    };
    let usual = ["log.iostream", "stream", "time", "logtag", "log"];
    let of_container = |it: &EntryField| it.keys.iter().any(|key| usual.contains(&&**key));
    if plan.reads_pods && (is_path(&to) && !to.keys.is_empty()) {
        return work.account.not_needed(node, IN_A_PATH);
    }
    if plan.reads_pods && plan.format == ParseFormat::None && of_container(&from) {
        return work.account.not_needed(node, CONTAINERS_FORMAT);
    }
    match from.parsed_name().filter(|name| is_name(name) && !plan.has_role(name)) {
        Some(name) if to.is_body() && plan.format != ParseFormat::None && plan.body.is_empty() => {
            plan.body.push(name.to_owned());
            work.account.carried(node, plan.field_path("parse.body"));
        }
        _ => work
            .account
            .unsupported(node, "fields can't be renamed: one of them can become the body"),
    }
}

fn convert_remove(work: &mut Work, node: &Node<'_>, plan: &ParserPlan, field: Option<EntryField>) {
    let name = field.as_ref().and_then(EntryField::parsed_name);
    if name.is_some_and(|name| plan.has_role(name)) {
        return work
            .account
            .not_needed(node, "a field used for time, severity or body is not an attribute");
    }
    let of_container = ["time", "stream", "logtag", "log.file.path", "log"];
    match name.filter(|name| plan.reads_pods && of_container.contains(name)) {
        Some(_) => work.account.not_needed(node, CONTAINERS_FORMAT),
        None => work.account.unsupported(
            node,
            format!("fields can't be removed: {} {}", advice::PROCESSORS, advice::IN_FRONT),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::match_pattern;

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
            assert_eq!(match_pattern(text).as_deref(), pattern, "{text}");
        }
    }
}
