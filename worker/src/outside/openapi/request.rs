//! Puts the values of parameters into a request: path, query, headers, cookies, and the fields of a form.

use reqwest::Url;
use reqwest::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value as Json;
use tidemill_common::value::JsonMap;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::outside::openapi::operation::Place;

/// Rules that OpenAPI leaves open, or in which Dify differs.
#[derive(Debug)]
pub(crate) struct Rules {
    /// True if nulls are left out. Otherwise they are empty texts.
    pub(crate) skips_null: bool,
    /// True if an empty text may stand in the path. That may give the path of another operation.
    pub(crate) fills_empty: bool,
    /// True if the query has parameters with an empty text. Otherwise they are left out.
    pub(crate) sends_empty: bool,
    /// Lists in the query.
    pub(crate) query: Lists,
    /// Lists in the fields of a form.
    pub(crate) form: Lists,
}

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lists {
    /// As JSON.
    Json,
    /// The name is repeated for each item; an item that is a list is written as JSON.
    Items,
    /// The name is repeated for each item, also for those of lists in the list.
    AllItems,
}

impl Rules {
    /// Calls `take` for each text of a value.
    fn texts(&self, value: &Json, lists: Lists, take: &mut dyn FnMut(String)) {
        match (value, lists) {
            (Json::Null, _) if self.skips_null => {}
            (Json::Array(items), Lists::Items) => {
                items.iter().for_each(|item| self.texts(item, Lists::Json, take));
            }
            (Json::Array(items), Lists::AllItems) => {
                items.iter().for_each(|item| self.texts(item, lists, take));
            }
            (value, _) => take(plain(value)),
        }
    }

    /// Calls `take` for each field of a form.
    pub(crate) fn fields(&self, name: &str, value: &Json, take: &mut dyn FnMut(&str, &str)) {
        self.texts(value, self.form, &mut |text| take(name, &text));
    }

    /// Writes `application/x-www-form-urlencoded`.
    pub(crate) fn form(&self, fields: &JsonMap) -> String {
        let mut form = Serializer::new(String::new());
        for (name, value) in fields {
            self.fields(name, value, &mut |name, text| {
                form.append_pair(name, text);
            });
        }
        form.finish()
    }
}

/// The media types that have a format of their own here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaType {
    Json,
    Form,
    Multipart,
}

impl MediaType {
    pub(crate) const ALL: [Self; 3] = [Self::Json, Self::Form, Self::Multipart];

    /// Reads a media type, which may have parameters after a semicolon.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let name = text.split(';').next().unwrap_or_default().trim();
        Self::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(name))
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Form => "application/x-www-form-urlencoded",
            Self::Multipart => "multipart/form-data",
        }
    }
}

/// A request without body and credentials.
#[derive(Debug)]
pub(crate) struct Head {
    rules: &'static Rules,
    /// The address. Names in braces are the places of path parameters that were not given.
    pub(crate) address: String,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    cookies: Vec<String>,
}

/// The reason a value cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unsendable {
    /// The text would lead to another path.
    Path(String),
    HeaderName,
    HeaderValue,
}

impl Head {
    /// Starts a request at an address with path parameters in braces.
    pub(crate) fn new(address: &str, rules: &'static Rules) -> Self {
        let (query, cookies) = (Vec::new(), Vec::new());
        Self { rules, address: address.to_owned(), query, headers: HeaderMap::new(), cookies }
    }

    /// Puts a value in its place.
    ///
    /// # Errors
    /// [`Unsendable`]
    pub(crate) fn put(&mut self, place: Place, name: &str, value: &Json) -> Result<(), Unsendable> {
        if value.is_null() && self.rules.skips_null {
            return Ok(());
        }
        match place {
            Place::Path => {
                let text = plain(value);
                // A URL treats dots as steps in the path, even when escaped.
                if matches!(text.as_str(), "." | "..") || (text.is_empty() && !self.rules.fills_empty) {
                    return Err(Unsendable::Path(text));
                }
                self.address = self.address.replace(&format!("{{{name}}}"), &escaped(&text));
            }
            Place::Query => {
                let is_kept = self.rules.sends_empty || value.is_array();
                let query = &mut self.query;
                self.rules.texts(value, self.rules.query, &mut |text| {
                    if is_kept || !text.is_empty() {
                        query.push((name.to_owned(), text));
                    }
                });
            }
            Place::Header => {
                let name: HeaderName = name.parse().map_err(|_| Unsendable::HeaderName)?;
                let value = HeaderValue::from_str(&plain(value)).map_err(|_| Unsendable::HeaderValue)?;
                self.headers.insert(name, value);
            }
            Place::Cookie => self.cookies.push(format!("{name}={}", escaped(&plain(value)))),
        }
        Ok(())
    }

    /// Adds the query to the URL.
    pub(crate) fn add_query(&self, url: &mut Url) {
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
    }

    /// Returns the headers, with the cookies.
    ///
    /// # Errors
    /// The cookies cannot be sent.
    pub(crate) fn headers(&self) -> Result<HeaderMap, Unsendable> {
        let mut headers = self.headers.clone();
        if !self.cookies.is_empty() {
            let value = self.cookies.join("; ");
            headers.insert(COOKIE, HeaderValue::from_str(&value).map_err(|_| Unsendable::HeaderValue)?);
        }
        Ok(headers)
    }
}

/// Converts a value to text. Booleans use JSON's words, because servers do not know Python's.
pub(crate) fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
        Json::Null => String::new(),
    }
}

