//! What goes wrong between client and server.

use super::request::Request;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is answered with this status and has no effect.
    Status(u16),
    /// It is answered with this status and these words, and has no effect: admission, validation, a quota.
    Answer(u16, &'static str),
    /// Admission takes all labels out of it, and lets the rest through.
    DropLabels,
    /// It is answered with 429, and told to come again in so many seconds.
    Busy(u32),
    /// It never arrives, and there is never an answer.
    Hang,
    /// It has its effect; there is never an answer.
    LoseAnswer,
    /// It arrives so many seconds later, when nobody waits for its answer any more; the test is told when it is sent.
    Late(u64),
    /// It goes as any other, and the test is told.
    Tell,
    /// As `Hang`, and the test is told: the process dies before its request is sent.
    CrashBefore,
    /// As `LoseAnswer`, and the test is told: the process dies before it sees the answer.
    CrashAfter,
}

type Matches = Box<dyn Fn(&Request) -> bool + Send>;

/// An effect on some requests.
pub(crate) struct Fault {
    matches: Matches,
    skip: usize,
    times: usize,
    effect: Effect,
}

impl Fault {
    /// On the `nth` matching request (from 0), and on the `times - 1` after it.
    pub(crate) fn new(
        matches: impl Fn(&Request) -> bool + Send + 'static,
        nth: usize,
        times: usize,
        effect: Effect,
    ) -> Self {
        Self { matches: Box::new(matches), skip: nth, times, effect }
    }

    /// What it does to this request; counts it.
    pub(crate) fn strikes(&mut self, request: &Request) -> Option<Effect> {
        if !(self.matches)(request) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times = self.times.checked_sub(1)?;
        Some(self.effect)
    }
}

/// How all watches end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// The server closes them.
    EndOfFile,
    /// An ERROR event with code 410.
    Gone,
    /// An ERROR event with code 500.
    Error,
    /// The connection is cut in the middle of a line.
    Cut,
}
