//! Memory controllers and DRAM.
