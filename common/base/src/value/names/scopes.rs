//! The variables that a bare name may mean, in order of precedence.

use std::borrow::Cow;

use super::super::template::mention;
use super::super::{Segment, Selector, Variables};
use super::path::Path;

/// The scopes in which a node looks for a name. The first one in which the name has a non-null value wins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// The node's own names, before all others.
    pub own: Vec<(String, Selector)>,
    /// Namespaces in order: loops and iterations around the node, `run`, `conversation`, where the run began,
    /// `sys`.
    pub scopes: Vec<String>,
    /// Variables of these namespaces that are known before a run. A nested name may mean one of them.
    pub declared: Vec<(String, String)>,
}

impl Names {
    /// Adds the variables that a name may mean.
    pub(super) fn meant_by(&self, name: &str, into: &mut Vec<(String, String)>) {
        self.own.iter().filter(|(known, _)| known == name).for_each(|(_, selector)| mention(selector, into));
        into.extend(self.scopes.iter().map(|scope| (scope.clone(), name.to_owned())));
    }

    /// Adds the variables that a name with this beginning may mean.
    pub(super) fn beginning_with(&self, begin: &str, into: &mut Vec<(String, String)>) {
        let own = self.own.iter().filter(|(known, _)| known.starts_with(begin));
        own.for_each(|(_, selector)| mention(selector, into));
        into.extend(self.declared.iter().filter(|(_, name)| name.starts_with(begin)).cloned());
    }

    /// Returns the value that a path names.
    pub(super) fn value<'v>(
        &self,
        path: &Path<'_>,
        variables: &'v dyn Variables,
    ) -> Option<Cow<'v, Segment>> {
        let own = self.own.iter().filter(|(name, _)| name == path.head);
        let own = own.map(|(_, selector)| Cow::Borrowed(selector.as_slice()));
        let scoped = self.scopes.iter().map(|scope| Cow::Owned(vec![scope.clone(), path.head.to_owned()]));
        let mut found = own.chain(scoped).filter_map(|selector| variables.found(&selector));
        let value = found.find(|value| !value.value.is_null())?;
        if path.is_whole() { Some(value) } else { path.within(&value).map(Cow::Owned) }
    }
}
