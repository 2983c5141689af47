//! Pauses: requests of users to start no more nodes. They are in one ConfigMap that no deployer
//! owns ([`super::names::PAUSE_NAME`]), so that they survive every sync. Each pause is JSON under
//! its own data key. A pause that ends by itself is a *freeze*.

use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};

/// Data key of the pause of the whole fleet.
pub const FLEET_KEY: &str = "fleet";

/// Annotation that pauses one node, for users without this program (`kubectl annotate nodes`). Its
/// value is an [`AnnotatedPause`].
pub const ANNOTATION: &str = "gpu-rollout.dev/pause";

/// What precedes the end of the pause in a value of [`ANNOTATION`].
const UNTIL: &str = "until ";

/// One pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Label selector of the nodes; absent for all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Who paused them.
    pub by: String,
    /// The reason for the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Start of the pause.
    pub at: Timestamp,
    /// When it ends by itself; absent: never. For a version without this field, the pause has no
    /// end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A value of the annotation [`ANNOTATION`]: the reason, `until TIME` or `until TIME: REASON`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedPause {
    /// The reason for the pause.
    pub reason: Option<String>,
    /// When it ends by itself. `None`: never.
    pub until: Option<Timestamp>,
}

impl AnnotatedPause {
    /// Reads a value. `None`: it is `false`, which pauses nothing. If its time cannot be read, the
    /// pause has no end, because a user wanted to stop something, and the reason says so.
    pub fn read(value: &str) -> Option<Self> {
        if value == "false" {
            return None;
        }
        let value = value.trim();
        let Some(end) = value.strip_prefix(UNTIL) else {
            let reason = (!matches!(value, "" | "true")).then(|| value.to_owned());
            return Some(Self { reason, until: None });
        };
        let (time, reason) = end.split_once(": ").unwrap_or((end, ""));
        let until = read_time(time);
        let reason = match (until, reason.trim()) {
            (None, _) => {
                Some(format!("the time in `{value}` cannot be read, so the pause has no end"))
            }
            (Some(_), "") => None,
            (Some(_), reason) => Some(reason.to_owned()),
        };
        Some(Self { reason, until })
    }
}

/// Reads a time: with its offset, such as `2027-01-04T06:00:00Z`, or with its time zone, such as
/// `2027-01-04T06:00[Europe/Berlin]`. If clocks go forward over a time in a time zone, it is the
/// time after that; if they go back, it is the first one.
pub fn read_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if text.contains('[') {
        text.parse::<Zoned>().ok().map(|time| time.timestamp())
    } else {
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_an_offset_or_a_time_zone() {
        for (text, expected) in [
            ("2027-01-04T06:00:00Z", Some("2027-01-04T06:00:00Z")),
            (" 2027-01-04T06:00:00+01:00 ", Some("2027-01-04T05:00:00Z")),
            ("2027-01-04T06:00[Europe/Berlin]", Some("2027-01-04T05:00:00Z")),
            ("2027-07-04T06:00[Europe/Berlin]", Some("2027-07-04T04:00:00Z")),
            // In Berlin, clocks go from 02:00 to 03:00 on 2026-03-29.
            ("2026-03-29T02:30[Europe/Berlin]", Some("2026-03-29T01:30:00Z")),
            ("2027-01-04T06:00", None),
            ("2027-01-04T06:00[Europe/Atlantis]", None),
            ("2027-13-04T06:00:00Z", None),
            ("12h", None),
            ("tomorrow", None),
            ("", None),
        ] {
            let time = read_time(text).map(|time| time.to_string());
            assert_eq!(time.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn annotation_has_reason_and_end() {
        let end = "2027-01-04T06:00:00Z";
        let unreadable =
            |value: &str| format!("the time in `{value}` cannot be read, so the pause has no end");
        let tomorrow = unreadable("until tomorrow: INC-4711");
        let glued = unreadable("until 2027-01-04T06:00:00Z:INC-4711");
        for (value, expected) in [
            ("INC-4711", Some((Some("INC-4711"), None))),
            ("", Some((None, None))),
            ("true", Some((None, None))),
            ("false", None),
            ("until", Some((Some("until"), None))),
            ("until 2027-01-04T06:00:00Z", Some((None, Some(end)))),
            ("until 2027-01-04T06:00:00Z: INC-4711", Some((Some("INC-4711"), Some(end)))),
            ("until 2027-01-04T06:00:00Z: see: INC-4711", Some((Some("see: INC-4711"), Some(end)))),
            ("until 2027-01-04T07:00[Europe/Berlin]: x", Some((Some("x"), Some(end)))),
            ("until tomorrow: INC-4711", Some((Some(tomorrow.as_str()), None))),
            ("until 2027-01-04T06:00:00Z:INC-4711", Some((Some(glued.as_str()), None))),
        ] {
            let read = AnnotatedPause::read(value);
            let read = read.map(|pause| (pause.reason, pause.until.map(|until| until.to_string())));
            let read = read.as_ref().map(|(reason, until)| (reason.as_deref(), until.as_deref()));
            assert_eq!(read, expected, "{value}");
        }
    }

    #[test]
    fn pause_without_end_is_written_as_before() {
        let text = r#"{"by":"ada","at":"2027-01-01T00:00:00Z"}"#;
        let pause: Pause = serde_json::from_str(text).expect("a pause");
        assert_eq!(pause.until, None);
        assert_eq!(serde_json::to_string(&pause).ok().as_deref(), Some(text));
        let text = r#"{"by":"ada","at":"2027-01-01T00:00:00Z","until":"2027-01-04T06:00:00Z"}"#;
        let pause: Pause = serde_json::from_str(text).expect("a pause");
        assert_eq!(serde_json::to_string(&pause).ok().as_deref(), Some(text));
    }
}
