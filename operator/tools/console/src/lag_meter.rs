//! Judges a lag by its bound, and draws it: a bar that is full at the bound. Pure.

use millrace_reports::units::format_duration;

use crate::html::Html;

/// From this share of the bound on, a lag is a warning.
const NEAR_PERCENT: u8 = 80;

/// The level of a lag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagLevel {
    /// Within the bound.
    Within,
    /// Within the bound, and close to it.
    Near,
    /// Over the bound.
    Over,
}

impl LagLevel {
    /// Returns the class of the page.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Within => "good",
            Self::Near => "warn",
            Self::Over => "bad",
        }
    }
}

/// How a lag is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagMeter {
    /// The filled part of the bar, in percent: 100 at the bound and over it.
    pub fill_percent: u8,
    /// The level.
    pub level: LagLevel,
}

/// Judges a lag. A bound of zero allows none.
#[must_use]
pub fn measure_lag(seconds: f64, bound_seconds: i64) -> LagMeter {
    let (seconds, bound) = (seconds.max(0.0), bound_seconds.max(0) as f64);
    if seconds > bound {
        return LagMeter { fill_percent: 100, level: LagLevel::Over };
    }
    let share = if bound > 0.0 { seconds / bound } else { 0.0 };
    // Within 0 and 100: the lag is at most the bound.
    let fill_percent = (share * 100.0).round() as u8;
    let level = if fill_percent >= NEAR_PERCENT { LagLevel::Near } else { LagLevel::Within };
    LagMeter { fill_percent, level }
}

/// Draws a lag with its bound; the words state what the colour shows.
pub(crate) fn push_lag(html: &mut Html, seconds: f64, bound_seconds: i64) {
    let LagMeter { fill_percent, level } = measure_lag(seconds, bound_seconds);
    let words = describe_lag(seconds, bound_seconds, level);
    html.wrap_text("<svg class=\"lag ", level.class(), "\" role=\"img\" aria-label=\"")
        .wrap_text("lag: ", &words, "\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\">")
        .raw("<rect class=\"track\" width=\"100\" height=\"8\"/>")
        .wrap_text("<rect width=\"", fill_percent, "\" height=\"8\"/></svg>");
    let class = if level == LagLevel::Within { "dim" } else { level.class() };
    html.wrap_text("<p class=\"", class, if class == "dim" { "" } else { "ink" })
        .wrap_text("\">", words, "</p>");
}

fn describe_lag(seconds: f64, bound_seconds: i64, level: LagLevel) -> String {
    let bound = format_duration(bound_seconds);
    let over = (seconds.round() as i64 - bound_seconds).max(1);
    match level {
        LagLevel::Over => format!("{} over the bound of {bound}", format_duration(over)),
        LagLevel::Near => format!("close to the bound of {bound}"),
        LagLevel::Within => format!("within the bound of {bound}"),
    }
}

#[cfg(test)]
mod tests {
    use super::LagLevel::{Near, Over, Within};
    use super::{describe_lag, measure_lag};

    /// Scenario: lags and bounds, at the limits of each level, unknown and senseless ones among
    /// them. Guarantee: a lag over its bound fills the bar and is a breach in colour and words; one
    /// within never is.
    #[test]
    fn a_lag_over_its_bound_is_a_breach() {
        for (seconds, bound, fill_percent, level, words) in [
            (0.0, 60, 0, Within, "within the bound of 1 min"),
            (30.0, 60, 50, Within, "within the bound of 1 min"),
            (47.4, 60, 79, Within, "within the bound of 1 min"),
            (48.0, 60, 80, Near, "close to the bound of 1 min"),
            (60.0, 60, 100, Near, "close to the bound of 1 min"),
            (60.2, 60, 100, Over, "1 s over the bound of 1 min"),
            (74.2, 60, 100, Over, "14 s over the bound of 1 min"),
            (9e12, 60, 100, Over, "104166666 d 15 h over the bound of 1 min"),
            (-3.0, 60, 0, Within, "within the bound of 1 min"),
            (f64::NAN, 60, 0, Within, "within the bound of 1 min"),
            (0.0, 0, 0, Within, "within the bound of 0 s"),
            (1.0, 0, 100, Over, "1 s over the bound of 0 s"),
            (1.0, -5, 100, Over, "6 s over the bound of 0 s"),
        ] {
            let found = measure_lag(seconds, bound);
            assert_eq!(
                (found.fill_percent, found.level),
                (fill_percent, level),
                "{seconds}/{bound}"
            );
            assert_eq!(describe_lag(seconds, bound, level), words, "{seconds}/{bound}");
        }
    }
}
