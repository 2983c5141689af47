//! The only place that reads the time. After the start it goes on with tokio's clock, which is monotonic: a step of the machine's clock changes
//! nothing, and tests can let hours pass at once. It shows the API server's time as soon as that was measured, once.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A difference that a measurement cannot tell from none: the server's time comes in whole seconds, and a call takes a moment.
const RESOLUTION: SignedDuration = SignedDuration::from_secs(2);
/// Half the resolution of the header: the time that it names began up to a second ago.
const HALF_SECOND: SignedDuration = SignedDuration::from_millis(500);

/// The time of a run. Clones show the same time.
#[derive(Clone, Debug)]
pub struct RunClock {
    origin: Timestamp,
    started: Instant,
    /// By how much the API server's clock is ahead of the machine's.
    correction: Arc<OnceLock<SignedDuration>>,
}

impl RunClock {
    /// From the machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// From any moment on.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self { origin, started: Instant::now(), correction: Arc::default() }
    }

    /// Now: the API server's time if it was measured, otherwise the machine's.
    pub fn now(&self) -> Timestamp {
        let now = self.origin.saturating_add(self.elapsed()).unwrap_or(Timestamp::MAX);
        now.saturating_add(self.correction()).unwrap_or(Timestamp::MAX)
    }

    /// Time since this clock was started. It never goes back.
    pub fn elapsed(&self) -> SignedDuration {
        SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX)
    }

    /// By how much the API server's clock is ahead of the machine's, as far as that was measured.
    pub fn correction(&self) -> SignedDuration {
        self.correction.get().copied().unwrap_or_default()
    }

    /// Sets this clock to the API server's time, which a call told that was `asked` at this clock's [`Self::elapsed`] and answered just now. Only the
    /// first measurement counts: from then on the time is monotonic, whatever happens to the clock of any server.
    pub fn set_by_server(&self, server: Timestamp, asked: SignedDuration) {
        let half = self.elapsed().saturating_sub(asked) / 2;
        let middle =
            self.origin.saturating_add(asked.saturating_add(half)).unwrap_or(Timestamp::MAX);
        let ahead =
            server.saturating_add(HALF_SECOND).unwrap_or(Timestamp::MAX).duration_since(middle);
        self.correction
            .get_or_init(|| if ahead.abs() <= RESOLUTION { SignedDuration::ZERO } else { ahead });
    }

    /// The moment as tokio's clock has it; the past is now.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let wait = at.duration_since(self.now());
        Instant::now() + Duration::try_from(wait).unwrap_or_default()
    }
}

/// Returns the time so much later; the latest time there is where that overflows.
pub(super) fn later(at: Timestamp, wait: Duration) -> Timestamp {
    at.saturating_add(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    #[tokio::test(start_paused = true)]
    async fn first_measurement_of_the_server_counts() {
        let clock = RunClock::starting_at(at(1000));
        let asked = clock.elapsed();
        tokio::time::advance(Duration::from_secs(1)).await;
        clock.set_by_server(at(4600), asked);
        assert_eq!(clock.now(), at(4601));
        // The server's clock steps back; ours does not.
        clock.set_by_server(at(0), clock.elapsed());
        assert_eq!(clock.clone().now(), at(4601));
        assert_eq!(clock.correction().as_secs(), 3600);
    }

    #[tokio::test(start_paused = true)]
    async fn small_difference_is_no_skew() {
        let clock = RunClock::starting_at(at(1000));
        clock.set_by_server(at(1001), clock.elapsed());
        assert_eq!((clock.now(), clock.correction()), (at(1000), SignedDuration::ZERO));
    }
}
