//! Tests of consistent probability sampling.

mod decisions;
mod rules;
mod thresholds;
mod trace_states;

/// A sequence of numbers that is the same in every run (splitmix64).
pub(crate) fn next_number(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

pub(crate) fn trace_id(state: &mut u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&next_number(state).to_be_bytes());
    id[8..].copy_from_slice(&next_number(state).to_be_bytes());
    id
}
