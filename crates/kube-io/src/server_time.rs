//! The API server's clock, from the `Date` header of its answers.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::client::Body;
use kube::core::{Request, Status};
use serde::de::{DeserializeOwned, IgnoredAny};

use super::call::{CallError, call};

/// The format of the header (RFC 9110, IMF-fixdate).
const FORM: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// Reads one object, and the time of the server that answered. Errors have a time too; `None`: the
/// answer has no valid `Date` header. RBAC: `get` on the object.
pub(super) async fn get_dated<T: DeserializeOwned>(
    client: &Client,
    url: &str,
    name: &str,
) -> (Result<T, CallError>, Option<Timestamp>) {
    let request =
        Request::new(url).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest);
    let mut at = None;
    let answer = call(async {
        let response = client.send(request?.map(Body::from)).await?;
        at = response.headers().get("date").and_then(|date| parse(date.to_str().ok()?));
        let status = response.status();
        let body = response.into_body().collect_bytes().await?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
        }
        let said = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
            // Not every error comes from the API server: proxies answer in plain text.
            Status::failure(String::from_utf8_lossy(&body).trim(), "unknown")
                .with_code(status.as_u16())
        });
        Err(kube::Error::Api(said.boxed()))
    })
    .await;
    (answer, at)
}

/// Returns the server's time. Every authenticated user may read its version
/// (`system:public-info-viewer`).
///
/// # Errors
/// The call failed.
pub async fn server_time(client: &Client) -> Result<Option<Timestamp>, CallError> {
    let mut at = None;
    call(async {
        let request = Request::new("/version")
            .list(&ListParams::default())
            .map_err(kube::Error::BuildRequest)?;
        let response = client.send(request.map(Body::from)).await?;
        at = response.headers().get("date").and_then(|date| parse(date.to_str().ok()?));
        let body = response.into_body().collect_bytes().await?;
        serde_json::from_slice::<IgnoredAny>(&body).map_err(kube::Error::SerdeError)
    })
    .await?;
    Ok(at)
}

fn parse(date: &str) -> Option<Timestamp> {
    let civil = DateTime::strptime(FORM, date).ok()?;
    civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_header_is_read_as_utc() {
        assert_eq!(
            parse("Tue, 14 Nov 2023 22:13:20 GMT"),
            Timestamp::from_second(1_700_000_000).ok()
        );
        assert_eq!(parse("Tue, 14 Nov 2023 22:13:20 +0100"), None);
        assert_eq!(parse("yesterday"), None);
    }
}
