//! Iterations and loops: one frame after the other, also where the fleet runs several at once.

use serde_json::{Value as Json, json};

use super::node::holds;
use super::{Engine, Made, Pool, items, made, read, write};

/// How an item ended.
enum Item {
    Done(Json),
    Failed,
}

impl Engine<'_> {
    pub(super) fn iteration(&mut self, path: &str, id: &str, data: &Json, pool: &Pool) -> Made {
        let list = read(pool, &data["iterator_selector"]).ok_or("the list is not found")?.clone();
        let (mode, is_parallel) = (data["error_handle_mode"].clone(), data["is_parallel"] == true);
        let mut done = Vec::new();
        let mut first_error = None;
        for (index, item) in items(&list).into_iter().enumerate() {
            // An item sees the parents' values from before it, and no other node sees what it writes.
            let mut own = pool.clone();
            write(&mut own, id, "index", json!(index));
            write(&mut own, id, "item", item);
            let errors = self.frame(&below(path, id, index), &format!("{id}start"), &mut own);
            match errors.into_iter().next() {
                None => {
                    done.push(Item::Done(read(&own, &data["output_selector"]).cloned().unwrap_or_default()))
                }
                Some(error) => {
                    done.push(Item::Failed);
                    first_error.get_or_insert(error);
                    if mode == "terminated" {
                        // Parallel items may or may not have begun before the failure.
                        self.is_loose |= is_parallel;
                        break;
                    }
                }
            }
        }
        if mode == "terminated"
            && let Some(error) = first_error
        {
            return Err(error);
        }
        let is_kept = |item: &Item| matches!(item, Item::Done(_)) || mode == "continue-on-error";
        let value = |item: Item| match item {
            Item::Done(value) => value,
            Item::Failed => Json::Null,
        };
        made("output", flatten(done.into_iter().filter(is_kept).map(value).collect()).into())
    }

    pub(super) fn loop_(&mut self, path: &str, id: &str, data: &Json, pool: &mut Pool) -> Made {
        for variable in items(&data["loop_variables"]) {
            write(pool, id, variable["label"].as_str().unwrap_or_default(), variable["value"].clone());
        }
        let conditions = items(&data["break_conditions"]);
        if conditions.iter().any(|condition| holds(condition, pool).unwrap_or(false)) {
            return Ok((Vec::new(), "source".into()));
        }
        let body = self.listed.iter().filter(|(_, data)| data["loop_id"] == id).map(|(node, _)| node);
        let body: Vec<String> = body.cloned().collect();
        let made = self.rounds(path, id, data, &body, pool);
        // Neither the next round nor the nodes after the loop see the values of its body.
        pool.retain(|(node, _), _| !body.contains(node));
        made
    }

    fn rounds(&mut self, path: &str, id: &str, data: &Json, body: &[String], pool: &mut Pool) -> Made {
        let conditions = items(&data["break_conditions"]);
        let rounds = data["loop_count"].as_u64().unwrap_or(1);
        let mut round = 0;
        loop {
            pool.retain(|(node, _), _| !body.contains(node));
            let frame = below(path, id, usize::try_from(round).unwrap_or(usize::MAX));
            if let Some(error) = self.frame(&frame, &format!("{id}start"), pool).into_iter().next() {
                return Err(error);
            }
            round += 1;
            let left = body.iter().any(|node| {
                self.data(node)["type"] == "loop-end"
                    && self.nodes.contains_key(&(frame.clone(), node.clone()))
            });
            if left || any_holds(&conditions, pool)? || round >= rounds {
                break;
            }
        }
        let n = read(pool, &json!([id, "n"])).cloned().unwrap_or_default();
        Ok((vec![("n".into(), n), ("loop_round".into(), json!(round))], "source".into()))
    }
}

/// Evaluates conditions with `or`: the first true one decides, an error before it fails.
fn any_holds(conditions: &[Json], pool: &Pool) -> Result<bool, String> {
    for condition in conditions {
        if holds(condition, pool)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Flattens lists in a list by one level and removes nulls between them.
fn flatten(values: Vec<Json>) -> Vec<Json> {
    let is_list_or_null = values.iter().all(|value| value.is_null() || value.is_array());
    if !is_list_or_null || !values.iter().any(Json::is_array) {
        return values;
    }
    values.iter().flat_map(items).collect()
}

fn below(path: &str, id: &str, index: usize) -> String {
    if path.is_empty() { format!("{id}#{index}") } else { format!("{path}/{id}#{index}") }
}
