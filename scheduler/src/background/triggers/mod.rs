//! Starts runs without a client: finds the triggers in a version of an app ([`register`]), and fires schedules that are
//! due ([`schedules`]). Webhooks come in through the API ([`crate::api::hooks`]).

pub mod register;
pub mod schedules;
