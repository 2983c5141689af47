//! What one call of the program costs as a process: wall time and peak memory, in turns with processes to compare with.
//!
//! `cargo bench --bench process [-- ROUNDS]`. All rounds run in this one process, the programs one after another in each round, so that a busy
//! moment of the machine hits all of them alike. Peak memory is the kernel's `ru_maxrss` of each child; what this program itself has
//! resident when it starts a child is a floor of it, which is what the row `true` shows.
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::ffi::OsString;
use std::io::{Error, Result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4;

const PROGRAM: &str = env!("CARGO_BIN_EXE_gpu-rollout");
const ROUNDS: usize = 100;

/// One program and what it took.
struct Subject {
    name: &'static str,
    program: OsString,
    arguments: Vec<OsString>,
    walls: Vec<Duration>,
    peak_bytes: u64,
}

impl Subject {
    fn new(name: &'static str, program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(Into::into).collect();
        Self { name, program: program.into(), arguments, walls: Vec::new(), peak_bytes: 0 }
    }

    fn run(&mut self) -> Result<()> {
        let begin = Instant::now();
        let mut child =
            Command::new(&self.program).args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let used = child.wait4()?;
        self.walls.push(begin.elapsed());
        self.peak_bytes = self.peak_bytes.max(used.rusage.maxrss);
        if used.status.success() { Ok(()) } else { Err(Error::other(format!("{} ended with {}", self.name, used.status))) }
    }

    /// The wall time that this share of the rounds stayed within.
    fn wall(&self, share: f64) -> Duration {
        let mut walls = self.walls.clone();
        walls.sort();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "an index of a short list"
        )]
        walls[((walls.len() - 1) as f64 * share).round() as usize]
    }
}

fn main() -> Result<()> {
    // Cargo adds `--bench`.
    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(ROUNDS).max(1);
    let directory = tempfile::tempdir()?;
    let again = directory.path().join("again");
    let again = again.to_str().ok_or_else(|| Error::other("the folder for temporary files has no UTF-8 name"))?;
    let render = ["bundle", "render", "--recipe", "eks-gb200-training", "--deployer", "helm", "--output"];
    let mut subjects = [
        Subject::new("true (what a process costs)", "true", &[]),
        Subject::new("gpu-rollout --version", PROGRAM, &["--version"]),
        Subject::new("bundle render, new directory", PROGRAM, &[&render[..], &[again]].concat()),
        Subject::new("bundle render, replacing", PROGRAM, &[&render[..], &[again]].concat()),
        Subject::new("bundle verify", PROGRAM, &["bundle", "verify", again]),
    ];
    for subject in &mut subjects {
        // Once for the page cache; not counted.
        subject.run()?;
    }
    for subject in &mut subjects {
        subject.walls.clear();
    }
    for _ in 0..rounds {
        std::fs::remove_dir_all(again)?;
        for subject in &mut subjects {
            subject.run()?;
        }
    }
    table(&subjects, rounds);
    sizes(directory.path())
}

fn table(subjects: &[Subject], rounds: usize) {
    let version = subjects[1].wall(0.5);
    println!("{rounds} rounds each; ratio: to `gpu-rollout --version`, by the median\n");
    println!("{:<30} {:>9} {:>9} {:>9} {:>7} {:>10}", "process", "median ms", "best ms", "p90 ms", "ratio", "peak MiB");
    for subject in subjects {
        let milliseconds = |share| subject.wall(share).as_secs_f64() * 1e3;
        println!(
            "{:<30} {:>9.2} {:>9.2} {:>9.2} {:>7.2} {:>10.1}",
            subject.name,
            milliseconds(0.5),
            milliseconds(0.0),
            milliseconds(0.9),
            subject.wall(0.5).as_secs_f64() / version.as_secs_f64(),
            mebibytes(subject.peak_bytes),
        );
    }
}

fn sizes(directory: &Path) -> Result<()> {
    let (mut files, mut bytes) = (0, 0);
    let mut folders = vec![directory.join("again")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                files += 1;
                bytes += entry.metadata()?.len();
            }
        }
    }
    println!("\nthe bundle: {files} files, {:.2} MiB", mebibytes(bytes));
    println!("the binary: {:.2} MiB ({} bytes)", mebibytes(std::fs::metadata(PROGRAM)?.len()), std::fs::metadata(PROGRAM)?.len());
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
