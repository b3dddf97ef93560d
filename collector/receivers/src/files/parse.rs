//! What of a line becomes fields: from the settings to the parser.

use std::fmt::Display;

use millrace_config::{Parse as Settings, ParseFormat, TimeFormat, Timestamp};
use millrace_lines::{Layout, Parse, Roles, TimeFormat as Format};

use super::StartError;

/// None if nothing is to be parsed. `source` is for people.
pub(super) fn parse(settings: &Settings, source: &str) -> Result<Option<Parse>, StartError> {
    let roles = roles(settings, source)?;
    Ok(Some(match settings.format {
        ParseFormat::None => return Ok(None),
        ParseFormat::Json => Parse::json(roles),
        ParseFormat::Logfmt => Parse::logfmt(roles),
        ParseFormat::Regex => {
            let pattern = settings.pattern.as_deref().unwrap_or_default();
            Parse::regex(pattern, roles)
                .map_err(|why| unusable("pattern", pattern, &why, source))?
        }
    }))
}

/// Which fields have a place of their own, whatever the format.
pub(super) fn roles(settings: &Settings, source: &str) -> Result<Roles, StartError> {
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
                let read = Layout::new(layout);
                Format::Layout(
                    read.map_err(|why| unusable("timestamp.layout", layout, &why, source))?,
                )
            }
        };
    }
    let (body, severity) = (settings.body.clone(), settings.severity.clone());
    Ok(Roles { body, timestamp, time_format, severity })
}

fn unusable(field: &str, text: &str, why: &dyn Display, source: &str) -> StartError {
    StartError::Pattern {
        pattern: text.to_owned(),
        why: format!("{why} (parse.{field} of {source})"),
    }
}
