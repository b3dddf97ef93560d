//! Patterns of users: one automaton for all of them.

use std::ops::Range;

use regex_automata::dfa::{Automaton, StartKind, dense, regex::Regex};
use regex_automata::nfa::thompson;
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, Span};

use crate::redact::hit::RedactScratch;
use crate::redact::limits::PATTERN_BYTES_MAX;
use crate::redact::problem::RedactProblemKind;

/// How often the automaton may read each byte of a text on average. A search reads ahead for a
/// longer match and back to its start: twice for usual patterns. `a+b|a` reads the remainder of the
/// text for each match of `aaaa`. After as many steps, the remainder counts as a hit.
pub const STEPS_PER_BYTE: usize = 16;

/// Steps that are free, so that the average doesn't matter for short texts.
const FREE_STEPS: usize = 1024;

/// The memory limit of the automaton of all patterns, in each direction: 4 MiB. A pattern of ASCII
/// classes takes some KiB.
const AUTOMATON_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The memory limit while it is built.
const BUILD_BYTES_MAX: usize = 8 * AUTOMATON_BYTES_MAX;

/// The compiled patterns.
#[derive(Debug)]
pub(in crate::redact) struct CustomPatterns {
    automaton: Regex,
    /// Finds the beginnings of matches, if all patterns begin with literals.
    prefilter: Option<Prefilter>,
    /// The detector of the first pattern. The others follow it.
    first_detector: u16,
}

impl CustomPatterns {
    /// Checks one pattern.
    pub(in crate::redact) fn check(pattern: &str) -> Result<(), RedactProblemKind> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(RedactProblemKind::PatternLength(pattern.len()));
        }
        let parsed = syntax::parse_with(pattern, &syntax_config())
            .map_err(|error| RedactProblemKind::Pattern(error.to_string()))?;
        match parsed.properties().minimum_len() {
            Some(0) => Err(RedactProblemKind::MatchesNothing),
            _ => Ok(()),
        }
    }

    /// Compiles patterns that passed [`Self::check`].
    pub(in crate::redact) fn build(
        patterns: &[&str],
        first_detector: u16,
    ) -> Result<Self, RedactProblemKind> {
        let parsed: Vec<_> = patterns
            .iter()
            .filter_map(|pattern| syntax::parse_with(pattern, &syntax_config()).ok())
            .collect();
        let prefilter = Prefilter::from_hirs_prefix(MatchKind::LeftmostFirst, &parsed);
        let table = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .specialize_start_states(prefilter.is_some())
            .dfa_size_limit(Some(AUTOMATON_BYTES_MAX))
            .determinize_size_limit(Some(BUILD_BYTES_MAX));
        let automaton = Regex::builder()
            .syntax(syntax_config())
            .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(BUILD_BYTES_MAX)))
            .dense(table)
            .build_many(patterns)
            .map_err(|error| RedactProblemKind::PatternsTooLarge(error.to_string()))?;
        Ok(Self { automaton, prefilter, first_detector })
    }

    /// Finds the matches from left to right.
    pub(in crate::redact) fn scan(&self, text: &[u8], scratch: &mut RedactScratch) {
        let budget = FREE_STEPS + STEPS_PER_BYTE * text.len();
        let (mut at, mut steps) = (0, 0);
        while at < text.len() {
            let Some((found, pattern)) = self.find(text, at, &mut steps) else {
                break;
            };
            let detector = self.first_detector + pattern;
            if steps > budget {
                scratch.push(extend_to_characters(text, found.start..text.len()), detector);
                break;
            }
            at = found.end.max(at + 1);
            scratch.push(extend_to_characters(text, found), detector);
        }
        crate::redact::steps::count(steps);
    }

    fn find(&self, text: &[u8], at: usize, steps: &mut usize) -> Option<(Range<usize>, u16)> {
        let (end, pattern) = self.find_end(text, at, steps)?;
        *steps += end - at;
        let input = Input::new(text).span(at..end).anchored(Anchored::Yes);
        // A search fails only at bytes that stop an automaton; this one has none.
        let start = match self.automaton.reverse().try_search_rev(&input) {
            Ok(Some(start)) => start.offset(),
            _ => at,
        };
        Some((start..end, pattern))
    }

    /// The end of the leftmost match, and its pattern.
    fn find_end(&self, text: &[u8], start: usize, steps: &mut usize) -> Option<(usize, u16)> {
        let automaton = self.automaton.forward();
        let initial = |at| automaton.start_state_forward(&Input::new(text).span(at..text.len()));
        let mut at = start;
        if let Some(prefilter) = &self.prefilter {
            at = prefilter.find(text, Span { start, end: text.len() })?.start;
        }
        let mut state = initial(at).ok()?;
        let (mut first, mut last) = (at, None);
        while at < text.len() {
            state = automaton.next_state(state, text[at]);
            if automaton.is_special_state(state) {
                if automaton.is_match_state(state) {
                    // Matches are reported one byte late.
                    last = Some((at, automaton.match_pattern(state, 0)));
                } else if automaton.is_dead_state(state) || automaton.is_quit_state(state) {
                    break;
                } else if automaton.is_start_state(state)
                    && let Some(prefilter) = &self.prefilter
                {
                    let span = Span { start: at + 1, end: text.len() };
                    let Some(next) = prefilter.find(text, span) else {
                        *steps += at + 1 - first;
                        return None;
                    };
                    *steps += at + 1 - first;
                    (at, first) = (next.start, next.start);
                    state = initial(at).ok()?;
                    continue;
                }
            }
            at += 1;
        }
        *steps += at - first;
        if at == text.len() {
            state = automaton.next_eoi_state(state);
            if automaton.is_match_state(state) {
                last = Some((at, automaton.match_pattern(state, 0)));
            }
        }
        last.map(|(end, pattern)| (end, pattern.as_usize() as u16))
    }
}

/// ASCII's classes, as in Go, whose patterns users have: Unicode's take fifty times the memory.
fn syntax_config() -> syntax::Config {
    syntax::Config::new().unicode(false).utf8(false)
}

/// A pattern such as `.` may end within a character. Then the complete character is redacted.
fn extend_to_characters(text: &[u8], range: Range<usize>) -> Range<usize> {
    const CONTINUATION_BYTES_MAX: usize = 3;
    let continues = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let Range { mut start, mut end } = range;
    for _ in 0..CONTINUATION_BYTES_MAX {
        start -= usize::from(start > 0 && continues(start));
        end += usize::from(continues(end));
    }
    start..end
}
