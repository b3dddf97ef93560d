//! Dates: reads times by a format, and writes them.

use std::io::Write;

use crate::ottl::functions::strptime::{LayoutItem, OffsetForm, TimeLayout};
use crate::program::DatePart;
use crate::value::Instant;

const SECONDS_PER_DAY: i64 = 86_400;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// The length of short names of months and weekdays.
const SHORT_NAME: usize = 3;

/// Returns the days since 1970 of a date in the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that leap days are at their ends; 400 years are 146,097 days.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the year, month and day of a number of days since 1970.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Returns a part of a time in UTC.
pub(in crate::eval) fn date_part(part: DatePart, time: Instant) -> i64 {
    let days = time.seconds.div_euclid(SECONDS_PER_DAY);
    let second = time.seconds.rem_euclid(SECONDS_PER_DAY);
    let (year, month, day) = civil_from_days(days);
    match part {
        DatePart::Year => year,
        DatePart::Month => month,
        DatePart::Day => day,
        DatePart::Hour => second / 3_600,
        DatePart::Minute => second / 60 % 60,
        DatePart::Second => second % 60,
        DatePart::Nanosecond => i64::from(time.nanos),
        // 1970 began on a Thursday.
        DatePart::Weekday => (days + 4).rem_euclid(7),
    }
}

/// Writes a time in UTC as `2006-01-02T15:04:05.999999999Z`, without trailing zeros.
pub(in crate::eval) fn put_rfc3339(time: Instant, out: &mut Vec<u8>) {
    let part = |part| date_part(part, time);
    drop(write!(
        out,
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        part(DatePart::Year),
        part(DatePart::Month),
        part(DatePart::Day),
        part(DatePart::Hour),
        part(DatePart::Minute),
        part(DatePart::Second),
    ));
    if time.nanos > 0 {
        let fraction = format!("{:09}", time.nanos);
        drop(write!(out, ".{}", fraction.trim_end_matches('0')));
    }
    out.push(b'Z');
}

/// The parts of a time that were read so far.
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    is_afternoon: Option<bool>,
    minute: i64,
    second: i64,
    nanos: i64,
    offset_seconds: i64,
}

/// Reads a time by its format; without an offset it is in UTC.
pub(in crate::eval) fn parse_time(layout: &TimeLayout, text: &str) -> Option<Instant> {
    let mut parts = Parts {
        year: 0,
        month: 1,
        day: 1,
        hour: 0,
        is_afternoon: None,
        minute: 0,
        second: 0,
        nanos: 0,
        offset_seconds: 0,
    };
    let mut rest = text;
    for (position, item) in layout.items.iter().enumerate() {
        read_item(item, layout.items.get(position + 1), &mut rest, &mut parts)?;
    }
    if rest.is_empty() { parts.instant() } else { None }
}

