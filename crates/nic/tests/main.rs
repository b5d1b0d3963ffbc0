//! Tests of NICs under test software, as one program: each more would be linked apart.

mod bring_up;
mod common;
mod engine;
mod igb;
mod log;
mod moderation;
mod properties;
mod receive;
mod stamps;
mod transmit;
mod waited_drops;
