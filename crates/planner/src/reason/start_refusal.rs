//! The message of each limit that refuses the start of a node.

use std::fmt;

use contract::count::with_noun;

use super::text::is_or_are;
use crate::drive_upgrade::start_limits::StartRefusal;
use crate::pods::listed;

impl fmt::Display for StartRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { key } => write!(out, "{key} is 0, so no upgrade starts"),
            Self::Slots { limit, holders } if holders.is_empty() => {
                write!(out, "no slot is free (limit: {limit})")
            }
            Self::Unavailable { limit, holders, .. } if holders.is_empty() => {
                write!(out, "as many nodes are unavailable as the limit allows ({limit})")
            }
            Self::Group { group, limit, holders } if holders.is_empty() => {
                write!(
                    out,
                    "as many nodes of topology group `{group}` are unavailable as the limit allows ({limit})"
                )
            }
            Self::Slots { limit, holders } => {
                write!(
                    out,
                    "no slot is free ({} of {limit} in use): {}",
                    holders.len(),
                    listed(holders)
                )
            }
            Self::Unavailable { limit, total, holders } => {
                write!(
                    out,
                    "{} of {} {} unavailable, and the limit is {limit}: {}",
                    holders.len(),
                    with_noun(*total, "node"),
                    if holders.len() == 1 { "is" } else { "are" },
                    listed(holders)
                )
            }
            Self::Group { group, limit, holders } => {
                write!(
                    out,
                    "{} unavailable in topology group `{group}`, and the limit is {limit}: {}",
                    is_or_are(holders.len(), "node"),
                    listed(holders)
                )
            }
        }
    }
}
