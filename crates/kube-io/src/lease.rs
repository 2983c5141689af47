//! The Lease of the hooks: one hook Job at a time acts in a cluster. A Lease alone does not prevent
//! late writes. Therefore its holder checks [`HeldLease::is_valid`] before each write, and the
//! writes have preconditions.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};

use contract::names::{LEASE_NAME, LEASE_NAMESPACE};

use super::call::{CallError, call, optional};
use super::object_writes;

mod candidate;
mod held;

pub use candidate::LeaseCandidate;
pub use held::HeldLease;

/// How long a Lease is valid without renewal: the next holder waits this long after a holder was
/// killed.
pub const LEASE_SECONDS: u16 = 20;
/// The maximum wait for another holder that does not renew, whatever duration it requested.
pub const LONGEST_LEASE_SECONDS: u16 = 120;
/// The renewal interval: two attempts may fail before the Lease is lost.
const RENEW: Duration = Duration::from_secs(6);
/// The holder stops writing this long before others may take the Lease.
const MARGIN: Duration = Duration::from_secs(4);
/// The maximum duration of a write that starts at the last moment. It is less than [`MARGIN`], so
/// that the write is cancelled before others may take the Lease. A margin of a whole call
/// ([`super::call::CALL_TIMEOUT`]) would leave no time for a second renewal attempt.
const LAST_WRITE: Duration = Duration::from_secs(3);
/// The pause after a failed attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// The holder of the Lease, as recorded in the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// The holder: the pod of a hook Job.
    pub name: String,
    /// When the Lease expires unless the holder renews it, by the holder's clock.
    pub until: Option<Timestamp>,
}

fn api(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), LEASE_NAMESPACE)
}

/// Reads the holder of the Lease. `None`: the Lease is free. RBAC: `get` on the Lease.
///
/// # Errors
/// The call failed.
pub async fn holder(client: &Client) -> Result<Option<LeaseHolder>, CallError> {
    Ok(optional(call(api(client).get(LEASE_NAME)).await)?.and_then(|lease| {
        let spec = lease.spec?;
        let name = spec.holder_identity.filter(|name| !name.is_empty())?;
        let renewed = spec.renew_time.map(|time| time.0);
        let seconds = spec
            .lease_duration_seconds
            .map(|seconds| SignedDuration::from_secs(i64::from(seconds)));
        let until = renewed
            .zip(seconds)
            .map(|(renewed, seconds)| renewed.saturating_add(seconds).unwrap_or(Timestamp::MAX));
        Some(LeaseHolder { name, until })
    }))
}

/// Deletes the Lease if it is free. RBAC: `get` and `delete` on the Lease.
///
/// # Errors
/// A call failed.
pub async fn delete(client: &Client) -> Result<(), CallError> {
    let lease = optional(call(api(client).get(LEASE_NAME)).await)?;
    let Some(lease) = lease.filter(|lease| FreeLease::from_lease(lease).is_some()) else {
        return Ok(());
    };
    let preconditions = Some(Preconditions {
        resource_version: lease.metadata.resource_version,
        uid: lease.metadata.uid,
    });
    match object_writes::delete(
        api(client),
        LEASE_NAME,
        &DeleteParams { preconditions, ..DeleteParams::default() },
    )
    .await
    {
        // Another process has just taken it, or deleted it.
        Ok(()) | Err(CallError::Conflict(_) | CallError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A resource version at which the Lease was free. A holder that takes it afterwards creates
/// another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeLease(String);

impl FreeLease {
    /// Returns the version of a free Lease. `None`: the Lease is held, or has no version.
    fn from_lease(lease: &Lease) -> Option<Self> {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref())
            .unwrap_or_default();
        lease
            .metadata
            .resource_version
            .clone()
            .filter(|version| holder.is_empty() && !version.is_empty())
            .map(Self)
    }
}
