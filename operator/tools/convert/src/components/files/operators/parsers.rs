//! Converts parsers of lines, with their time and severity.

use millrace_crds::v1alpha1::ParseFormat;

use super::super::field::{EntryField, Of};
use super::super::layout;
use super::{ALL_LINES, ParserPlan, common_fate};
use crate::account::{Fate, Fields};
use crate::advice;
use crate::tree::Node;
use crate::work::Work;

/// Maximum length of a parser's pattern, and maximum names of a role.
const PATTERN_BYTES_MAX: usize = 1_024;
const NAME_BYTES_MAX: usize = 255;

const ONE_PARSER: &str = "a receiver has one parser: JSON, Logfmt or Regex; a pod can select \
                          another by the annotation millrace.dev/logs-parser";

const PARSED_FIELD: &str =
    "it must be a top-level field that the parser finds: attributes.NAME or body.NAME";

pub(super) fn convert_parser(
    work: &mut Work,
    node: &Node<'_>,
    plan: &mut ParserPlan,
    format: ParseFormat,
) {
    if plan.format != ParseFormat::None {
        return work.account.unsupported(node, ONE_PARSER);
    }
    let mut fields = work.account.open_block(node, Fate::not_needed("it is empty"));
    if format == ParseFormat::Regex {
        let to = plan.field_path("parse.pattern");
        let regex = node.get("regex").and_then(|it| it.plain_text()).unwrap_or_default();
        let roles = millrace_lines::Roles::default();
        let usable = regex.len() <= PATTERN_BYTES_MAX
            && millrace_lines::ParseRules::regex(&regex, roles).is_ok();
        let written = fields.take_field("regex");
        let Some(written) = written.filter(|_| usable) else {
            return work.account.unsupported(
                node,
                "a pattern of at most 1,024 characters with named groups, in RE2's syntax: write \
                 parse.format: Regex and parse.pattern",
            );
        };
        plan.pattern = Some(regex);
        work.account.carried(&written, to);
    }
    plan.format = format;
    if let Some(kind) = fields.take_field("type") {
        work.account.carried(&kind, plan.field_path("parse.format"));
    }
    source_and_target(work, &mut fields, plan, format);
    for (name, is_time) in [("timestamp", true), ("severity", false)] {
        let Some(block) = fields.take_field(name) else { continue };
        let inner = work.account.open_block(&block, Fate::not_needed("it is empty"));
        if is_time { convert_time(work, inner, plan) } else { convert_severity(work, inner, plan) }
    }
    check_delimiters(work, &mut fields);
    work.account.account_remaining(fields, |name| match name {
        "parse_ints" => Fate::not_needed("whole numbers are stored as integers"),
        name => common_fate(name),
    });
}

/// Converts source, target and condition of a parser.
fn source_and_target(
    work: &mut Work,
    fields: &mut Fields<'_>,
    plan: &ParserPlan,
    format: ParseFormat,
) {
    if let Some(from) = fields.take_field("parse_from") {
        match from.plain_text().as_deref().and_then(EntryField::read).is_some_and(|it| it.is_body())
        {
            true => work.account.not_needed(&from, "the line is parsed"),
            false => work.account.unsupported(&from, "the line is parsed, not one of its fields"),
        }
    }
    if let Some(to) = fields.take_field("parse_to") {
        let target = to.plain_text().as_deref().and_then(EntryField::read);
        match target.as_ref().map(|it| (it.of, it.keys.len())) {
            Some((Of::Attributes, 0)) => work.account.not_needed(&to, "fields become attributes"),
            Some((Of::Body, 0)) => work.account.differs(
                &to,
                plan.field_path("parse"),
                "fields become attributes, and the body remains the line: write parse.body for the \
                 field with the message",
            ),
            _ => work.account.unsupported(&to, "fields become top-level attributes"),
        }
    }
    if let Some(condition) = fields.take_field("if") {
        let text = condition.plain_text().unwrap_or_default();
        match format == ParseFormat::Json && requires_braces(&text) {
            true => work.account.not_needed(
                &condition,
                "a line without the format becomes the body unchanged, and is counted",
            ),
            false => work.account.unsupported(&condition, ALL_LINES),
        }
    }
}

