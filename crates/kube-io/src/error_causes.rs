//! The message of an error together with those of its causes.

use std::error::Error;

/// Returns the message of an error, followed by those of its causes that it does not repeat, from
/// the outermost to the innermost. Many errors of other crates have the message of their cause in
/// their own.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes =
        std::iter::successors(error.source(), |cause: &&(dyn Error + 'static)| (*cause).source());
    causes.map(ToString::to_string).fold(error.to_string(), |text, cause| {
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start")]
    struct StartError(#[source] ReadError);

    #[derive(Debug, thiserror::Error)]
    #[error("no file (cannot read `a`: {0})")]
    struct ReadError(#[source] io::Error);

    #[test]
    fn repeated_cause_is_left_out() {
        let error = StartError(ReadError(io::Error::other("it is locked")));
        assert_eq!(with_causes(&error), "cannot start: no file (cannot read `a`: it is locked)");
    }
}
