//! Tests of arbitrary guests, checkpoints and configurations, as one program: each more would be linked apart.

mod checkpoints;
mod configs;
mod guests;
mod renewed;
mod several_harts;
