//! Where the command writes: results to standard output, all else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::error::Error;

/// The two outputs. Nothing else in the command prints.
pub(crate) struct Console {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// Whether a person watches both.
    pub(crate) is_terminal: bool,
}

impl Console {
    /// That of the process.
    pub(crate) fn of_process() -> Self {
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            is_terminal: io::stdout().is_terminal() && io::stderr().is_terminal(),
        }
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
        let console = Console { out: Box::new(out.clone()), err: Box::new(err.clone()), is_terminal: false };
        (console, out, err)
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
        let mut console = Console { out: Box::new(Closed), err: Box::new(Closed), is_terminal: false };
        let error = console.line("x").expect_err("closed");
        assert!(matches!(error, Error::OutputClosed));
        assert_eq!(error.exit(), crate::error::Exit::Succeeded);
        console.note("goes nowhere");
    }
}
