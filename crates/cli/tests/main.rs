//! Tests of the command `doorbell` and rules of the repository, as one program: each more would be linked apart.

mod bare;
mod cache;
mod cluster;
mod compare;
mod docs;
mod exit_status;
mod gdb;
mod installed;
mod links;
mod loop_trace;
mod machines;
mod pipes;
mod played;
mod report;
mod rooms;
mod style;
mod suite;
