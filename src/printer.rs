//! All output of the command line: data goes to standard output, messages to standard error. Both
//! show control characters in an escaped form ([`contract::visible`]), because names and messages
//! may come from an untrusted cluster or bundle. Only colors and the screen of `status --watch` are
//! control sequences.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use contract::exit::ExitCode;
use contract::visible;
#[cfg(feature = "cli")]
use diagnostics::diagnostic::Diagnostics;

/// Clears the terminal and moves the cursor to the first line (ECMA-48: ED, CUP).
#[cfg(feature = "cli")]
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// The output streams of a command. Tests pass buffers.
pub struct Printer {
    output: Box<dyn Write>,
    /// Standard output without color handling, for binary data; `None`: use `output`.
    binary: Option<Box<dyn Write>>,
    errors: Box<dyn Write>,
    /// Whether standard error keeps colors.
    error_colors: ColorChoice,
    /// Whether standard error is a terminal, which shows progress.
    terminal: bool,
    /// The length of the current progress line in characters.
    progress: usize,
    broken: bool,
    lost: Option<io::Error>,
}

impl Printer {
    /// Creates a printer for the streams of the process. Colors are kept only on a terminal.
    pub fn standard() -> Self {
        Self {
            output: Box::new(anstream::stdout()),
            binary: Some(Box::new(io::stdout())),
            errors: Box::new(io::stderr()),
            error_colors: AutoStream::choice(&io::stderr()),
            terminal: io::stderr().is_terminal(),
            progress: 0,
            broken: false,
            lost: None,
        }
    }

    /// Creates a printer for two streams, with colors.
    pub fn new(output: Box<dyn Write>, errors: Box<dyn Write>) -> Self {
        Self {
            output,
            binary: None,
            errors,
            error_colors: ColorChoice::AlwaysAnsi,
            terminal: false,
            progress: 0,
            broken: false,
            lost: None,
        }
    }

    /// Writes text to standard output. If the reader has closed the pipe (`| head`), the rest is
    /// dropped without an error.
    pub fn data(&mut self, text: &str) {
        self.write(&visible::text(text));
    }

    /// Clears the terminal and writes text to it.
    #[cfg(feature = "cli")]
    pub fn screen(&mut self, text: &str) {
        self.write(&format!("{CLEAR}{}", visible::text(text)));
    }

    /// Writes a text without hidden characters to standard output.
    fn write(&mut self, text: &str) {
        self.end_progress();
        if !self.broken {
            let written = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
            self.keep(written);
        }
    }

    /// Writes binary data to standard output, without color handling.
    pub fn bytes(&mut self, data: &[u8]) {
        self.end_progress();
        if !self.broken {
            let output = self.binary.as_mut().unwrap_or(&mut self.output);
            let written = output.write_all(data).and_then(|()| output.flush());
            self.keep(written);
        }
    }

    fn keep(&mut self, written: io::Result<()>) {
        let Err(error) = written else { return };
        self.broken = true;
        self.lost = Some(error).filter(|error| error.kind() != ErrorKind::BrokenPipe);
    }

    /// Returns the first error of standard output, such as a full disk, and clears it.
    pub fn lost(&mut self) -> Option<io::Error> {
        self.lost.take()
    }

    /// Writes data as one JSON document.
    ///
    /// Returns the exit code of the command if nothing else has failed. A value that JSON cannot
    /// express is a bug of this program ([`ExitCode::Internal`]).
    pub fn json(&mut self, value: &impl Serialize) -> ExitCode {
        let text = serde_json::to_string_pretty(value);
        self.document("JSON", text.map(|text| visible::json(&text).into_owned() + "\n"))
    }

    #[cfg(feature = "cli")]
    /// Writes data as one YAML document. Returns the exit code as [`Self::json`] does.
    pub fn yaml(&mut self, value: &impl Serialize) -> ExitCode {
        self.document("YAML", yaml::to_string(value))
    }

    fn document(&mut self, format: &str, text: Result<String, impl Display>) -> ExitCode {
        match text {
            Ok(text) => {
                self.data(&text);
                ExitCode::Success
            }
            Err(error) => {
                self.error(&format!("cannot write {format}: {error}"), None);
                ExitCode::Internal
            }
        }
    }

    /// Shows progress on a terminal, in place of the progress shown before. Writes nothing if
    /// standard error is not a terminal.
    pub fn progress(&mut self, text: &str) {
        if self.terminal {
            self.ask(text);
            self.progress = visible::text(text).chars().count();
        }
    }

    /// Clears the progress line before other output.
    fn end_progress(&mut self) {
        if self.progress > 0 {
            // Spaces work on every terminal.
            let blank = " ".repeat(std::mem::take(&mut self.progress));
            self.show(&format!("\r{blank}\r"));
        }
    }

    /// Writes a line to standard error. A failure of standard error cannot be reported anywhere.
    pub fn note(&mut self, text: &str) {
        self.line(&visible::text(text));
    }

    /// Writes findings to standard error, with colors and an empty line after them. Writes nothing
    /// if there are none.
    #[cfg(feature = "cli")]
    pub fn findings(&mut self, findings: &Diagnostics) {
        if !findings.is_empty() {
            self.drawn_findings(&findings.render());
        }
    }

    /// Writes what [`Diagnostics::render`] has returned: it has no hidden characters.
    #[cfg(feature = "cli")]
    pub fn drawn_findings(&mut self, drawn: &str) {
        self.line(&format!("{drawn}\n"));
    }

