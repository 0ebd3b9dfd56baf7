//! Documents that are zip archives of XML. All unpacking of a document shares one budget, so that an archive cannot
//! grow beyond its limit.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use crate::xml::{self, Element};
use crate::{ExtractError, Limits, decode};

/// An archive and its remaining budget.
pub(crate) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    limit: u64,
    left: u64,
}

impl<'a> Package<'a> {
    pub(crate) fn open(bytes: &'a [u8], limits: Limits) -> Result<Self, ExtractError> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(ExtractError::broken)?;
        Ok(Self { archive, limit: limits.unpacked_bytes, left: limits.unpacked_bytes })
    }

    /// Returns a part's bytes, or `None` if the part does not exist. Some writers use `\` in names.
    pub(crate) fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>, ExtractError> {
        let name = name.trim_start_matches('/');
        let is_it = |known: &str| known.replace('\\', "/") == name;
        let named = |at: usize| self.archive.name_for_index(at).and_then(Result::ok);
        let found = (0..self.archive.len()).find(|at| named(*at).is_some_and(|known| is_it(&known)));
        let Some(at) = found else { return Ok(None) };
        let part = self.archive.by_index(at).map_err(ExtractError::broken)?;
        let mut bytes = Vec::new();
        part.take(self.left + 1).read_to_end(&mut bytes).map_err(ExtractError::broken)?;
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(ExtractError::Unpacked(self.limit))?;
        Ok(Some(bytes))
    }

    /// Returns a part as text, or an error if the part does not exist.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, ExtractError> {
        let bytes = self.part(name)?.ok_or_else(|| ExtractError::Broken(format!("it has no part {name}")))?;
        Ok(decode::text(&bytes))
    }

    /// Returns a part as XML, or an error if the part does not exist.
    pub(crate) fn xml(&mut self, name: &str) -> Result<Element, ExtractError> {
        xml::parse(&self.text(name)?)
    }

    /// Unpacks everything once only to count it, for parsers that do their own unpacking.
    pub(crate) fn weigh(&mut self) -> Result<(), ExtractError> {
        for at in 0..self.archive.len() {
            let part = self.archive.by_index(at).map_err(ExtractError::broken)?;
            let read = std::io::copy(&mut part.take(self.left + 1), &mut std::io::sink());
            let read = read.map_err(ExtractError::broken)?;
            self.left = self.left.checked_sub(read).ok_or(ExtractError::Unpacked(self.limit))?;
        }
        Ok(())
    }
}

/// Resolves a path relative to the folder of another part.
pub(crate) fn beside(part: &str, target: &str) -> String {
    if let Some(absolute) = target.strip_prefix('/') {
        return absolute.to_owned();
    }
    let mut path: Vec<&str> = part.split('/').collect();
    path.pop();
    for step in target.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                path.pop();
            }
            step => path.push(step),
        }
    }
    path.join("/")
}
