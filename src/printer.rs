//! All output of the command line: standard output is data, standard error is for people.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;

use contract::exit::ExitCode;

/// Where commands write. Tests hand in buffers.
pub struct Printer {
    output: Box<dyn Write>,
    /// Standard output as it is; `None`: `output` is.
    binary: Option<Box<dyn Write>>,
    errors: Box<dyn Write>,
    /// Standard error is a terminal: what is under way is shown there.
    terminal: bool,
    /// Characters of the line that says what is under way.
    progress: usize,
    broken: bool,
    lost: Option<io::Error>,
}

impl Printer {
    /// The process's own streams; color only where a terminal reads it.
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

    /// Any two streams.
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

    /// Writes data. A reader that went away (`| head`) is no error: the rest is dropped.
    pub fn data(&mut self, text: &str) {
        self.end_progress();
        if !self.broken {
            let written = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
            self.keep(written);
        }
    }

    /// Writes data that is no text, and in which no color codes are to be looked for.
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

    /// Why data did not get to where it was to go, such as a full disk; told once.
    pub fn lost(&mut self) -> Option<io::Error> {
        self.lost.take()
    }

    /// Writes data as one JSON document.
    ///
    /// Returns how the command ends if nothing else is wrong: a value that JSON cannot express is a mistake of this program.
    pub fn json(&mut self, value: &impl Serialize) -> ExitCode {
        self.document("JSON", serde_json::to_string_pretty(value).map(|text| text + "\n"))
    }

    #[cfg(feature = "cli")]
    /// Writes data as one YAML document; the answer is as with [`Self::json`].
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
                self.error(&format!("unable to write {format}: {error}"), None);
                ExitCode::Internal
            }
        }
    }

    /// Shows on a terminal how far something is, in the place of what was shown before. In a log there is nothing of it.
    pub fn progress(&mut self, text: &str) {
        if self.terminal {
            self.ask(text);
            self.progress = text.chars().count();
        }
    }

    /// Takes that away again: whatever is written next does.
    fn end_progress(&mut self) {
        if self.progress > 0 {
            // Blanks, which every terminal knows.
            let blank = " ".repeat(std::mem::take(&mut self.progress));
            self.show(&format!("\r{blank}\r"));
        }
    }

    /// Writes a line for people. There is nobody left to tell when standard error fails, so that is not reported.
    pub fn note(&mut self, text: &str) {
        self.end_progress();
        // See above: the only place to report a failing standard error is standard error.
        let _ = writeln!(self.errors, "{text}");
    }

    /// Asks people something: what they type follows on the same line.
    pub fn ask(&mut self, question: &str) {
        self.end_progress();
        self.show(question);
    }

    /// Writes for people what is no whole line.
    fn show(&mut self, text: &str) {
        // As with a note: there is nowhere else to report it.
        let _ = write!(self.errors, "{text}").and_then(|()| self.errors.flush());
    }

    /// Writes an error and, if there is one, what to do about it.
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

    /// What people see of a long work and a note.
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
