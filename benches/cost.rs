//! Measures wall time and peak memory of one process per call, compared with reference processes.
//! `make bench` sets `GPU_ROLLOUT_PROGRAM` to the program as users get it, and passes on
//! `GPU_ROLLOUT_BENCH_ROUNDS`. Each round runs all programs one after another, so that load on the
//! machine affects all of them alike. Peak memory is the kernel's `ru_maxrss` of each child. The
//! resident memory of this process at the start of a child is its lower bound. The row `true` shows
//! it.
#![expect(clippy::print_stdout, reason = "the table is the output")]
#![expect(clippy::disallowed_methods, reason = "environment variables control the measurements")]

use std::ffi::OsString;
use std::io::{Error, Result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4;

const LIBRARY_RECIPE: &str = "eks-gb200-training";
/// The data directory of AICR v0.11.1.
const AICR_DATA: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/crates/recipe/tests/data/aicr-v0.11.1");
/// A recipe of that version.
const AICR_RECIPE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/crates/recipe/tests/data/aicr-v0.11.1/recipe-results/h100-eks-ubuntu-training-kubeflow.yaml"
);

const ROUNDS: usize = 100;
const MANY_ROUNDS: usize = 3;
const GROWTH_PAIRS: usize = 3;

/// One program with its measurements.
struct Subject {
    name: &'static str,
    program: OsString,
    arguments: Vec<OsString>,
    walls: Vec<Duration>,
    /// User and system time of the last run.
    processor_time: Duration,
    peak_bytes: u64,
}

impl Subject {
    fn new(name: &'static str, program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(Into::into).collect();
        Self {
            name,
            program: program.into(),
            arguments,
            walls: Vec::new(),
            processor_time: Duration::ZERO,
            peak_bytes: 0,
        }
    }

    fn run(&mut self) -> Result<()> {
        let begin = Instant::now();
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let used = child.wait4()?;
        self.walls.push(begin.elapsed());
        self.processor_time = used.rusage.utime + used.rusage.stime;
        self.peak_bytes = self.peak_bytes.max(used.rusage.maxrss);
        if used.status.success() {
            Ok(())
        } else {
            Err(Error::other(format!("{} exited with {}", self.name, used.status)))
        }
    }

