//! A Lease that is held: its renewal in the background, how long it is valid, and its end.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use tokio::sync::watch;
use tokio::time::Instant;

use contract::names::LEASE_NAME;

use super::candidate::LeaseCandidate;
use super::{FreeLease, LAST_WRITE, LEASE_SECONDS, MARGIN, PAUSE, RENEW};
use crate::call::{CallError, call};
use crate::repeated_warning::RepeatedWarning;

/// A Lease that is held; renewed in the background until it is released or dropped.
pub struct HeldLease {
    leases: LeaseCandidate,
    /// The version at which the Lease was taken, if it was free.
    taken_from: Option<FreeLease>,
    valid_until: watch::Receiver<Instant>,
    renewing: tokio::task::JoinHandle<()>,
}

impl LeaseCandidate {
    /// Renews the Lease until another process holds it or the server refuses. Retries temporary
    /// failures while this process may still hold the Lease.
    async fn renew(self, mut lease: Lease, valid_until: watch::Sender<Instant>) {
        let api = self.api();
        let mut warning = RepeatedWarning::new(
            "unable to renew the Lease; trying again",
            "the Lease was renewed again",
        );
        loop {
            let until = *valid_until.borrow();
            tokio::time::sleep(
                RENEW.min(until.saturating_duration_since(Instant::now())).max(PAUSE),
            )
            .await;
            let started = Instant::now();
            if started >= until {
                tracing::warn!("the Lease was lost: it could not be renewed in time");
                return;
            }
            lease.spec = Some(self.spec(lease.spec.as_ref()));
            match call(api.replace(LEASE_NAME, &PostParams::default(), &lease)).await {
                Ok(renewed) => {
                    warning.end();
                    lease = renewed;
                    valid_until.send_replace(end_of_validity(started));
                }
                Err(error @ (CallError::Conflict(_) | CallError::NotFound(_))) => {
                    match call(api.get(LEASE_NAME)).await {
                        // An update of this process whose answer was lost, or another client's
                        // annotation.
                        Ok(current)
                            if current
                                .spec
                                .as_ref()
                                .and_then(|spec| spec.holder_identity.as_ref())
                                == Some(&self.identity) =>
                        {
                            lease = current;
                        }
                        Ok(_) | Err(CallError::NotFound(_)) => {
                            tracing::warn!(%error, "the Lease was taken away");
                            // Another process holds it now, so writes in progress end at once.
                            valid_until
                                .send_replace(started.checked_sub(MARGIN).unwrap_or(started));
                            return;
                        }
                        Err(error) => warning.note(&error),
                    }
                }
                Err(error) => warning.note(&error),
            }
        }
    }
}

fn end_of_validity(renewed: Instant) -> Instant {
    renewed + Duration::from_secs(LEASE_SECONDS.into()) - MARGIN
}

/// Waits until the Lease has been invalid for `extra`.
async fn wait_until_over(valid_until: &mut watch::Receiver<Instant>, extra: Duration) {
    loop {
        let until = *valid_until.borrow_and_update() + extra;
        if Instant::now() >= until {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            changed = valid_until.changed() => {
                if changed.is_err() {
                    // The renewal task has ended.
                    return tokio::time::sleep_until(until).await;
                }
            }
        }
    }
}

impl HeldLease {
    pub(super) fn new(
        leases: LeaseCandidate,
        lease: Lease,
        taken_from: Option<FreeLease>,
        started: Instant,
    ) -> Self {
        let (sender, valid_until) = watch::channel(end_of_validity(started));
        let renewing = tokio::spawn(leases.clone().renew(lease, sender));
        Self { leases, taken_from, valid_until, renewing }
    }

    /// Returns whether no other process has held the Lease since it was free at that version.
    pub fn follows(&self, free: &FreeLease) -> bool {
        self.taken_from.as_ref() == Some(free)
    }

    /// Returns whether it is certain that no other process can hold the Lease.
    pub fn is_valid(&self) -> bool {
        Instant::now() < *self.valid_until.borrow()
    }

    /// Performs a write, and cancels it before others may take the Lease, because the next holder
    /// would not expect it. A request that the server has already received continues, so writes
    /// have preconditions as well. Returns `None` if the write was cancelled.
    pub async fn within<T>(&self, write: impl Future<Output = T>) -> Option<T> {
        let mut valid_until = self.valid_until.clone();
        tokio::select! {
            biased;
            // Checked first, so that a late write does not start.
            () = wait_until_over(&mut valid_until, LAST_WRITE) => None,
            answer = write => Some(answer),
        }
    }

    /// Waits until the Lease is lost.
    pub async fn lost(&mut self) {
        wait_until_over(&mut self.valid_until, Duration::ZERO).await;
    }

    /// Releases the Lease, so that the next holder need not wait. Returns the version at which it
    /// is free. A failure is only logged; the next holder then waits [`LEASE_SECONDS`].
    pub async fn release(self) -> Option<FreeLease> {
        self.renewing.abort();
        if self.is_valid() { self.leases.release().await } else { None }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lost_lease_is_noticed_at_once() {
        let started = Instant::now();
        let (sender, mut valid_until) = watch::channel(started + Duration::from_secs(20));
        let renew_then_lose = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            sender.send_replace(started + Duration::from_secs(25));
            tokio::time::sleep(Duration::from_secs(16)).await;
            sender.send_replace(started);
        };
        let noticed = async {
            wait_until_over(&mut valid_until, Duration::ZERO).await;
            started.elapsed()
        };
        let (noticed, ()) = tokio::join!(noticed, renew_then_lose);
        assert_eq!(noticed, Duration::from_secs(21));
    }
}
