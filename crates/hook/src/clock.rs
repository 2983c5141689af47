//! The clock of a run: the only code that reads the time. After the start it follows tokio's clock,
//! which is monotonic. So a step of the machine's clock has no effect, and tests can advance the
//! time by hours at once. After the first measurement it shows the API server's time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The smallest difference that a measurement can detect. The server's time is in whole seconds,
/// and a call takes time.
const RESOLUTION: SignedDuration = SignedDuration::from_secs(2);
/// Half the resolution of the `Date` header: the second that it names started up to one second ago.
const HALF_SECOND: SignedDuration = SignedDuration::from_millis(500);

/// The clock of a run. Clones show the same time.
#[derive(Clone, Debug)]
pub struct RunClock {
    origin: Timestamp,
    started: Instant,
    /// How far the API server's clock is ahead of the machine's.
    correction: Arc<OnceLock<SignedDuration>>,
}

impl RunClock {
    /// Returns a clock that starts at the time of the machine's clock.
    #[expect(clippy::disallowed_methods, reason = "the only code that reads the machine's clock")]
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// Returns a clock that starts at `origin`.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self { origin, started: Instant::now(), correction: Arc::default() }
    }

    /// Returns the current time: the API server's if it was measured, otherwise the machine's.
    pub fn now(&self) -> Timestamp {
        let now = self.origin.saturating_add(self.elapsed()).unwrap_or(Timestamp::MAX);
        now.saturating_add(self.correction()).unwrap_or(Timestamp::MAX)
    }

    /// Returns the time since this clock was started. It never decreases.
    pub fn elapsed(&self) -> SignedDuration {
        SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX)
    }

    /// Returns how far the API server's clock is ahead of the machine's; zero before the first
    /// measurement.
    pub fn correction(&self) -> SignedDuration {
        self.correction.get().copied().unwrap_or_default()
    }

    /// Sets this clock to the API server's time. `server` is the time in an answer that has just
    /// arrived; `asked` is [`Self::elapsed`] at the time of the request. Only the first measurement
    /// is used. So the time stays monotonic if a server's clock changes later.
    pub fn set_by_server(&self, server: Timestamp, asked: SignedDuration) {
        let half = self.elapsed().saturating_sub(asked) / 2;
        let middle =
            self.origin.saturating_add(asked.saturating_add(half)).unwrap_or(Timestamp::MAX);
        let ahead =
            server.saturating_add(HALF_SECOND).unwrap_or(Timestamp::MAX).duration_since(middle);
        self.correction
            .get_or_init(|| if ahead.abs() <= RESOLUTION { SignedDuration::ZERO } else { ahead });
    }

    /// Converts a time to an instant of tokio's clock. A time in the past becomes now.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let wait = at.duration_since(self.now());
        Instant::now() + Duration::try_from(wait).unwrap_or_default()
    }
}

/// Returns `at` plus `wait`, or the latest representable time if the sum overflows.
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