    /// Returns the quantile of the wall times for this share of the rounds.
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
    let rounds = std::env::var("GPU_ROLLOUT_BENCH_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(ROUNDS)
        .max(1);
    let program = std::env::var("GPU_ROLLOUT_PROGRAM")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_gpu-rollout").to_owned());
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (base, aicr, again) = (path("base"), path("aicr"), path("again"));
    let render = |recipe, output| {
        ["bundle", "render", "--deployer", "helm", "--recipe", recipe, "--output", output]
    };
    let of_aicr = ["--data", AICR_DATA, "--set", "cluster.gpuNodes=8"];
    let mut subjects = [
        Subject::new("true (cost of a process)", "true", &[]),
        Subject::new("gpu-rollout --version", &program, &["--version"]),
        Subject::new("bundle render base", &program, &render("base", &base)),
        Subject::new(
            "bundle render of AICR's recipe",
            &program,
            &[&render(AICR_RECIPE, &aicr)[..], &of_aicr[..]].concat(),
        ),
        Subject::new("bundle render, new directory", &program, &render(LIBRARY_RECIPE, &again)),
        Subject::new("bundle render, replacing", &program, &render(LIBRARY_RECIPE, &again)),
        Subject::new("bundle verify", &program, &["bundle", "verify", &again]),
    ];
    for subject in &mut subjects {
        // The first run fills the page cache and is not measured.
        subject.run()?;
    }
    for subject in &mut subjects {
        subject.walls.clear();
    }
    for _ in 0..rounds {
        for output in [&base, &aicr, &again] {
            std::fs::remove_dir_all(output)?;
        }
        for subject in &mut subjects {
            subject.run()?;
        }
    }
    table(&subjects, rounds);
    many(directory.path(), &program)?;
    predictions(&program)?;
    sizes(directory.path(), &program)
}

/// Measures `simulate` for large fleets in each mode: processor time, which does not depend on the
/// number of processors, and how much longer three times as many nodes take: the median of pairs,
/// with the time of 3,000 nodes in that pair.
fn predictions(program: &str) -> Result<()> {
    println!("\nsimulate -r eks-gb200-training, processor seconds\n");
    println!(
        "{:<8} {:>14} {:>14} {:>7} {:>14} {:>10}",
        "mode", "1000, 10 runs", "3000, 1 run", "growth", "5000, 1 run", "peak MiB"
    );
    for mode in ["observe", "assist", "steer", "drive"] {
        let mode_value = format!("rollout.gpuDriver.mode={mode}");
        let mut peak = 0;
        let mut measured = |nodes: &str, runs: &str| {
            let fleet = ["--set", &mode_value, "--nodes", nodes, "--runs", runs];
            let simulate = [&["simulate", "-r", "eks-gb200-training"][..], &fleet].concat();
            let mut subject = Subject::new("simulate", program, &simulate);
            subject.run()?;
            peak = peak.max(subject.peak_bytes);
            Ok::<f64, Error>(subject.processor_time.as_secs_f64())
        };
        let ten = measured("1000", "10")?;
        // Pairs, because the speed of a machine changes within minutes.
        let mut pairs = Vec::new();
        for _ in 0..GROWTH_PAIRS {
            let one = measured("1000", "1")?;
            let large = measured("3000", "1")?;
            pairs.push((large / one, large));
        }
        pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (growth, large) = pairs[GROWTH_PAIRS / 2];
        let largest = measured("5000", "1")?;
        println!(
            "{mode:<8} {ten:>14.2} {large:>14.2} {growth:>7.2} {largest:>14.2} {:>10.1}",
            mebibytes(peak)
        );
    }
    Ok(())
}

/// Measures many bundles in one process: the library for every deployer, and many small overlays of
/// one recipe.
fn many(directory: &Path, program: &str) -> Result<()> {
    println!("\nmany bundles in one process, best of {MANY_ROUNDS} rounds\n");
    println!(
        "{:<44} {:>8} {:>9} {:>12} {:>10}",
        "what", "bundles", "best ms", "ms a bundle", "peak MiB"
    );
    let library = directory.join("library");
    for (name, text) in
        catalog::recipe_names().filter_map(|name| Some((name, catalog::recipe(name)?)))
    {
        write(&library.join(format!("{name}.yaml")), text)?;
    }
    row(directory, program, "the library, every deployer", &library)?;
    for clusters in [10, 100, 1_000] {
        let overlays = directory.join(format!("overlays-{clusters}"));
        for number in 0..clusters {
            let text = format!(
                "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: cluster-{number}}}\nextends: [eks-gb200-training]\ncluster: {{gpuNodes: {}}}\n",
                number % 64 + 1
            );
            write(&overlays.join(format!("cluster-{number}.yaml")), &text)?;
        }
        row(
            directory,
            program,
            &format!("{clusters} overlays of eks-gb200-training, every deployer"),
            &overlays,
        )?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    std::fs::write(path, text)
}

fn row(directory: &Path, program: &str, name: &str, recipes: &Path) -> Result<()> {
    let output = directory.join("many");
    let texts = [recipes, &output].map(|path| path.display().to_string());
    let source = ["--repo", "https://git.example.com/fleet.git"];
    let render =
        ["bundle", "render", "--deployer", "all", "--recipe", &texts[0], "--output", &texts[1]];
    let mut subject = Subject::new("many", program, &[&render[..], &source[..]].concat());
    let mut bundles = 0_usize;
    for _ in 0..MANY_ROUNDS {
        subject.run()?;
        bundles = 0;
        for recipe in std::fs::read_dir(&output)? {
            bundles += std::fs::read_dir(recipe?.path())?.count();
        }
        std::fs::remove_dir_all(&output)?;
    }
    let best = subject.wall(0.0).as_secs_f64() * 1e3;
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let each = best / bundles as f64;
    println!(
        "{name:<44} {bundles:>8} {best:>9.1} {each:>12.2} {:>10.1}",
        mebibytes(subject.peak_bytes)
    );
    Ok(())
}

fn table(subjects: &[Subject], rounds: usize) {
    let version = subjects[1].wall(0.5);
    println!("{rounds} rounds each; ratio: median relative to `gpu-rollout --version`\n");
    println!(
        "{:<30} {:>9} {:>9} {:>9} {:>7} {:>10}",
        "process", "median ms", "best ms", "p90 ms", "ratio", "peak MiB"
    );
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

fn sizes(directory: &Path, program: &str) -> Result<()> {
    println!();
    for (what, bundle) in [("base", "base"), ("AICR's recipe", "aicr"), (LIBRARY_RECIPE, "again")] {
        let (mut files, mut bytes) = (0, 0);
        let mut folders = vec![directory.join(bundle)];
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
        println!("the bundle of {what}: {files} files, {:.2} MiB", mebibytes(bytes));
    }
    let bytes = std::fs::metadata(program)?.len();
    println!("the binary: {:.2} MiB ({bytes} bytes)", mebibytes(bytes));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
