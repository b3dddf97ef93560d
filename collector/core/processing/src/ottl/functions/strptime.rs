//! The formats of `Time`, such as `%Y-%m-%dT%H:%M:%S.%L%z`.

/// A compiled format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimeLayout {
    pub(crate) items: Vec<LayoutItem>,
}

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LayoutItem {
    /// Literal text; a run of spaces matches any run.
    Literal(String),
    /// A year of four digits.
    Year,
    /// A year of two digits.
    ShortYear,
    /// A year of four digits, or of two if that doesn't fit.
    AnyYear,
    Month,
    MonthName,
    ShortMonthName,
    Day,
    WeekdayName,
    ShortWeekdayName,
    Hour,
    Hour12,
    Minute,
    /// Seconds, and a fraction if one follows.
    Second,
    /// A point or comma and a fraction of a second, or nothing.
    Fraction,
    /// `AM` or `PM` in capitals or not.
    Noon {
        is_upper: bool,
    },
    Offset(OffsetForm),
}

/// The forms of an offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetForm {
    /// `Z`, `+0100`, `+01:00` or `+01`.
    Any,
    Hours,
    HoursMinutes,
    Seconds,
    SecondsWithColons,
}

/// The directives, for messages.
pub(crate) const DIRECTIVES: &[&str] = &[
    "%Y", "%y", "%m", "%o", "%q", "%b", "%h", "%B", "%d", "%e", "%g", "%a", "%A", "%H", "%I", "%l",
    "%p", "%P", "%M", "%S", "%L", "%f", "%s", "%z", "%w", "%i", "%j", "%k", "%D", "%x", "%F", "%T",
    "%X", "%r", "%R", "%n", "%t", "%c", "%%",
];

/// Why a format can't be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TimeLayoutError {
    /// An unknown directive.
    Directive(String),
    /// Another reason.
    Other(&'static str),
}

impl TimeLayout {
    /// Compiles a format.
    pub(crate) fn compile(format: &str) -> Result<Self, TimeLayoutError> {
        if format.is_empty() {
            return Err(TimeLayoutError::Other("the format is empty"));
        }
        if format.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(TimeLayoutError::Other("the format contains digits"));
        }
        let mut items = Vec::new();
        let mut rest = format.chars();
        while let Some(character) = rest.next() {
            if character != '%' {
                put_literal(character, &mut items);
                continue;
            }
            let Some(letter) = rest.next() else {
                return Err(TimeLayoutError::Other("the format ends with %"));
            };
            put_directive(letter, &mut items)?;
        }
        let has_year = items.iter().any(|item| {
            matches!(item, LayoutItem::Year | LayoutItem::ShortYear | LayoutItem::AnyYear)
        });
        if !has_year {
            return Err(TimeLayoutError::Other(
                "the format has no year: rules know no current year to add",
            ));
        }
        Ok(Self { items })
    }
}

fn put_literal(character: char, items: &mut Vec<LayoutItem>) {
    match items.last_mut() {
        Some(LayoutItem::Literal(text)) => text.push(character),
        _ => items.push(LayoutItem::Literal(character.to_string())),
    }
}

fn put_directive(letter: char, items: &mut Vec<LayoutItem>) -> Result<(), TimeLayoutError> {
    let item = match letter {
        'Y' => LayoutItem::Year,
        'y' => LayoutItem::ShortYear,
        'm' | 'o' | 'q' => LayoutItem::Month,
        'b' | 'h' => LayoutItem::ShortMonthName,
        'B' => LayoutItem::MonthName,
        'd' | 'e' | 'g' => LayoutItem::Day,
        'a' => LayoutItem::ShortWeekdayName,
        'A' => LayoutItem::WeekdayName,
        'H' => LayoutItem::Hour,
        'I' | 'l' => LayoutItem::Hour12,
        'p' => LayoutItem::Noon { is_upper: true },
        'P' => LayoutItem::Noon { is_upper: false },
        'M' => LayoutItem::Minute,
        'S' => LayoutItem::Second,
        'L' | 'f' | 's' => return put_fraction(items),
        'z' => LayoutItem::Offset(OffsetForm::Any),
        'i' => LayoutItem::Offset(OffsetForm::Hours),
        'j' => LayoutItem::Offset(OffsetForm::HoursMinutes),
        'w' => LayoutItem::Offset(OffsetForm::Seconds),
        'k' => LayoutItem::Offset(OffsetForm::SecondsWithColons),
        'D' | 'x' => return put_all("%m/%d/", LayoutItem::AnyYear, items),
        'F' => return put_all("%Y-%m-", LayoutItem::Day, items),
        'T' | 'X' => return put_all("%H:%M:", LayoutItem::Second, items),
        'r' => return put_all("%I:%M:%S ", LayoutItem::Noon { is_upper: false }, items),
        'R' => return put_all("%H:", LayoutItem::Minute, items),
        'c' => return put_all("%a %b %d %H:%M:%S ", LayoutItem::Year, items),
        'n' => return put_character('\n', items),
        't' => return put_character('\t', items),
        '%' => return put_character('%', items),
        'Z' => {
            return Err(TimeLayoutError::Other(
                "%Z is not supported: names of zones need a database of zones; use %z",
            ));
        }
        other => return Err(TimeLayoutError::Directive(format!("%{other}"))),
    };
    items.push(item);
    Ok(())
}

fn put_character(character: char, items: &mut Vec<LayoutItem>) -> Result<(), TimeLayoutError> {
    put_literal(character, items);
    Ok(())
}

/// Adds a shorter format and its last item.
fn put_all(
    format: &str,
    last: LayoutItem,
    items: &mut Vec<LayoutItem>,
) -> Result<(), TimeLayoutError> {
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        match (character, rest.clone().next()) {
            ('%', Some(letter)) => {
                rest.next();
                put_directive(letter, items)?;
            }
            _ => put_literal(character, items),
        }
    }
    items.push(last);
    Ok(())
}

/// Adds a fraction, to which the point or comma before it belongs.
fn put_fraction(items: &mut Vec<LayoutItem>) -> Result<(), TimeLayoutError> {
    let separator = match items.last_mut() {
        Some(LayoutItem::Literal(text)) => text.pop(),
        _ => None,
    };
    if !matches!(separator, Some('.' | ',')) {
        return Err(TimeLayoutError::Other("a fraction of a second follows a point or comma"));
    }
    if items.last() == Some(&LayoutItem::Literal(String::new())) {
        items.pop();
    }
    items.push(LayoutItem::Fraction);
    Ok(())
}
