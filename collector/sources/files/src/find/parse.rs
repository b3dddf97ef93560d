//! Builds the parser of lines from the settings.

use std::fmt::Display;

use millrace_config::{Parse as Settings, ParseFormat, TimeFormat, Timestamp};
use millrace_lines::{ParseRules, Roles, TimeLayout, TimestampFormat as Format};

use crate::StartError;

/// Builds the parser, or None if nothing is parsed. `source` names the source in errors.
pub(super) fn build_parse(
    settings: &Settings,
    source: &str,
) -> Result<Option<ParseRules>, StartError> {
    let roles = build_roles(settings, source)?;
    Ok(Some(match settings.format {
        ParseFormat::None => return Ok(None),
        ParseFormat::Json => ParseRules::json(roles),
        ParseFormat::Logfmt => ParseRules::logfmt(roles),
        ParseFormat::Regex => {
            let pattern = settings.pattern.as_deref().unwrap_or_default();
            ParseRules::regex(pattern, roles)
                .map_err(|why| pattern_error("pattern", pattern, &why, source))?
        }
    }))
}

/// Builds the roles of fields, which are the same for all formats.
pub(super) fn build_roles(settings: &Settings, source: &str) -> Result<Roles, StartError> {
    let (mut timestamp, mut time_format) = (Vec::new(), Format::default());
    if let Some(Timestamp { fields, format, layout }) = &settings.timestamp {
        timestamp.clone_from(fields);
        time_format = match format {
            TimeFormat::Rfc3339 => Format::Rfc3339,
            TimeFormat::UnixSeconds => Format::UnixSeconds,
            TimeFormat::UnixMillis => Format::UnixMillis,
            TimeFormat::UnixMicros => Format::UnixMicros,
            TimeFormat::UnixNanos => Format::UnixNanos,
            TimeFormat::Layout => {
                let layout = layout.as_deref().unwrap_or_default();
                let read = TimeLayout::new(layout);
                Format::Layout(
                    read.map_err(|why| pattern_error("timestamp.layout", layout, &why, source))?,
                )
            }
        };
    }
    let (body, severity) = (settings.body.clone(), settings.severity.clone());
    Ok(Roles { body, timestamp, time_format, severity })
}

fn pattern_error(field: &str, text: &str, why: &dyn Display, source: &str) -> StartError {
    StartError::Pattern {
        pattern: text.to_owned(),
        why: format!("{why} (parse.{field} of {source})"),
    }
}
