//! Nobody reads this file but `scripts/prose.sh self-check`.

/// Returns what is no directory, and `stands` beside `code`.
fn anew() -> [&'static str; 3] {
    // Once more.
    [
        "nobody",
        "the message says that somebody else did it",
        "the message quotes `nobody`",
    ]
}
