//! SIGTERM and SIGINT: the hook completes the current write, writes the record and releases the
//! Lease.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The request to end the process. Clones share the same request.
#[derive(Clone, Debug)]
pub struct Shutdown {
    requested: watch::Receiver<bool>,
}

impl Shutdown {
    /// Listens for SIGTERM and SIGINT. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn on_signals() -> std::io::Result<Self> {
        let (sender, requested) = watch::channel(false);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            sender.send_replace(true);
            // Keep the sender alive so that later receivers still read the value.
            sender.closed().await;
        });
        Ok(Self { requested })
    }

    /// Returns a sender that requests the end, and the receiving side. For tests.
    pub fn pair() -> (watch::Sender<bool>, Self) {
        let (sender, requested) = watch::channel(false);
        (sender, Self { requested })
    }

    /// Whether the process was asked to end.
    pub fn is_requested(&self) -> bool {
        *self.requested.borrow()
    }

    /// Waits until the process is asked to end.
    pub async fn requested(&self) {
        let mut requested = self.requested.clone();
        if requested.wait_for(|requested| *requested).await.is_err() {
            // The sender is gone, so the request can never come.
            std::future::pending::<()>().await;
        }
    }
}
