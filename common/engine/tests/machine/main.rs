//! The machine, played through.
//!
//! A test draws a graph in a few words ([`draw`]) or writes a workflow file, lets things happen and reads what was told
//! ([`play`]). Workers ([`worker`]) and people ([`people`]) speak to it as they do in earnest: through facts and jobs in
//! their written forms. Every commit of every test is also written down, loaded and compared with the state in memory
//! ([`durable`]).
//!
//! The files `tc_*` hold the acceptance tests by their ids, a letter a file.
#![allow(clippy::unwrap_used)]

mod draw;
mod durable;
mod elsewhere;
mod people;
mod play;
mod sheet;
mod tell;
mod worker;

mod answers;
mod asked;
mod bounds;
mod breakpoints;
mod budgets;
mod calls;
mod charges;
mod children;
mod failures;
mod holders;
mod interactions;
mod invariants;
mod iterations;
mod keeping;
mod late_hooks;
mod loops;
mod messages;
mod nested_answers;
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
mod traversal;
