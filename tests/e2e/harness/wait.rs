//! Waiting for something, never for a time: bounded polls that say what they waited for when they give up.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::Api;
use kube::runtime::wait::{Condition, await_condition};
use serde::de::DeserializeOwned;

/// How long after a look at something that nothing can be watched for the next one comes: soon at first …
const PERIOD: Duration = Duration::from_millis(50);
/// … and, as what takes long is looked at by several scenarios at once, later and later, up to this.
const LONGEST: Duration = Duration::from_millis(400);

/// Looks until `probe` finds something, at most `limit` long. An error of `probe` is not the end: it is reported when time is up.
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

/// Watches one object until `condition` holds, at most `limit` long; the object as it then is (`None`: it is gone).
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
            // A broken watch (the API server is away) is started again until time is up.
            Err(_) => tokio::time::sleep(PERIOD).await,
        }
    }
}
