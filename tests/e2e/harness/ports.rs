//! Free ports on loopback.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, bail};

/// The first port. It is below the range that Linux uses for outgoing connections, so no other
/// program gets it by chance.
const FIRST: u16 = 12_000;
const COUNT: u16 = 18_000;
static NEXT: AtomicU16 = AtomicU16::new(0);

/// Returns an unused port, never the same one twice in a process. Processes start at different
/// ports.
pub(crate) fn free_port() -> Result<u16> {
    let start = u16::try_from((std::process::id() * 67) % u32::from(COUNT))?;
    for _ in 0..COUNT {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port on 127.0.0.1")
}
