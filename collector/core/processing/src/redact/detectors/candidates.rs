//! The first pass over letters, digits, dots and colons: finds where numbers may begin that a
//! detector reads, with a few operations for 64 bytes of text.

/// The bytes of a block: the bits of a word.
const BLOCK_BYTES: usize = 64;

/// Multiplied with eight bytes of 0 or 1, collects them as the bits of the uppermost byte.
const GATHER: u64 = 0x0102_0408_1020_4080;
const UPPERMOST_BYTE: u64 = 0xff << 56;

/// The colons before the last one in an IPv6 address without `::`.
const COLONS_BEFORE_LAST: usize = 5;

/// A position at which a detector reads. Each is found at the last byte that decides, so that no
/// block has to wait for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redact) enum Candidate {
    /// The third of three dots, each after a digit and four bytes at most after the one before.
    ThirdDot(usize),
    /// The first digit of a run of 14 at least.
    LongRun(usize),
    /// The first of four digits before another byte and four more digits.
    Groups(usize),
    /// The first of two letters, which no letter or digit precedes and two digits follow.
    Letters(usize),
    /// The second of two colons, or the sixth of six with four bytes at most between them.
    Colons(usize),
}

/// One bit for each byte of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Bitmaps {
    digits: u64,
    letters: u64,
    dots: u64,
    colons: u64,
}

/// What a block needs of the one before it.
#[derive(Clone, Copy, Debug, Default)]
struct Carry {
    bitmaps: Bitmaps,
    /// The last digits of runs of two, four, eight and fourteen.
    runs: [u64; 4],
    /// Dots after a digit, and those of them that follow another one.
    dots: [u64; 2],
}

/// Calls `visit` for each candidate: in order within each kind.
#[inline]
pub(in crate::redact) fn each_candidate(text: &[u8], mut visit: impl FnMut(Candidate)) {
    let mut carry = Carry::default();
    let (blocks, tail) = text.as_chunks::<BLOCK_BYTES>();
    let mut base = 0;
    for block in blocks {
        visit_block(base, classify(block), &mut carry, &mut visit);
        base += BLOCK_BYTES;
    }
    if !tail.is_empty() {
        let mut block = [0; BLOCK_BYTES];
        block[..tail.len()].copy_from_slice(tail);
        visit_block(base, classify(&block), &mut carry, &mut visit);
    }
}

/// The bits moved by some bytes, with those of the block before moved in.
#[inline]
fn after(bits: u64, before: u64, bytes: usize) -> u64 {
    (bits << bytes) | (before >> (BLOCK_BYTES - bytes))
}

/// Most blocks have no candidate, so all kinds are computed without a branch, and there is one for
/// all of them.
#[inline]
fn visit_block(base: usize, now: Bitmaps, carry: &mut Carry, visit: &mut impl FnMut(Candidate)) {
    let before = carry.bitmaps;
    let digits = |bytes| after(now.digits, before.digits, bytes);
    let letters = |bytes| after(now.letters, before.letters, bytes);
    let two = now.digits & digits(1);
    let four = two & after(two, carry.runs[0], 2);
    let eight = four & after(four, carry.runs[1], 4);
    let fourteen = eight & after(eight, carry.runs[2], 6);
    let long_runs = fourteen & !after(fourteen, carry.runs[3], 1);
    let groups = four & !digits(4) & after(four, carry.runs[1], 5);
    let pairs = two & letters(2) & letters(3) & !(letters(4) | digits(4));
    let dots = now.dots & digits(1);
    let follows =
        |bits, before| after(bits, before, 2) | after(bits, before, 3) | after(bits, before, 4);
    let second_dots = dots & follows(dots, carry.dots[0]);
    let third_dots = second_dots & follows(second_dots, carry.dots[1]);
    let mut colons = now.colons & after(now.colons, before.colons, 1);
    if now.colons.count_ones() + before.colons.count_ones() > COLONS_BEFORE_LAST as u32 {
        colons |= last_of_six(now.colons, before.colons);
    }
    *carry = Carry { bitmaps: now, runs: [two, four, eight, fourteen], dots: [dots, second_dots] };
    if long_runs | groups | pairs | third_dots | colons != 0 {
        each_bit(long_runs, |bit| visit(Candidate::LongRun(base + bit - 13)));
        each_bit(groups, |bit| visit(Candidate::Groups(base + bit - 8)));
        each_bit(pairs, |bit| visit(Candidate::Letters(base + bit - 3)));
        each_bit(third_dots, |bit| visit(Candidate::ThirdDot(base + bit)));
        each_bit(colons, |bit| visit(Candidate::Colons(base + bit)));
    }
}

/// The colons that are the last of six, each five bytes at most after the one before. Six take 26
/// bytes, so this block and the one before have them.
#[inline]
fn last_of_six(now: u64, before: u64) -> u64 {
    let colons = (u128::from(now) << BLOCK_BYTES) | u128::from(before);
    let mut chain = colons;
    for _ in 0..COLONS_BEFORE_LAST {
        chain = colons & ((chain << 2) | (chain << 3) | (chain << 4) | (chain << 5));
    }
    (chain >> BLOCK_BYTES) as u64
}

