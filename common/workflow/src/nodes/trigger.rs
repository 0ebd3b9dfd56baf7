//! Shared by all triggers: the variables that a trigger receives and shows.

use tidemill_base::value::{Lookup, Segment, Variables};

/// Named values, in order.
pub(super) type Named = Vec<(String, Segment)>;

/// The namespace of system variables.
const SYSTEM: &str = "sys";

/// The values stored under the node.
pub(super) fn own(node: &str, variables: &dyn Variables) -> Named {
    values(node, variables)
}

/// The system variables, named `sys.<name>`.
pub(super) fn system(variables: &dyn Variables) -> Named {
    values(SYSTEM, variables).into_iter().map(|(name, value)| (format!("{SYSTEM}.{name}"), value)).collect()
}

fn values(namespace: &str, variables: &dyn Variables) -> Named {
    let names = variables.names().into_iter().filter(|(node, _)| node == namespace);
    names
        .filter_map(|(node, name)| match variables.variable(&node, &name) {
            Lookup::Found(segment) => Some((name, segment.into_owned())),
            // Blobs are loaded before the node is evaluated.
            Lookup::Missing | Lookup::Blob(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::nodes::condition::tests::Pool;

    #[test]
    fn a_trigger_shows_its_own_values_and_those_of_the_system() {
        let pool = Pool::new(json!({"t": {"a": 1}, "sys": {"user_id": "u"}, "env": {"K": "k"}}));
        let names = |named: Named| named.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(own("t", &pool)), ["a"]);
        assert_eq!(names(system(&pool)), ["sys.user_id"]);
    }
}