/// Escapes a text as one segment of a path.
fn escaped(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const STRICT: Rules = Rules {
        skips_null: true,
        fills_empty: false,
        sends_empty: true,
        query: Lists::AllItems,
        form: Lists::AllItems,
    };
    const LOOSE: Rules = Rules {
        skips_null: false,
        fills_empty: true,
        sends_empty: false,
        query: Lists::Items,
        form: Lists::Json,
    };

    fn put(rules: &'static Rules, place: Place, value: Json) -> Result<Head, Unsendable> {
        let mut head = Head::new("http://h/a/{x-y}/b", rules);
        head.put(place, "x-y", &value).map(|()| head)
    }

    #[test]
    fn a_path_takes_one_segment_and_leads_nowhere_else() {
        let path =
            |rules: &'static Rules, value: Json| put(rules, Place::Path, value).map(|head| head.address);
        for rules in [&STRICT, &LOOSE] {
            let address = path(rules, json!("a/b +{x-y}?#ü")).unwrap();
            assert_eq!(address, "http://h/a/a%2Fb%20%2B%7Bx-y%7D%3F%23%C3%BC/b");
            assert_eq!(path(rules, json!(true)).unwrap(), "http://h/a/true/b");
            for steps in [".", ".."] {
                assert_eq!(path(rules, json!(steps)), Err(Unsendable::Path(steps.into())));
            }
        }
        assert_eq!(path(&STRICT, json!("")), Err(Unsendable::Path(String::new())));
        assert_eq!(path(&STRICT, json!(null)).unwrap(), "http://h/a/{x-y}/b");
        assert_eq!(path(&LOOSE, json!("")).unwrap(), "http://h/a//b");
        assert_eq!(path(&LOOSE, json!(null)).unwrap(), "http://h/a//b");
    }

    #[test]
    fn a_query_and_a_form_write_lists_by_their_rules() {
        let query = |rules: &'static Rules, value: &Json| {
            let mut url = Url::parse("http://h/?q=1").unwrap();
            put(rules, Place::Query, value.clone()).unwrap().add_query(&mut url);
            url.query().unwrap_or_default().strip_prefix("q=1").unwrap().to_owned()
        };
        let form =
            |rules: &Rules, value: &Json| rules.form(&JsonMap::from_iter([("f".into(), value.clone())]));
        for (value, strict, loose, strict_form, loose_form) in [
            (json!("x &"), "&x-y=x+%26", "&x-y=x+%26", "f=x+%26", "f=x+%26"),
            (json!(1.5), "&x-y=1.5", "&x-y=1.5", "f=1.5", "f=1.5"),
            (json!(""), "&x-y=", "", "f=", "f="),
            (json!(null), "", "", "", "f="),
            (json!([]), "", "", "", "f=%5B%5D"),
            (json!([1, "", null]), "&x-y=1&x-y=", "&x-y=1&x-y=&x-y=", "f=1&f=", "f=%5B1%2C%22%22%2Cnull%5D"),
            (json!([[2, 3]]), "&x-y=2&x-y=3", "&x-y=%5B2%2C3%5D", "f=2&f=3", "f=%5B%5B2%2C3%5D%5D"),
            (
                json!({"a": 1}),
                "&x-y=%7B%22a%22%3A1%7D",
                "&x-y=%7B%22a%22%3A1%7D",
                "f=%7B%22a%22%3A1%7D",
                "f=%7B%22a%22%3A1%7D",
            ),
        ] {
            assert_eq!((query(&STRICT, &value).as_str(), query(&LOOSE, &value).as_str()), (strict, loose));
            let forms = (form(&STRICT, &value), form(&LOOSE, &value));
            assert_eq!((forms.0.as_str(), forms.1.as_str()), (strict_form, loose_form), "{value}");
        }
    }

    #[test]
    fn headers_and_cookies_are_what_can_be_sent() {
        let header = |rules: &'static Rules, value: Json| {
            let headers = put(rules, Place::Header, value)?.headers()?;
            Ok(headers.get("x-y").map(|value| value.to_str().unwrap().to_owned()))
        };
        assert_eq!(header(&STRICT, json!(["a"])), Ok(Some("[\"a\"]".into())));
        assert_eq!(header(&STRICT, json!(null)), Ok(None));
        assert_eq!(header(&LOOSE, json!(null)), Ok(Some(String::new())));
        assert_eq!(header(&LOOSE, json!("a\nb")), Err(Unsendable::HeaderValue));
        let mut head = Head::new("http://h", &LOOSE);
        assert_eq!(head.put(Place::Header, "a b", &json!(1)), Err(Unsendable::HeaderName));
        head.put(Place::Cookie, "a", &json!("1; 2")).unwrap();
        head.put(Place::Cookie, "b", &json!(2)).unwrap();
        assert_eq!(head.headers().unwrap()[COOKIE], "a=1%3B%202; b=2");
    }

    #[test]
    fn a_media_type_is_known_with_its_parameters() {
        assert_eq!(MediaType::of("Multipart/Form-Data ; boundary=x"), Some(MediaType::Multipart));
        assert_eq!(MediaType::of("application/json; charset=utf-8"), Some(MediaType::Json));
        assert_eq!(MediaType::of("text/xml"), None);
        assert!(MediaType::ALL.into_iter().all(|one| MediaType::of(one.name()) == Some(one)));
    }
}
