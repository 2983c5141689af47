//! Lays out the timeline chart of a run: computes the positions of bars, marks and ticks. The page
//! draws them.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{NodeTimeline, RunReport, SpanKind};
use crate::time::format_duration;

/// Width of the time axis, in units of the chart.
const WIDTH: i64 = 1000;
/// Height of a node's line.
const LINE: i64 = 18;
/// Height of a bar.
const BAR: i64 = 12;
/// Height of the scale above the bars.
const SCALE: i64 = 24;
/// Width of one character of a node's name.
const CHARACTER: i64 = 8;
/// Minimum width of a visible bar.
const THINNEST: i64 = 2;
/// Maximum number of ticks.
const TICKS: i64 = 8;
/// Possible distances between ticks, in seconds.
const STEPS: [i64; 14] = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400];

/// The timeline chart of a run.
#[derive(Debug, Serialize)]
pub struct Timeline {
    width: i64,
    height: i64,
    /// The x position of the start of the time axis.
    left: i64,
    ticks: Vec<Tick>,
    rows: Vec<TimelineRow>,
    legend: Vec<TimelineEntry>,
}

#[derive(Debug, Serialize)]
struct Tick {
    x: i64,
    text: String,
}

#[derive(Debug, Serialize)]
struct TimelineRow {
    node: String,
    /// The y position of the node's name.
    y: i64,
    bars: Vec<Rectangle>,
    marks: Vec<Mark>,
}

#[derive(Debug, Serialize)]
struct Rectangle {
    x: i64,
    y: i64,
    width: i64,
    height: i64,
    kind: SpanKind,
    text: String,
}

/// An event at one point in time.
#[derive(Debug, Serialize)]
struct Mark {
    x: i64,
    y: i64,
    kind: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct TimelineEntry {
    kind: SpanKind,
    text: &'static str,
}

/// Lays out the chart. Returns `None` if the report has no states and no replacements.
pub fn timeline(report: &RunReport) -> Option<Timeline> {
    let axis = TimeAxis::new(report)?;
    let rows: Vec<TimelineRow> =
        (0..).zip(&report.nodes).map(|(place, bar)| row(axis, place, bar)).collect();
    let kinds = SpanKind::ALL.into_iter().filter(|kind| {
        report.nodes.iter().flat_map(|bar| &bar.spans).any(|span| span.kind == *kind)
    });
    Some(Timeline {
        width: axis.left + WIDTH + CHARACTER * 4,
        height: SCALE + i64::try_from(rows.len()).unwrap_or(0) * LINE + LINE / 2,
        left: axis.left,
        ticks: ticks(axis.seconds)
            .map(|at| Tick {
                x: axis.x_after(at),
                text: format_duration(SignedDuration::from_secs(at)),
            })
            .collect(),
        rows,
        legend: kinds.map(|kind| TimelineEntry { kind, text: kind.text() }).collect(),
    })
}

/// The time axis of the chart.
#[derive(Clone, Copy)]
struct TimeAxis {
    /// Its start in time.
    from: Timestamp,
    /// Its length in time; at least 1.
    seconds: i64,
    /// The x position of its start: right of the names of the nodes.
    left: i64,
}

impl TimeAxis {
    /// Returns the axis from the first to the last event. Returns `None` if there are no events.
    fn new(report: &RunReport) -> Option<Self> {
        let moments = || {
            let spans = report.nodes.iter().flat_map(|bar| &bar.spans);
            let replaced = report
                .nodes
                .iter()
                .flat_map(|bar| &bar.replaced)
                .flat_map(|one| [Some(one.at), one.back_at])
                .flatten();
            let tested = report.nodes.iter().flat_map(|bar| &bar.acceptance).map(|one| one.at);
            spans.flat_map(|span| [span.from, span.to]).chain(replaced).chain(tested)
        };
        let (from, to) = (moments().min()?, moments().max()?);
        let name = report.nodes.iter().map(|bar| bar.node.chars().count()).max().unwrap_or(0);
        Some(Self {
            from,
            seconds: to.duration_since(from).as_secs().max(1),
            left: i64::try_from(name).unwrap_or(0) * CHARACTER + CHARACTER,
        })
    }

    fn x(self, at: Timestamp) -> i64 {
        self.x_after(at.duration_since(self.from).as_secs().clamp(0, self.seconds))
    }

    /// Returns the position of a time in seconds from the start.
    fn x_after(self, seconds: i64) -> i64 {
        self.left + seconds * WIDTH / self.seconds
    }
}

/// Lays out the line of the node at this place, from the top.
fn row(axis: TimeAxis, place: i64, bar: &NodeTimeline) -> TimelineRow {
    let top = SCALE + place * LINE + (LINE - BAR) / 2;
    let bars = bar.spans.iter().map(|span| Rectangle {
        x: axis.x(span.from),
        y: top,
        width: (axis.x(span.to) - axis.x(span.from)).max(THINNEST),
        height: BAR,
        kind: span.kind,
        text: format!(
            "{}: {} for {} from {:.0}",
            bar.node,
            span.state,
            format_duration(span.to.duration_since(span.from)),
            span.from
        ),
    });
    let evicted = bar
        .evicted
        .iter()
        .map(|one| ("evicted", one.at, format!("{} evicted {:.0}", one.pod, one.at)));
    let replaced = bar.replaced.iter().map(|one| {
        ("replaced", one.at, format!("{} replaced {:.0}: {}", one.pod, one.at, one.cause))
    });
    let tested = bar.acceptance.iter().map(|one| {
        let kind = if one.verdict.accepts() { "tested" } else { "refused" };
        (kind, one.at, format!("test {} {} {:.0}", one.test, one.verdict, one.at))
    });
    let marks = evicted.chain(replaced).chain(tested).map(|(kind, at, text)| Mark {
        x: axis.x(at),
        y: top + BAR / 2,
        kind,
        text,
    });
    TimelineRow {
        node: bar.node.clone(),
        y: top + BAR - 2,
        bars: bars.collect(),
        marks: marks.collect(),
    }
}

/// Returns round times, in seconds from the start.
fn ticks(seconds: i64) -> impl Iterator<Item = i64> {
    let step = STEPS.into_iter().find(|step| seconds / step <= TICKS).unwrap_or(seconds.max(1));
    (0..).map(move |index| index * step).take_while(move |at| *at <= seconds)
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(7).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(ticks(95).collect::<Vec<_>>(), [0, 30, 60, 90]);
        assert_eq!(ticks(4000).collect::<Vec<_>>(), [0, 600, 1200, 1800, 2400, 3000, 3600]);
        assert!(ticks(10_000_000).count() <= 130);
    }
}
