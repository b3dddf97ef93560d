//! Maps severity words and numbers to OpenTelemetry's numbers.

/// The maximum bytes of a severity, both to look up and in a record.
pub(crate) const SEVERITY_BYTES_MAX: usize = 32;

/// Returns the number of a word in any case, of a letter as in klog, or of a number as in pino.
pub(crate) fn parse_severity(text: &[u8]) -> Option<u8> {
    let mut lower = [0; SEVERITY_BYTES_MAX];
    let lower = lower.get_mut(..text.len())?;
    lower.copy_from_slice(text);
    lower.make_ascii_lowercase();
    Some(match &*lower {
        b"trace" | b"t" | b"verbose" | b"finest" | b"10" => 1,
        b"trace2" | b"finer" => 2,
        b"trace3" => 3,
        b"trace4" => 4,
        b"debug" | b"d" | b"dbg" | b"fine" | b"20" => 5,
        b"debug2" => 6,
        b"debug3" => 7,
        b"debug4" => 8,
        b"info" | b"i" | b"inf" | b"information" | b"informational" | b"30" => 9,
        b"info2" | b"notice" => 10,
        b"info3" => 11,
        b"info4" => 12,
        b"warn" | b"w" | b"wrn" | b"warning" | b"40" => 13,
        b"warn2" => 14,
        b"warn3" => 15,
        b"warn4" => 16,
        b"error" | b"e" | b"err" | b"severe" | b"50" => 17,
        b"error2" => 18,
        b"error3" => 19,
        b"error4" => 20,
        b"fatal" | b"f" | b"crit" | b"critical" | b"alert" | b"emerg" | b"emergency" | b"panic"
        | b"dpanic" | b"60" => 21,
        b"fatal2" => 22,
        b"fatal3" => 23,
        b"fatal4" => 24,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: OpenTelemetry's names of all numbers, aliases, other cases, and texts that are no
    /// severity. Guarantee: each number's name has that number; aliases have their range's first;
    /// others are unknown.
    #[test]
    fn words_are_opentelemetrys_numbers() {
        let ranges = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];
        for (range, name) in (0..).zip(ranges) {
            assert_eq!(parse_severity(name.as_bytes()), Some(1 + 4 * range));
            for place in 2..=4 {
                let name = format!("{name}{place}");
                assert_eq!(parse_severity(name.as_bytes()), Some(4 * range + place), "{name}");
            }
        }
        for (word, expected) in [
            ("Warning", Some(13)),
            ("ERR", Some(17)),
            ("Critical", Some(21)),
            ("notice", Some(10)),
            ("W", Some(13)),
            ("30", Some(9)),
            ("", None),
            ("loud", None),
            ("7", None),
            ("warn5", None),
            ("a word that is longer than any of them", None),
        ] {
            assert_eq!(parse_severity(word.as_bytes()), expected, "{word}");
        }
    }
}
