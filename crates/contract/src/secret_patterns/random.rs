//! Tells texts that look random from words and from names of objects.

/// Returns whether a text looks like a random one of at least `least` characters: it has letters
/// and digits, and is neither a sequence of words nor a number.
pub(super) fn looks_random(text: &str, least: usize) -> bool {
    let count = |is: fn(&u8) -> bool| text.bytes().filter(is).count();
    let digits = count(u8::is_ascii_digit);
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let is_mixed = upper > 0 && lower > 0 || upper + lower > 0 && !text.contains('-');
    text.len() >= least && digits > 0 && is_mixed
}

/// Returns whether a text of capitals, small letters and digits has the form of a random key: no
/// other text has so many changes between them.
pub(super) fn is_dense(text: &str) -> bool {
    let kind = |byte: u8| match byte {
        b'A'..=b'Z' => 0,
        b'a'..=b'z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    let bytes = text.as_bytes();
    let changes = bytes.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    let has = |wanted: u8| bytes.iter().any(|byte| kind(*byte) == wanted);
    has(0) && has(1) && has(2) && changes * 5 >= bytes.len() * 2
}

/// Returns whether a text is a UUID.
pub(super) fn is_uuid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let is_hexadecimal = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.len() == 36
        && text.split('-').count() == lengths.len()
        && text
            .split('-')
            .zip(lengths)
            .all(|(part, length)| part.len() == length && is_hexadecimal(part))
}

/// Returns whether a text can be the name of an object of Kubernetes, or its namespace and name:
/// words of small letters and digits with dashes.
pub(super) fn is_object_name(text: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
            })
    };
    text.contains(['-', '/']) && text.split('/').count() <= 2 && text.split('/').all(is_part)
}

/// Returns whether a text is a path in a file system.
pub(super) fn is_path(text: &str) -> bool {
    let starts = ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start));
    starts && !text.split('/').any(|part| part.len() >= 24 && is_dense(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_texts_are_told_from_names() {
        assert!(looks_random("a1b2c3d4e5f6a7b8", 16) && looks_random("Zz0-9fakeFAKE", 8));
        assert!(!looks_random("correct-horse-battery-1", 8) && !looks_random("123456789", 8));
        assert!(is_dense("fAk3FaK3fAk3") && !is_dense("NewTypedInformerFactory2"));
        assert!(is_uuid("fa4e0000-fa4e-4000-8000-fa4e0000fa4e") && !is_uuid("fa4e0000-fa4e"));
        assert!(is_object_name("gpu-operator/ngc-secret") && is_object_name("ngc-secret"));
        assert!(!is_object_name("hunter2") && !is_object_name("a/b/c") && !is_object_name("A-b"));
        assert!(is_path("/var/run/secrets/token") && !is_path("/9fAk3FaK3fAk3FaK3fAk3FaK3fAk3"));
    }
}
