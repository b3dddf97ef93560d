//! All detectors over one text.

mod candidates;
mod card;
mod cloud_key;
mod credentials;
pub(crate) mod custom;
mod email;
mod iban;
mod ip;
pub(in crate::redact) mod literals;
mod private_key;

use memchr::memchr_iter;

use self::candidates::{Candidate, each_candidate};
use self::custom::CustomPatterns;
use self::literals::{Literals, Token};
use crate::redact::ReadySet;
use crate::redact::hit::RedactScratch;

/// The shortest text that a ready set finds anything in: `::1`.
const TEXT_BYTES_MIN: usize = 3;

const SETS: usize = ReadySet::ALL.len();

/// The detectors of a step.
#[derive(Debug)]
pub(in crate::redact) struct Detector {
    /// The detector's index of each ready set in use.
    sets: [Option<u16>; SETS],
    literals: Option<Literals>,
    custom: Option<CustomPatterns>,
    reads_numbers: bool,
}

impl Detector {
    pub(in crate::redact) fn new(
        sets: &[ReadySet],
        literals: Option<Literals>,
        custom: Option<CustomPatterns>,
    ) -> Self {
        let mut indexes = [None; SETS];
        for (index, &set) in sets.iter().enumerate() {
            indexes[set as usize] = Some(index as u16);
        }
        let of_numbers = [ReadySet::Card, ReadySet::Iban, ReadySet::Ipv4, ReadySet::Ipv6];
        let reads_numbers = of_numbers.iter().any(|set| sets.contains(set));
        Self { sets: indexes, literals, custom, reads_numbers }
    }

    /// Finds all hits of a text, unmerged.
    #[inline]
    pub(in crate::redact) fn scan(&self, text: &[u8], scratch: &mut RedactScratch) {
        if text.len() >= TEXT_BYTES_MIN {
            let mut scan = Scan { detector: self, text, scratch, ends: [0; SETS] };
            if let Some(literals) = &self.literals {
                literals.each(text, |range, token| scan.visit_token(range, token));
            }
            if self.sets[ReadySet::Email as usize].is_some() {
                for at in memchr_iter(b'@', text) {
                    scan.visit_at_sign(at..at + 1);
                }
            }
            if self.reads_numbers {
                each_candidate(text, |candidate| scan.visit_number(candidate));
            }
        }
        if let Some(custom) = &self.custom {
            custom.scan(text, scratch);
        }
    }
}

struct Scan<'a> {
    detector: &'a Detector,
    text: &'a [u8],
    scratch: &'a mut RedactScratch,
    /// Where each set's last hit ends: what begins before is part of it, and isn't read again.
    ends: [usize; SETS],
}

impl Scan<'_> {
    fn is_used(&self, set: ReadySet) -> bool {
        self.detector.sets[set as usize].is_some()
    }

    fn push(&mut self, set: ReadySet, range: std::ops::Range<usize>) {
        if let Some(detector) = self.detector.sets[set as usize] {
            self.ends[set as usize] = range.end;
            self.scratch.push(range, detector);
        }
    }

    fn visit_token(&mut self, range: std::ops::Range<usize>, token: Token) {
        let (text, set) = (self.text, token.set());
        if range.start < self.ends[set as usize] {
            return;
        }
        let hit = match token {
            Token::EncodedAtSign => return self.visit_at_sign(range),
            Token::Bearer => credentials::bearer_token(text, range),
            Token::Basic => credentials::basic_credentials(text, range),
            Token::Jwt => credentials::jwt_end(text, range.start).map(|end| range.start..end),
            Token::PrivateKey => {
                private_key::private_key_end(text, range.end).map(|end| range.start..end)
            }
            Token::CloudKey(form) => cloud_key::key_at(text, range, form),
        };
        if let Some(hit) = hit {
            self.push(set, hit);
        }
    }

    fn visit_at_sign(&mut self, range: std::ops::Range<usize>) {
        if let Some(hit) = email::email_around(self.text, range) {
            self.push(ReadySet::Email, hit);
        }
    }

    fn visit_number(&mut self, candidate: Candidate) {
        let text = self.text;
        match candidate {
            Candidate::ThirdDot(dot) if self.is_used(ReadySet::Ipv4) => {
                if let Some(hit) = ip::ipv4_before(text, dot) {
                    self.push(ReadySet::Ipv4, hit);
                }
            }
            Candidate::LongRun(start) if self.is_used(ReadySet::Card) => {
                if let Some(end) = card::run_end(text, start) {
                    self.push(ReadySet::Card, start..end);
                }
            }
            Candidate::Groups(start) if self.is_used(ReadySet::Card) => {
                if let Some(end) = card::groups_end(text, start) {
                    self.push(ReadySet::Card, start..end);
                }
            }
            Candidate::Letters(start) if self.is_used(ReadySet::Iban) => {
                if let Some(end) = iban::iban_end(text, start) {
                    self.push(ReadySet::Iban, start..end);
                }
            }
            Candidate::Colons(at) if self.is_used(ReadySet::Ipv6) => {
                let set = ReadySet::Ipv6 as usize;
                if at >= self.ends[set] {
                    let outcome = ip::ipv6_around(text, at);
                    if let Some(hit) = outcome.hit {
                        self.push(ReadySet::Ipv6, hit);
                    }
                    self.ends[set] = outcome.end;
                }
            }
            _ => {}
        }
    }
}
