//! Documents that are zip archives of XML. What is unpacked counts against one budget, so that no archive makes more of
//! itself than it is allowed to.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use crate::xml::{self, Element};
use crate::{ExtractError, Limits, decode};

/// An archive.
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

    /// A part's bytes; none when there is no such part. Some writers put `\` into names.
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

    /// A part as text; an error when there is no such part.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, ExtractError> {
        let bytes = self.part(name)?.ok_or_else(|| ExtractError::Broken(format!("it has no part {name}")))?;
        Ok(decode::text(&bytes))
    }

    /// A part as XML; an error when there is no such part.
    pub(crate) fn xml(&mut self, name: &str) -> Result<Element, ExtractError> {
        xml::parse(&self.text(name)?)
    }

    /// Unpacks everything and keeps nothing: for parsers that unpack on their own.
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

/// A path that is named from within the folder of another part.
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
