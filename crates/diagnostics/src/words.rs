//! Lists of words in messages.

use std::fmt::Display;

/// The maximum number of words that a hint lists.
const LISTED_WORDS: usize = 16;

/// Lists the words in backticks, with commas between them.
pub fn in_backticks(words: impl IntoIterator<Item = impl Display>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Lists the first words in backticks, and the number of further words.
pub fn first_in_backticks<'a>(words: impl Iterator<Item = &'a str> + Clone) -> String {
    let listed = in_backticks(words.clone().take(LISTED_WORDS));
    let more = words.count().saturating_sub(LISTED_WORDS);
    if more == 0 { listed } else { format!("{listed} and {more} more") }
}
