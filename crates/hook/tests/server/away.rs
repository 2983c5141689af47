//! An API server that is unreachable for a while, or permanently.

use std::cell::RefCell;
use std::fmt::{Debug, Write};

use contract::exit::ExitCode;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::fake::fault::{Effect, Fault};
use crate::world::World;

fn migrating() -> World {
    let mut world = World::at_rest(2);
    world.upgrade(&[0, 1]);
    world
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// Connections are refused.
    Refused,
    /// Packets are dropped.
    Silent,
}

fn leave(world: &World, how: How, seconds: u64) {
    match how {
        How::Refused => world.server.goes_away(seconds),
        How::Silent => world.server.goes_silent(seconds),
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn five_minutes_without_server_are_waited_out() {
    for how in [How::Refused, How::Silent] {
        for from in (0..100).step_by(4) {
            let world = migrating();
            let pod = world.start("pod-a", "job-1");
            world.pass(from).await;
            leave(&world, how, 300);
            let ended = world.ends(pod).await;
            assert_eq!(ended.code, ExitCode::Success, "{how:?} from {from}: {}", ended.message);
            world.assert_replaced_once();
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn server_that_never_returns_ends_the_run() {
    for how in [How::Refused, How::Silent] {
        for from in [0, 1, 40, 44, 90] {
            let world = migrating();
            let pod = world.start("pod-a", "job-1");
            world.pass(from).await;
            leave(&world, how, 100_000);
            let ended = world.ends(pod).await;
            assert_eq!(
                ended.code,
                ExitCode::ApiUnreachable,
                "{how:?} from {from}: {}",
                ended.message
            );
            assert!(world.second() < 3600 - 20, "{how:?} from {from}: only at {}", world.second());
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn server_errors_and_silence_are_retried() {
    for effect in [
        Effect::Status(429),
        Effect::Status(500),
        Effect::Status(503),
        Effect::Status(409),
        Effect::Hang,
        Effect::LoseAnswer,
    ] {
        for (verb, resource) in [
            ("patch", "configmaps"),
            ("delete", "pods"),
            ("update", "leases"),
            ("create", "leases"),
            ("create", "events"),
        ] {
            for nth in [0, 1] {
                let world = migrating();
                let fault = Fault::new(move |request| request.is(verb, resource), nth, 2, effect);
                world.server.state().faults.push(fault);
                let ended = world.run("pod-a", "job-1").await;
                let place = format!("{effect:?} at {verb} {resource} {nth}");
                assert_eq!(ended.code, ExitCode::Success, "{place}: {}", ended.message);
                world.assert_replaced_once();
                assert!(world.second() < 400, "{place}: {} s", world.second());
            }
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn occasionally_failing_reads_are_repeated() {
    for effect in [Effect::Status(429), Effect::Status(500), Effect::Hang] {
        for nth in 0..30 {
            let world = migrating();
            let fault = Fault::new(|request| !request.is_write(), nth, 3, effect);
            world.server.state().faults.push(fault);
            let ended = world.run("pod-a", "job-1").await;
            assert_eq!(
                ended.code,
                ExitCode::Success,
                "{effect:?} at read {nth}: {}",
                ended.message
            );
            world.assert_replaced_once();
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_server_that_cannot_answer_events_delays_nothing() {
    let mut world = World::at_rest(12);
    world.pace.parallel = 12;
    world.upgrade(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    world.server.state().faults.push(Fault::new(
        |request| request.resource == "events",
        0,
        usize::MAX,
        Effect::Hang,
    ));
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    world.assert_replaced_once();
    assert!(world.second() < 150, "{} s", world.second());
}

thread_local! {
    /// The warnings and errors that were logged on this thread. Each story runs on one thread.
    static LOG_LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Collects log lines. It is the subscriber of the whole process. With a subscriber for a single
/// thread, the first log lines of other tests would decide for all threads whether a line is
/// logged.
struct LogLines;

struct LineText(String);

impl Visit for LineText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for LogLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LineText(event.metadata().level().to_string());
        event.record(&mut line);
        LOG_LINES.with_borrow_mut(|lines| lines.push(line.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Regression: each failed attempt logged a line, several hundred in ten minutes.
#[tokio::test(flavor = "local", start_paused = true)]
async fn ten_minutes_without_server_are_a_line_a_minute() {
    tracing::subscriber::set_global_default(LogLines).unwrap();
    for how in [How::Refused, How::Silent] {
        for from in [0, 1, 40, 44, 90] {
            LOG_LINES.take();
            let world = migrating();
            let pod = world.start("pod-a", "job-1");
            world.pass(from).await;
            leave(&world, how, 600);
            let ended = world.ends(pod).await;
            assert_eq!(ended.code, ExitCode::Success, "{how:?} from {from}: {}", ended.message);
            let lines = LOG_LINES.take();
            assert!(
                (9..=14).contains(&lines.len()),
                "{how:?} from {from}: {} lines\n{}",
                lines.len(),
                lines.join("\n")
            );
        }
    }
}
