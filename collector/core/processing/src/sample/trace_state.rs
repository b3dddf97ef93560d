//! OpenTelemetry's member of W3C's `tracestate`: `ot=th:<threshold>;rv:<randomness>`.
//!
//! Members of others are opaque: they stay as they are, in their order. W3C's bounds
//! apply: a trace state that is written has at most 32 members and 512 bytes.

use super::{Randomness, Threshold};

/// Most members of a trace state, by W3C.
pub const MEMBERS_MAX: usize = 32;

/// The length of a trace state that everyone has to propagate, by W3C. None that is written here is
/// longer.
pub const TRACE_STATE_BYTES_MAX: usize = 512;

/// The longest trace state that is read: 8 times what has to be propagated. W3C permits longer ones
/// than 512 bytes; what is longer than this is discarded, which bounds the work for one span.
pub const TRACE_STATE_READ_BYTES_MAX: usize = 8 * TRACE_STATE_BYTES_MAX;

/// Members longer than this are removed first if a trace state is too long, by W3C.
const LONG_MEMBER_BYTES: usize = 128;

/// The longest value of a member, by W3C.
const VALUE_BYTES_MAX: usize = 256;

const KEY: &[u8] = b"ot";
const THRESHOLD_KEY: &[u8] = b"th";
const RANDOMNESS_KEY: &[u8] = b"rv";

/// Why a trace state can't be read. W3C requires that all of it is discarded then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceStateFault {
    /// It is longer than [`TRACE_STATE_READ_BYTES_MAX`].
    #[error("the trace state is longer than {TRACE_STATE_READ_BYTES_MAX} bytes")]
    TooLong,
    /// It has more than [`MEMBERS_MAX`] members.
    #[error("the trace state has more than {MEMBERS_MAX} members")]
    TooManyMembers,
    /// A member isn't `key=value`, or has characters that W3C doesn't permit.
    #[error("the trace state's member {0} is malformed")]
    Member(usize),
}

/// A trace state, read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceState<'a> {
    raw: &'a [u8],
    /// The value of the member `ot`, if it is well formed.
    value: Option<&'a [u8]>,
    threshold: Option<Threshold>,
    randomness: Option<Randomness>,
    has_fault: bool,
}

impl<'a> TraceState<'a> {
    /// Reads a trace state.
    ///
    /// A malformed member `ot`, `th` or `rv` is no fault of the trace state: it counts as absent,
    /// and [`Self::has_sampling_fault`] reports it.
    ///
    /// # Errors
    /// If the trace state is malformed. The caller continues with [`Self::default`].
    pub fn parse(raw: &'a [u8]) -> Result<Self, TraceStateFault> {
        if raw.len() > TRACE_STATE_READ_BYTES_MAX {
            return Err(TraceStateFault::TooLong);
        }
        let mut state = Self { raw, ..Self::default() };
        let mut has_member = false;
        for (index, member) in members(raw).enumerate() {
            if index == MEMBERS_MAX {
                return Err(TraceStateFault::TooManyMembers);
            }
            let (key, value) = split_member(member).ok_or(TraceStateFault::Member(index))?;
            if key != KEY {
                continue;
            }
            if has_member {
                state.has_fault = true;
            } else {
                state.read_value(value);
            }
            has_member = true;
        }
        Ok(state)
    }

    fn read_value(&mut self, value: &'a [u8]) {
        if !is_sampling_value(value) {
            self.has_fault = true;
            return;
        }
        self.value = Some(value);
        for (key, digits) in pairs(value) {
            if key == THRESHOLD_KEY {
                self.threshold = Threshold::parse(digits);
                self.has_fault |= self.threshold.is_none();
            } else if key == RANDOMNESS_KEY {
                self.randomness = Randomness::parse(digits);
                self.has_fault |= self.randomness.is_none();
            }
        }
    }

    /// The threshold at which earlier samplers sampled the span.
    #[must_use]
    pub const fn threshold(&self) -> Option<Threshold> {
        self.threshold
    }

    /// The explicit randomness, which takes precedence over the trace id.
    #[must_use]
    pub const fn randomness(&self) -> Option<Randomness> {
        self.randomness
    }

    /// Whether OpenTelemetry's member, or one of its values, is malformed or duplicate, so that it
    /// counts as absent.
    #[must_use]
    pub const fn has_sampling_fault(&self) -> bool {
        self.has_fault
    }

    /// Appends the trace state with another threshold, or without one. Appends nothing if no member
    /// remains.
    ///
    /// The member `ot` stays at its position; a new one is the first, as W3C says. Members that no
    /// longer fit are removed in W3C's order: those over 128 bytes, then the last ones.
    pub fn write(&self, threshold: Option<Threshold>, out: &mut Vec<u8>) {
        let mut own = [0_u8; KEY.len() + 1 + VALUE_BYTES_MAX];
        let own_length = self.write_own(threshold, &mut own);
        let own = &own[..own_length];
        let mut list = MemberList { members: [&[]; MEMBERS_MAX + 1], count: 0 };
        if !members(self.raw).any(is_own) {
            list.push(own);
        }
        let mut is_first = true;
        for member in members(self.raw) {
            if !is_own(member) {
                list.push(member);
            } else if is_first {
                list.push(own);
                is_first = false;
            }
        }
        list.shorten(own);
        let start = out.len();
        for member in list.members() {
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(member);
        }
    }

