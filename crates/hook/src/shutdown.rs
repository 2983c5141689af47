//! SIGTERM (and SIGINT): the write in hand is finished, the record kept, the Lease given back.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Whether the process was asked to end. Clones ask the same.
#[derive(Clone, Debug)]
pub struct Shutdown {
    requested: watch::Receiver<bool>,
}

impl Shutdown {
    /// Listens to the process's signals. Must be called within a runtime.
    ///
    /// # Errors
    /// The signal handlers could not be installed.
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
            // Kept alive so that later readers still see it.
            sender.closed().await;
        });
        Ok(Self { requested })
    }

    /// Asked for through the sender of the pair; for tests.
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
            // Nobody is left who could ask.
            std::future::pending::<()>().await;
        }
    }
}
