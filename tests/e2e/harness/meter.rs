//! Measures the resources that hooks use, from outside, every few milliseconds, on a separate
//! thread.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

/// Clock ticks a second in `/proc/PID/stat` (Linux `USER_HZ`).
const TICKS: f64 = 100.0;
/// How often each known hook is measured.
const PERIOD: Duration = Duration::from_millis(5);
/// How many times a known hook is measured until all processes are searched for hooks again. A
/// search reads a file of every process of the machine whose speed is measured.
const ROUNDS_PER_SEARCH: usize = 10;

/// Measures the hooks of one API server.
pub(crate) struct Meter {
    over: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<u32, Seen>>,
}

/// The measured values of one process.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// How long it lived.
    pub(crate) wall: Duration,
    /// The peak resident memory in KiB.
    pub(crate) peak_kib: u64,
    /// The processor time in seconds, in user and kernel mode.
    pub(crate) processor: f64,
}

struct Seen {
    first: Instant,
    last: Instant,
    now: Look,
}

#[derive(Clone, Copy)]
struct Look {
    peak_kib: u64,
    ticks: u64,
}

impl Meter {
    /// Starts to measure the hooks that use the API server on this port.
    pub(crate) fn start(port: u16) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut seen: BTreeMap<u32, Seen> = BTreeMap::new();
            for round in 0_usize.. {
                if told.load(Ordering::Relaxed) {
                    break;
                }
                let processes = if round.is_multiple_of(ROUNDS_PER_SEARCH) {
                    hooks(port)
                } else {
                    seen.keys().copied().collect()
                };
                for process in processes {
                    let Some(look) = Look::at(process) else { continue };
                    let now = Instant::now();
                    let entry =
                        seen.entry(process).or_insert(Seen { first: now, last: now, now: look });
                    (entry.last, entry.now) =
                        (now, Look { peak_kib: entry.now.peak_kib.max(look.peak_kib), ..look });
                }
                std::thread::sleep(PERIOD);
            }
            seen
        });
        Self { over, thread }
    }

    /// Returns the measured values of the only process.
    pub(crate) fn end(self) -> Result<Measured> {
        self.over.store(true, Ordering::Relaxed);
        let seen = self
            .thread
            .join()
            .map_err(|_| anyhow!("the thread that watches the hook has panicked"))?;
        ensure!(seen.len() == 1, "expected one hook process, found {}", seen.len());
        let one = seen.values().next().context("one process")?;
        #[expect(clippy::cast_precision_loss, reason = "hundredths of seconds")]
        let processor = one.now.ticks as f64 / TICKS;
        Ok(Measured { wall: one.last - one.first, peak_kib: one.now.peak_kib, processor })
    }
}

impl Look {
    /// Measures a process. `None`: it has ended.
    fn at(process: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let statistics = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // After the command's name, which may hold anything, `utime` and `stime` are the 12th and
        // 13th field (proc(5)).
        let mut fields = statistics.rsplit(") ").next()?.split(' ').skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        let ticks = ticks()? + ticks()?;
        Some(Self { peak_kib: peak.split_whitespace().next()?.parse().ok()?, ticks })
    }
}

/// Returns the hook processes that use one API server.
fn hooks(port: u16) -> Vec<u32> {
    let server = format!("KUBERNETES_SERVICE_PORT={port}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    // The files of a process that ends cannot be read.
    let is_hook = |process: &u32| {
        let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        command.starts_with(b"/gpu-rollout\0hook\0run")
            && fs::read(format!("/proc/{process}/environ"))
                .unwrap_or_default()
                .split(|byte| *byte == 0)
                .any(|variable| variable == server.as_bytes())
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_hook)
        .collect()
}
