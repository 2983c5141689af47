//! All output of the command line: standard output is data, standard error is for people.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::contract::exit::ExitCode;
use crate::contract::yaml;

/// Where commands write. Tests hand in buffers.
pub struct Printer {
    output: Box<dyn Write>,
    /// Standard output as it is; `None`: `output` is.
    binary: Option<Box<dyn Write>>,
    errors: Box<dyn Write>,
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
            broken: false,
            lost: None,
        }
    }

    /// Any two streams.
    pub fn new(output: Box<dyn Write>, errors: Box<dyn Write>) -> Self {
        Self { output, binary: None, errors, broken: false, lost: None }
    }

    /// Writes data. A reader that went away (`| head`) is no error: the rest is dropped.
    pub fn data(&mut self, text: &str) {
        if !self.broken {
            let written = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
            self.keep(written);
        }
    }

    /// Writes data that is no text, and in which no color codes are to be looked for.
    pub fn bytes(&mut self, data: &[u8]) {
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
    /// The answer is how the command ends if nothing else is wrong: a value that JSON cannot express is a mistake of this program.
    pub fn json(&mut self, value: &impl Serialize) -> ExitCode {
        match serde_json::to_string_pretty(value) {
            Ok(text) => {
                self.data(&(text + "\n"));
                ExitCode::Success
            }
            Err(error) => {
                self.error(&format!("unable to write JSON: {error}"), None);
                ExitCode::Internal
            }
        }
    }

    /// Writes data as one YAML document; the answer is as with [`Self::json`].
    pub fn yaml(&mut self, value: &impl Serialize) -> ExitCode {
        match yaml::to_string(value) {
            Ok(text) => {
                self.data(&text);
                ExitCode::Success
            }
            Err(error) => {
                self.error(&format!("unable to write YAML: {error}"), None);
                ExitCode::Internal
            }
        }
    }

    /// Writes a line for people. There is nobody left to tell when standard error fails, so that is not reported.
    pub fn note(&mut self, text: &str) {
        // See above: the only place to report a failing standard error is standard error.
        let _ = writeln!(self.errors, "{text}");
    }

    /// Asks people something: what they type follows on the same line.
    pub fn ask(&mut self, question: &str) {
        // As with a note: there is nowhere else to report it.
        let _ = write!(self.errors, "{question}").and_then(|()| self.errors.flush());
    }

    /// Writes an error and, if there is one, what to do about it.
    pub fn error(&mut self, message: &str, hint: Option<&str>) {
        self.note(&format!("error: {message}"));
        if let Some(hint) = hint {
            self.note(&format!("hint: {hint}"));
        }
    }
}
