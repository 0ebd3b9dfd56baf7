//! Caches the environments of a template. minijinja keeps fuel and the treatment of unknown names in the
//! environment, together with all filters and functions. Copying it for each render was most of the cost of a
//! small template.

use std::sync::{Arc, Mutex, PoisonError};

use minijinja::{Environment, UndefinedBehavior};

use super::UndefinedNames;

/// Most environments that are cached; a process uses two or three.
const KEPT_MAX: usize = 4;

/// The settings of a render.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RenderSettings {
    pub(super) fuel: u64,
    pub(super) undefined: UndefinedNames,
}

/// A compiled template, with one environment for each of the settings used so far.
pub(super) struct Compiled {
    plain: Mutex<Plain>,
}

struct Plain {
    /// The environment from the compilation, until the first render takes it.
    fresh: Option<Environment<'static>>,
    environments: Vec<(RenderSettings, Arc<Environment<'static>>)>,
}

impl Compiled {
    /// Wraps an environment that contains the template.
    pub(super) fn new(env: Environment<'static>) -> Self {
        Self { plain: Mutex::new(Plain { fresh: Some(env), environments: Vec::new() }) }
    }

    /// Returns the environment for the given settings.
    pub(super) fn environment(&self, settings: RenderSettings) -> Arc<Environment<'static>> {
        let mut plain = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, env)) = plain.environments.iter().find(|(known, _)| *known == settings) {
            return env.clone();
        }
        let known = plain.environments.first().map(|(_, env)| Environment::clone(env));
        let mut env = known.or_else(|| plain.fresh.take()).unwrap_or_default();
        env.set_fuel(Some(settings.fuel));
        env.set_undefined_behavior(match settings.undefined {
            UndefinedNames::Empty => UndefinedBehavior::Lenient,
            UndefinedNames::Strict => UndefinedBehavior::Strict,
        });
        let env = Arc::new(env);
        if plain.environments.len() < KEPT_MAX {
            plain.environments.push((settings, env.clone()));
        }
        env
    }
}
