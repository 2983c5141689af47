//! Nobody reads this file but `scripts/prose.sh self-check`.

/// Returns what is no directory, and `stands` beside `code`.
fn anew() -> &'static str {
    // Once more.
    "a text of the program, such as `nobody`, is not a comment"
}
