//! Numbers from a seed. The same seed gives the same story.

/// SplitMix64.
fn mix(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns a number that depends only on the seed and on its purpose.
pub(crate) fn number(seed: u64, purpose: &str) -> u64 {
    purpose.bytes().fold(mix(seed), |value, byte| mix(value ^ u64::from(byte)))
}

/// Returns a number in `low..=high`.
pub(super) fn between(seed: u64, purpose: &str, (low, high): (u64, u64)) -> u64 {
    low + number(seed, purpose) % (high - low + 1)
}
