//! Links into Grafana and ClickHouse, made of templates that the chart's values give. Pure.
//!
//! A template is an absolute URL with placeholders such as `{namespace}`. Only http and https are
//! accepted, and placeholders only behind the host, so that no name leads to another host. Names
//! are encoded, so that none ends its part of the URL.

use std::fmt::Write as _;
use std::str::FromStr;

use crate::html::{Html, encode_segment};

/// Maximum size of a template: browsers and proxies cut longer URLs.
const TEMPLATE_BYTES_MAX: usize = 2_048;

/// The templates of the console's links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// A pipeline's dashboard.
    pub grafana: Option<LinkTemplate>,
    /// A table's query.
    pub clickhouse: Option<LinkTemplate>,
}

/// A checked template of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTemplate {
    /// The text up to each placeholder, with the placeholder.
    parts: Vec<(String, Placeholder)>,
    /// The text behind the last placeholder.
    end: String,
}

/// A name that a template contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
    Namespace,
    Pipeline,
    Signal,
    Database,
    Table,
}

/// The names of a link. Those of tables are empty in a link to the dashboard.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkNames<'a> {
    /// The pipeline's namespace.
    pub namespace: &'a str,
    /// The pipeline.
    pub pipeline: &'a str,
    /// traces, logs or metrics.
    pub signal: &'a str,
    /// The database of the tables.
    pub database: &'a str,
    /// The signal's table.
    pub table: &'a str,
}

/// Why a template is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The scheme is another one, or missing.
    #[error("the URL must begin with https:// or http://")]
    Scheme,
    /// The host is missing, or has characters that no host has.
    #[error("the URL must name a host, without user, password or placeholders")]
    Host,
    /// A character that no URL has.
    #[error("the URL contains {0:?}: write it percent-encoded")]
    Character(char),
    /// A placeholder that does not exist.
    #[error(
        "the URL contains {{{0}}}: placeholders are {{namespace}}, {{pipeline}}, {{signal}}, \
         {{database}}, {{table}}; write other braces percent-encoded, %7B and %7D"
    )]
    Placeholder(String),
    /// It is too long.
    #[error("the URL is longer than {max} bytes", max = TEMPLATE_BYTES_MAX)]
    Length,
}

impl FromStr for LinkTemplate {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(LinkError::Length);
        }
        let behind_scheme = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let behind_scheme = behind_scheme.ok_or(LinkError::Scheme)?;
        let host = behind_scheme.split(['/', '?', '#']).next().unwrap_or_default();
        let is_of_host = |it: char| it.is_ascii_alphanumeric() || ".-:[]".contains(it);
        if !host.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '[')
            || !host.chars().all(is_of_host)
        {
            return Err(LinkError::Host);
        }
        let is_forbidden = |it: char| !it.is_ascii_graphic() || "\"'<>\\^`|".contains(it);
        if let Some(char) = text.chars().find(|it| is_forbidden(*it)) {
            return Err(LinkError::Character(char));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (word, behind) = behind.split_once('}').unwrap_or((behind, ""));
            parts.push((literal(before)?, Placeholder::parse(word)?));
            rest = behind;
        }
        Ok(Self { parts, end: literal(rest)? })
    }
}

/// Returns a text between placeholders, which has no brace.
fn literal(text: &str) -> Result<String, LinkError> {
    match text.contains('}') {
        true => Err(LinkError::Character('}')),
        false => Ok(text.to_owned()),
    }
}

impl Placeholder {
    fn parse(word: &str) -> Result<Self, LinkError> {
        match word {
            "namespace" => Ok(Self::Namespace),
            "pipeline" => Ok(Self::Pipeline),
            "signal" => Ok(Self::Signal),
            "database" => Ok(Self::Database),
            "table" => Ok(Self::Table),
            other => Err(LinkError::Placeholder(other.to_owned())),
        }
    }

