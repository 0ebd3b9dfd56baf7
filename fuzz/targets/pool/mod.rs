//! A variable pool for fuzz targets that need one.

use std::borrow::Cow;

use serde_json::Value as Json;
use tidemill_common::value::{Lookup, Segment, Variables};

/// Values by node and name.
pub struct Pool(Vec<(String, String, Segment)>);

impl Pool {
    /// Creates a pool with one value, `n.v`.
    pub fn of(value: Json) -> Self {
        Self(vec![("n".into(), "v".into(), Segment::restore_files(value))])
    }
}

impl Variables for Pool {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        let found = self.0.iter().find(|(n, v, _)| n == node && v == name);
        found.map_or(Lookup::Missing, |(_, _, segment)| Lookup::Found(Cow::Borrowed(segment)))
    }
    fn names(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(node, name, _)| (node.clone(), name.clone())).collect()
    }
}
