//! Parses times by a layout like `strftime`'s, with the parts that logs need.

use crate::container::time;

/// The maximum parts of a layout: a time of 60 characters is twice the longest in use.
const PARTS_MAX: usize = 60;

const MONTHS: [&[u8; 3]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

/// A layout: `%Y`, `%m` or `%b` (three letters of the month's English name), `%d` or `%e` (without
/// zero), `%H`, `%M`, `%S`, each once; optionally `%f` (one to nine digits of a second) and `%z`
/// (`Z` or an offset; UTC without it). `%%` is a percent sign, and all other characters are
/// literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeLayout(Vec<LayoutPart>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LayoutPart {
    Literal(u8),
    Year,
    Month,
    MonthName,
    Day,
    BareDay,
    Hour,
    Minute,
    Second,
    Fraction,
    Offset,
}

/// Why a layout is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An unknown part.
    #[error("`%{0}` is not supported: use %Y %m %b %d %e %H %M %S %f %z or %%")]
    Unknown(char),
    /// A part is missing or repeated.
    #[error("{0} must appear exactly once")]
    Once(&'static str),
    /// More parts than a time has.
    #[error("more than {PARTS_MAX} parts")]
    TooLong,
}

impl TimeLayout {
    /// Compiles a layout.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn new(layout: &str) -> Result<Self, LayoutError> {
        let mut parts = Vec::new();
        let mut rest = layout.bytes();
        while let Some(byte) = rest.next() {
            if parts.len() == PARTS_MAX {
                return Err(LayoutError::TooLong);
            }
            parts.push(match byte {
                b'%' => match rest.next() {
                    Some(b'Y') => LayoutPart::Year,
                    Some(b'm') => LayoutPart::Month,
                    Some(b'b') => LayoutPart::MonthName,
                    Some(b'd') => LayoutPart::Day,
                    Some(b'e') => LayoutPart::BareDay,
                    Some(b'H') => LayoutPart::Hour,
                    Some(b'M') => LayoutPart::Minute,
                    Some(b'S') => LayoutPart::Second,
                    Some(b'f') => LayoutPart::Fraction,
                    Some(b'z') => LayoutPart::Offset,
                    Some(b'%') => LayoutPart::Literal(b'%'),
                    other => return Err(LayoutError::Unknown(other.map_or(' ', char::from))),
                },
                byte => LayoutPart::Literal(byte),
            });
        }
        let count = |of: &[LayoutPart]| parts.iter().filter(|part| of.contains(part)).count();
        for (name, of) in [
            ("%Y", &[LayoutPart::Year][..]),
            ("%m or %b", &[LayoutPart::Month, LayoutPart::MonthName]),
            ("%d or %e", &[LayoutPart::Day, LayoutPart::BareDay]),
            ("%H", &[LayoutPart::Hour]),
            ("%M", &[LayoutPart::Minute]),
            ("%S", &[LayoutPart::Second]),
        ] {
            if count(of) != 1 {
                return Err(LayoutError::Once(name));
            }
        }
        for (name, of) in [("%f", LayoutPart::Fraction), ("%z", LayoutPart::Offset)] {
            if count(&[of]) > 1 {
                return Err(LayoutError::Once(name));
            }
        }
        Ok(Self(parts))
    }

    /// Returns nanoseconds since 1970, or None if the text has another form.
    pub(super) fn read(&self, text: &[u8]) -> Option<u64> {
        let (mut date, mut clock) = ([0; 3], [0; 3]);
        let (mut nanos, mut offset_seconds) = (0, 0);
        let mut rest = text;
        for part in &self.0 {
            let read = match part {
                LayoutPart::Literal(byte) => {
                    rest = rest.strip_prefix(&[*byte])?;
                    continue;
                }
                LayoutPart::Fraction => {
                    (nanos, rest) = time::parse_nano_digits(rest)?;
                    continue;
                }
                LayoutPart::Offset => {
                    (offset_seconds, rest) = time::parse_any_offset(rest)?;
                    continue;
                }
                LayoutPart::MonthName => parse_month(rest)?,
                LayoutPart::Year => parse_digits(rest, 4)?,
                LayoutPart::BareDay => {
                    let bare = rest.strip_prefix(b" ").unwrap_or(rest);
                    let two = bare.get(1).is_some_and(u8::is_ascii_digit);
                    parse_digits(bare, if two { 2 } else { 1 })?
                }
                _ => parse_digits(rest, 2)?,
            };
            let slot = match part {
                LayoutPart::Year => &mut date[0],
                LayoutPart::Month | LayoutPart::MonthName => &mut date[1],
                LayoutPart::Day | LayoutPart::BareDay => &mut date[2],
                LayoutPart::Hour => &mut clock[0],
                LayoutPart::Minute => &mut clock[1],
                _ => &mut clock[2],
            };
            (*slot, rest) = read;
        }
        if !rest.is_empty() {
            return None;
        }
        time::unix_nanos(time::seconds_of(date, clock)?, offset_seconds, nanos)
    }
}

