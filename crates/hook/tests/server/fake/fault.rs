//! Faults between client and server.

use super::request::Request;

/// The effect of a fault on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The server answers with this status, and the request has no effect.
    Status(u16),
    /// The server answers with this status and message, and the request has no effect: admission,
    /// validation, a quota.
    Answer(u16, &'static str),
    /// Admission drops all labels of the request and accepts the rest.
    DropLabels,
    /// The server answers 429 with a retry time in seconds.
    Busy(u32),
    /// The request never arrives and gets no answer.
    Hang,
    /// The request takes effect, but its answer is lost.
    LoseAnswer,
    /// The request arrives this number of seconds later, when the client no longer waits for the
    /// answer. The test is notified when it is sent.
    Late(u64),
    /// The request is handled normally after this number of seconds.
    Slow(u64),
    /// The request is handled normally, and the test is notified.
    Tell,
    /// As `Hang`, and the test is notified: the process dies before it sends the request.
    CrashBefore,
    /// As `LoseAnswer`, and the test is notified: the process dies before it receives the answer.
    CrashAfter,
}

type Matches = Box<dyn Fn(&Request) -> bool + Send>;

/// A fault: an effect on some requests.
pub(crate) struct Fault {
    matches: Matches,
    skip: usize,
    times: usize,
    effect: Effect,
}

impl Fault {
    /// Returns a fault for the `nth` matching request (from 0) and the `times - 1` after it.
    pub(crate) fn new(
        matches: impl Fn(&Request) -> bool + Send + 'static,
        nth: usize,
        times: usize,
        effect: Effect,
    ) -> Self {
        Self { matches: Box::new(matches), skip: nth, times, effect }
    }

    /// Counts the request, and returns the effect on it.
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

/// The way in which all watches end.
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
