//! The `answer` node: streams a response.

use serde_json::Value as Json;

use super::NodeResult;
use super::fields::{required, text};
use crate::dsl::Problems;
use tidemill_base::value::template::TemplatePart;
use tidemill_base::value::template::{Template, TemplatePiece};
use tidemill_base::value::{JsonMap, Segment, SegmentType, Variables};

/// Configuration of `answer`.
#[derive(Debug, Clone)]
pub struct AnswerData {
    answer: Template,
}

impl AnswerData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let answer = required(data, "answer", problems, text)?;
        Some(Self { answer: Template::parse(&answer) })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.answer.mentions(into);
    }

    /// The parts to stream, texts and references in order. A text that could be a variable's path is streamed as text,
    /// as on Dify; only the finished answer looks the variable up.
    pub fn response_template(&self) -> Vec<TemplatePart> {
        let stream = |part: &TemplatePiece| match part {
            TemplatePiece::Text(text) => TemplatePart::Text(text.clone()),
            TemplatePiece::PerhapsVariable(path) => TemplatePart::Text(path.join(".")),
            TemplatePiece::Variable(selector) => TemplatePart::Variable(selector.clone()),
        };
        self.answer.parts().iter().map(stream).collect()
    }

    /// Runs the node: gives the rendered text and all files that it refers to.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let answer = Segment::string(self.answer.render_markdown(variables));
        let files = Segment::new(SegmentType::ArrayFile, Json::Array(self.files(variables)));
        NodeResult::outputs(vec![("answer".into(), answer), ("files".into(), files)])
    }

    fn files(&self, variables: &dyn Variables) -> Vec<Json> {
        let mut files = Vec::new();
        for part in self.answer.parts() {
            let (TemplatePiece::Variable(selector) | TemplatePiece::PerhapsVariable(selector)) = part else {
                continue;
            };
            let Some(segment) = variables.found(selector) else { continue };
            match (segment.ty, &segment.value) {
                (SegmentType::File, file) => files.push(file.clone()),
                (SegmentType::ArrayFile, Json::Array(items)) => files.extend(items.iter().cloned()),
                _ => {}
            }
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_base::value::pool::Pool;

    fn answer(text: &str) -> AnswerData {
        let mut problems = Problems::new();
        let data = json!({"answer": text, "variables": []});
        AnswerData::parse(data.as_object().expect("a mapping"), &mut problems).expect("usable")
    }
    fn file(kind: &str, name: &str) -> Json {
        json!({"dify_model_identity": "__dify__file__", "type": kind, "filename": name, "remote_url": format!("http://m/{name}")})
    }

    #[test]
    fn values_are_shown_as_markdown_and_files_are_listed() {
        let pool = Pool::new(json!({
            "start": {
                "o": {"k": "v", "x": [1]}, "l": ["a", "b"], "n": null, "f": 2.0, "b": false, "e": [],
                "objs": [{"a": 1}], "doc": file("document", "d.txt"), "pics": [file("image", "p.png"), file("image", "r.jpg")],
            },
            "sys": {"query": "täma"},
        }));
        let result = answer(
            "o={{#start.o#}}\nl={{#start.l#}}\nn=[{{#start.n#}}] f={{#start.f#}} b={{#start.b#}} e=[{{#start.e#}}]\n\
             objs={{#start.objs#}}\ndoc={{#start.doc#}} pics={{#start.pics#}}\n\
             q={{#sys.query#}} name={{#start.doc.name#}} dotted=3.14 e.g. x.y",
        )
        .evaluate(&pool);
        let shown = "o={\n  \"k\": \"v\",\n  \"x\": [\n    1\n  ]\n}\nl=- a\n- b\nn=[] f=2.0 b=False e=[]\nobjs=- {'a': 1}\n\
             doc=[d.txt](http://m/d.txt) pics=![p.png](http://m/p.png)\n![r.jpg](http://m/r.jpg)\n\
             q=täma name=d.txt dotted=3.14 e.g. x.y";
        assert_eq!(result.outputs[0], ("answer".into(), Segment::string(shown)));
        let files = json!([file("document", "d.txt"), file("image", "p.png"), file("image", "r.jpg")]);
        assert_eq!(result.outputs[1], ("files".into(), Segment::new(SegmentType::ArrayFile, files)));
        assert!(result.inputs.is_empty());
    }

    #[test]
    fn the_stream_has_text_and_references_in_order() {
        let text = |text: &str| TemplatePart::Text(text.into());
        let parts = answer("{{#a.b#}}c.d{{#e.f#}}").response_template();
        let variable = |path: [&str; 2]| TemplatePart::Variable(path.map(String::from).to_vec());
        assert_eq!(parts, [variable(["a", "b"]), text("c.d"), variable(["e", "f"])]);
    }

    #[test]
    fn the_template_must_be_a_text() {
        let mut problems = Problems::new();
        assert!(AnswerData::parse(&JsonMap::new(), &mut problems).is_none());
        assert_eq!(problems.into_vec()[0].path, "answer");
    }
}
