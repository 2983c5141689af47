//! Parameters from the environment, and output, of tests that are run by hand.

/// Reads a number from the environment.
#[expect(clippy::disallowed_methods, reason = "tests have no other arguments")]
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Reads a word from the environment.
#[expect(clippy::disallowed_methods, reason = "tests have no other arguments")]
pub(crate) fn word(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Prints a line.
#[expect(
    clippy::print_stdout,
    reason = "the numbers of `make soak`, and one seed by hand, are the output"
)]
pub(crate) fn show(line: &str) {
    println!("{line}");
}
