//! Tests of the private functions of `sequence.rs`.

use std::collections::HashMap;

use super::*;
use proptest::prelude::*;

/// A dictionary without predictions: indexes in order of first use.
#[derive(Default)]
struct Plain {
    indexes: HashMap<Vec<u8>, u32>,
}

impl Plain {
    fn index(&mut self, key: &[u8]) -> u32 {
        let next = self.indexes.len() as u32;
        *self.indexes.entry(key.to_vec()).or_insert(next)
    }
}

/// Gives each key of each row its index, as a column does; returns how many were predicted.
fn all(sequence: &mut Sequence, plain: &mut Plain, rows: &[Vec<Vec<u8>>]) -> usize {
    let mut foretold = 0;
    for row in rows {
        for key in row {
            let index = plain.index(key);
            match sequence.match_guess(key) {
                Some(guess) => {
                    assert_eq!(guess, index);
                    foretold += 1;
                }
                None => sequence.record_key(key, index),
            }
        }
        sequence.end_row();
    }
    foretold
}

/// Returns keys of all lengths around the borders, few enough to repeat, in rows of any order.
fn rows() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let len = prop_oneof![Just(0), 1..4_usize, Just(31), Just(32), Just(33), Just(300)];
    let key = (len, b'a'..b'd').prop_map(|(len, byte)| vec![byte; len]);
    proptest::collection::vec(proptest::collection::vec(key, 0..12), 0..12)
}

proptest! {
    /// Guarantee: a predicted index is always the dictionary's index of that key, also after a
    /// clear.
    #[test]
    fn what_is_foretold_is_the_dictionarys_index(before in rows(), after in rows()) {
        let mut sequence = Sequence::default();
        all(&mut sequence, &mut Plain::default(), &before);
        sequence.clear();
        all(&mut sequence, &mut Plain::default(), &after);
    }
}

fn keys(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

/// Scenario: alternating rows of two kinds, which share keys in the middle and at the end.
/// Guarantee: only keys that differ from the last row at the same position are looked up.
#[test]
fn kinds_of_rows_in_turn_are_foretold_for_the_most_part() {
    let one = keys(&["http.method", "http.route", "server.port", "thread.id", "thread.name"]);
    let other = keys(&["db.name", "db.query", "server.port", "thread.id", "thread.name"]);
    let rows: Vec<_> = [one, other].into_iter().cycle().take(20).collect();
    let (mut sequence, mut plain) = (Sequence::default(), Plain::default());
    all(&mut sequence, &mut plain, &rows[..2]);
    assert_eq!(all(&mut sequence, &mut plain, &rows[2..]), 18 * 4);
}

/// Guarantee: with more keys than are stored with a successor, all have their index, and memory
/// stays bounded.
#[test]
fn keys_beyond_those_kept_are_looked_up() {
    let row: Vec<Vec<u8>> = (0..3 * KEYS).map(|n| format!("key.{n}").into_bytes()).collect();
    let (mut sequence, mut plain) = (Sequence::default(), Plain::default());
    let rows = vec![row; 3];
    assert_eq!(all(&mut sequence, &mut plain, &rows), 2 * KEYS);
    assert!(sequence.memory_bytes() <= 2 * KEYS * size_of::<SequenceKey>());
}
