//! Does the same work again and again while something else is measured, and measures its processor
//! time: how fast the machine is. A virtual machine shares its processors with others. On one, the
//! same work has taken from 42 to 71 ms of processor time within a minute.

use std::fs;
use std::hint::black_box;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

/// Documents that one round reads.
const DOCUMENTS: u32 = 20;
/// The time between two rounds. They must not slow down what is measured.
const PAUSE: Duration = Duration::from_secs(5);

/// Rounds of the same work, on a separate thread.
pub(crate) struct FixedWork {
    stop: Sender<()>,
    thread: JoinHandle<Result<f64>>,
}

impl FixedWork {
    /// Starts with a first round.
    pub(crate) fn start() -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let document = document();
            let before = processor_time()?;
            let mut rounds = 0.0;
            loop {
                for _ in 0..DOCUMENTS {
                    let read: Value = serde_json::from_str(&document)?;
                    black_box(read);
                }
                rounds += 1.0;
                match stopped.recv_timeout(PAUSE) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            Ok((processor_time()? - before) / rounds)
        });
        Self { stop, thread }
    }

    /// Returns the mean processor time of a round in seconds.
    pub(crate) fn end(self) -> Result<f64> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the thread of the fixed work has panicked"))?
    }
}

/// Returns a document like those that the hook reads: an object with labels, annotations and
/// conditions.
fn document() -> String {
    let pairs = |count: usize, value: &str| {
        let pair = |index| (format!("example.com/key-{index}"), Value::from(value));
        (0..count).map(pair).collect::<serde_json::Map<_, _>>()
    };
    let conditions: Vec<Value> = (0..50)
        .map(|index| json!({"type": format!("Condition{index}"), "message": "m".repeat(80)}))
        .collect();
    let metadata = json!({"labels": pairs(100, "true"), "annotations": pairs(40, &"x".repeat(50))});
    json!({"metadata": metadata, "status": {"conditions": conditions}}).to_string()
}

/// Returns the processor time of this thread in seconds: the first field of its schedstat, in
/// nanoseconds (kernel documentation, "Scheduler Statistics").
fn processor_time() -> Result<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let field = text.split_whitespace().next().context("an empty schedstat")?;
    Ok(Duration::from_nanos(field.parse()?).as_secs_f64())
}
