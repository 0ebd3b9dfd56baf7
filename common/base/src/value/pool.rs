//! A pool of fixed variables, for tests and fuzz targets of code that reads variables.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::{Lookup, Segment, Variables};

/// Fixed variables.
pub struct Pool(Vec<(String, String, Segment)>);

impl Pool {
    /// Makes a pool of `{node: {name: value}}`.
    ///
    /// # Panics
    /// When `nodes` is not an object of objects.
    pub fn new(nodes: Json) -> Self {
        let mut all = Vec::new();
        for (node, names) in nodes.as_object().expect("an object of nodes") {
            for (name, value) in names.as_object().expect("an object of names") {
                all.push((node.clone(), name.clone(), Segment::restore_files(value.clone())));
            }
        }
        Self(all)
    }

    /// Adds a variable with a type that cannot be inferred from its value.
    pub fn with(mut self, node: &str, name: &str, segment: Segment) -> Self {
        self.0.push((node.into(), name.into(), segment));
        self
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
