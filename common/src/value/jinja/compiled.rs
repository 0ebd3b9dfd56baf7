//! A template's environments, made once. minijinja keeps fuel and the treatment of unknown names in the environment, with
//! all filters and functions; to copy it for each render was most of what a small template cost.

use std::sync::{Arc, Mutex, PoisonError};

use minijinja::{Environment, UndefinedBehavior};

use crate::nodes::evaluate::UndefinedNames;

/// Ways of rendering that are kept; in one process there are two or three.
const KEPT_MAX: usize = 4;

/// How a template is rendered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) fuel: u64,
    pub(super) undefined: UndefinedNames,
}

/// A compiled template, with an environment for each way it was rendered in.
pub(super) struct Compiled {
    plain: Mutex<Plain>,
}

struct Plain {
    /// As it was compiled, until the first way takes it.
    fresh: Option<Environment<'static>>,
    ways: Vec<(Way, Arc<Environment<'static>>)>,
}

impl Compiled {
    /// Keeps an environment that has the template in it.
    pub(super) fn new(env: Environment<'static>) -> Self {
        Self { plain: Mutex::new(Plain { fresh: Some(env), ways: Vec::new() }) }
    }

    /// The environment for a way of rendering.
    pub(super) fn environment(&self, way: Way) -> Arc<Environment<'static>> {
        let mut plain = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, env)) = plain.ways.iter().find(|(known, _)| *known == way) {
            return env.clone();
        }
        let known = plain.ways.first().map(|(_, env)| Environment::clone(env));
        let mut env = known.or_else(|| plain.fresh.take()).unwrap_or_default();
        env.set_fuel(Some(way.fuel));
        env.set_undefined_behavior(match way.undefined {
            UndefinedNames::Empty => UndefinedBehavior::Lenient,
            UndefinedNames::Strict => UndefinedBehavior::Strict,
        });
        let env = Arc::new(env);
        if plain.ways.len() < KEPT_MAX {
            plain.ways.push((way, env.clone()));
        }
        env
    }
}