    /// Writes a text without hidden characters, except colors, and a line break to standard error.
    fn line(&mut self, text: &str) {
        self.end_progress();
        self.show(&format!("{text}\n"));
    }

    /// Writes a question to standard error; the answer follows on the same line.
    pub fn ask(&mut self, question: &str) {
        self.end_progress();
        self.show(&visible::text(question));
    }

    /// Writes text to standard error, as one write. Without colors, anstream would split it into
    /// hundreds.
    fn show(&mut self, text: &str) {
        let mut shown = AutoStream::new(Vec::new(), self.error_colors);
        // Writing to a vector cannot fail; see `note` for standard error.
        let _ = shown.write_all(text.as_bytes());
        let _ = self.errors.write_all(shown.as_inner()).and_then(|()| self.errors.flush());
    }

    /// Writes an error to standard error, with a hint if there is one.
    pub fn error(&mut self, message: &str, hint: Option<&str>) {
        self.note(&format!("error: {message}"));
        if let Some(hint) = hint {
            self.note(&format!("hint: {hint}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::mpsc::{Sender, channel};

    use anstream::ColorChoice;

    use super::Printer;

    struct CapturedOutput(Sender<Vec<u8>>);

    impl Write for CapturedOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns what `print` writes to either stream.
    fn printed(terminal: bool, print: impl Fn(&mut Printer)) -> String {
        let (sender, bytes) = channel();
        let output = CapturedOutput(sender.clone());
        let mut printer = Printer {
            terminal,
            ..Printer::new(Box::new(output), Box::new(CapturedOutput(sender)))
        };
        print(&mut printer);
        drop(printer);
        String::from_utf8_lossy(&bytes.iter().flatten().collect::<Vec<_>>()).into_owned()
    }

    #[test]
    fn a_colored_text_is_one_write() {
        let (sender, writes) = channel();
        let mut printer = Printer {
            error_colors: ColorChoice::Never,
            ..Printer::new(Box::new(io::sink()), Box::new(CapturedOutput(sender)))
        };
        printer.line(&"\u{1b}[1merror\u{1b}[0m: a\n".repeat(2_000));
        drop(printer);
        let written: Vec<Vec<u8>> = writes.iter().collect();
        assert_eq!(written, [("error: a\n".repeat(2_000) + "\n").into_bytes()]);
    }

    #[test]
    fn progress_is_shown_only_on_a_terminal() {
        let work = |printer: &mut Printer| {
            printer.progress("9 of 10 runs");
            printer.progress("all");
            printer.note("a note");
        };
        let expected = "9 of 10 runs\r            \rall\r   \ra note\n";
        assert_eq!(printed(true, work), expected);
        assert_eq!(printed(false, work), "a note\n");
    }

    /// Erases the screen, sets the title of the terminal, and goes back to the start of the line.
    const HOSTILE: &str = "gpu-0\u{1b}[2J\u{1b}]0;title\u{7}\rgpu-1\u{9b}31m\u{202e}";

    #[test]
    fn control_characters_are_visible_in_all_output() {
        let ways: [fn(&mut Printer); 7] = [
            |printer| printer.data(HOSTILE),
            |printer| printer.note(HOSTILE),
            |printer| printer.error(HOSTILE, None),
            |printer| printer.error("failed", Some(HOSTILE)),
            |printer| printer.ask(HOSTILE),
            |printer| printer.progress(HOSTILE),
            |printer| {
                printer.json(&HOSTILE);
            },
        ];
        for (number, print) in ways.into_iter().enumerate() {
            let printed = printed(true, print);
            assert!(printed.contains("gpu-0"), "{number}: {printed:?}");
            let acts = |one: char| one.is_control() && one != '\n' || one == '\u{202e}';
            assert!(!printed.contains(acts), "{number}: {printed:?}");
        }
    }

    #[cfg(feature = "cli")]
    #[test]
    fn control_characters_are_visible_on_the_screen() {
        let printed = printed(true, |printer| printer.screen(HOSTILE));
        let shown = printed.strip_prefix(super::CLEAR).unwrap();
        assert!(shown.contains("gpu-0"), "{shown:?}");
        let acts = |one: char| one.is_control() && one != '\n' || one == '\u{202e}';
        assert!(!shown.contains(acts), "{shown:?}");
    }

    #[cfg(feature = "cli")]
    #[test]
    fn control_characters_are_visible_in_yaml_and_findings() {
        use diagnostics::diagnostic::{Diagnostic, Diagnostics};
        use diagnostics::source::{SourceSpan, SourceText, SourceTexts};

        let mut sources = SourceTexts::default();
        let text = format!("key: {HOSTILE}\n");
        let end = text.len();
        let source = sources.add(SourceText { name: format!("{HOSTILE}.yaml"), text });
        let place = SourceSpan { source, start: 0, end };
        let finding = Diagnostic::error(HOSTILE)
            .at(place)
            .label(HOSTILE)
            .related(place, HOSTILE)
            .hint(HOSTILE);
        let placeless = Diagnostic::error(HOSTILE).hint(HOSTILE);
        let list = vec![finding.clone(), finding.secret(), placeless];
        let findings = Diagnostics { sources, list };
        let yaml = printed(true, |printer| {
            printer.yaml(&HOSTILE);
        });
        let drawn = findings.render_plain();
        for printed in [yaml, drawn] {
            assert!(printed.contains("gpu-0"), "{printed:?}");
            let acts = |one: char| one.is_control() && one != '\n' || one == '\u{202e}';
            assert!(!printed.contains(acts), "{printed:?}");
        }
    }
}
