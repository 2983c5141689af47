//! Warnings about a condition that lasts and is noticed again and again, such as an API server that is away.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

/// How often a lasting condition is logged.
const INTERVAL: Duration = Duration::from_mins(1);

/// A warning that is logged when its condition is first noticed, then once a minute while it lasts, and when it is over.
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
    /// Returns a warning whose condition was not noticed yet. `over`: what is logged when it is over.
    pub fn new(text: &'static str, over: &'static str) -> Self {
        Self { text, over, lasting: None }
    }

    /// Notes that the condition is there. `error`: why, this time.
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

    /// Notes that the condition is not there any more.
    pub fn end(&mut self) {
        if let Some(lasting) = self.lasting.take() {
            tracing::info!(seconds = lasting.since.elapsed().as_secs(), "{}", self.over);
        }
    }
}
