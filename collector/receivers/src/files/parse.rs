//! What of a line becomes fields: from the settings to the parser.

use millrace_config::{Parse as Settings, ParseFormat, TimeFormat};
use millrace_lines::{Parse, Roles, TimeFormat as Format};

use super::StartError;

/// None if nothing is to be parsed. `source` is for people.
pub(super) fn parse(settings: &Settings, source: &str) -> Result<Option<Parse>, StartError> {
    let (timestamp, time_format) =
        settings.timestamp.as_ref().map_or_else(Default::default, |of| {
            let format = match of.format {
                TimeFormat::Rfc3339 => Format::Rfc3339,
                TimeFormat::UnixSeconds => Format::UnixSeconds,
                TimeFormat::UnixMillis => Format::UnixMillis,
                TimeFormat::UnixMicros => Format::UnixMicros,
                TimeFormat::UnixNanos => Format::UnixNanos,
            };
            (of.fields.clone(), format)
        });
    let (body, severity) = (settings.body.clone(), settings.severity.clone());
    let roles = Roles { body, timestamp, time_format, severity };
    Ok(Some(match settings.format {
        ParseFormat::None => return Ok(None),
        ParseFormat::Json => Parse::json(roles),
        ParseFormat::Logfmt => Parse::logfmt(roles),
        ParseFormat::Regex => {
            let pattern = settings.pattern.as_deref().unwrap_or_default();
            Parse::regex(pattern, roles).map_err(|error| StartError::Pattern {
                pattern: pattern.to_owned(),
                why: format!("{error} (parse.pattern of {source})"),
            })?
        }
    }))
}