/// Parses a number of `length` digits, and returns what follows.
fn parse_digits(text: &[u8], length: usize) -> Option<(u64, &[u8])> {
    let (digits, rest) = text.split_at_checked(length)?;
    let mut value = 0;
    for byte in digits {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value = value * 10 + digit;
    }
    Some((value, rest))
}

/// Parses a month's name, and returns what follows.
fn parse_month(text: &[u8]) -> Option<(u64, &[u8])> {
    let (name, rest) = text.split_first_chunk::<3>()?;
    let name = name.to_ascii_lowercase();
    let month = (1..).zip(MONTHS).find(|(_, known)| name[..] == known[..]);
    month.map(|(number, _)| (number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: times of web servers, runtimes and system logs with their layouts, and similar
    /// invalid texts. Guarantee: the exact nanosecond, or none.
    #[test]
    fn times_are_read_by_their_layout() {
        let second = 1_475_713_029_000_000_000;
        for (layout, text, nanos) in [
            ("%d/%b/%Y:%H:%M:%S %z", "06/Oct/2016:02:17:09 +0200", Some(second)),
            ("%d/%b/%Y:%H:%M:%S %z", "06/oct/2016:00:17:09 Z", Some(second)),
            ("%Y-%m-%d %H:%M:%S,%f", "2016-10-06 00:17:09,5", Some(second + 500_000_000)),
            ("%b %e %H:%M:%S %Y", "Oct  6 00:17:09 2016", Some(second)),
            ("%b %e %H:%M:%S %Y", "Oct 16 00:17:09 2016", Some(second + 864_000_000_000_000)),
            ("%Y%m%d%H%M%S%%", "20161006001709%", Some(second)),
            ("%d/%b/%Y:%H:%M:%S %z", "06/Okt/2016:02:17:09 +0200", None),
            ("%d/%b/%Y:%H:%M:%S %z", "06/Oct/2016:02:17:09", None),
            ("%Y-%m-%d %H:%M:%S", "2016-10-06 00:17:09 ", None),
            ("%Y-%m-%d %H:%M:%S", "2016-02-30 00:17:09", None),
            ("%Y-%m-%d %H:%M:%S", "2016-1\u{660}06 00:17:09", None),
            ("%Y-%m-%d %H:%M:%S", "", None),
        ] {
            assert_eq!(
                TimeLayout::new(layout).unwrap().read(text.as_bytes()),
                nanos,
                "{layout} {text}"
            );
        }
    }

    /// Scenario: layouts with a missing, a repeated, an unknown part, or too many parts. Guarantee:
    /// each is refused, and the part is named.
    #[test]
    fn a_layout_that_says_no_time_is_refused() {
        for (layout, why) in [
            ("%Y-%m-%d %H:%M", LayoutError::Once("%S")),
            ("%Y-%m-%b %H:%M:%S", LayoutError::Once("%m or %b")),
            ("%Y-%m-%d %H:%M:%S%z%z", LayoutError::Once("%z")),
            ("%y-%m-%d", LayoutError::Unknown('y')),
            ("%Y-%m-%d %H:%M:%S%", LayoutError::Unknown(' ')),
            ("", LayoutError::Once("%Y")),
            (&"-".repeat(PARTS_MAX + 1), LayoutError::TooLong),
        ] {
            assert_eq!(TimeLayout::new(layout), Err(why), "{layout}");
        }
    }
}
