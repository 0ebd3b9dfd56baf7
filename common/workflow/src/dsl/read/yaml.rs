//! The YAML reader: builds a [`Tree`] from the parser's events. It does not recurse, so deep files need no
//! stack.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::Value as Json;

use super::tree::{Content, Entry, Ix, Tree, too_deep};
use super::{INVALID_YAML, ParseOptions, lenient, scalar};
use crate::dsl::{Diagnostic, Problems};

/// Parses one YAML document.
pub(super) fn read(text: &str, limits: &ParseOptions, problems: &mut Problems) -> Result<Tree, Diagnostic> {
    let mut text = Cow::Borrowed(text);
    let mut reread = 0;
    loop {
        // Problems of a reading that is repeated are found again.
        let mut found = Problems::new();
        let result = read_once(&text, limits, &mut found);
        reread += text.len();
        match result {
            Err(Refused::ByParser(error)) if reread <= lenient::REREAD_BYTES_MAX => {
                let (line, column) = (error.marker().line(), error.marker().col());
                match lenient::rewritten(&text, error.info(), line, column) {
                    Some(rewritten) => text = Cow::Owned(rewritten),
                    None => return Err(by_parser(&error, limits)),
                }
            }
            Err(refused) => return Err(refused.into_diagnostic(limits)),
            Ok(tree) => {
                found.into_vec().into_iter().for_each(|problem| problems.add(problem));
                return Ok(tree);
            }
        }
    }
}

/// The reason why a text cannot be read.
enum Refused {
    ByParser(ScanError),
    ByUs(Diagnostic),
}

impl From<Diagnostic> for Refused {
    fn from(problem: Diagnostic) -> Self {
        Self::ByUs(problem)
    }
}

impl Refused {
    fn into_diagnostic(self, limits: &ParseOptions) -> Diagnostic {
        match self {
            Self::ByParser(error) => by_parser(&error, limits),
            Self::ByUs(problem) => problem,
        }
    }
}

fn by_parser(error: &ScanError, limits: &ParseOptions) -> Diagnostic {
    let line = u32::try_from(error.marker().line()).ok();
    // The parser has its own limit, which it reaches first when it looks ahead for the end of a key.
    if error.info().contains("recursion limit") {
        return too_deep(line, limits);
    }
    invalid(line, format!("{} (column {})", error.info(), error.marker().col() + 1))
}

fn read_once(text: &str, limits: &ParseOptions, problems: &mut Problems) -> Result<Tree, Refused> {
    let mut builder = Builder {
        tree: Tree::default(),
        open: Vec::new(),
        anchors: HashMap::new(),
        documents: 0,
        merged: 0,
        limits,
        problems,
        // A block at the end of a file without a last line break has none either, as with PyYAML.
        cut_at: (!text.ends_with(['\n', '\r'])).then(|| text.chars().count()),
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(Refused::ByParser)?;
        builder.take(event, &span)?;
    }
    Ok(builder.tree)
}

/// A collection that is not closed yet.
struct Open {
    line: u32,
    anchor: usize,
    content: OpenContent,
}

enum OpenContent {
    Sequence(Vec<Ix>),
    Mapping {
        entries: Vec<Entry>,
        /// The values of `<<`, in file order.
        merges: Vec<Ix>,
        key: Option<Key>,
    },
}

struct Key {
    text: Rc<str>,
    line: u32,
    merge: bool,
}

