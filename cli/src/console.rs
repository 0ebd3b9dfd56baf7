//! Terminal input and output. Results go to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::error::Error;

/// The two outputs and the keyboard. No other code in the command prints.
pub(crate) struct Console {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// True when both outputs are terminals.
    pub(crate) is_terminal: bool,
    keyboard: Keyboard,
}

/// The source of answers to questions.
enum Keyboard {
    /// There is no terminal to ask at.
    Absent,
    /// A person at the terminal.
    Terminal,
    #[cfg(test)]
    Script(std::collections::VecDeque<String>),
}

impl Console {
    /// The console of this process.
    pub(crate) fn of_process() -> Self {
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            is_terminal: io::stdout().is_terminal() && io::stderr().is_terminal(),
            keyboard: if io::stdin().is_terminal() && io::stderr().is_terminal() {
                Keyboard::Terminal
            } else {
                Keyboard::Absent
            },
        }
    }

    /// Returns true if a person can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        match self.keyboard {
            Keyboard::Absent => false,
            Keyboard::Terminal => true,
            #[cfg(test)]
            Keyboard::Script(_) => true,
        }
    }

    /// Asks for one line. Returns `None` at the end of the input. Dropping the future leaves the terminal to the next
    /// reader.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(crate) async fn ask(&mut self, prompt: &str) -> Result<Option<String>, Error> {
        // If standard error is closed, the answer can still be read.
        let _ = write!(self.err, "{prompt}").and_then(|()| self.err.flush());
        match &mut self.keyboard {
            Keyboard::Absent => Ok(None),
            Keyboard::Terminal => {
                // Reading a terminal blocks, so a separate thread does it.
                let read = tokio::task::spawn_blocking(|| {
                    let mut line = String::new();
                    io::stdin().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
                });
                let line = match read.await {
                    Ok(Ok(line)) => line,
                    Ok(Err(error)) => {
                        return Err(Error::Failed(format!("cannot read the terminal: {error}")));
                    }
                    Err(error) => return Err(Error::Failed(format!("cannot read the terminal: {error}"))),
                };
                Ok(line.map(|line| line.trim_end_matches(['\r', '\n']).to_string()))
            }
            #[cfg(test)]
            Keyboard::Script(lines) => Ok(lines.pop_front()),
        }
    }

    /// Asks for a line like [`Self::ask`], but the terminal does not show what is typed.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(crate) async fn ask_secret(&mut self, prompt: &str) -> Result<Option<String>, Error> {
        if !matches!(self.keyboard, Keyboard::Terminal) || !echo(false) {
            return self.ask(prompt).await;
        }
        // Always turn echo on again, also after Ctrl-C.
        let read = tokio::select! {
            read = self.ask(prompt) => read,
            _ = tokio::signal::ctrl_c() => Err(Error::Failed("interrupted".into())),
        };
        echo(true);
        self.note("");
        read
    }

    /// Writes one line of the result.
    ///
    /// # Errors
    /// [`Error::OutputClosed`] when the reader has closed the output.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), Error> {
        self.text(format_args!("{text}\n"))
    }

    /// Writes a part of the result unchanged.
    ///
    /// # Errors
    /// [`Error::OutputClosed`] when the reader has closed the output.
    pub(crate) fn text(&mut self, text: impl Display) -> Result<(), Error> {
        write!(self.out, "{text}").and_then(|()| self.out.flush()).map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                Error::OutputClosed
            } else {
                Error::Failed(format!("cannot write the output: {error}"))
            }
        })
    }

    /// Writes a remark to standard error.
    pub(crate) fn note(&mut self, text: impl Display) {
        // There is no other place to report this; the exit code still shows the result.
        let _ = writeln!(self.err, "{text}");
    }
}

/// Turns echo of typed characters on or off. Returns false when that is not possible.
fn echo(shown: bool) -> bool {
    let set = std::process::Command::new("stty").arg(if shown { "echo" } else { "-echo" }).status();
    set.is_ok_and(|status| status.success())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Everything that was written to one output of a captured console.
    #[derive(Clone, Default)]
    pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);
    impl Captured {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("UTF-8")
        }
    }
    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A console that records its output: (console, standard output, standard error).
    pub(crate) fn captured() -> (Console, Captured, Captured) {
        let (out, err) = (Captured::default(), Captured::default());
        let console = Console {
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            is_terminal: false,
            keyboard: Keyboard::Absent,
        };
        (console, out, err)
    }

    /// A recording console with a person who types these lines.
    pub(crate) fn captured_with(lines: &[&str]) -> (Console, Captured, Captured) {
        let (console, out, err) = captured();
        let keyboard = Keyboard::Script(lines.iter().map(|line| (*line).to_string()).collect());
        (Console { keyboard, ..console }, out, err)
    }

    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_output_ends_the_command_without_an_error() {
        let (console, _, _) = captured();
        let mut console = Console { out: Box::new(Closed), err: Box::new(Closed), ..console };
        let error = console.line("x").expect_err("closed");
        assert!(matches!(error, Error::OutputClosed));
        assert_eq!(error.exit(), crate::error::Exit::Succeeded);
        console.note("goes nowhere");
    }
}
