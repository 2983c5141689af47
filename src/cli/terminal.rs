//! The width of text output.

use std::io::IsTerminal;

/// The width of a line in characters if standard output is not a terminal.
pub(super) const LINE: usize = 120;

/// Returns the terminal's width in characters, or `None` if standard output is not a terminal.
pub(super) fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// Returns the width in characters to which text is wrapped. `wide`: text is not wrapped.
pub(super) fn text_width(wide: bool) -> usize {
    if wide { usize::MAX } else { width().unwrap_or(LINE) }
}
