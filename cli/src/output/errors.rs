//! Errors of nodes and runs. A traceback of a code node has many lines: while the run goes on only its error is shown, and
//! at the end all of it, once.

use super::text::{one_line, safe};

/// Returns an error on one line. Of a Python traceback only what follows its places in the code is shown: the error itself
/// and what to do about it.
pub(super) fn on_one_line(error: &str) -> String {
    let lines: Vec<&str> = error.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_traceback = lines.iter().any(|line| line.starts_with("  File \""));
    let after = lines.iter().rev().take_while(|line| !line.starts_with(char::is_whitespace)).count();
    if is_traceback && after > 0 {
        one_line(&lines[lines.len() - after..].join(" "))
    } else {
        one_line(error)
    }
}

/// Returns an error of several lines as it is, indented, to be shown below the line for the end of the run.
pub(super) fn below_the_end(error: Option<&str>) -> Option<String> {
    let error = error.map(str::trim).filter(|error| error.contains('\n'))?;
    let lines = safe(error).lines().map(|line| format!("  {line}").trim_end().to_owned()).collect::<Vec<_>>();
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_traceback_has_its_error_and_what_to_do() {
        let places = "process exited with code 1\nTraceback (most recent call last):\n  File \"main.py\", line 2\n    x\n";
        for (error, expected) in [
            (format!("{places}NameError: name 'x' is not defined\n\n"), "NameError: name 'x' is not defined"),
            (format!("{places}ModuleNotFoundError: m\nInstall m."), "ModuleNotFoundError: m Install m."),
            (places.to_owned(), &*one_line(places)),
            ("too\nmany".into(), "too many"),
        ] {
            assert_eq!(on_one_line(&error), expected);
        }
    }

    #[test]
    fn an_error_of_several_lines_keeps_them_at_the_end() {
        let error = "it\n\n  bro\u{7}ke\n";
        assert_eq!(below_the_end(Some(error)).as_deref(), Some("  it\n\n    broke"));
        assert_eq!((below_the_end(Some("it broke\n")), below_the_end(None)), (None, None));
    }
}