#[inline]
fn each_bit(mut bits: u64, mut visit: impl FnMut(usize)) {
    while bits != 0 {
        visit(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// The loop over bytes has no branch and no table, so that the compiler makes vector instructions
/// of it.
#[inline]
fn classify(block: &[u8; BLOCK_BYTES]) -> Bitmaps {
    Bitmaps {
        digits: gather(block, |byte| byte.wrapping_sub(b'0') < 10),
        letters: gather(block, |byte| (byte | 0x20).wrapping_sub(b'a') < 26),
        dots: gather(block, |byte| byte == b'.'),
        colons: gather(block, |byte| byte == b':'),
    }
}

/// The bitmap of the bytes of a class.
#[inline]
fn gather(block: &[u8; BLOCK_BYTES], is_member: impl Fn(u8) -> bool) -> u64 {
    let marks = block.map(|byte| u8::from(is_member(byte)));
    let mut bits = 0;
    for word in marks.as_chunks::<8>().0 {
        let byte = u64::from_le_bytes(*word).wrapping_mul(GATHER) & UPPERMOST_BYTE;
        bits = (bits >> 8) | byte;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::{Candidate, each_candidate};

    /// Scenario: texts of 0 to 300 bytes in which all kinds of candidates are at all positions.
    /// Guarantee: the candidates are those that their definitions give for single bytes.
    #[test]
    fn finds_each_candidate_in_any_block() {
        let pattern: &[u8] =
            b"a1:22::333x4444.44444444 1.2.33.4 DE89 xAB12 1:2:3:4::5 f:22:333:4444:5:6:7\xc3\xbc \
              0.5.6 \
              55555555555555 44444444444444444444";
        for length in 0..300 {
            for offset in (length % 7..pattern.len()).step_by(7) {
                let text: Vec<u8> =
                    pattern.iter().cycle().skip(offset).take(length).copied().collect();
                let mut found = Vec::new();
                each_candidate(&text, |candidate| found.push(candidate));
                let mut expected = by_definition(&text);
                found.sort_by_key(key);
                expected.sort_by_key(key);
                assert_eq!(found, expected, "{length} {offset}");
            }
        }
        let digits = vec![b'7'; 500];
        let mut found = Vec::new();
        each_candidate(&digits, |candidate| found.push(candidate));
        assert_eq!(found, [Candidate::LongRun(0)]);
    }

    fn key(candidate: &Candidate) -> (usize, usize) {
        match *candidate {
            Candidate::ThirdDot(at) => (at, 0),
            Candidate::LongRun(at) => (at, 1),
            Candidate::Groups(at) => (at, 2),
            Candidate::Letters(at) => (at, 3),
            Candidate::Colons(at) => (at, 4),
        }
    }

    /// Whether a chain of signs before `at` has so many links, each within the distances.
    fn has_chain(
        at: usize,
        distances: &[usize],
        links: usize,
        is_link: &dyn Fn(usize) -> bool,
    ) -> bool {
        links == 0
            || distances.iter().filter_map(|distance| at.checked_sub(*distance)).any(|earlier| {
                is_link(earlier) && has_chain(earlier, distances, links - 1, is_link)
            })
    }

    fn by_definition(text: &[u8]) -> Vec<Candidate> {
        let byte = |at: usize| text.get(at).copied().unwrap_or_default();
        let before = |at: usize, back: usize| at.checked_sub(back).map_or(0, byte);
        let is_colon = |at: usize| byte(at) == b':';
        let is_dot = |at: usize| byte(at) == b'.' && before(at, 1).is_ascii_digit();
        let run = |at: usize| {
            let rest = text.get(at..).unwrap_or_default();
            rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let mut found = Vec::new();
        for at in 0..text.len() {
            let is_start = run(at) > 0 && !before(at, 1).is_ascii_digit();
            let has_letters = (1..=2).all(|back| before(at, back).is_ascii_alphabetic());
            if is_start && run(at) >= 14 {
                found.push(Candidate::LongRun(at));
            }
            if is_start && run(at) >= 2 && has_letters && !before(at, 3).is_ascii_alphanumeric() {
                found.push(Candidate::Letters(at - 2));
            }
            if run(at) == 4 && run(at + 5) >= 4 {
                found.push(Candidate::Groups(at));
            }
            if is_dot(at) && has_chain(at, &[2, 3, 4], 2, &is_dot) {
                found.push(Candidate::ThirdDot(at));
            }
            let has_pair = at > 0 && is_colon(at - 1);
            if is_colon(at) && (has_pair || has_chain(at, &[2, 3, 4, 5], 5, &is_colon)) {
                found.push(Candidate::Colons(at));
            }
        }
        found
    }
}
