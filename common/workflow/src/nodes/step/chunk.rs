//! The output of a call, piece by piece: texts are appended, an object replaces everything before it.

use serde_json::{Value as Json, json};

use tidemill_base::value::{JsonMap, Segment};

/// A piece of a call's output.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// Text to append.
    Text(String),
    /// An object that replaces all earlier output.
    Data(JsonMap),
}

/// The output so far. A text after an object starts again, and so does an object after a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Gathered {
    Text(String),
    /// The last object.
    Data(JsonMap),
}

impl Default for Gathered {
    /// A call without output gives an empty text.
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Gathered {
    /// Takes the next piece.
    pub fn take(&mut self, chunk: Chunk) {
        match (self, chunk) {
            (Self::Text(text), Chunk::Text(more)) => text.push_str(&more),
            (of, Chunk::Text(text)) => *of = Self::Text(text),
            (of, Chunk::Data(map)) => *of = Self::Data(map),
        }
    }

    /// The output as one object: a text is `{"text": …}`.
    pub fn object(&self) -> JsonMap {
        match self {
            Self::Text(text) => JsonMap::from_iter([("text".to_owned(), json!(text))]),
            Self::Data(map) => map.clone(),
        }
    }

    /// The output as variables: a text as `text`; of an object each key, and the whole object as `output` unless it has
    /// that key.
    pub fn outputs(&self) -> Vec<(String, Segment)> {
        let map = self.object();
        let whole = matches!(self, Self::Data(map) if !map.is_empty() && !map.contains_key("output"));
        let whole = whole.then(|| ("output".to_owned(), Segment::infer(Json::Object(map.clone()))));
        let each = map.into_iter().map(|(key, value)| (key, Segment::infer(value)));
        each.chain(whole).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gathered(chunks: impl IntoIterator<Item = Chunk>) -> Json {
        let mut gathered = Gathered::default();
        chunks.into_iter().for_each(|chunk| gathered.take(chunk));
        Json::Object(gathered.object())
    }
    fn text(text: &str) -> Chunk {
        Chunk::Text(text.into())
    }
    fn data(value: Json) -> Chunk {
        Chunk::Data(value.as_object().unwrap().clone())
    }

    #[test]
    fn se_a10_a_text_grows_and_an_object_replaces() {
        for (chunks, expected) in [
            (vec![text("abc"), data(json!({"a": 1})), data(json!({"b": 2}))], json!({"b": 2})),
            (vec![data(json!({"a": 1})), text("x"), text("y")], json!({"text": "xy"})),
            (vec![text("He"), text(""), text("llo")], json!({"text": "Hello"})),
            (vec![data(json!({}))], json!({})),
            (vec![], json!({"text": ""})),
        ] {
            assert_eq!(gathered(chunks), expected);
        }
    }

    #[test]
    fn an_object_becomes_a_variable_a_key_and_one_of_the_whole() {
        let names = |value: Json| {
            let mut gathered = Gathered::default();
            gathered.take(data(value));
            gathered.outputs().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(json!({"a": 1, "b": [2]})), ["a", "b", "output"]);
        assert_eq!(names(json!({"output": 1})), ["output"]);
        assert_eq!(names(json!({})), [""; 0]);
    }

    proptest! {
        #[test]
        fn how_a_text_is_cut_does_not_show(pieces in prop::collection::vec("[a-c]{0,3}", 0..8)) {
            let whole = pieces.concat();
            prop_assert_eq!(gathered(pieces.iter().map(|p| text(p))), json!({"text": whole}));
        }
        #[test]
        fn only_what_follows_the_last_change_of_kind_counts(
            before in prop::collection::vec("[a-c]{0,3}", 0..4), value in 0..9, after in prop::collection::vec("[a-c]{1,3}", 0..4),
        ) {
            let chunks = before.iter().map(|p| text(p)).chain([data(json!({"v": value}))]).chain(after.iter().map(|p| text(p)));
            let expected = if after.is_empty() { json!({"v": value}) } else { json!({"text": after.concat()}) };
            prop_assert_eq!(gathered(chunks), expected);
        }
    }
}
