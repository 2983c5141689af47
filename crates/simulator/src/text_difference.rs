//! Shows where two long texts differ.

/// Number of characters shown before and after a difference.
const AROUND: usize = 150;

/// Returns excerpts of both texts around the first difference.
pub(super) fn where_they_differ(one: &str, other: &str) -> (String, String) {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let part =
        |text: &str| text.chars().skip(same.saturating_sub(AROUND)).take(2 * AROUND).collect();
    (part(one), part(other))
}
