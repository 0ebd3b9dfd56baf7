//! The `variable-aggregator` node: gives the first value that is present.

use serde_json::{Value as Json, json};

use super::NodeResult;
use super::fields::{INVALID_NODE_DATA, flag, list, mapping, required, selector, set, text};
use crate::dsl::Problems;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Selector, Variables};

/// Configuration of `variable-aggregator`.
#[derive(Debug, Clone)]
pub struct VariableAggregatorData {
    choice: Choice,
}

#[derive(Debug, Clone)]
enum Choice {
    /// One output, `output`.
    Single(Vec<Selector>),
    /// One output per group, under the group's name.
    Groups(Vec<Group>),
}

#[derive(Debug, Clone)]
struct Group {
    name: String,
    variables: Vec<Selector>,
}

impl VariableAggregatorData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        // The declared type is not compared with the value, but Dify refuses a node without it.
        let declared = required(data, "output_type", problems, text);
        let variables = required(data, "variables", problems, selectors);
        let groups = match data.get("advanced_settings") {
            None | Some(Json::Null) => Some(None),
            Some(settings) => problems.within("advanced_settings", |problems| groups(settings, problems)),
        };
        declared?;
        let choice = match (groups?, variables?) {
            (Some(groups), _) => Choice::Groups(groups),
            (None, variables) => Choice::Single(variables),
        };
        Some(Self { choice })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        let mut each = |variables: &[Selector]| variables.iter().for_each(|selector| mention(selector, into));
        match &self.choice {
            Choice::Single(variables) => each(variables),
            Choice::Groups(groups) => groups.iter().for_each(|group| each(&group.variables)),
        }
    }

    /// Runs the node. Null, empty and false values count as present. It is no failure when no value is present.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let mut result = NodeResult::default();
        let mut choose = |selectors: &[Selector]| {
            let (selector, value) = selectors
                .iter()
                .find_map(|selector| Some((selector, variables.found(selector)?.into_owned())))?;
            set(&mut result.inputs, &selector[1..].join("."), value.clone());
            Some(value)
        };
        let outputs = match &self.choice {
            Choice::Single(variables) => {
                choose(variables).map(|value| ("output".to_string(), value)).into_iter().collect()
            }
            Choice::Groups(groups) => {
                let mut outputs = Vec::new();
                for group in groups {
                    if let Some(value) = choose(&group.variables) {
                        // An object cannot hold a secret as a reference, so the secret is masked.
                        let value =
                            if value.ty == SegmentType::Secret { value.log().into() } else { value.value };
                        let object = Segment::new(SegmentType::Object, json!({ "output": value }));
                        set(&mut outputs, &group.name, object);
                    }
                }
                outputs
            }
        };
        NodeResult { outputs, ..result }
    }
}

fn selectors(value: &Json, problems: &mut Problems) -> Option<Vec<Selector>> {
    list(value, problems, selector)
}

/// The groups when grouping is on, `Some(None)` when it is off, `None` when the settings are invalid. Groups are
/// checked in both cases, as on Dify.
fn groups(settings: &Json, problems: &mut Problems) -> Option<Option<Vec<Group>>> {
    let settings = mapping(settings, problems)?;
    let enabled = required(settings, "group_enabled", problems, flag);
    let groups = required(settings, "groups", problems, |value, problems| {
        list(value, problems, |item, problems| {
            let item = mapping(item, problems)?;
            let declared = required(item, "output_type", problems, group_type);
            let variables = required(item, "variables", problems, selectors);
            let name = required(item, "group_name", problems, text);
            declared?;
            name.zip(variables).map(|(name, variables)| Group { name, variables })
        })
    });
    let (enabled, groups) = enabled.zip(groups)?;
    Some(enabled.then_some(groups))
}

fn group_type(value: &Json, problems: &mut Problems) -> Option<()> {
    let name = text(value, problems)?;
    let known = name == "number" || name == "group" || SegmentType::ALL.iter().any(|ty| ty.name() == name);
    if !known {
        problems.error(INVALID_NODE_DATA, format!("{name:?} is not a type of a group"));
    }
    known.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::value::pool::Pool;

    fn parse(data: Json) -> (Option<VariableAggregatorData>, Vec<String>) {
        let mut problems = Problems::new();
        let read = VariableAggregatorData::parse(data.as_object().expect("a mapping"), &mut problems);
        (read, problems.into_vec().into_iter().map(|d| format!("{}: {}", d.path, d.message)).collect())
    }
    fn run(data: Json) -> NodeResult {
        let pool =
            Pool::new(json!({"start": {"nul": null, "empty": "", "o": {"k": [1]}}, "b": {"text": "B"}}));
        parse(data).0.expect("usable").evaluate(&pool)
    }

    #[test]
    fn null_is_present_and_a_missing_variable_is_skipped() {
        let result = run(
            json!({"output_type": "string", "variables": [["start", "never"], ["start", "nul"], ["start", "empty"]]}),
        );
        assert_eq!(result.outputs, [("output".into(), Segment::none())]);
        assert_eq!(result.inputs, [("nul".into(), Segment::none())]);
        let nothing = run(json!({"output_type": "string", "variables": [["ghost", "x"], ["start"], []]}));
        assert_eq!((nothing.outputs, nothing.inputs, nothing.failure), (vec![], vec![], None));
    }

    #[test]
    fn groups_are_objects_and_share_their_inputs() {
        let group = |name: &str, variables: Json| json!({"groupId": "g", "group_name": name, "output_type": "array[number]", "variables": variables});
        let data = |enabled: Json| {
            json!({
                "output_type": "any", "variables": [["b", "text"]],
                "advanced_settings": {"group_enabled": enabled, "groups": [
                    group("One", json!([["ghost", "x"], ["start", "o", "k"]])),
                    group("Two", json!([["ghost", "x"]])),
                    group("Three", json!([["b", "text"]])),
                ]},
            })
        };
        let result = run(data(json!("true")));
        let shown: Vec<_> = result.outputs.iter().map(|(name, s)| (name.as_str(), s.value.clone())).collect();
        assert_eq!(shown, [("One", json!({"output": [1]})), ("Three", json!({"output": "B"}))]);
        let inputs: Vec<_> = result.inputs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(inputs, ["o.k", "text"]);
        assert_eq!(run(data(json!(false))).outputs, [("output".into(), Segment::string("B"))]);
    }

    #[test]
    fn every_problem_is_reported_with_its_place() {
        let (read, found) = parse(json!({
            "variables": [["a", 1]],
            "advanced_settings": {"groups": [{"group_name": "g", "output_type": "any", "variables": []}]},
        }));
        assert!(read.is_none());
        assert_eq!(
            found,
            [
                "output_type: the field output_type is required",
                "variables[0][1]: must be a text, not a number",
                "advanced_settings.group_enabled: the field group_enabled is required",
                "advanced_settings.groups[0].output_type: \"any\" is not a type of a group",
            ]
        );
    }
}
