//! Picks an item, sorts the list, or cuts it.

use std::cmp::Ordering;

use serde_json::Value as Json;

use super::filter::{FileKey, file_size, file_text};
use super::{ItemKind, Mistake, optional, word};
use crate::dsl::Problems;
use crate::nodes::fields::text;
use tidemill_base::value::JsonMap;

/// A sort order.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// The file attribute to sort by.
    key: String,
    direction: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

const DIRECTIONS: &[(&str, Direction)] = &[("asc", Direction::Ascending), ("desc", Direction::Descending)];

impl Order {
    pub(super) fn parse(part: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let key = optional(part, "key", problems, String::new(), text);
        let direction = optional(part, "value", problems, Direction::Ascending, |value, problems| {
            word(DIRECTIONS, value, problems)
        });
        Some(Self { key: key?, direction: direction? })
    }

    /// Sorts. Equal items keep their order, also in descending order.
    pub(super) fn sort(&self, kind: ItemKind, items: &mut [Json]) -> Result<(), Mistake> {
        let compare: Compare = match kind {
            // The order of UTF-8 bytes equals that of code points.
            ItemKind::Text => Box::new(|a, b| a.as_str().cmp(&b.as_str())),
            ItemKind::Number => Box::new(numbers),
            ItemKind::Boolean => Box::new(|a, b| a.as_bool().cmp(&b.as_bool())),
            ItemKind::File => match FileKey::of(&self.key) {
                Some(FileKey::Text(field) | FileKey::Choice(field)) => {
                    Box::new(move |a, b| file_text(a, field).cmp(file_text(b, field)))
                }
                Some(FileKey::Size) => Box::new(|a, b| file_size(a).total_cmp(&file_size(b))),
                None => return Err(Mistake::Reported(format!("Invalid order key: {}", self.key))),
            },
        };
        match self.direction {
            Direction::Ascending => items.sort_by(|a, b| compare(a, b)),
            Direction::Descending => items.sort_by(|a, b| compare(b, a)),
        }
        Ok(())
    }
}

/// Compares two items.
type Compare = Box<dyn Fn(&Json, &Json) -> Ordering>;

/// Compares whole numbers exactly, others as floats.
fn numbers(a: &Json, b: &Json) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) | (None, Some(_)) | (None, None) => {
            let float = |value: &Json| value.as_f64().unwrap_or_default();
            // Zeros of different sign are equal and keep their order.
            float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal)
        }
    }
}

/// The item with this number, from 1.
pub(super) fn picked(mut items: Vec<Json>, serial: i128) -> Result<Json, Mistake> {
    if serial < 1 {
        return Err(Mistake::Escaped(format!("Invalid serial index: must be >= 1, got {serial}")));
    }
    let length = items.len();
    match usize::try_from(serial - 1) {
        Ok(at) if at < length => Ok(items.swap_remove(at)),
        Ok(_) | Err(_) => {
            Err(Mistake::Reported(format!("Invalid serial index: must be <= {length}, got {serial}")))
        }
    }
}

/// Keeps the first items; a negative size drops that many from the end.
pub(super) fn cut(items: &mut Vec<Json>, size: i64) {
    let magnitude = usize::try_from(size.unsigned_abs()).unwrap_or(usize::MAX);
    let left = if size < 0 { items.len().saturating_sub(magnitude) } else { magnitude };
    items.truncate(left);
}
