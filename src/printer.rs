//! All output of the command line: data goes to standard output, messages to standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;

use contract::exit::ExitCode;

/// The output streams of a command. Tests pass buffers.
pub struct Printer {
    output: Box<dyn Write>,
    /// Standard output without color handling, for binary data; `None`: use `output`.
    binary: Option<Box<dyn Write>>,
    errors: Box<dyn Write>,
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
            errors: Box::new(anstream::stderr()),
            terminal: io::stderr().is_terminal(),
            progress: 0,
            broken: false,
            lost: None,
        }
    }

    /// Creates a printer for two streams.
    pub fn new(output: Box<dyn Write>, errors: Box<dyn Write>) -> Self {
        Self {
            output,
            binary: None,
            errors,
            terminal: false,
            progress: 0,
            broken: false,
            lost: None,
        }
    }

    /// Writes data to standard output. If the reader has closed the pipe (`| head`), the rest is
    /// dropped without an error.
    pub fn data(&mut self, text: &str) {
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
        self.document("JSON", serde_json::to_string_pretty(value).map(|text| text + "\n"))
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
            self.progress = text.chars().count();
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
        self.end_progress();
        // See above: the only place to report a failing standard error is standard error.
        let _ = writeln!(self.errors, "{text}");
    }

    /// Writes a question to standard error; the answer follows on the same line.
    pub fn ask(&mut self, question: &str) {
        self.end_progress();
        self.show(question);
    }

    /// Writes text without a line break to standard error.
    fn show(&mut self, text: &str) {
        // As in `note`: the only place to report a failing standard error is standard error.
        let _ = write!(self.errors, "{text}").and_then(|()| self.errors.flush());
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

    /// Returns what standard error shows of progress followed by a note.
    fn printed(terminal: bool) -> String {
        let (sender, bytes) = channel();
        let mut printer = Printer {
            terminal,
            ..Printer::new(Box::new(io::sink()), Box::new(CapturedOutput(sender)))
        };
        printer.progress("9 of 10 runs");
        printer.progress("all");
        printer.note("a note");
        drop(printer);
        String::from_utf8_lossy(&bytes.iter().flatten().collect::<Vec<_>>()).into_owned()
    }

    #[test]
    fn progress_is_shown_only_on_a_terminal() {
        assert_eq!(printed(true), "9 of 10 runs\r            \rall\r   \ra note\n");
        assert_eq!(printed(false), "a note\n");
    }
}
