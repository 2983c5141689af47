//! Free ports on loopback.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, bail};

/// Below the range that Linux takes the ports of outgoing connections from: nothing else comes by them by chance.
const FIRST: u16 = 12_000;
const COUNT: u16 = 18_000;
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port on which nobody listens, never the same twice in one process; processes start at different places.
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