impl Parts {
    fn instant(&self) -> Option<Instant> {
        let next_month = days_from_civil(self.year, self.month % 12 + 1, 1);
        let this_month = days_from_civil(self.year, self.month, 1);
        let days = (next_month - this_month).rem_euclid(365 + i64::from(is_leap(self.year)));
        let is_valid = (1..=12).contains(&self.month)
            && (1..=days).contains(&self.day)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second);
        let hour = match self.is_afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        if !is_valid || !(0..24).contains(&hour) {
            return None;
        }
        let day = days_from_civil(self.year, self.month, self.day);
        let seconds = day * SECONDS_PER_DAY + hour * 3_600 + self.minute * 60 + self.second;
        Some(Instant::new(seconds - self.offset_seconds, self.nanos))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn read_item(
    item: &LayoutItem,
    next: Option<&LayoutItem>,
    rest: &mut &str,
    parts: &mut Parts,
) -> Option<()> {
    match item {
        LayoutItem::Literal(literal) => return read_literal(literal, rest),
        LayoutItem::Year => parts.year = number(rest, 4, 4)?,
        LayoutItem::ShortYear => parts.year = short_year(number(rest, 2, 2)?),
        LayoutItem::AnyYear => {
            parts.year = match number(rest, 4, 4) {
                Some(year) => year,
                None => short_year(number(rest, 2, 2)?),
            };
        }
        LayoutItem::Month => parts.month = number(rest, 1, 2)?,
        LayoutItem::MonthName => parts.month = name(rest, MONTHS.iter().copied())?,
        LayoutItem::ShortMonthName => {
            parts.month = name(rest, MONTHS.iter().map(|name| &name[..SHORT_NAME]))?;
        }
        LayoutItem::Day => parts.day = number(rest, 1, 2)?,
        LayoutItem::WeekdayName => {
            name(rest, WEEKDAYS.iter().copied())?;
        }
        LayoutItem::ShortWeekdayName => {
            name(rest, WEEKDAYS.iter().map(|name| &name[..SHORT_NAME]))?;
        }
        LayoutItem::Hour => parts.hour = number(rest, 1, 2)?,
        LayoutItem::Hour12 => {
            parts.hour = number(rest, 1, 2).filter(|hour| *hour <= 12)?;
        }
        LayoutItem::Minute => parts.minute = number(rest, 1, 2)?,
        LayoutItem::Second => {
            parts.second = number(rest, 1, 2)?;
            if next != Some(&LayoutItem::Fraction) {
                read_fraction(rest, parts);
            }
        }
        LayoutItem::Fraction => read_fraction(rest, parts),
        LayoutItem::Noon { is_upper } => {
            let (after, rest_of) = rest.split_at_checked(2)?;
            parts.is_afternoon = Some(match (after, is_upper) {
                ("AM", true) | ("am", false) => false,
                ("PM", true) | ("pm", false) => true,
                _ => return None,
            });
            *rest = rest_of;
        }
        LayoutItem::Offset(form) => parts.offset_seconds = offset(rest, *form)?,
    }
    Some(())
}

fn short_year(year: i64) -> i64 {
    if year >= 69 { 1900 + year } else { 2000 + year }
}

/// Skips text of the format; runs of spaces match any run, also an empty one at the end.
fn read_literal(literal: &str, rest: &mut &str) -> Option<()> {
    let mut literal = literal;
    while let Some(first) = literal.chars().next() {
        if first == ' ' {
            if !rest.is_empty() && !rest.starts_with(' ') {
                return None;
            }
            literal = literal.trim_start_matches(' ');
            *rest = rest.trim_start_matches(' ');
            continue;
        }
        *rest = rest.strip_prefix(first)?;
        literal = &literal[first.len_utf8()..];
    }
    Some(())
}

/// Reads a number of so many digits, with spaces before it.
fn number(rest: &mut &str, least: usize, most: usize) -> Option<i64> {
    let text = rest.trim_start_matches([' ', '\t', '\n', '\r']);
    let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if digits < least {
        return None;
    }
    *rest = &text[digits..];
    text[..digits].parse().ok()
}

/// Reads a point or comma and the digits behind it, if there are any.
fn read_fraction(rest: &mut &str, parts: &mut Parts) {
    const NANO_DIGITS: usize = 9;
    let Some(text) = rest.strip_prefix(['.', ',']) else { return };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return;
    }
    let mut nanos = 0;
    for position in 0..NANO_DIGITS {
        let digit = text.as_bytes()[..digits].get(position).map_or(0, |digit| digit - b'0');
        nanos = nanos * 10 + i64::from(digit);
    }
    parts.nanos = nanos;
    *rest = &text[digits..];
}

/// Reads a name in any case; returns its position from 1.
fn name<'n>(rest: &mut &str, names: impl Iterator<Item = &'n str>) -> Option<i64> {
    for (position, name) in (1..).zip(names) {
        if let Some(text) = rest.get(..name.len())
            && text.eq_ignore_ascii_case(name)
        {
            *rest = &rest[name.len()..];
            return Some(position);
        }
    }
    None
}

/// Reads an offset from UTC in seconds.
fn offset(rest: &mut &str, form: OffsetForm) -> Option<i64> {
    if form == OffsetForm::Any
        && let Some(after) = rest.trim_start().strip_prefix('Z')
    {
        *rest = after;
        return Some(0);
    }
    let text: &str = if form == OffsetForm::Any { rest.trim_start() } else { rest };
    let (sign, mut text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.strip_prefix('+')?),
    };
    let mut seconds = number(&mut text, 2, 2)? * 3_600;
    let has_colon = text.starts_with(':');
    let parts = match form {
        OffsetForm::Any => {
            usize::from(has_colon || text.starts_with(|next: char| next.is_ascii_digit()))
        }
        OffsetForm::Hours => 0,
        OffsetForm::HoursMinutes => 1,
        OffsetForm::Seconds | OffsetForm::SecondsWithColons => 2,
    };
    let needs_colon = match form {
        OffsetForm::Any => has_colon,
        OffsetForm::HoursMinutes | OffsetForm::SecondsWithColons => true,
        OffsetForm::Hours | OffsetForm::Seconds => false,
    };
    for unit in [60, 1].into_iter().take(parts) {
        if needs_colon {
            text = text.strip_prefix(':')?;
        }
        seconds += number(&mut text, 2, 2)? * unit;
    }
    *rest = text;
    Some(sign * seconds)
}
