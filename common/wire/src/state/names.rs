//! The names of the state's fields.

use tidemill_base::ids::{FramePath, NodeId, in_key};

/// Reverses [`in_key`].
pub(super) fn unescape(name: &str) -> String {
    name.replace("%2E", ".").replace("%2F", "/").replace("%25", "%")
}

/// Appends the field name of a node to a text. `node` is its id [as a part of a key](in_key).
pub(crate) fn put_node_field(text: &mut String, frame: &FramePath, node: &str) {
    put_field(text, "n:", frame, node);
}

fn put_field(text: &mut String, kind: &str, frame: &FramePath, node: &str) {
    text.push_str(kind);
    text.push_str(frame.as_str());
    text.push('/');
    text.push_str(node);
}

/// The frame and the node of a node's field name; `None` for other fields.
pub fn node_of_field(field: &str) -> Option<(FramePath, NodeId)> {
    let (frame, node) = field.strip_prefix("n:")?.rsplit_once('/')?;
    Some((FramePath::from(frame), NodeId::from(unescape(node).as_str())))
}

/// The field name of a variable.
pub fn variable_field(frame: &FramePath, node: &str, name: &str) -> String {
    let mut field = String::new();
    put_variable_field(&mut field, frame, node, name);
    field
}

/// Appends the field name of a variable to a text.
pub(crate) fn put_variable_field(text: &mut String, frame: &FramePath, node: &str, name: &str) {
    put_field(text, "v:", frame, &in_key(node));
    text.push('.');
    text.push_str(&in_key(name));
}

/// The field name of a stream.
pub fn stream_field(key: &str) -> String {
    format!("s:{key}")
}

/// The field name of an open container.
pub fn container_field(frame: &FramePath, node: &str) -> String {
    format!("c:{frame}/{}", in_key(node))
}
