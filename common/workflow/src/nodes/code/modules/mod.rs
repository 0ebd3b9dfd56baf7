//! The modules that the code of a code node needs besides its language's own library, found without running it.
//!
//! `check` and the report of a migration name them before a run stops halfway at an import. The code is only scanned:
//! what a program imports by a computed name stays unseen.

mod javascript;
mod known;
mod python;

use super::CodeLanguage;

pub use known::{Reach, holds, is_standard, name_of, normal, package_of};

/// A module that code needs and its language does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The name that the code uses: a top-level module, or `fetch` in JavaScript.
    pub name: String,
    /// The package on PyPI that holds it; `None` for JavaScript, where no package can be added.
    pub package: Option<String>,
    /// The line of the first use in the code, from 1.
    pub line: usize,
    /// The code expects that it may be missing: each import is in a `try` that handles `ImportError`.
    pub is_optional: bool,
}

/// The modules that are neither in the code nor in the language's own library, each once, by first use.
pub fn foreign_modules(language: CodeLanguage, code: &str) -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    let uses = match language {
        CodeLanguage::Python => python::imports(code).into_iter().filter_map(of_python).collect(),
        CodeLanguage::JavaScript => javascript::uses(code),
    };
    for module in uses {
        match found.iter_mut().find(|known| known.name == module.name) {
            Some(known) => known.is_optional &= module.is_optional,
            None => found.push(module),
        }
    }
    found
}

/// A module that calls servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Networked {
    /// Its name, such as `urllib.request`.
    pub name: &'static str,
    pub reach: Reach,
    /// The line of the first import in the code, from 1.
    pub line: usize,
}

/// The imported modules that call servers, each once, by first use. Such code needs the network, whether or not its
/// modules are there.
pub fn networked_modules(language: CodeLanguage, code: &str) -> Vec<Networked> {
    let mut found: Vec<Networked> = Vec::new();
    if language != CodeLanguage::Python {
        return found;
    }
    for import in python::imports(code) {
        let Some((name, reach)) = known::reach(&import.dotted) else { continue };
        if !found.iter().any(|known| known.name == name) {
            found.push(Networked { name, reach, line: import.line });
        }
    }
    found
}

fn of_python(import: python::Import) -> Option<Module> {
    let name = import.dotted.split('.').next().unwrap_or_default().to_owned();
    if known::is_standard(&name) {
        return None;
    }
    let package = Some(package_of(&name));
    Some(Module { name, package, line: import.line, is_optional: import.is_optional })
}

#[cfg(test)]
mod tests;
