//! A plugin's package, read and checked without running anything of it: the files ([`files`]), the manifest, the
//! providers with their tools, and what it needs of Python.
//!
//! A package comes from somebody else, so everything in it is bounded ([`PackageLimits`]), and nothing is taken from it
//! before its name and size were checked. All problems are collected; each has its file, line and place.

pub mod files;
mod ignored;
mod manifest;
mod open;
mod parameter;
mod pattern;
mod problem;
mod providers;
pub mod python;
mod signature;
mod spot;
#[cfg(test)]
mod tests;
pub mod version;

use std::path::{Path, PathBuf};

use files::Files;
use open::Opened;
use spot::Reader;

use crate::limits::PackageLimits;

pub use manifest::{Extensions, MANIFEST, Manifest, Permissions, Runner};
pub use parameter::{Form, Kind, Parameter};
pub use problem::{Problem, Severity};
pub use providers::{
    Facts, HISTORY, Item, ModelKind, ModelProvider, PackagedModel, Price, Provider, Providers, Rule,
    Strategy, StrategyProvider, Tool, ToolProvider,
};
pub use python::PythonNeeds;
pub use signature::{PublicKey, Signature};

/// The reason why a package cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Open { path: PathBuf, error: std::io::Error },
    /// It is too large.
    #[error("the package has more than {most} {what} ({limit})")]
    Limit { what: &'static str, most: u64, limit: &'static str },
    /// A name is not allowed.
    #[error("the package has a file with a name that is not allowed: {name:?}: {reason}")]
    Name { name: String, reason: &'static str },
    /// Something that is not a file.
    #[error("{name:?} in the package is a link or a device; a package may only have files and folders")]
    Link { name: String },
    /// A file in the archive is damaged.
    #[error("{name:?} in the package cannot be unpacked: {reason}")]
    Unreadable { name: String, reason: String },
    /// The file is damaged, or not a package.
    #[error("this is neither a .difypkg file (a zip archive) nor a folder with {MANIFEST}: {reason}")]
    NotAnArchive { reason: String },
    /// The package has no manifest.
    #[error("the package has no {MANIFEST} at its top")]
    NoManifest,
    /// The thread that read it ended.
    #[error("reading the package was interrupted")]
    Interrupted,
}

/// A package that was read. It may have problems.
#[derive(Debug, Clone)]
pub struct Package {
    pub manifest: Manifest,
    pub providers: Providers,
    pub python: PythonNeeds,
    pub signature: Signature,
    pub problems: Vec<Problem>,
    pub files: Files,
    /// The SHA-256 of its files.
    pub hash: String,
}

impl Package {
    /// Reads a package from a `.difypkg` file or a folder. The work is done on a thread for blocking work.
    ///
    /// # Errors
    /// [`PackageError`]. Problems inside the files are not errors; they are in [`Package::problems`].
    pub async fn open(
        path: &Path,
        limits: &PackageLimits,
        key: Option<&PublicKey>,
    ) -> Result<Self, PackageError> {
        let (path, limits, key) = (path.to_owned(), limits.clone(), key.cloned());
        let reading = move || Self::understand(open::open(&path, &limits)?, &limits, key.as_ref());
        tokio::task::spawn_blocking(reading).await.map_err(|_| PackageError::Interrupted)?
    }

    /// Reads the bytes of a `.difypkg` file on this thread.
    ///
    /// # Errors
    /// As [`Package::open`].
    pub fn read(bytes: &[u8], limits: &PackageLimits, key: Option<&PublicKey>) -> Result<Self, PackageError> {
        Self::understand(open::archive(bytes, limits)?, limits, key)
    }

    fn understand(
        opened: Opened,
        limits: &PackageLimits,
        key: Option<&PublicKey>,
    ) -> Result<Self, PackageError> {
        let Opened { files, archive } = opened;
        if !files.has(MANIFEST) {
            return Err(PackageError::NoManifest);
        }
        let reader = Reader::new(&files, limits);
        let manifest = manifest::read(&reader).unwrap_or_default();
        let providers = providers::read(&reader, &manifest.extensions);
        let python = python::read(&files, &|problem| reader.report(problem));
        check_entrypoint(&reader, &manifest);
        let problems = reader.into_problems();
        let signature = signature::check(&files, archive.as_ref(), key);
        let hash = files.hash();
        Ok(Self { manifest, providers, python, signature, problems, files, hash })
    }

    /// What is known of the package, without its files.
    #[must_use]
    pub fn without_files(&self) -> Self {
        Self {
            manifest: self.manifest.clone(),
            providers: self.providers.clone(),
            python: self.python.clone(),
            signature: self.signature,
            problems: self.problems.clone(),
            files: Files::default(),
            hash: self.hash.clone(),
        }
    }

    /// The id as Dify writes it: `author/name:version`.
    pub fn id(&self) -> String {
        let Manifest { author, name, version, .. } = &self.manifest;
        format!("{author}/{name}:{version}")
    }

    /// Tests whether something keeps the plugin from running.
    pub fn is_broken(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Finds tools by name: `TOOL` or `PROVIDER/TOOL`.
    pub fn tools_named(&self, name: &str) -> Vec<(&ToolProvider, &Tool)> {
        let fits = |provider: &ToolProvider, tool: &Tool| {
            tool.name == name
                || name.split_once('/').is_some_and(|(p, t)| p == provider.name && t == tool.name)
        };
        let all = self.providers.tools.iter();
        let all = all.flat_map(|provider| provider.tools.iter().map(move |tool| (provider, tool)));
        all.filter(|(provider, tool)| fits(provider, tool)).collect()
    }
}

fn check_entrypoint(reader: &Reader<'_>, manifest: &Manifest) {
    let entrypoint = &manifest.runner.entrypoint;
    let file = format!("{}.py", entrypoint.replace('.', "/"));
    if !entrypoint.is_empty() && !reader.files.has(&file) {
        let message = format!("the package has no file {file:?}, which its entrypoint names");
        reader.report(Problem::of_file(MANIFEST, message));
    }
}
