//! From an operation of an OpenAPI document to an HTTP request. Custom API tools and `API` calls share this, so that a
//! document means the same to both. [`document`] parses it (`swagger` converts older ones), [`operation`] finds its
//! operations, and [`request`] puts values into a request. Where the two differ, they pass [`request::Rules`].

pub(crate) mod document;
pub(crate) mod operation;
pub(crate) mod request;
mod swagger;
