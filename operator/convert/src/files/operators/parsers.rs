//! Parsers of lines, with the time and the severity that they find.

use millrace_crds::v1alpha1::ParseFormat;

use super::super::field::{Field, Of};
use super::super::layout;
use super::{ALL_LINES, Plan, common};
use crate::account::{Fate, Fields};
use crate::tree::Node;
use crate::words;
use crate::work::Work;

/// Longest pattern of a parser, and most names of a place.
const PATTERN_BYTES_MAX: usize = 1_024;
const NAME_BYTES_MAX: usize = 255;

const ONE_PARSER: &str = "a receiver has one parser: JSON, Logfmt or Regex; a pod may have another \
     by the annotation millrace.dev/logs-parser";

const PARSED_FIELD: &str =
    "it must be a field that the parser finds, at the top: attributes.NAME or body.NAME";

pub(super) fn parser(work: &mut Work, node: &Node<'_>, plan: &mut Plan, format: ParseFormat) {
    if plan.format != ParseFormat::None {
        return work.account.left(node, ONE_PARSER);
    }
    let mut fields = work.account.open(node, Fate::not_needed("it asks for nothing"));
    if format == ParseFormat::Regex {
        let to = plan.path("parse.pattern");
        let regex = node.get("regex").and_then(|it| it.said()).unwrap_or_default();
        let roles = millrace_lines::Roles::default();
        let usable =
            regex.len() <= PATTERN_BYTES_MAX && millrace_lines::Parse::regex(&regex, roles).is_ok();
        let written = fields.take("regex");
        let Some(written) = written.filter(|_| usable) else {
            return work.account.left(
                node,
                "a pattern of at most 1,024 characters with named groups, in RE2's syntax: write \
                 parse.format: Regex and parse.pattern",
            );
        };
        plan.pattern = Some(regex);
        work.account.carried(&written, to);
    }
    plan.format = format;
    if let Some(kind) = fields.take("type") {
        work.account.carried(&kind, plan.path("parse.format"));
    }
    source_and_target(work, &mut fields, plan, format);
    for (name, is_time) in [("timestamp", true), ("severity", false)] {
        let Some(block) = fields.take(name) else { continue };
        let inner = work.account.open(&block, Fate::not_needed("it asks for nothing"));
        if is_time { time(work, inner, plan) } else { severity(work, inner, plan) }
    }
    delimiters(work, &mut fields);
    work.account.rest(fields, |name| match name {
        "parse_ints" => Fate::not_needed("whole numbers are integers"),
        name => common(name),
    });
}

/// What is parsed, where it goes, and when.
fn source_and_target(work: &mut Work, fields: &mut Fields<'_>, plan: &Plan, format: ParseFormat) {
    if let Some(from) = fields.take("parse_from") {
        match from.said().as_deref().and_then(Field::read).is_some_and(|it| it.is_body()) {
            true => work.account.not_needed(&from, "the line is parsed"),
            false => work.account.left(&from, "the line is parsed, no field of it"),
        }
    }
    if let Some(to) = fields.take("parse_to") {
        let target = to.said().as_deref().and_then(Field::read);
        match target.as_ref().map(|it| (it.of, it.keys.len())) {
            Some((Of::Attributes, 0)) => work.account.not_needed(&to, "fields become attributes"),
            Some((Of::Body, 0)) => work.account.differs(
                &to,
                plan.path("parse"),
                "fields become attributes, and the body stays the text: write parse.body for the \
                 field with the message",
            ),
            _ => work.account.left(&to, "fields become attributes, at the top"),
        }
    }
    if let Some(condition) = fields.take("if") {
        let text = condition.said().unwrap_or_default();
        match format == ParseFormat::Json && asks_for_braces(&text) {
            true => work.account.not_needed(
                &condition,
                "a text without the format is the body as it stands, and counted",
            ),
            false => work.account.left(&condition, ALL_LINES),
        }
    }
}

/// What stands between pairs, and within them.
fn delimiters(work: &mut Work, fields: &mut Fields<'_>) {
    for name in ["delimiter", "pair_delimiter"] {
        let Some(sign) = fields.take(name) else { continue };
        match sign.said().as_deref() {
            Some("=") if name == "delimiter" => work.account.not_needed(&sign, "it is ="),
            Some(" " | "") if name == "pair_delimiter" => {
                work.account.not_needed(&sign, "pairs stand apart by spaces");
            }
            _ => {
                work.account.left(&sign, "Logfmt is name=value, with spaces between: write a Regex")
            }
        }
    }
}

