//! How wide text may be.

use std::io::IsTerminal;

/// Characters of a line, where there is no terminal that says how wide it is.
pub(super) const LINE: usize = 120;

/// Returns the terminal's width in characters; `None`: standard output is none.
pub(super) fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// Returns the width that text is wrapped to. `wide`: it is not.
pub(super) fn text_width(wide: bool) -> usize {
    if wide { usize::MAX } else { width().unwrap_or(LINE) }
}
