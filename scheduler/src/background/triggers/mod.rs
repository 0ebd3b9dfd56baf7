//! What begins runs without anybody asking for one: which triggers a version of an app has ([`register`]), and schedules
//! whose time has come ([`schedules`]). Webhooks come in through the API ([`crate::api::hooks`]).

pub mod register;
pub mod schedules;
