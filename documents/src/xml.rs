//! Parses XML to a tree. The depth is limited, because code that walks the tree is recursive. Besides the entities of
//! XML it knows the common ones of HTML; each stands for a single character.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::{ExtractError, html};

/// Deepest nesting of elements.
const DEPTH_MAX: usize = 200;

/// An element. Its name is without the namespace prefix.
#[derive(Debug, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) children: Vec<Node>,
}

/// The content of an element.
#[derive(Debug)]
pub(crate) enum Node {
    Element(Element),
    Text(String),
}

impl Element {
    /// Returns the child elements.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter_map(|child| match child {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }
    /// Returns the first child element with this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.elements().find(|element| element.name == name)
    }
    /// Returns the first element with this name at any depth, in document order.
    pub(crate) fn find(&self, name: &str) -> Option<&Self> {
        self.elements().find_map(|element| match element.name == name {
            true => Some(element),
            false => element.find(name),
        })
    }
    /// Returns an attribute by its name without the namespace prefix.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
    /// Visits the elements with this name at any depth, in order. Does not look inside them.
    pub(crate) fn each<'a>(&'a self, name: &str, visit: &mut impl FnMut(&'a Self)) {
        for element in self.elements() {
            if element.name == name { visit(element) } else { element.each(name, visit) }
        }
    }
    /// Returns all text inside the element.
    pub(crate) fn text(&self) -> String {
        self.children
            .iter()
            .map(|child| match child {
                Node::Text(text) => text.clone(),
                Node::Element(element) => element.text(),
            })
            .collect()
    }
}

/// Parses a document and returns its root.
pub(crate) fn parse(source: &str) -> Result<Element, ExtractError> {
    let mut reader = Reader::from_str(source);
    let mut open = vec![Element::default()];
    let ended_early = || ExtractError::Broken("its XML ends too early".into());
    loop {
        match reader.read_event().map_err(ExtractError::broken)? {
            Event::Start(start) => {
                if open.len() > DEPTH_MAX {
                    return Err(ExtractError::Broken(format!("its XML is nested deeper than {DEPTH_MAX}")));
                }
                open.push(element(&start));
            }
            Event::Empty(start) => push(&mut open, Node::Element(element(&start))),
            Event::End(_) => {
                let closed = open.pop().filter(|_| !open.is_empty()).ok_or_else(ended_early)?;
                push(&mut open, Node::Element(closed));
            }
            Event::Text(text) => push_text(&mut open, &text),
            Event::CData(text) => push_text(&mut open, &text),
            Event::GeneralRef(name) => {
                if let Some(c) = html::entity(&name) {
                    push_text(&mut open, c.encode_utf8(&mut [0; 4]));
                }
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof => break,
        }
    }
    let document = open.pop().filter(|_| open.is_empty()).ok_or_else(ended_early)?;
    let root = document.children.into_iter().find_map(|node| match node {
        Node::Element(element) => Some(element),
        Node::Text(_) => None,
    });
    root.ok_or_else(ended_early)
}

fn element(start: &BytesStart<'_>) -> Element {
    let attributes = start.attributes().flatten().map(|attribute| {
        let value = attribute.value.into_owned();
        let value =
            quick_xml::escape::unescape(&value).map_or_else(|_| value.clone(), |value| value.into_owned());
        (attribute.key.local_name().as_ref().to_owned(), value)
    });
    Element {
        name: start.local_name().as_ref().to_owned(),
        attributes: attributes.collect(),
        children: Vec::new(),
    }
}

fn push(open: &mut [Element], node: Node) {
    if let Some(top) = open.last_mut() {
        top.children.push(node);
    }
}

/// Appends text. Entities split a text into pieces; they are joined here.
fn push_text(open: &mut [Element], text: &str) {
    let Some(top) = open.last_mut() else { return };
    match top.children.last_mut() {
        Some(Node::Text(last)) => last.push_str(text),
        Some(Node::Element(_)) | None => top.children.push(Node::Text(text.into())),
    }
}
