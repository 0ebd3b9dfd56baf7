//! Tests of the engine that play whole runs.
//!
//! A test draws a graph ([`draw`]) or writes a workflow file, applies facts and compares the events ([`play`]). Workers
//! ([`worker`]) and people ([`people`]) talk to the engine as in production: through facts and jobs in their encoded
//! forms. Every commit of every test is also stored, loaded and compared with the state in memory ([`durable`]).
//!
//! The files `tc_*` contain the acceptance tests by their ids, one area per file.
#![allow(clippy::unwrap_used)]

mod describe;
mod draw;
mod durable;
mod elsewhere;
mod people;
mod play;
mod sheet;
mod side_calls;
mod under_start;
mod worker;

mod answers;
mod asked;
mod bounds;
mod breakpoints;
mod budgets;
mod calls;
mod charges;
mod children;
mod clock;
mod dead_ends;
mod failures;
mod holders;
mod interactions;
mod invariants;
mod iterations;
mod keeping;
mod late_hooks;
mod live;
mod loops;
mod messages;
mod nested_answers;
mod operations;
mod pauses;
mod profiles;
mod properties;
mod rewind;
mod roots;
mod rounds;
mod steps;
mod storms;
mod tc_b;
mod tc_c;
mod tc_e;
mod tc_g;
mod tc_i;
mod tc_l;
mod tc_n;
mod tc_s;
mod tc_ser;
mod tc_v;
mod timeouts;
#[cfg(debug_assertions)]
mod transitions;
mod traversal;
mod warnings;
