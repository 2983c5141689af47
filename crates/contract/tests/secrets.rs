//! Known forms of secrets are removed from texts, and ordinary lines stay as they are.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use contract::secret_patterns::{REDACTED, is_secret_key, names_secret, redact};

const SECRETS: &str = include_str!("data/secrets.txt");
const ORDINARY: &str = include_str!("data/ordinary.txt");

/// The smallest number of forms that the list must have.
const LEAST: usize = 250;

/// Returns the lines of a list, without comments.
fn samples(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with("# "))
}

/// Returns the sample with its placeholders filled in.
fn filled(sample: &str) -> String {
    let mut text = String::new();
    let mut rest = sample;
    while let Some((before, behind)) = rest.split_once('<') {
        text.push_str(before);
        let inner = behind.split_once('>').filter(|(inner, _)| {
            inner.trim_start_matches(['h', 'u', 'b']).bytes().all(|byte| byte.is_ascii_digit())
                && inner.len() <= 4
                && inner.chars().filter(char::is_ascii_alphabetic).count() <= 1
        });
        let Some((inner, behind)) = inner else {
            text.push('<');
            rest = behind;
            continue;
        };
        let (pattern, length) = match inner.chars().next() {
            Some('h') => ("fa4e0c1de2", &inner[1..]),
            Some('u') => ("FAK3N0TR3A", &inner[1..]),
            Some('b') => ("fAk3+n0tR3aL/9Zq", &inner[1..]),
            _ => ("fAk3n0tR3aL9Zq", inner),
        };
        let length: usize = if length.is_empty() { 0 } else { length.parse().unwrap() };
        text.extend(pattern.chars().cycle().take(length));
        rest = behind;
    }
    text.push_str(rest);
    text.replace('⏎', "\n")
}

/// Returns a sample without its marks, and what must be removed from it.
fn parsed(sample: &str) -> (String, Vec<String>) {
    let text = filled(sample);
    let secrets = text
        .split('«')
        .skip(1)
        .map(|part| part.split_once('»').map_or(part, |(secret, _)| secret).to_owned())
        .collect();
    (text.replace(['«', '»'], ""), secrets)
}

/// Returns whether a part of the secret, long enough to be of use, is left in the text.
fn is_left(secret: &str, text: &str) -> bool {
    let words = secret.split(|one: char| one.is_whitespace());
    words.filter(|word| word.len() >= 6).any(|word| text.contains(word)) || text.contains(secret)
}

#[test]
fn known_secrets_are_removed() {
    let mut count = 0;
    let mut passed = Vec::new();
    for sample in samples(SECRETS) {
        let (text, secrets) = parsed(sample);
        assert!(!secrets.is_empty(), "no secret is marked: {sample}");
        let (clean, removed) = redact(&text);
        count += 1;
        if removed == 0 || secrets.iter().any(|secret| is_left(secret, &clean)) {
            passed.push(format!("{sample}\n    → {}", clean.replace('\n', "⏎")));
        }
    }
    assert!(passed.is_empty(), "{} of {count} are left:\n{}", passed.len(), passed.join("\n"));
    assert!(count >= LEAST, "{count}");
}

