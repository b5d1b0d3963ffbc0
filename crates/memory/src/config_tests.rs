//! Validation of the configuration and its messages.

use super::*;

#[test]
fn the_default_is_valid_and_reads_back_from_text() {
    let config = MemoryConfig::default();
    config.validate(1).unwrap();
    let text = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<MemoryConfig>(&text).unwrap(), config);
}

#[test]
fn sizes_without_a_power_of_two_of_sets_are_rejected_with_an_example() {
    let mut config = MemoryConfig::default();
    config.llc.size = Bytes(24 << 20);
    config.llc.ways = 12;
    config.validate(1).unwrap();
    config.llc.ways = 16;
    assert_eq!(
        config.validate(1).unwrap_err(),
        "llc.size is 24MiB; with 16 ways it must be 16 · 64B · a power of two, up to 1GiB, such as 32MiB"
    );
    config.llc.size = Bytes(0);
    assert!(config.validate(1).unwrap_err().ends_with("such as 1KiB"));
    (config.llc.size, config.llc.ways, config.llc.slices) = (Bytes(99 << 18), 11, 18);
    config.dca.policy.ways = WayMask::first(2);
    config.validate(1).unwrap();
    for (slices, mib) in [(22, 55), (10, 25)] {
        let llc = &mut config.llc;
        (llc.size, llc.ways, llc.slices) = (Bytes(mib << 20), 20, slices);
        config.validate(1).unwrap();
    }
    (config.llc.size, config.llc.ways, config.llc.slices) = (Bytes(11 << 21), 11, 18);
    assert_eq!(
        config.validate(1).unwrap_err(),
        "llc.size is 22MiB; with 11 ways in 18 slices it must be 11 · 9 · 64B · a power of two, up to 1GiB, such as 25344KiB"
    );
}

#[test]
fn each_limit_is_named_in_its_message() {
    type Breaks = fn(&mut MemoryConfig);
    let broken: [(Breaks, &str); 12] = [
        (|c| c.llc.slices = 0, "llc.slices is 0; it must be one of 1, 2, 4, 8, 10, 16, 18, 20, 22"),
        (|c| c.llc.slices = 12, "llc.slices is 12; it must be one of 1, 2, 4, 8, 10, 16, 18, 20, 22"),
        (
            |c| (c.llc.size, c.llc.slices) = (Bytes(8 << 10), 16),
            "llc.slices is 16; it must be at most 8, as many as there are sets",
        ),
        (|c| c.l1d.ways = 0, "l1d.ways is 0; it must be from 1 to 32"),
        (|c| c.l2.mshrs = 0, "l2.mshrs is 0; it must be from 1 to 256"),
        (|c| c.llc.core_ways = WayMask(1 << 16), "llc.core_ways is \"16\", but the LLC's ways are 0 to 15"),
        (
            |c| c.interconnect.bytes_per_cycle = 0,
            "interconnect.bytes_per_cycle is 0; it must be from 1 to 1024",
        ),
        (|c| c.dca.policy.l2_hart = 1, "dca.policy.l2_hart is 1, but the harts are 0 to 0"),
        (|c| c.l1d.prefetch.degree = 17, "l1d.prefetch.degree is 17; it must be from 1 to 16"),
        (|c| c.l1d.fill_ports = 3, "l1d.fill_ports is 3; it must be from 0 to 2"),
        (|c| c.l2.bytes_per_cycle = 2048, "l2.bytes_per_cycle is 2048; it must be from 0 to 1024"),
        (
            |c| c.l1d.bytes_per_cycle = 16,
            "l1d.bytes_per_cycle has no effect: a first-level cache serves an access per port; set l1d.ports, or l2.bytes_per_cycle",
        ),
    ];
    for (breaks, problem) in broken {
        let mut config = MemoryConfig::default();
        breaks(&mut config);
        assert_eq!(config.validate(1).unwrap_err(), problem);
    }
}
