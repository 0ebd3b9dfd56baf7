//! Where the command writes, results to standard output, all else to standard error; and where it asks.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::error::Error;

/// The two outputs. Nothing else in the command prints.
pub(crate) struct Console {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// Whether a person watches both.
    pub(crate) is_terminal: bool,
    keyboard: Keyboard,
}

/// Who can be asked.
enum Keyboard {
    /// Nobody.
    Absent,
    /// The person at the terminal.
    Terminal,
    #[cfg(test)]
    Script(std::collections::VecDeque<String>),
}

impl Console {
    /// That of the process.
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

    /// Whether somebody is there to ask.
    pub(crate) fn can_ask(&self) -> bool {
        match self.keyboard {
            Keyboard::Absent => false,
            Keyboard::Terminal => true,
            #[cfg(test)]
            Keyboard::Script(_) => true,
        }
    }

    /// Asks for a line; none when the input ends. Dropping the future leaves the terminal to whoever reads next.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(crate) async fn ask(&mut self, prompt: &str) -> Result<Option<String>, Error> {
        // As with remarks: when standard error is gone, the answer still counts.
        let _ = write!(self.err, "{prompt}").and_then(|()| self.err.flush());
        match &mut self.keyboard {
            Keyboard::Absent => Ok(None),
            Keyboard::Terminal => {
                // Nothing else can wait while a terminal is read, so a thread does.
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

    /// As [`Self::ask`], for what nobody is to see: a terminal does not show what is typed.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(crate) async fn ask_secret(&mut self, prompt: &str) -> Result<Option<String>, Error> {
        if !matches!(self.keyboard, Keyboard::Terminal) || !echo(false) {
            return self.ask(prompt).await;
        }
        // A terminal that went on hiding what is typed would be a nuisance.
        let read = tokio::select! {
            read = self.ask(prompt) => read,
            _ = tokio::signal::ctrl_c() => Err(Error::Failed("interrupted".into())),
        };
        echo(true);
        self.note("");
        read
    }

    /// Writes a line of the result.
    ///
    /// # Errors
    /// [`Error::OutputClosed`] when nobody reads any more.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), Error> {
        self.text(format_args!("{text}\n"))
    }

    /// Writes a piece of the result as it is.
    ///
    /// # Errors
    /// [`Error::OutputClosed`] when nobody reads any more.
    pub(crate) fn text(&mut self, text: impl Display) -> Result<(), Error> {
        write!(self.out, "{text}").and_then(|()| self.out.flush()).map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                Error::OutputClosed
            } else {
                Error::Failed(format!("cannot write the output: {error}"))
            }
        })
    }

    /// Writes a remark beside the result.
    pub(crate) fn note(&mut self, text: impl Display) {
        // Standard error is the last place to complain; when it is gone, the exit code remains.
        let _ = writeln!(self.err, "{text}");
    }
}

/// Whether the terminal shows what is typed; false when that cannot be changed.
fn echo(shown: bool) -> bool {
    let set = std::process::Command::new("stty").arg(if shown { "echo" } else { "-echo" }).status();
    set.is_ok_and(|status| status.success())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// What a captured console was told.
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

    /// A console that remembers: (console, standard output, standard error).
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

    /// The same with somebody who types these lines.
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
    fn a_reader_that_has_gone_ends_the_command_quietly() {
        let (console, _, _) = captured();
        let mut console = Console { out: Box::new(Closed), err: Box::new(Closed), ..console };
        let error = console.line("x").expect_err("closed");
        assert!(matches!(error, Error::OutputClosed));
        assert_eq!(error.exit(), crate::error::Exit::Succeeded);
        console.note("goes nowhere");
    }
}
