//! The only place that reads the time. After the start it goes on with tokio's clock, so that tests can let hours pass at once.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The time of a run.
#[derive(Clone, Debug)]
pub struct Clock {
    origin: Timestamp,
    started: Instant,
}

impl Clock {
    /// From the machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// From any moment on.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self { origin, started: Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        self.origin.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// The moment as tokio's clock has it; the past is now.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let wait = at.duration_since(self.now());
        Instant::now() + std::time::Duration::try_from(wait).unwrap_or_default()
    }
}