/// Whether a condition asks no more than that a line looks like an object.
fn asks_for_braces(condition: &str) -> bool {
    let text: String = condition.split_whitespace().collect();
    let begins = ["bodymatches", "hasPrefix(body,", "bodystartsWith"];
    text.contains('{') && begins.iter().any(|begin| text.starts_with(begin)) && !text.contains("&&")
}

pub(super) fn time(work: &mut Work, mut fields: Fields<'_>, plan: &mut Plan) {
    let account = &mut work.account;
    let (from, kind, written) =
        (fields.take("parse_from"), fields.take("layout_type"), fields.take("layout"));
    let name = from.as_ref().and_then(|it| it.said()).as_deref().and_then(Field::read);
    let name = name.as_ref().and_then(Field::parsed).map(str::to_owned);
    let said = |node: &Option<Node<'_>>| node.as_ref().and_then(|it| it.said()).unwrap_or_default();
    let format = layout::format(&said(&kind), &said(&written));
    let is_free = name.as_deref().is_some_and(|name| is_name(name) && !plan.has_place(name));
    let instead = match (is_free && plan.format != ParseFormat::None, &format) {
        (false, _) => Some(PARSED_FIELD),
        (true, None) => Some(
            "a layout has %Y, %m or %b, %d or %e, %H, %M and %S once, and may have %f and %z; no \
             names of days or zones",
        ),
        (true, Some(_)) if plan.timestamp.is_some() => Some("a record has one time"),
        (true, Some(_)) => None,
    };
    if let (None, Some(name), Some(format)) = (instead, &name, format) {
        plan.timestamp = Some(layout::timestamp(name, format));
    }
    let has_layout = plan.timestamp.as_ref().is_some_and(|it| it.layout.is_some());
    let of_layout = if has_layout { "parse.timestamp.layout" } else { "parse.timestamp.format" };
    let parts = [
        (&from, "parse.timestamp.fields"),
        (&kind, "parse.timestamp.format"),
        (&written, of_layout),
    ];
    for (node, to) in parts {
        let Some(node) = node else { continue };
        match instead {
            None => account.carried(node, plan.path(to)),
            Some(instead) => account.left(node, instead),
        }
    }
    if let Some(location) = fields.take("location") {
        match location.said().as_deref() {
            Some("UTC" | "GMT" | "Etc/UTC" | "Z") => {
                account.not_needed(&location, "a time without an offset is UTC");
            }
            _ => {
                account.left(&location, "a time without an offset is UTC: have programs write one")
            }
        }
    }
    account.rest(fields, |name| match name {
        "time_zone_locations" => Fate::left("zones have no names: have programs write offsets"),
        "overwrite_text" => Fate::left(words::UNKNOWN),
        name => common(name),
    });
}

pub(super) fn severity(work: &mut Work, mut fields: Fields<'_>, plan: &mut Plan) {
    let account = &mut work.account;
    if let Some(from) = fields.take("parse_from") {
        let field = from.said().as_deref().and_then(Field::read);
        let name = field.as_ref().and_then(Field::parsed);
        let name = name.filter(|name| is_name(name) && !plan.has_place(name));
        match name.filter(|_| plan.format != ParseFormat::None && plan.severity.is_empty()) {
            Some(name) => {
                plan.severity.push(name.to_owned());
                account.carried(&from, plan.path("parse.severity"));
            }
            None => account.left(&from, PARSED_FIELD),
        }
    }
    account.rest(fields, |name| match name {
        "preset" => Fate::not_needed("usual words and numbers of severities are known"),
        "mapping" => Fate::left(
            "usual words are known (docs/files.md#fields-out-of-lines); another stays the severity's \
             text, without a number",
        ),
        "overwrite_text" => Fate::left("the severity's text stays as it is written"),
        name => common(name),
    });
}

/// Names of fields that a pool takes.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::asks_for_braces;

    /// Scenario: conditions of a JSON parser. Guarantee: those that ask for an object's braces and
    /// no more are recognised.
    #[test]
    fn conditions_that_ask_for_braces_are_known() {
        assert!(asks_for_braces(r#"body matches "^{.*}$""#));
        assert!(asks_for_braces(r#"hasPrefix(body, "{")"#));
        assert!(!asks_for_braces(r#"body matches "^{" && resource.x == "a""#));
        assert!(!asks_for_braces("attributes.app == 'a'"));
    }
}
