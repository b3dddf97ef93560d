//! Converts layouts of times, strptime's and Go's, to Millrace's.

use millrace_crds::v1alpha1::{TimeFormat, Timestamp};

/// Maximum length of a pool's layout, in bytes.
const LAYOUT_BYTES_MAX: usize = 60;

/// Parts of the Collector's strptime that Millrace's lacks, or names differently.
const STRPTIME: [(&str, &str); 10] = [
    ("%L", "%f"),
    ("%s", "%f"),
    ("%T", "%H:%M:%S"),
    ("%F", "%Y-%m-%d"),
    ("%g", "%e"),
    ("%i", "%z"),
    ("%j", "%z"),
    ("%k", "%z"),
    ("%n", "\n"),
    ("%t", "\t"),
];

/// Parts of Go's layouts, the longer of two with the same prefix first.
const GO: [(&str, &str); 17] = [
    ("2006", "%Y"),
    ("Jan", "%b"),
    ("01", "%m"),
    ("02", "%d"),
    ("_2", "%e"),
    ("15", "%H"),
    ("04", "%M"),
    ("05", "%S"),
    ("Z07:00", "%z"),
    ("Z0700", "%z"),
    ("-07:00", "%z"),
    ("-0700", "%z"),
    (".000000000", ".%f"),
    (".000000", ".%f"),
    (".000", ".%f"),
    (",000", ",%f"),
    (".999999999", ".%f"),
];

/// Layouts that are read as a time of RFC 3339.
const RFC3339: [&str; 2] = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"];

/// Returns the time's format and layout; `None` if Millrace has no such format.
pub(super) fn convert_format(
    layout_type: &str,
    layout: &str,
) -> Option<(TimeFormat, Option<String>)> {
    let ours = match layout_type {
        "epoch" => {
            let format = match layout {
                "s" | "s.ms" | "s.us" | "s.ns" => TimeFormat::UnixSeconds,
                "ms" => TimeFormat::UnixMillis,
                "us" => TimeFormat::UnixMicros,
                "ns" => TimeFormat::UnixNanos,
                _ => return None,
            };
            return Some((format, None));
        }
        "gotime" => from_go_layout(layout)?,
        "strptime" | "" => {
            STRPTIME.iter().fold(layout.to_owned(), |text, (from, to)| text.replace(from, to))
        }
        _ => return None,
    };
    if is_rfc3339(&ours) {
        return Some((TimeFormat::Rfc3339, None));
    }
    let usable = ours.len() <= LAYOUT_BYTES_MAX && millrace_lines::TimeLayout::new(&ours).is_ok();
    usable.then_some((TimeFormat::Layout, Some(ours)))
}

/// Returns a timestamp of one field.
pub(super) fn new_timestamp(
    field: &str,
    (format, layout): (TimeFormat, Option<String>),
) -> Timestamp {
    Timestamp { fields: vec![field.to_owned()], format, layout }
}

fn is_rfc3339(layout: &str) -> bool {
    let rest = RFC3339.iter().find_map(|start| layout.strip_prefix(start));
    matches!(rest, Some("Z" | "%z" | ".%f" | ",%f" | ".%fZ" | ",%fZ" | ".%f%z" | ",%f%z" | ""))
}

fn from_go_layout(layout: &str) -> Option<String> {
    let mut ours = String::new();
    let mut rest = layout;
    while let Some(next) = rest.chars().next() {
        if let Some((part, with)) = GO.iter().find(|(part, _)| rest.starts_with(part)) {
            ours.push_str(with);
            rest = rest.strip_prefix(part)?;
        } else if next.is_ascii_digit() {
            // Millrace's layouts lack this part, for example a day without its zero.
            return None;
        } else {
            ours.push_str(if next == '%' { "%%" } else { "" });
            ours.extend((next != '%').then_some(next));
            rest = rest.get(next.len_utf8()..)?;
        }
    }
    Some(ours)
}

#[cfg(test)]
mod tests {
    use super::{TimeFormat, convert_format};

    /// Scenario: layouts of each kind. Guarantee: RFC 3339 where they match it, Millrace's layout
    /// for others, nothing where it lacks a part.
    #[test]
    fn layouts_become_ours_or_nothing() {
        let layout = |text: &str| Some((TimeFormat::Layout, Some(text.to_owned())));
        let rfc3339 = Some((TimeFormat::Rfc3339, None));
        for (kind, text, becomes) in [
            ("strptime", "%Y-%m-%dT%H:%M:%S.%LZ", rfc3339.clone()),
            ("strptime", "%Y-%m-%d %H:%M:%S,%f", rfc3339.clone()),
            ("strptime", "%FT%T%j", rfc3339.clone()),
            ("strptime", "%d/%b/%Y:%H:%M:%S %z", layout("%d/%b/%Y:%H:%M:%S %z")),
            ("strptime", "%b %d %H:%M:%S", None),
            ("strptime", "%I:%M:%S %p %Y-%m-%d", None),
            ("gotime", "2006-01-02T15:04:05Z07:00", rfc3339.clone()),
            ("gotime", "2006-01-02T15:04:05.999999999Z07:00", rfc3339),
            ("gotime", "02/Jan/2006:15:04:05 -0700", layout("%d/%b/%Y:%H:%M:%S %z")),
            ("gotime", "Jan 2 15:04:05 2006", None),
            ("epoch", "s.ms", Some((TimeFormat::UnixSeconds, None))),
            ("epoch", "ns", Some((TimeFormat::UnixNanos, None))),
            ("epoch", "days", None),
        ] {
            assert_eq!(convert_format(kind, text), becomes, "{kind} {text}");
        }
    }
}
