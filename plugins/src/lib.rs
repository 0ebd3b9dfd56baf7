//! Dify plugins, unmodified. The way of a plugin: its [`package`] is read and checked; [`install`] puts it into a folder and
//! makes its Python environment; [`process`] runs it confined, with many sessions in a process; [`tool`] invokes one of
//! its tools, [`agent`] one of its agent strategies. Plugins run only on Linux, because only there they are confined; packages are read everywhere.

#[cfg(target_os = "linux")]
pub mod agent;
#[cfg(target_os = "linux")]
pub mod install;
pub mod limits;
pub mod package;
#[cfg(target_os = "linux")]
pub mod process;
pub mod settings;
#[cfg(target_os = "linux")]
pub mod tool;
