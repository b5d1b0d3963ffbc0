//! Whole runs of the benchmarks (`acceptance.rs` in their folders), for the crate `acceptance`.

mod compute {
    mod acceptance;
}
mod iperf {
    mod acceptance;
}
mod l3fwd {
    mod acceptance;
}
mod memcached_dpdk {
    mod acceptance;
}
mod memcached_kernel {
    mod acceptance;
}
mod nat {
    mod acceptance;
}
mod neighbour {
    mod acceptance;
}
mod netperf {
    mod acceptance;
}
mod nfs {
    mod acceptance;
}
mod ovs {
    mod acceptance;
}
mod ping {
    mod acceptance;
}
mod pipeline {
    mod acceptance;
}
mod redis {
    mod acceptance;
}
mod rxptx {
    mod acceptance;
}
mod suricata {
    mod acceptance;
}
mod testpmd {
    mod acceptance;
}
mod touchdrop {
    mod acceptance;
}
mod touchfwd {
    mod acceptance;
}
mod web {
    mod acceptance;
}
