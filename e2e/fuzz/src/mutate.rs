//! Changes protobuf as protobuf: what is inside a field is changed, and all lengths around it
//! follow.
//!
//! Plain changes of bytes nearly always break a length, and then nothing behind it is reached. Half
//! of all changes are plain ones all the same: broken lengths must be met too.

/// A change of `data[..length]` in place, up to `data.len()` bytes; the new length.
pub type Plain = fn(data: &mut [u8], length: usize) -> usize;

/// Messages are looked into this deep.
const DEPTH_MAX: usize = 12;

/// Changes the protobuf behind the first `prefix` bytes of `data[..length]`, or all of it as plain
/// bytes. The same seed makes the same change as long as `plain` does.
pub fn protobuf(data: &mut [u8], length: usize, prefix: usize, seed: u32, plain: Plain) -> usize {
    let mut dice = Dice(u64::from(seed) << 1 | 1);
    if length <= prefix || dice.roll(2) == 0 {
        return plain(data, length);
    }
    let capacity = data.len();
    let mut message = data[prefix..length].to_vec();
    change(&mut message, &mut dice, plain, 0);
    if message.len() > capacity - prefix {
        return plain(data, length);
    }
    let end = prefix + message.len();
    data[prefix..end].copy_from_slice(&message);
    end
}

/// A small generator (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides.max(1) as u64) as usize
    }
}

/// A field: where its tag, its value's length and its value lie.
#[derive(Clone, Copy)]
struct Field {
    start: usize,
    value: usize,
    end: usize,
    wire_type: u8,
}

fn change(message: &mut Vec<u8>, dice: &mut Dice, plain: Plain, depth: usize) {
    let fields = fields(message).unwrap_or_default();
    let Some(field) = fields.get(dice.roll(fields.len())).copied() else {
        return plainly(message, dice, plain);
    };
    let text = |field: Field| message[field.start..field.end].to_vec();
    match dice.roll(12) {
        0 => drop(message.drain(field.start..field.end)),
        1 => {
            let copy = text(field);
            message.splice(field.start..field.start, copy);
        }
        2 => {
            let other = fields[dice.roll(fields.len())];
            let copy = text(other);
            message.splice(field.start..field.end, copy);
        }
        3 => message[field.start] = (1 + dice.roll(15) as u8) << 3 | field.wire_type,
        4 => plainly(message, dice, plain),
        _ if field.wire_type == 2 && depth < DEPTH_MAX => {
            let mut value = message[field.value..field.end].to_vec();
            change(&mut value, dice, plain, depth + 1);
            let tag = message[field.start];
            let mut whole = vec![tag];
            let mut length = value.len();
            while length >= 0x80 {
                whole.push(length as u8 | 0x80);
                length >>= 7;
            }
            whole.push(length as u8);
            whole.append(&mut value);
            message.splice(field.start..field.end, whole);
        }
        _ => {
            let mut value = message[field.value..field.end].to_vec();
            let length = value.len();
            plain(&mut value, length);
            message.splice(field.value..field.end, value);
        }
    }
}

/// Changes the bytes, with room to grow.
fn plainly(message: &mut Vec<u8>, dice: &mut Dice, plain: Plain) {
    let length = message.len();
    message.resize(length + 1 + dice.roll(16), 0);
    let length = plain(message, length);
    message.truncate(length);
}

/// The fields of a message, if it is one with tags of one byte each, as OTLP's are (but for one).
fn fields(message: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let mut at = 0;
    while at < message.len() {
        let start = at;
        let tag = message[at];
        if !(0x08..0x80).contains(&tag) {
            return None;
        }
        at += 1;
        let mut value = at;
        at = match tag & 7 {
            0 => at + 1 + message[at..].iter().position(|byte| *byte < 0x80)?,
            1 => at + 8,
            2 => {
                let (length, bytes) = short_length(&message[at..])?;
                value += bytes;
                value + length
            }
            5 => at + 4,
            _ => return None,
        };
        if at > message.len() {
            return None;
        }
        fields.push(Field { start, value, end: at, wire_type: tag & 7 });
    }
    Some(fields)
}

/// A length of up to two bytes, and how many they are: inputs are short.
fn short_length(bytes: &[u8]) -> Option<(usize, usize)> {
    match *bytes {
        [first @ ..0x80, ..] => Some((usize::from(first), 1)),
        [first, second @ ..0x80, ..] => {
            Some((usize::from(first & 0x7f) | usize::from(second) << 7, 2))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{fields, protobuf};

    /// Adds one to the last byte.
    fn bump(data: &mut [u8], length: usize) -> usize {
        if let Some(byte) = data[..length].last_mut() {
            *byte = byte.wrapping_add(1);
        }
        length
    }

    /// Scenario: many changes of a nested message. Guarantee: most results are messages again, and
    /// none outgrows the room there is.
    #[test]
    fn most_changes_keep_lengths_right() {
        let inner = [0x0a, 2, b'h', b'i', 0x10, 5];
        let request = [&[7, 0x0a, 10, 0x12, 8, 0x1a, 6][..], &inner].concat();
        let mut whole = 0;
        for seed in 0..1000 {
            let mut data = request.clone();
            data.resize(40, 0);
            let length = protobuf(&mut data, request.len(), 1, seed, bump);
            assert!(length <= 40);
            whole += usize::from(fields(&data[1..length]).is_some());
        }
        assert!(whole > 600, "{whole}");
    }
}