struct Builder<'a> {
    tree: Tree,
    open: Vec<Open>,
    /// The value of an anchor; `None` while it is still open.
    anchors: HashMap<usize, Option<Ix>>,
    documents: usize,
    merged: usize,
    limits: &'a ParseOptions,
    problems: &'a mut Problems,
    /// The end of the text, in characters, if its last line has no line break.
    cut_at: Option<usize>,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Diagnostic> {
        let line = u32::try_from(span.start.line()).unwrap_or(u32::MAX);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(invalid(Some(line), "more than one document in the file"));
                }
                Ok(())
            }
            Event::Scalar(mut text, style, anchor, tag) => {
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if is_block && self.cut_at == Some(span.end.index()) && text.ends_with('\n') {
                    text.to_mut().pop();
                }
                self.scalar(text, style, anchor, tag, line)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(Some(at)) => self.alias(*at, line),
                Some(None) => Err(invalid(Some(line), "an alias is inside the value that it refers to")),
                None => Err(invalid(Some(line), "an alias refers to an unknown anchor")),
            },
            Event::SequenceStart(anchor, tag) => {
                known_tag(tag, "seq", line)?;
                self.begin(line, anchor, OpenContent::Sequence(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                known_tag(tag, "map", line)?;
                let content = OpenContent::Mapping { entries: Vec::new(), merges: Vec::new(), key: None };
                self.begin(line, anchor, content)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        line: u32,
    ) -> Result<(), Diagnostic> {
        let plain = style == ScalarStyle::Plain;
        if self.awaits_key() {
            if anchor != 0 {
                let value = tagged(text.clone(), plain, tag.clone(), line)?;
                let at = self.tree.add(line, Content::Scalar(value), self.limits)?;
                self.anchors.insert(anchor, Some(at));
            }
            // A key keeps the text of its author: `on:` is the key "on", not the boolean of YAML 1.1.
            self.key(Key { merge: plain && tag.is_none() && text == "<<", text: text.into(), line });
            return Ok(());
        }
        let value = tagged(text, plain, tag, line)?;
        let at = self.tree.add(line, Content::Scalar(value), self.limits)?;
        if anchor != 0 {
            self.anchors.insert(anchor, Some(at));
        }
        self.place(at, line)
    }

    /// Places what an alias refers to; as a key its text.
    fn alias(&mut self, at: Ix, line: u32) -> Result<(), Diagnostic> {
        if !self.awaits_key() {
            return self.place(at, line);
        }
        let text = match &self.tree.spots[at as usize].content {
            Content::Scalar(Json::String(text)) => text.as_str().into(),
            Content::Scalar(value) => value.to_string().into(),
            Content::Sequence(_) | Content::Mapping(_) => {
                return Err(invalid(Some(line), "a key must be a single value"));
            }
        };
        self.key(Key { text, line, merge: false });
        Ok(())
    }

    /// True when the next value is a key of the innermost open mapping.
    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: OpenContent::Mapping { key: None, .. }, .. }))
    }

    fn key(&mut self, next: Key) {
        if let Some(Open { content: OpenContent::Mapping { key, .. }, .. }) = self.open.last_mut() {
            *key = Some(next);
        }
    }

    fn begin(&mut self, line: u32, anchor: usize, content: OpenContent) -> Result<(), Diagnostic> {
        if self.awaits_key() {
            return Err(invalid(Some(line), "a key must be a single value"));
        }
        if self.open.len() >= self.limits.depth_max {
            return Err(too_deep(Some(line), self.limits));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
        self.open.push(Open { line, anchor, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Diagnostic> {
        let Some(closed) = self.open.pop() else { return Ok(()) };
        let content = match closed.content {
            OpenContent::Sequence(items) => Content::Sequence(items),
            OpenContent::Mapping { entries, merges, key: _ } => {
                let base = self.merge(&merges, closed.line)?;
                Content::Mapping(self.unique(base, entries))
            }
        };
        let at = self.tree.add(closed.line, content, self.limits)?;
        if closed.anchor != 0 {
            self.anchors.insert(closed.anchor, Some(at));
        }
        self.place(at, closed.line)
    }

    /// Adds a finished value to the innermost open collection.
    fn place(&mut self, at: Ix, line: u32) -> Result<(), Diagnostic> {
        let Some(open) = self.open.last_mut() else {
            self.tree.root = Some(at);
            return Ok(());
        };
        match &mut open.content {
            OpenContent::Sequence(items) => items.push(at),
            OpenContent::Mapping { entries, merges, key } => match key.take() {
                Some(key) if key.merge => merges.push(at),
                Some(key) => entries.push(Entry { key: key.text, key_line: key.line, value: at }),
                None => return Err(invalid(Some(line), "a key must be a single value")),
            },
        }
        Ok(())
    }

    /// Collects the entries of `<<`: within a list the first mapping wins, of several `<<` the last.
    fn merge(&mut self, merges: &[Ix], line: u32) -> Result<Vec<Entry>, Diagnostic> {
        let mut brought = Vec::new();
        for &from in merges {
            let sources: Vec<Ix> = match &self.tree.spots[from as usize].content {
                Content::Sequence(items) => items.iter().rev().copied().collect(),
                Content::Scalar(_) | Content::Mapping(_) => vec![from],
            };
            for source in sources {
                let Content::Mapping(entries) = &self.tree.spots[source as usize].content else {
                    return Err(invalid(Some(line), "`<<` needs a mapping or a list of mappings"));
                };
                self.merged += entries.len();
                if self.merged > self.limits.values_max {
                    return Err(invalid(Some(line), "merge keys add more values than are allowed"));
                }
                brought.extend(entries.iter().cloned());
            }
        }
        Ok(brought)
    }

    /// Removes duplicate keys: each key keeps its first position and its last value.
    fn unique(&mut self, base: Vec<Entry>, own: Vec<Entry>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::with_capacity(base.len() + own.len());
        let mut places: HashMap<Rc<str>, (usize, bool)> = HashMap::with_capacity(base.len() + own.len());
        let all =
            base.into_iter().map(|entry| (entry, false)).chain(own.into_iter().map(|entry| (entry, true)));
        for (entry, is_own) in all {
            match places.get_mut(&entry.key) {
                Some((at, was_own)) => {
                    if *was_own {
                        duplicate_key(self.problems, &entry.key, entry.key_line);
                    }
                    *was_own = is_own;
                    entries[*at] = entry;
                }
                None => {
                    places.insert(entry.key.clone(), (entries.len(), is_own));
                    entries.push(entry);
                }
            }
        }
        entries
    }
}

/// Warns about a key that occurs twice in one mapping.
pub(super) fn duplicate_key(problems: &mut Problems, key: &str, line: u32) {
    let message = format!("the key {key:?} occurs twice in one mapping; this one is used");
    problems.warning_at_line("parse.duplicate_key", line, message);
}

fn tagged(text: Cow<'_, str>, plain: bool, tag: Option<Cow<'_, Tag>>, line: u32) -> Result<Json, Diagnostic> {
    let Some(tag) = tag else {
        return Ok(if plain { scalar::resolve_plain(&text) } else { Json::String(text.into()) });
    };
    let kind = if tag.is_yaml_core_schema() { tag.suffix.as_str() } else { "" };
    let resolved = scalar::resolve_plain(&text);
    let value = match kind {
        "str" | "timestamp" => Some(Json::String(text.clone().into())),
        "null" => Some(Json::Null),
        "int" => Some(resolved).filter(|v| v.is_i64() || v.is_u64()),
        "float" => resolved.as_f64().map(Json::from),
        "bool" => Some(resolved).filter(Json::is_boolean),
        _ if tag.handle.is_empty() && tag.suffix == "!" => Some(Json::String(text.clone().into())),
        _ => None,
    };
    value.ok_or_else(|| {
        invalid(Some(line), format!("the tag {tag} does not fit {text:?} or is not supported"))
    })
}

fn known_tag(tag: Option<Cow<'_, Tag>>, kind: &str, line: u32) -> Result<(), Diagnostic> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == kind) => {
            Err(invalid(Some(line), format!("the tag {tag} is not supported")))
        }
        Some(_) | None => Ok(()),
    }
}

fn invalid(line: Option<u32>, message: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::at_line(INVALID_YAML, line, format!("invalid YAML: {message}"))
}
