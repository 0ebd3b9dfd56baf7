//! Texts for people: numbers, dates and comparisons as the locales write them. The engine has none of that, and its own
//! `toLocaleString` would ignore its arguments without a word. Nothing is loaded before code uses it.

mod collation;
mod fallback;
mod zones;

use std::cell::RefCell;

use rquickjs::context::EvalOptions;
use rquickjs::function::Func;
use rquickjs::{Ctx, Exception, Function, Object, Value};

use collation::Collators;

const SOURCES: [&str; 4] = [
    include_str!("locale.js"),
    include_str!("number.js"),
    include_str!("date.js"),
    include_str!("collator.js"),
];

/// Evaluates the scripts of this folder, and returns their object.
pub(super) fn load<'js>(ctx: Ctx<'js>) -> rquickjs::Result<Value<'js>> {
    let mut options = EvalOptions::default();
    (options.strict, options.filename) = (true, Some("intl.js".to_owned()));
    let host = Object::new(ctx.clone())?;
    host.set("table", Func::from(|name: String| table(&name)))?;
    host.set("zone", Func::from(|name: String| zones::named(&name)))?;
    host.set("offset", Func::from(|name: String, seconds: f64| zones::offset(&name, seconds)))?;
    let collators = RefCell::new(Collators::default());
    let compare = move |ctx: Ctx<'_>, rules: String, left: String, right: String| {
        let compared = collators.borrow_mut().compare(&rules, &left, &right);
        compared.map_err(|reason| Exception::throw_range(&ctx, &reason))
    };
    host.set("compare", Func::from(compare))?;
    let source = format!("(function (host) {{ \"use strict\";\n{}\nreturn made; }})", SOURCES.join("\n"));
    let make: Function<'js> = ctx.eval_with_options(source, options)?;
    make.call((host,))
}

/// Returns a recorded table as JSON.
fn table(name: &str) -> Option<&'static str> {
    Some(match name {
        "shared" => include_str!("tables/shared.json"),
        "han" => include_str!("tables/han.json"),
        "en-US" => include_str!("tables/en-US.json"),
        "en-GB" => include_str!("tables/en-GB.json"),
        "zh-CN" => include_str!("tables/zh-CN.json"),
        "ja-JP" => include_str!("tables/ja-JP.json"),
        "ko-KR" => include_str!("tables/ko-KR.json"),
        "de-DE" => include_str!("tables/de-DE.json"),
        "fr-FR" => include_str!("tables/fr-FR.json"),
        "es-ES" => include_str!("tables/es-ES.json"),
        "pt-BR" => include_str!("tables/pt-BR.json"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
