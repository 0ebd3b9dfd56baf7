//! The names of uploads in a folder, in one pass. A folder gives its names in no order, so a page of them would cost a look at
//! the whole day.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tokio::fs::ReadDir;

/// The names of the files of uploads, one day after the other. Only the names of the days are in memory.
pub(super) struct Names {
    root: PathBuf,
    from_day: String,
    /// The days that are left; `None` before the first look.
    days: Option<VecDeque<String>>,
    /// The day that is read now.
    day: Option<ReadDir>,
}

impl Names {
    /// Those of this day and later ones, below the folder of all uploads. Reads nothing yet.
    pub(super) fn new(root: PathBuf, from_day: &str) -> Self {
        Self { root, from_day: from_day.to_owned(), days: None, day: None }
    }

    /// The next name; `None` after the last one.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<String>> {
        loop {
            if let Some(day) = &mut self.day {
                match day.next_entry().await? {
                    Some(entry) => match entry.file_name().into_string() {
                        Ok(name) => return Ok(Some(name)),
                        // It is not ours.
                        Err(_) => continue,
                    },
                    None => self.day = None,
                }
            }
            if self.days.is_none() {
                self.days = Some(days_from(&self.root, &self.from_day).await?);
            }
            let Some(day) = self.days.as_mut().and_then(VecDeque::pop_front) else { return Ok(None) };
            self.day = entries_of(&self.root.join(day)).await?;
        }
    }
}

/// The names in the folder of all uploads from a day on, in order.
async fn days_from(root: &Path, from_day: &str) -> std::io::Result<VecDeque<String>> {
    let mut days = Vec::new();
    let mut entries = entries_of(root).await?;
    while let Some(entries) = &mut entries
        && let Some(entry) = entries.next_entry().await?
    {
        days.extend(entry.file_name().into_string().ok().filter(|day| day.as_str() >= from_day));
    }
    days.sort_unstable();
    Ok(days.into())
}

/// What is in a folder; `None` when there is no such folder.
async fn entries_of(folder: &Path) -> std::io::Result<Option<ReadDir>> {
    match tokio::fs::read_dir(folder).await {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        entries => entries.map(Some),
    }
}
