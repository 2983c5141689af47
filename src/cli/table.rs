//! Tables as kubectl prints them: columns without borders. The last column takes the remaining
//! width. A line break in a name or a message is escaped, so that it cannot look like another row.

use std::fmt::Write;

use contract::visible;

/// The separator of two columns.
const GAP: &str = "  ";
/// The minimum width of the last column, in characters.
const NARROWEST: usize = 30;
/// The minimum width of a wrapped line, in characters.
const NARROWEST_LINE: usize = 40;

/// Formats a table. `width`: of the terminal, in characters; `None`: no limit.
pub(super) fn table(header: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let mut widths: Vec<usize> = header.iter().map(|name| name.chars().count()).collect();
    let line = |cell: &String| visible::line(cell).into_owned();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(line).collect()).collect();
    for row in &rows {
        for (cell, width) in row.iter().zip(&mut widths) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let before: usize = widths.iter().rev().skip(1).map(|width| width + GAP.len()).sum();
    let last = width.map_or(usize::MAX, |width| width.saturating_sub(before).max(NARROWEST));
    let mut text = String::new();
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&header).chain(&rows) {
        let mut lines =
            row.last().map_or_else(|| vec![String::new()], |cell| wrapped(cell, last)).into_iter();
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths).take(widths.len().saturating_sub(1)) {
            // Writing to a String cannot fail.
            let _ = write!(line, "{cell:width$}{GAP}");
        }
        line.push_str(&lines.next().unwrap_or_default());
        text.push_str(line.trim_end());
        text.push('\n');
        for more in lines {
            let _ = writeln!(text, "{:before$}{more}", "");
        }
    }
    text
}

/// Wraps a text between words into lines of at most `width` characters.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let longer = line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && longer > width {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// Appends `words`, wrapped to `width` characters: `first` precedes the first line, `rest` the
/// others.
pub(super) fn push_wrapped(
    text: &mut String,
    (first, rest): (&str, &str),
    words: &str,
    width: usize,
) {
    let width = width.saturating_sub(first.len().max(rest.len())).max(NARROWEST_LINE);
    for (place, line) in wrapped(&visible::line(words), width).iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}{line}", if place == 0 { first } else { rest });
    }
}

/// Formats counts without those that are zero: `3 done, 1 failed`.
pub(super) fn counted(counts: &[(usize, &str)]) -> String {
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_column_wraps_to_the_remaining_width() {
        let rows = [
            vec!["gpu-0".to_owned(), "one two three four five six seven eight nine ten".to_owned()],
            vec!["a".to_owned(), String::new()],
        ];
        let expected = "NODE   WAITING FOR\ngpu-0  one two three four five six\n       seven eight nine ten\na\n";
        assert_eq!(table(&["NODE", "WAITING FOR"], &rows, Some(38)), expected);
        assert_eq!(table(&["NODE", "WAITING FOR"], &rows[..1], None).lines().count(), 2);
    }

    #[test]
    fn line_break_in_cell_starts_no_row() {
        let rows = [vec!["gpu-0\ngpu-1".to_owned(), "a\nb\u{1b}[2J".to_owned()]];
        let expected = "NODE          WAITING FOR\ngpu-0\\ngpu-1  a\\nb\\u{1b}[2J\n";
        assert_eq!(table(&["NODE", "WAITING FOR"], &rows, None), expected);
        let mut text = String::new();
        push_wrapped(&mut text, ("", ""), "a\nhint: b", 80);
        assert_eq!(text, "a\\nhint: b\n");
    }

    #[test]
    fn numbers_that_are_none_are_not_said() {
        assert_eq!(counted(&[(3, "done"), (0, "failed"), (1, "pending")]), "3 done, 1 pending");
        assert_eq!(counted(&[(0, "done")]), "");
    }

    #[test]
    fn word_longer_than_line_gets_own_line() {
        assert_eq!(wrapped("a bbbbbbbbbb c", 4), ["a", "bbbbbbbbbb", "c"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
