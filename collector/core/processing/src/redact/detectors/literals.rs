//! One automaton over the beginnings of all tokens that have a fixed one.

use std::ops::Range;

use aho_corasick::packed::{self, Searcher};
use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, Input, MatchKind, Span};

use super::cloud_key::KeyForm;
use crate::redact::ReadySet;

/// What a literal begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redact) enum Token {
    EncodedAtSign,
    Bearer,
    Basic,
    Jwt,
    PrivateKey,
    CloudKey(KeyForm),
}

impl Token {
    pub(in crate::redact) const fn set(self) -> ReadySet {
        match self {
            Self::EncodedAtSign => ReadySet::Email,
            Self::Bearer => ReadySet::Bearer,
            Self::Basic => ReadySet::Basic,
            Self::Jwt => ReadySet::Jwt,
            Self::PrivateKey => ReadySet::PrivateKey,
            Self::CloudKey(_) => ReadySet::CloudKey,
        }
    }
}

/// A literal, and what has to be before it.
struct Literal {
    text: &'static str,
    /// Alternatives of one length.
    before: &'static [&'static str],
    token: Token,
}

const fn literal(before: &'static [&'static str], text: &'static str, token: Token) -> Literal {
    Literal { text, before, token }
}

/// The beginnings of tokens. Each is searched from the byte on that makes its next three bytes rare
/// in logs: the vector search compares as many at once, by halves of bytes, and lower-case letters
/// alone resemble words. It is twice as fast for 32 literals as for more.
const LITERALS: [Literal; 28] = [
    literal(&[""], "%40", Token::EncodedAtSign),
    literal(&[""], "\\u0040", Token::EncodedAtSign),
    literal(&[""], "&#64;", Token::EncodedAtSign),
    literal(&["B", "b"], "earer", Token::Bearer),
    literal(&["B"], "EARER", Token::Bearer),
    literal(&["B", "b"], "asic", Token::Basic),
    literal(&["B"], "ASIC", Token::Basic),
    literal(&[""], "eyJ", Token::Jwt),
    literal(&[""], "-----BEGIN ", Token::PrivateKey),
    literal(&[""], "AKIA", Token::CloudKey(KeyForm::AwsId)),
    literal(&[""], "ASIA", Token::CloudKey(KeyForm::AwsId)),
    literal(&["secret"], "_access_key", Token::CloudKey(KeyForm::AwsSecret)),
    literal(&["SECRET"], "_ACCESS_KEY", Token::CloudKey(KeyForm::AwsSecret)),
    literal(&["Secre", "secre"], "tAccessKey", Token::CloudKey(KeyForm::AwsSecret)),
    literal(&["Accoun"], "tKey=", Token::CloudKey(KeyForm::Azure)),
    literal(&["SharedAcces"], "sKey=", Token::CloudKey(KeyForm::Azure)),
    literal(&["s"], "ig=", Token::CloudKey(KeyForm::AzureSignature)),
    literal(&[""], "AIza", Token::CloudKey(KeyForm::Google)),
    literal(&["y"], "a29.", Token::CloudKey(KeyForm::GoogleToken)),
    literal(&["g"], "hp_", Token::CloudKey(KeyForm::GithubToken)),
    literal(&["g"], "ho_", Token::CloudKey(KeyForm::GithubToken)),
    literal(&["g"], "hu_", Token::CloudKey(KeyForm::GithubToken)),
    literal(&["g"], "hs_", Token::CloudKey(KeyForm::GithubToken)),
    literal(&["g"], "hr_", Token::CloudKey(KeyForm::GithubToken)),
    literal(&["github"], "_pat_", Token::CloudKey(KeyForm::GithubFineGrained)),
    literal(&[""], "xox", Token::CloudKey(KeyForm::Slack)),
    literal(&["xa"], "pp-", Token::CloudKey(KeyForm::SlackApp)),
    literal(&["s", "r"], "k_live_", Token::CloudKey(KeyForm::Stripe)),
];

/// The literals of the sets that are in use.
#[derive(Debug)]
pub(in crate::redact) struct Literals {
    /// The vector search; absent on processors without the instructions.
    searcher: Option<Searcher>,
    automaton: AhoCorasick,
    literals: Vec<&'static Literal>,
}

impl std::fmt::Debug for Literal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.text)
    }
}

impl Literals {
    /// Builds the automaton; absent if no set needs one.
    pub(in crate::redact) fn build(
        is_used: impl Fn(ReadySet) -> bool,
    ) -> Result<Option<Self>, BuildError> {
        let literals: Vec<&'static Literal> =
            LITERALS.iter().filter(|literal| is_used(literal.token.set())).collect();
        if literals.is_empty() {
            return Ok(None);
        }
        let texts = || literals.iter().map(|literal| literal.text);
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::DFA))
            .build(texts())?;
        let searcher = packed::Config::new()
            .match_kind(packed::MatchKind::LeftmostLongest)
            .builder()
            .extend(texts())
            .build();
        Ok(Some(Self { searcher, automaton, literals }))
    }

    /// Calls `visit` for each literal, also if it overlaps the one before.
    #[inline]
    pub(in crate::redact) fn each(&self, text: &[u8], mut visit: impl FnMut(Range<usize>, Token)) {
        let mut at = 0;
        loop {
            let span = Span { start: at, end: text.len() };
            let found = match &self.searcher {
                Some(searcher) => searcher.find_in(text, span),
                None => self.automaton.find(Input::new(text).span(span)),
            };
            let Some(found) = found else {
                return;
            };
            let literal = self.literals[found.pattern().as_usize()];
            let head = &text[..found.start()];
            let before = literal.before.iter().find(|before| head.ends_with(before.as_bytes()));
            if let Some(before) = before {
                visit(found.start() - before.len()..found.end(), literal.token);
            }
            at = found.start() + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LITERALS, Literals};

    /// Scenario: each literal, after any of what has to be before it, with both searches.
    /// Guarantee: both find it, at the same position; without it, neither does.
    #[test]
    fn both_searches_find_each_literal() {
        let mut literals = Literals::build(|_| true).expect("an automaton").expect("literals");
        for is_vector in [true, false] {
            if !is_vector {
                literals.searcher = None;
            }
            for literal in &LITERALS {
                for before in literal.before {
                    let mut found = Vec::new();
                    let text = format!("{:>40}{before}{} {:>40}", ' ', literal.text, ' ');
                    literals.each(text.as_bytes(), |range, token| found.push((range, token)));
                    let end = 40 + before.len() + literal.text.len();
                    assert_eq!(found, [(40..end, literal.token)], "{}", literal.text);
                    if !before.is_empty() {
                        let text = format!("#{}", literal.text);
                        literals.each(text.as_bytes(), |range, _| panic!("{range:?} in {text}"));
                    }
                }
            }
        }
    }
}
