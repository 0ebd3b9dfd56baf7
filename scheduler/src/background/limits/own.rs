//! The limits that are set for an app or an API key, as a request brings them and as they are stored.

use serde_json::{Value as Json, json};
use tidemill_common::limits::APP_LIMIT_MAX;
use tidemill_common::value::JsonMap;

/// A limited number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Limited {
    /// Requests a second.
    Requests,
    /// Runs at the same time.
    Runs,
}

impl Limited {
    /// Both of them.
    pub(crate) const ALL: [Self; 2] = [Self::Requests, Self::Runs];

    /// The name in requests and in the stored form.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests_per_second",
            Self::Runs => "runs_max",
        }
    }
}

/// The limits of an app or a key. One that is absent has the default of the settings; 0: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OwnLimits {
    pub(super) requests_per_second: Option<u64>,
    pub(super) runs_max: Option<u64>,
}

impl OwnLimits {
    /// Reads the form of a request.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub(crate) fn of(map: &JsonMap) -> Result<Self, String> {
        let names = Limited::ALL.map(Limited::name);
        if let Some(key) = map.keys().find(|key| !names.contains(&key.as_str())) {
            return Err(format!("limits have no {key}; they have {}", names.join(", ")));
        }
        let number = |of: Limited| {
            let name = of.name();
            let wrong = || format!("{name} must be a whole number from 0 (no limit) to {APP_LIMIT_MAX}");
            let read = |value: &Json| value.as_u64().filter(|it| *it <= APP_LIMIT_MAX).ok_or_else(wrong);
            map.get(name).filter(|value| !value.is_null()).map(read).transpose()
        };
        Ok(Self { requests_per_second: number(Limited::Requests)?, runs_max: number(Limited::Runs)? })
    }

    /// The form that is shown.
    pub(crate) fn to_json(self) -> Json {
        let mut shown = JsonMap::new();
        for of in Limited::ALL {
            shown.insert(of.name().into(), self.get(of).into());
        }
        Json::Object(shown)
    }

    /// The stored form. That of a key has its app, so that its places are found.
    pub(crate) fn to_text(self, app: &str) -> String {
        let mut stored = self.to_json();
        stored["app"] = json!(app);
        stored.to_string()
    }

    /// Reads the stored form: the app and its limits. Fields of later versions are left out.
    pub(crate) fn read(text: &str) -> Option<(String, Self)> {
        let map: JsonMap = serde_json::from_str(text).ok()?;
        let number = |of: Limited| map.get(of.name()).and_then(Json::as_u64);
        let own = Self { requests_per_second: number(Limited::Requests), runs_max: number(Limited::Runs) };
        Some((map.get("app")?.as_str()?.to_string(), own))
    }

    /// One of the limits.
    pub(crate) fn get(self, of: Limited) -> Option<u64> {
        match of {
            Limited::Requests => self.requests_per_second,
            Limited::Runs => self.runs_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<OwnLimits, String> {
        OwnLimits::of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn limits_are_read_as_they_were_written() {
        for text in ["{}", r#"{"runs_max":0}"#, r#"{"requests_per_second":5,"runs_max":null}"#] {
            let own = of(text).unwrap();
            assert_eq!(OwnLimits::read(&own.to_text("a")), Some(("a".to_string(), own)), "{text}");
        }
        assert_eq!(of(r#"{"runs_max":0}"#).unwrap().get(Limited::Runs), Some(0));
        assert_eq!(OwnLimits::read("{"), None);
    }

    #[test]
    fn invalid_limits_say_what_is_wrong() {
        for (text, said) in [
            (r#"{"runs":1}"#, "limits have no runs; they have requests_per_second, runs_max"),
            (r#"{"runs_max":-1}"#, "runs_max must be a whole number from 0 (no limit) to 1000000"),
            (
                r#"{"requests_per_second":1000001}"#,
                "requests_per_second must be a whole number from 0 (no limit) to 1000000",
            ),
        ] {
            assert_eq!(of(text).unwrap_err(), said);
        }
    }
}
