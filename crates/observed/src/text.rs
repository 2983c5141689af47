//! The comparison of texts.

/// Returns whether two texts are equal. Compares 16 bytes at a time: every lookup of a label calls
/// this, most keys start with the same bytes, and musl compares byte by byte.
pub fn is_same_text(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let (Some(end), Some(other_end)) = (one.last_chunk::<16>(), other.last_chunk::<16>()) else {
        return one == other;
    };
    let (chunks, other_chunks) = (one.as_chunks::<16>().0, other.as_chunks::<16>().0);
    end == other_end && chunks.iter().zip(other_chunks).all(|(chunk, other)| chunk == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_differ_in_any_byte_and_in_length() {
        let long = "nvidia.com/gpu-driver-upgrade-requested";
        for length in 0..=long.len() {
            let text = &long[..length];
            assert!(is_same_text(text, text), "{text}");
            for place in 0..length {
                let other = format!("{}#{}", &text[..place], &text[place + 1..]);
                assert!(!is_same_text(text, &other), "{text} {other}");
            }
            assert!(!is_same_text(text, &format!("{text}d")), "{text}");
            assert!(!is_same_text(&format!("{text}d"), text), "{text}");
        }
    }
}
