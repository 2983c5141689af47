//! Warnings about a lasting condition that is noticed repeatedly, such as an unreachable API
//! server.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

/// The interval at which a lasting condition is logged.
const INTERVAL: Duration = Duration::from_mins(1);

/// A warning that is logged when its condition is first noticed, then once a minute while it lasts,
/// and when it ends.
#[derive(Debug)]
pub struct RepeatedWarning {
    text: &'static str,
    over: &'static str,
    lasting: Option<LastingCondition>,
}

#[derive(Clone, Copy, Debug)]
struct LastingCondition {
    since: Instant,
    logged: Instant,
}

impl RepeatedWarning {
    /// Creates a warning whose condition has not been noticed. `over`: the message when the
    /// condition ends.
    pub fn new(text: &'static str, over: &'static str) -> Self {
        Self { text, over, lasting: None }
    }

    /// Notes that the condition exists. `error`: the current cause.
    pub fn note(&mut self, error: impl Display) {
        let (text, now) = (self.text, Instant::now());
        let Some(lasting) = &mut self.lasting else {
            tracing::warn!(%error, "{text}");
            self.lasting = Some(LastingCondition { since: now, logged: now });
            return;
        };
        if now.duration_since(lasting.logged) < INTERVAL {
            tracing::debug!(%error, "{text}");
            return;
        }
        tracing::warn!(%error, seconds = now.duration_since(lasting.since).as_secs(), "{text}");
        lasting.logged = now;
    }

    /// Notes that the condition has ended.
    pub fn end(&mut self) {
        if let Some(lasting) = self.lasting.take() {
            tracing::info!(seconds = lasting.since.elapsed().as_secs(), "{}", self.over);
        }
    }
}
