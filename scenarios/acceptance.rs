//! Whole runs of the benchmarks that have their own (`acceptance.rs` in their folders), for the crate
//! `acceptance`.

mod compute {
    mod acceptance;
}
mod l3fwd {
    mod acceptance;
}
mod memcached_dpdk {
    mod acceptance;
}
mod nat {
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
mod redis {
    mod acceptance;
}
mod rxptx {
    mod acceptance;
}
mod suricata {
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
