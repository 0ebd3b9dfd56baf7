//! The report of a migration: what the workflows of a folder need, compared with an installation.
//!
//! In the order of the data: [`installation`] is what an installation has, [`remedy`] names the setting that provides a
//! requirement, [`report`] joins both with the files. [`terminal`], [`html`] and [`skeleton`] render the report; its
//! JSON form is that of the types. All of these are pure. [`look`] asks an installation, [`apply`] publishes a file, and
//! [`publish`] all of them, one after another.

pub(crate) mod apply;
pub(crate) mod convert;
pub(crate) mod html;
pub(crate) mod installation;
pub(crate) mod kinds;
pub(crate) mod look;
mod providers;
pub(crate) mod publish;
pub(crate) mod remedy;
pub(crate) mod report;
pub(crate) mod skeleton;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
