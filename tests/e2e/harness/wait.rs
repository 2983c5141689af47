//! Waits for conditions, never for a fixed time. Polls have a limit, and a timeout error names the
//! condition.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::Api;
use kube::runtime::wait::{Condition, await_condition};
use serde::de::DeserializeOwned;

/// The first pause between two polls of a condition that cannot be watched.
const PERIOD: Duration = Duration::from_millis(50);
/// The longest pause. Pauses grow, because several scenarios poll at the same time.
const LONGEST: Duration = Duration::from_millis(400);

/// Polls until `probe` returns a value, for at most `limit`. An error of `probe` does not end the
/// wait. It is reported on timeout.
pub(crate) async fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + limit;
    let mut period = PERIOD;
    loop {
        let found = probe().await;
        if let Ok(Some(value)) = found {
            return Ok(value);
        }
        if Instant::now() >= end {
            let message = format!("waited {limit:?} for {what}");
            return match found {
                Err(error) => Err(error.context(message)),
                Ok(_) => bail!("{message}"),
            };
        }
        tokio::time::sleep(period).await;
        period = LONGEST.min(period.mul_f64(1.1));
    }
}

/// Watches one object until `condition` holds, for at most `limit`. Returns the object (`None`: it
/// is gone).
pub(crate) async fn watch_until<K>(
    api: Api<K>,
    name: &str,
    what: &str,
    limit: Duration,
    condition: impl Condition<K>,
) -> Result<Option<K>>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let end = tokio::time::Instant::now() + limit;
    loop {
        let waited = tokio::time::timeout_at(
            end,
            await_condition(api.clone(), name, |object: Option<&K>| {
                condition.matches_object(object)
            }),
        );
        match waited.await.with_context(|| format!("waited {limit:?} for {what} of {name}"))? {
            Ok(object) => return Ok(object),
            // A broken watch (the API server is unreachable) is restarted until the timeout.
            Err(_) => tokio::time::sleep(PERIOD).await,
        }
    }
}
