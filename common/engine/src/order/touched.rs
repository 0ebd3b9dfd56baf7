//! A set for the touched parts of a state. A step touches one or two parts of a kind, and a tree would cost more to
//! allocate and drop than it holds.

use std::cmp::Ordering;

/// A sorted set in a list: it allocates nothing while it is empty, and is fast for few elements or elements added in
/// order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched<T>(Vec<T>);

impl<T> Default for Touched<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord> Touched<T> {
    /// Adds an element, unless it is in the set.
    pub fn insert(&mut self, it: T) {
        if let Err(at) = self.place(|known| known.cmp(&it)) {
            self.0.insert(at, it);
        }
    }
    /// Adds the result of `make`, unless the set has an equal element. `order` compares an element of the set with the
    /// new one.
    pub fn insert_with(&mut self, order: impl Fn(&T) -> Ordering, make: impl FnOnce() -> T) {
        if let Err(at) = self.place(order) {
            self.0.insert(at, make());
        }
    }
    /// True when the element is in the set.
    pub fn contains(&self, it: &T) -> bool {
        self.place(|known| known.cmp(it)).is_ok()
    }
    /// Removes all elements and keeps the buffer.
    pub fn clear(&mut self) {
        self.0.clear();
    }
    /// Adds all these elements.
    pub fn extend(&mut self, more: impl IntoIterator<Item = T>) {
        more.into_iter().for_each(|it| self.insert(it));
    }
    /// Adds all elements of another set.
    pub fn append(&mut self, later: Self) {
        if self.is_empty() {
            *self = later;
        } else {
            self.extend(later.0);
        }
    }

    fn place(&self, order: impl Fn(&T) -> Ordering) -> Result<usize, usize> {
        match self.0.last().map(&order) {
            None | Some(Ordering::Less) => Err(self.0.len()),
            Some(Ordering::Equal) => Ok(self.0.len() - 1),
            Some(Ordering::Greater) => self.0.binary_search_by(order),
        }
    }
}

impl<T> Touched<T> {
    /// Iterates over the elements in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// True when the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a, T> IntoIterator for &'a Touched<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_has_the_same_elements_as_a_tree(given in prop::collection::vec(0..40_u8, 0..60), later in prop::collection::vec(0..40_u8, 0..9)) {
            let (mut tree, mut touched, mut second) = (BTreeSet::new(), Touched::default(), Touched::default());
            for it in &given {
                tree.insert(*it);
                touched.insert(*it);
                touched.insert_with(|known| known.cmp(it), || *it);
            }
            second.extend(later.iter().copied());
            tree.extend(&later);
            touched.append(second);
            prop_assert!(touched.iter().eq(&tree) && touched.len() == tree.len());
            prop_assert!((0..40).all(|it| touched.contains(&it) == tree.contains(&it)));
        }
    }
}
