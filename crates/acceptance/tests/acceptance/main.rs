//! End-to-end checks of the whole system, one file per promised feature. They form one test program, so that
//! slow checks run in parallel. See the crate's documentation for the long form.

#![forbid(unsafe_code)]

mod attachments;
mod bad_input;
mod browser;
mod by_core;
mod checkpoints;
mod corunners;
mod disk;
mod faults;
mod firmware;
mod flow_control;
mod frame_conservation;
mod guest_events;
mod igb;
mod instructions;
mod interruptions;
mod kernel_log;
mod kernel_stack;
mod latency;
mod litmus;
mod logs;
mod machines;
mod microbenchmarks;
mod native_programs;
mod networks;
mod nic_from_outside;
mod observers;
mod own_function;
mod own_images;
mod pci_tree;
mod random_machines;
mod rdma;
#[path = "../../../../scenarios/acceptance.rs"]
mod scenarios;
mod scripts;
mod servers;
mod several_cores;
mod several_harts;
mod slurm;
mod smt;
mod stages;
mod steady;
mod studies;
mod study_points;
mod symbols;
mod terminal;
mod timed;
mod traffic;
mod traffic_file;
mod two_nodes;
mod visibility;
mod whole_results;