/// What surrounds a secret is what a reader of a log needs.
#[test]
fn text_around_secrets_stays() {
    for (text, expected) in [
        ("login with password=hunter2hunter2 now", "login with password=[redacted] now"),
        ("{Password:hunter2hunter2 User:me}", "{Password:[redacted] User:me}"),
        (
            "GET https://me:hunter2@host:8080/path?page=2 200",
            "GET https://me:[redacted]@host:8080/path?page=2 200",
        ),
        ("Authorization: Bearer abcdefgh12345678\nnext", "Authorization: Bearer [redacted]\nnext"),
        (r#"{"a":1,"token":"abcdefghijk","b":2}"#, r#"{"a":1,"token":"[redacted]","b":2}"#),
        (r#"password=\"hunter2hunter2\" x"#, r#"password=\"[redacted]\" x"#),
        (
            "helm upgrade --set a.password=hunter2 -n x",
            "helm upgrade --set a.password=[redacted] -n x",
        ),
        ("password: |\n  hunter2\nnext: x\n", "password: |\n[redacted]\nnext: x\n"),
    ] {
        assert_eq!(redact(text).0, expected);
    }
    assert_eq!(redact("password=hunter2 token=abcdefgh").1, 2);
}

#[test]
fn ordinary_lines_stay() {
    let mut changed = Vec::new();
    let mut count = 0;
    for sample in samples(ORDINARY) {
        let text = sample.replace('⏎', "\n");
        let (clean, _) = redact(&text);
        count += 1;
        if clean != text {
            changed.push(format!("{sample}\n    → {}", clean.replace('\n', "⏎")));
        }
    }
    assert!(changed.is_empty(), "{} of {count} changed:\n{}", changed.len(), changed.join("\n"));
}

/// One log with all of them: what is removed on one line does not reach into another.
#[test]
fn ordinary_lines_between_secrets_stay() {
    let ordinary: Vec<&str> = samples(ORDINARY).filter(|line| !line.contains('⏎')).collect();
    for sample in samples(SECRETS) {
        let (text, secrets) = parsed(sample);
        // A block without its end takes what looks like its body, but never more.
        for line in ordinary.iter().step_by(7) {
            let (clean, _) = redact(&format!("{line}\n{text}\n\n{line}\n"));
            assert!(clean.starts_with(&format!("{line}\n")), "before {sample}: {clean}");
            assert!(clean.ends_with(&format!("\n{line}\n")), "after {sample}: {clean}");
            assert!(!secrets.iter().any(|secret| is_left(secret, &clean)), "{sample}: {clean}");
        }
    }
}

#[test]
fn redacted_text_is_redacted_already() {
    for sample in samples(SECRETS) {
        let (clean, _) = redact(&parsed(sample).0);
        assert_eq!(redact(&clean).0, clean, "{sample}");
        assert!(clean.contains(REDACTED), "{sample}");
    }
}

/// The time of a hostile text grows with its length, not with its square.
#[test]
fn long_hostile_text_is_read_once() {
    let repeated = [
        "a",
        "=",
        "$",
        "\"",
        "password=",
        "\\\"",
        "-----BEGIN PRIVATE KEY-----\n",
        "://",
        "@a:",
        "-p ",
        "data:\n",
        "[",
        "kind: Secret\n",
        "password: |\n  ",
        "%22",
        "fAk3n0tR3aL9Zq",
        "name: x\n",
        "name=",
        "token=/",
        "token[",
        "\"cookie:ab\" ",
        "cookie:${",
        "-----BEGIN PRIVATE KEY-----!",
    ];
    for unit in repeated {
        let text = unit.repeat(100_000 / unit.len());
        let (clean, _) = redact(&text);
        assert!(clean.len() <= 20 * text.len(), "{unit}");
    }
}

/// Regression: a block scalar whose first line reaches the end of the window, in the middle of a
/// character, ended the program.
#[test]
fn block_after_long_line_is_read() {
    let text = format!("password: |{}é\n  fAk3n0tR3aL\n", " ".repeat(2047));
    assert!(!redact(&text).0.contains("fAk3n0tR3aL"));
}

/// Regression: `credentials` stayed in objects.
#[test]
fn every_name_that_recipes_refuse_is_redacted() {
    for name in ["credentials", "REGISTRY_CREDENTIALS", "password", "apiKey", "clientSecret"] {
        assert!(is_secret_key(name) && names_secret(name), "{name}");
    }
}

/// Regression: tokens in the form of a UUID were mistaken for names of objects.
#[test]
fn token_with_form_of_uuid_is_redacted() {
    let (clean, count) = redact("NGC_API_KEY=fa4e0000-fa4e-4000-8000-fa4e0000fa4e");
    assert_eq!((clean.as_str(), count), ("NGC_API_KEY=[redacted]", 1));
}

#[test]
fn long_value_is_removed_whole() {
    for text in ["token=", "token: \"", "Authorization: Bearer ", "Cookie: id=\"x\"; a="] {
        let text = format!("{text}{}\" next", "fAk3n0tR3aL9Zq".repeat(600));
        let (clean, _) = redact(&text);
        assert!(!clean.contains("n0tR3aL"), "{}", clean.len());
    }
}
