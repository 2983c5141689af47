//! Parses durations in Go's format: `1m30s`, `250ms`.

/// Units and their nanoseconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Returns the seconds of a text as Go's `time.ParseDuration` reads it.
///
/// # Errors
/// Go's message for an invalid text.
pub fn seconds(text: &str) -> Result<f64, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if unsigned == "0" {
        return Ok(0.0);
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let (mut rest, mut nanoseconds) = (unsigned, 0.0);
    while !rest.is_empty() {
        let number_end = rest
            .find(|character: char| !(character.is_ascii_digit() || character == '.'))
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let number: f64 = if number == "." { Err(()) } else { number.parse().map_err(|_| ()) }
            .map_err(|()| invalid())?;
        let unit_end = after
            .find(|character: char| character.is_ascii_digit() || character == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some((_, factor)) = UNITS.iter().find(|(known, _)| *known == unit) else {
            return Err(format!(
                "time: unknown unit {} in duration {}",
                quoted(unit),
                quoted(text)
            ));
        };
        nanoseconds += number * factor;
        rest = after;
    }
    // Go keeps nanoseconds in 63 bits.
    if nanoseconds >= 9_223_372_036_854_775_808.0 {
        Err(invalid())
    } else {
        Ok(sign * nanoseconds / 1e9)
    }
}

/// Quotes a text like Go does in its messages.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads_is_read() {
        let cases = [
            ("60s", 60.0),
            ("1m30s", 90.0),
            ("1.5h", 5400.0),
            ("250ms", 0.25),
            ("0", 0.0),
            ("-2s", -2.0),
            (".5s", 0.5),
            ("1.s", 1.0),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("1 minute", "time: unknown unit \" minute\" in duration \"1 minute\""),
            ("30", "time: missing unit in duration \"30\""),
            ("infinite", "time: invalid duration \"infinite\""),
            ("", "time: invalid duration \"\""),
            (".s", "time: invalid duration \".s\""),
            ("300000000h", "time: invalid duration \"300000000h\""),
        ] {
            assert_eq!(seconds(text), Err(expected.to_owned()), "{text}");
        }
    }
}