    const fn value<'a>(self, names: &LinkNames<'a>) -> &'a str {
        match self {
            Self::Namespace => names.namespace,
            Self::Pipeline => names.pipeline,
            Self::Signal => names.signal,
            Self::Database => names.database,
            Self::Table => names.table,
        }
    }
}

impl LinkTemplate {
    /// Returns the URL with these names.
    #[must_use]
    pub fn expand(&self, names: &LinkNames<'_>) -> String {
        let mut url = String::new();
        for (before, placeholder) in &self.parts {
            // Writing into a String can't fail.
            let _ = write!(url, "{before}{}", encode_segment(placeholder.value(names)));
        }
        url + &self.end
    }
}

/// Appends a link, if its template is given.
pub(crate) fn push_link(
    html: &mut Html,
    template: Option<&LinkTemplate>,
    names: &LinkNames<'_>,
    words: &'static str,
) {
    if let Some(template) = template {
        html.wrap_text(
            "<a class=\"deep\" rel=\"noreferrer\" href=\"",
            template.expand(names),
            "\">",
        )
        .raw(words)
        .raw("</a>");
    }
}

#[cfg(test)]
mod tests {
    use super::{LinkError, LinkNames, LinkTemplate};

    const NAMES: LinkNames<'_> = LinkNames {
        namespace: "obs",
        pipeline: "a b/../&\"<x>'#é",
        signal: "logs",
        database: "otel",
        table: "otel_logs",
    };

    /// Scenario: templates with other schemes, users, placeholders in the host, quotes, unknown
    /// placeholders, single braces. Guarantee: each is rejected, with the cause.
    #[test]
    fn unsafe_templates_are_rejected() {
        let placeholder = |word: &str| LinkError::Placeholder(word.to_owned());
        for (template, expected) in [
            ("", LinkError::Scheme),
            ("grafana.example/d/x", LinkError::Scheme),
            ("javascript:alert(1)", LinkError::Scheme),
            ("data:text/html,x", LinkError::Scheme),
            ("//grafana.example", LinkError::Scheme),
            ("HTTPS://grafana.example", LinkError::Scheme),
            ("https://", LinkError::Host),
            ("https:///path", LinkError::Host),
            ("https://user:secret@grafana.example/", LinkError::Host),
            ("https://{namespace}.example/", LinkError::Host),
            ("https://grafana.example\\@evil.example/", LinkError::Host),
            ("https://grafana.example/\"onclick=x", LinkError::Character('"')),
            ("https://grafana.example/a b", LinkError::Character(' ')),
            ("https://grafana.example/\u{202e}", LinkError::Character('\u{202e}')),
            ("https://grafana.example/{secret}", placeholder("secret")),
            ("https://grafana.example/{", placeholder("")),
            ("https://grafana.example/{{table}}", placeholder("{table")),
            ("https://grafana.example/}", LinkError::Character('}')),
        ] {
            assert_eq!(template.parse::<LinkTemplate>(), Err(expected), "{template}");
        }
        let long = format!("https://grafana.example/{}", "x".repeat(2_048));
        assert_eq!(long.parse::<LinkTemplate>(), Err(LinkError::Length));
    }

    /// Scenario: templates of Grafana and ClickHouse, and a name with markup, slashes and quotes.
    /// Guarantee: the name is one encoded value; all else is the template's.
    #[test]
    fn names_are_encoded_values() {
        let encoded = "a%20b%2F..%2F%26%22%3Cx%3E%27%23%C3%A9";
        for (template, expected) in [
            ("https://grafana.example", "https://grafana.example".to_owned()),
            (
                "https://g.example:3000/d/m?var-namespace={namespace}&var-pool={pipeline}#top",
                format!("https://g.example:3000/d/m?var-namespace=obs&var-pool={encoded}#top"),
            ),
            (
                "http://[::1]:8123/play#{database}.{table}/{signal}",
                "http://[::1]:8123/play#otel.otel_logs/logs".to_owned(),
            ),
        ] {
            let template: LinkTemplate = template.parse().unwrap();
            assert_eq!(template.expand(&NAMES), expected);
        }
    }
}
