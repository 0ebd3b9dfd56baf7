//! Adds a sentence to the failure of code whose module is missing: which package and command provide it.

use tidemill_common::nodes::code::{PythonTable, modules};

use crate::CodeError;

const MARK: &str = "ModuleNotFoundError: No module named '";

/// The failure, with a sentence if its cause is a module that a package could provide.
pub(super) fn with_package(error: CodeError, python: &PythonTable) -> CodeError {
    let CodeError(text) = error;
    let Some(sentence) = missing(&text).and_then(|module| sentence(module, python)) else {
        return CodeError(text);
    };
    CodeError(format!("{text}\n{sentence}"))
}

/// The top-level module that the last line of a traceback misses.
fn missing(text: &str) -> Option<&str> {
    text.lines().next_back()?.strip_prefix(MARK)?.split(['\'', '.']).next()
}

fn sentence(module: &str, python: &PythonTable) -> Option<String> {
    if modules::is_standard(module) {
        return None;
    }
    let package = modules::package_of(module);
    Some(if modules::holds(&python.packages, module) {
        format!(
            "The module {module} is not in the environment of code.python.packages, although a package of this name is: the package holds other modules."
        )
    } else {
        format!(
            "The module {module} is not in the Python of code nodes: add {package:?} to code.python.packages and run `tidemill code install` on each host of a worker."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_module_of_a_package_gets_a_sentence() {
        let told = |text: &str| with_package(CodeError(text.into()), &PythonTable::default()).0;
        let text =
            "process exited with code 1\nTraceback …\nModuleNotFoundError: No module named 'bs4.element'";
        let wanted = "\nThe module bs4 is not in the Python of code nodes: add \"beautifulsoup4\" to \
                      code.python.packages and run `tidemill code install` on each host of a worker.";
        assert_eq!(told(text), format!("{text}{wanted}"));
        for text in [
            "process exited with code 1\nModuleNotFoundError: No module named 'tkinter'",
            "ModuleNotFoundError: No module named 'bs4'\nValueError: x",
            "ImportError: x",
            "",
        ] {
            assert_eq!(told(text), text);
        }
        let python = PythonTable { packages: vec!["beautifulsoup4".into()], ..PythonTable::default() };
        let told = with_package(CodeError(text.into()), &python).0;
        assert!(told.contains("holds other modules"), "{told}");
    }
}
