//! Global names of every template. `range` and `namespace` come from minijinja, the others from here.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, State};

use super::budget::{charge, width};
use super::ops::failure;
use super::{mutable, sequences};

/// The words of `lipsum`. Jinja2 takes them at random; here a repeated run must produce the same text again.
const WORDS: &str = "lorem ipsum dolor sit amet consectetuer adipiscing elit sed diam nonummy nibh euismod tincidunt ut \
                     laoreet dolore magna aliquam erat volutpat";

/// Adds the globals.
pub(super) fn add(env: &mut Environment<'static>) {
    env.remove_global("debug");
    env.add_function("dict", dict);
    env.add_function("cycler", |items: Rest<Value>| cycler(items.0));
    env.add_function("joiner", |between: Option<String>| joiner(between.unwrap_or_else(|| ", ".into())));
    env.add_function("lipsum", lipsum);
}

/// `dict(pairs, name=value)`: from another object or from a list of pairs.
fn dict(state: &mut State, pairs: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut all = Vec::new();
    match pairs {
        Some(pairs) if pairs.kind() == ValueKind::Map => all.extend(sequences::pairs_of(&pairs)?),
        Some(pairs) => {
            for pair in sequences::items(&pairs)? {
                all.push((pair.get_item_by_index(0)?, pair.get_item_by_index(1)?));
            }
        }
        None => {}
    }
    for name in named.args() {
        all.push((Value::from(name), named.get(name)?));
    }
    charge(state, all.len() * 2 * size_of::<Value>())?;
    Ok(mutable::dict(all))
}

fn cycler(items: Vec<Value>) -> Result<Value, Error> {
    if items.is_empty() {
        return Err(failure("at least one item has to be provided"));
    }
    Ok(Value::from_object(objects::Cycler::new(items)))
}

/// Returns the items of a cycler; `None` for other values.
pub(super) fn cycler_items(value: &Value) -> Option<&[Value]> {
    value.downcast_object_ref::<objects::Cycler>().map(objects::Cycler::items)
}

fn joiner(between: String) -> Value {
    Value::from_object(objects::Joiner::new(between))
}

fn lipsum(n: Option<i64>, html: Option<bool>, options: Kwargs) -> Result<String, Error> {
    let paragraphs = width(n.or(options.get("n")?).unwrap_or(5))?.min(1000);
    let html = html.or(options.get("html")?).unwrap_or(true);
    let words =
        usize::try_from(options.get::<Option<i64>>("max")?.unwrap_or(100).clamp(1, 1000)).unwrap_or(100);
    let _: Option<i64> = options.get("min")?;
    options.assert_all_used()?;
    let text: Vec<&str> = WORDS.split_whitespace().cycle().take(words).collect();
    let paragraph = super::filters::capitalize(&text.join(" ")) + ".";
    let paragraph = if html { format!("<p>{paragraph}</p>") } else { paragraph };
    Ok(vec![paragraph; paragraphs].join(if html { "\n" } else { "\n\n" }))
}

mod objects {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
    use minijinja::{Error, ErrorKind, State};

    /// Returns its items in turn. A template runs on one thread, so relaxed ordering suffices.
    #[derive(Debug)]
    pub(super) struct Cycler {
        items: Vec<Value>,
        at: AtomicUsize,
    }

    impl Cycler {
        pub(super) fn new(items: Vec<Value>) -> Self {
            Self { items, at: AtomicUsize::new(0) }
        }
        pub(super) fn items(&self) -> &[Value] {
            &self.items
        }
        fn item(&self, at: usize) -> Value {
            self.items.get(at % self.items.len()).cloned().unwrap_or_default()
        }
    }

    impl Object for Cycler {
        fn repr(self: &Arc<Self>) -> ObjectRepr {
            ObjectRepr::Plain
        }
        fn enumerate(self: &Arc<Self>) -> Enumerator {
            Enumerator::NonEnumerable
        }
        fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
            (key.as_str() == Some("current")).then(|| self.item(self.at.load(Ordering::Relaxed)))
        }
        fn call_method(
            self: &Arc<Self>,
            _state: &mut State,
            method: &str,
            _args: &[Value],
        ) -> Result<Value, Error> {
            match method {
                "next" => Ok(self.item(self.at.fetch_add(1, Ordering::Relaxed))),
                "reset" => {
                    self.at.store(0, Ordering::Relaxed);
                    Ok(Value::from(()))
                }
                _ => Err(Error::from(ErrorKind::UnknownMethod)),
            }
        }
    }

    /// Returns an empty text on the first call, and its text on later calls.
    #[derive(Debug)]
    pub(super) struct Joiner {
        between: String,
        used: AtomicBool,
    }

    impl Joiner {
        pub(super) fn new(between: String) -> Self {
            Self { between, used: AtomicBool::new(false) }
        }
    }

    impl Object for Joiner {
        fn repr(self: &Arc<Self>) -> ObjectRepr {
            ObjectRepr::Plain
        }
        fn call(self: &Arc<Self>, _state: &mut State, _args: &[Value]) -> Result<Value, Error> {
            let used = self.used.swap(true, Ordering::Relaxed);
            Ok(Value::from(if used { self.between.as_str() } else { "" }))
        }
    }
}
