//! The query of a list: parameters that may be repeated, and its page.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::api::error::ApiError;

/// The default number of items in a page, as on Dify.
const LIMIT: u64 = 20;
/// The most items in a page, as on Dify.
const LIMIT_MAX: u64 = 100;

/// The parameters of a query, in their order.
pub(super) struct Parameters(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

/// A page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    /// From 1.
    pub(super) page: u64,
    /// As the client gives it.
    pub(super) limit: u64,
}

impl Parameters {
    /// The first value of a parameter; an empty one counts as absent.
    pub(super) fn first<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// All values of a parameter.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The page.
    ///
    /// # Errors
    /// 400 for what is no number.
    pub(super) fn page(&self) -> Result<Page, ApiError> {
        let number = |name: &str, default: u64| match self.first(name).map(str::parse::<i64>) {
            None => Ok(default),
            Some(Ok(number)) => Ok(u64::try_from(number).unwrap_or(0).max(1)),
            Some(Err(_)) => Err(ApiError::invalid_param(format!(
                "1 validation error\n{name}\n  Input should be a valid integer, unable to parse string as an integer"
            ))),
        };
        Ok(Page { page: number("page", 1)?, limit: number("limit", LIMIT)? })
    }
}

impl Page {
    /// The number of items in the page, at most as on Dify.
    pub(super) fn size(self) -> u64 {
        self.limit.min(LIMIT_MAX)
    }

    /// The items of the page.
    pub(super) fn of<T>(self, items: Vec<T>) -> Vec<T> {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let before = (self.page - 1).saturating_mul(self.size());
        items.into_iter().skip(count(before)).take(count(self.size())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(query: &str) -> Parameters {
        Parameters(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    #[test]
    fn a_page_has_difys_bounds() {
        for (query, page, items) in [
            ("", Page { page: 1, limit: 20 }, 20),
            ("page=2&limit=30", Page { page: 2, limit: 30 }, 30),
            ("limit=500", Page { page: 1, limit: 500 }, 100),
            ("page=0&limit=-1", Page { page: 1, limit: 1 }, 1),
            ("page=9", Page { page: 9, limit: 20 }, 0),
        ] {
            let read = parameters(query).page().unwrap();
            assert_eq!((read, read.of((0..150).collect::<Vec<_>>()).len()), (page, items), "{query}");
        }
        assert!(parameters("page=x").page().is_err());
        let repeated = parameters("tag_ids=a&tag_ids=b&keyword=");
        assert_eq!(repeated.all("tag_ids").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(repeated.first("keyword"), None);
    }
}
