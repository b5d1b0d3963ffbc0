//! The whole system against what it promises, one file a promise; one program, so that slow ones run side by side. See the
//! crate's head for the long form.

#![forbid(unsafe_code)]

mod attachments;
mod bad_input;
mod books;
mod browser;
mod by_core;
mod captures;
mod checkpoints;
mod disk;
mod faults;
mod firmware;
mod flow_control;
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
mod memcached_dpdk;
mod microbenchmarks;
mod nat;
mod native_programs;
mod netperf;
mod networks;
mod nfs;
mod nic_from_outside;
mod observers;
mod own_function;
mod own_images;
mod pci_tree;
mod programs;
mod requests;
mod scripts;
mod servers;
mod several_cores;
mod several_harts;
mod slurm;
mod smt;
mod stages;
mod steady;
mod studies;
mod suricata;
mod symbols;
mod terminal;
mod timed;
mod traffic;
mod traffic_file;
mod two_nodes;
mod visibility;
mod whole_results;