/// Checks the delimiters between and within pairs.
fn check_delimiters(work: &mut Work, fields: &mut Fields<'_>) {
    for name in ["delimiter", "pair_delimiter"] {
        let Some(sign) = fields.take_field(name) else { continue };
        match sign.plain_text().as_deref() {
            Some("=") if name == "delimiter" => work.account.not_needed(&sign, "it is ="),
            Some(" " | "") if name == "pair_delimiter" => {
                work.account.not_needed(&sign, "pairs are separated by spaces");
            }
            _ => work
                .account
                .unsupported(&sign, "Logfmt is name=value separated by spaces: write a Regex"),
        }
    }
}

/// Returns whether a condition only requires that a line has the form of an object.
fn requires_braces(condition: &str) -> bool {
    let text: String = condition.split_whitespace().collect();
    let begins = ["bodymatches", "hasPrefix(body,", "bodystartsWith"];
    text.contains('{') && begins.iter().any(|begin| text.starts_with(begin)) && !text.contains("&&")
}

pub(super) fn convert_time(work: &mut Work, mut fields: Fields<'_>, plan: &mut ParserPlan) {
    let account = &mut work.account;
    let (from, kind, written) = (
        fields.take_field("parse_from"),
        fields.take_field("layout_type"),
        fields.take_field("layout"),
    );
    let name = from.as_ref().and_then(|it| it.plain_text()).as_deref().and_then(EntryField::read);
    let name = name.as_ref().and_then(EntryField::parsed_name).map(str::to_owned);
    let text_of =
        |node: &Option<Node<'_>>| node.as_ref().and_then(|it| it.plain_text()).unwrap_or_default();
    let format = layout::convert_format(&text_of(&kind), &text_of(&written));
    let is_free = name.as_deref().is_some_and(|name| is_name(name) && !plan.has_role(name));
    let instead = match (is_free && plan.format != ParseFormat::None, &format) {
        (false, _) => Some(PARSED_FIELD),
        (true, None) => Some(
            "a layout needs %Y, %m or %b, %d or %e, %H, %M and %S once each, optionally %f and %z; \
             no names of days or zones",
        ),
        (true, Some(_)) if plan.timestamp.is_some() => Some("a record has one time"),
        (true, Some(_)) => None,
    };
    if let (None, Some(name), Some(format)) = (instead, &name, format) {
        plan.timestamp = Some(layout::new_timestamp(name, format));
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
            None => account.carried(node, plan.field_path(to)),
            Some(instead) => account.unsupported(node, instead),
        }
    }
    if let Some(location) = fields.take_field("location") {
        match location.plain_text().as_deref() {
            Some("UTC" | "GMT" | "Etc/UTC" | "Z") => {
                account.not_needed(&location, "a time without an offset is UTC");
            }
            _ => account
                .unsupported(&location, "a time without an offset is UTC: make programs write one"),
        }
    }
    account.account_remaining(fields, |name| match name {
        "time_zone_locations" => {
            Fate::unsupported("names of zones are not supported: make programs write offsets")
        }
        "overwrite_text" => Fate::unsupported(advice::UNKNOWN),
        name => common_fate(name),
    });
}

pub(super) fn convert_severity(work: &mut Work, mut fields: Fields<'_>, plan: &mut ParserPlan) {
    let account = &mut work.account;
    if let Some(from) = fields.take_field("parse_from") {
        let field = from.plain_text().as_deref().and_then(EntryField::read);
        let name = field.as_ref().and_then(EntryField::parsed_name);
        let name = name.filter(|name| is_name(name) && !plan.has_role(name));
        match name.filter(|_| plan.format != ParseFormat::None && plan.severity.is_empty()) {
            Some(name) => {
                plan.severity.push(name.to_owned());
                account.carried(&from, plan.field_path("parse.severity"));
            }
            None => account.unsupported(&from, PARSED_FIELD),
        }
    }
    account.account_remaining(fields, |name| match name {
        "preset" => Fate::not_needed("common words and numbers of severities are recognized"),
        "mapping" => Fate::unsupported(
            "common words are recognized (page Log files); others are stored as \
             the severity's text, without a number",
        ),
        "overwrite_text" => Fate::unsupported("the severity's text is stored unchanged"),
        name => common_fate(name),
    });
}

/// Returns whether a pool accepts the name of a field.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::requires_braces;

    /// Scenario: conditions of a JSON parser. Guarantee: those that only require an object's braces
    /// are recognised.
    #[test]
    fn conditions_that_ask_for_braces_are_known() {
        assert!(requires_braces(r#"body matches "^{.*}$""#));
        assert!(requires_braces(r#"hasPrefix(body, "{")"#));
        assert!(!requires_braces(r#"body matches "^{" && resource.x == "a""#));
        assert!(!requires_braces("attributes.app == 'a'"));
    }
}