    /// Writes `ot=...` into a buffer and returns its length: zero if the member has no value. The
    /// pairs of others stay, unless the value gets longer than W3C permits.
    fn write_own(&self, threshold: Option<Threshold>, buffer: &mut [u8]) -> usize {
        let digits = threshold.map(Threshold::to_digits);
        let digits = digits.as_ref().map(super::HexDigits::as_bytes);
        let mut writer = OwnWriter { buffer, length: 0 };
        let mut is_written = false;
        for (key, value) in self.value.map(pairs).into_iter().flatten() {
            if key == THRESHOLD_KEY {
                if let Some(digits) = digits.filter(|_| !is_written) {
                    writer.push(key, digits);
                    is_written = true;
                }
            } else if key != RANDOMNESS_KEY || self.randomness.is_some() {
                writer.push(key, value);
            }
        }
        if let Some(digits) = digits.filter(|_| !is_written)
            && !writer.push(THRESHOLD_KEY, digits)
        {
            // The pairs of others fill the value. Randomness and threshold take precedence.
            writer.length = 0;
            if let Some(randomness) = self.randomness {
                writer.push(RANDOMNESS_KEY, randomness.to_digits().as_bytes());
            }
            writer.push(THRESHOLD_KEY, digits);
        }
        writer.length
    }
}

struct OwnWriter<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl OwnWriter<'_> {
    /// Appends a pair; false if it doesn't fit.
    fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let head: &[&[u8]] = if self.length == 0 { &[KEY, b"="] } else { &[b";"] };
        let bytes: usize = head.iter().map(|part| part.len()).sum();
        if self.length + bytes + key.len() + 1 + value.len() > self.buffer.len() {
            return false;
        }
        for part in head.iter().chain(&[key, b":", value]) {
            self.buffer[self.length..self.length + part.len()].copy_from_slice(part);
            self.length += part.len();
        }
        true
    }
}

/// The members to write. One more than permitted fits: the new one.
struct MemberList<'a> {
    members: [&'a [u8]; MEMBERS_MAX + 1],
    count: usize,
}

impl<'a> MemberList<'a> {
    fn push(&mut self, member: &'a [u8]) {
        if !member.is_empty() && self.count < self.members.len() {
            self.members[self.count] = member;
            self.count += 1;
        }
    }

    fn members(&self) -> impl Iterator<Item = &'a [u8]> {
        self.members[..self.count].iter().copied().filter(|member| !member.is_empty())
    }

    /// Removes members, never `own`, until the rest has the size that W3C permits.
    fn shorten(&mut self, own: &[u8]) {
        for least_bytes in [LONG_MEMBER_BYTES + 1, 1] {
            for index in (0..self.count).rev() {
                let bytes: usize = self.members().map(|member| member.len() + 1).sum();
                let is_small = bytes <= TRACE_STATE_BYTES_MAX + 1;
                let is_short = self.members().count() <= MEMBERS_MAX;
                // Too many members alone are no reason to remove the long ones first.
                if is_small && (is_short || least_bytes > 1) {
                    break;
                }
                let member = self.members[index];
                if member.len() >= least_bytes && member != own {
                    self.members[index] = &[];
                }
            }
        }
    }
}

/// The members that aren't empty, without the white space around them.
fn members(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    raw.split(|&byte| byte == b',')
        .map(|member| {
            let start = member.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
            let end = member.iter().rposition(|byte| !matches!(byte, b' ' | b'\t'));
            match (start, end) {
                (Some(start), Some(end)) => &member[start..=end],
                _ => &[],
            }
        })
        .filter(|member| !member.is_empty())
}

/// Splits a member into its key and value. The value's characters are checked less strictly than by
/// W3C: vendors write `=` in base64.
fn split_member(member: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = member.iter().position(|&byte| byte == b'=')?;
    let (key, value) = (&member[..equals], &member[equals + 1..]);
    let is_key = key.first().is_some_and(|first| matches!(first, b'a'..=b'z' | b'0'..=b'9'))
        && key.len() <= VALUE_BYTES_MAX
        && key.iter().all(
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@'),
        );
    let is_value = (1..=VALUE_BYTES_MAX).contains(&value.len())
        && value.iter().all(|byte| matches!(byte, b' '..=b'~'));
    (is_key && is_value).then_some((key, value))
}

fn is_own(member: &[u8]) -> bool {
    member.strip_prefix(KEY).is_some_and(|value| value.first() == Some(&b'='))
}

fn pairs(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|&byte| byte == b';').filter_map(split_pair)
}

fn split_pair(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = pair.iter().position(|&byte| byte == b':')?;
    Some((&pair[..colon], &pair[colon + 1..]))
}

/// Whether a value is a list of pairs with unique keys, as OpenTelemetry defines them. Only its own
/// two keys are compared: duplicates of others have no meaning here.
fn is_sampling_value(value: &[u8]) -> bool {
    let is_pair = |pair: &[u8]| {
        split_pair(pair).is_some_and(|(key, value)| {
            key.first().is_some_and(u8::is_ascii_lowercase)
                && key.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
                && value
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
        })
    };
    let is_unique = |expected: &[u8]| pairs(value).filter(|(key, _)| *key == expected).count() <= 1;
    value.split(|&byte| byte == b';').all(is_pair)
        && is_unique(THRESHOLD_KEY)
        && is_unique(RANDOMNESS_KEY)
}
