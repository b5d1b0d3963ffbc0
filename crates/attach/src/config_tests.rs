use super::*;

fn read(text: &str) -> Result<AttachConfig, String> {
    let config: AttachConfig = toml::from_str(text).map_err(|error| error.to_string())?;
    config.validate().map(|()| config)
}

const BUS: &str = "kind = \"bus\"\nstages = [{width = \"8B\", clock = \"133MHz\"}]";

#[test]
fn a_kind_is_selected_by_name_and_has_defaults() {
    assert_eq!(read("").unwrap().kind, AttachKind::Pcie);
    assert_eq!(read("").unwrap().chain(), None);
    let bus = read(BUS).unwrap();
    assert_eq!((bus.entry(), bus.resolved().burst), (DmaEntryPoint::RootComplex, Some(Bytes(64))));
    assert!(bus.chain().unwrap().reads_push_writes, "default: the rules of PCI");
    let crossbar = read(&format!("reads_push_writes = false\n{BUS}")).unwrap();
    assert!(!crossbar.chain().unwrap().reads_push_writes);
    assert_eq!(read("kind = \"memory-bus\"").unwrap().entry(), DmaEntryPoint::MemoryBus);
    let llc = read("kind = \"llc\"\nclock = \"3GHz\"").unwrap();
    assert_eq!((llc.entry(), llc.resolved().clock), (DmaEntryPoint::Llc, Some(Hertz(3_000_000_000))));
    let stage = &llc.chain().unwrap().stages[0];
    assert_eq!((stage.width, stage.address_cycles, stage.full_duplex), (Bytes(32), 0, true));
    assert_eq!(read(&format!("{BUS}\nenters = \"llc\"")).unwrap().entry(), DmaEntryPoint::Llc);
}

#[test]
fn a_resolved_configuration_reads_back_the_same() {
    for text in ["", BUS, "kind = \"llc\"", "kind = \"memory-bus\"\noutstanding = 3"] {
        let config = read(text).unwrap();
        let whole = config.resolved();
        assert_eq!(read(&toml::to_string(&whole).unwrap()).unwrap(), whole);
        assert_eq!((whole.chain(), whole.resolved()), (config.chain(), whole.clone()));
    }
}

#[test]
fn invalid_parameters_are_rejected_by_name() {
    for (text, expected) in [
        ("kind = \"isa\"", "unknown variant `isa`"),
        ("kind = \"bus\"", "stages is missing"),
        ("kind = \"bus\"\nstages = []", "stages has 0 entries"),
        ("kind = \"bus\"\nstages = [{width = \"8B\"}]", "missing field `clock`"),
        ("kind = \"bus\"\nstages = [{width = \"0B\", clock = \"1GHz\"}]", "stages[0].width is 0B"),
        ("kind = \"bus\"\nstages = [{width = \"8B\", clock = \"0Hz\"}]", "stages[0].clock is 0Hz"),
        (
            "kind = \"bus\"\nstages = [{width = \"8B\", clock = \"1GHz\", buffer = 0}]",
            "stages[0].buffer is 0",
        ),
        (
            "kind = \"bus\"\nstages = [{width = \"8B\", clock = \"1GHz\", latency = \"2ms\"}]",
            "stages[0].latency is 2ms",
        ),
        (
            "kind = \"bus\"\nstages = [{width = \"8B\", clock = \"1GHz\", split = false, full_duplex = true}]",
            "stages[0].full_duplex",
        ),
        (
            "kind = \"bus\"\nwidth = \"8B\"",
            "width applies to kind \"memory-bus\", \"llc\", \"llc-headers\" only, not to \"bus\"",
        ),
        ("reads_push_writes = false", "reads_push_writes applies to kind \"bus\" only, not to \"pcie\""),
        ("kind = \"llc\"\nstages = []", "stages applies to kind \"bus\" only, not to \"llc\""),
        ("kind = \"llc\"\nwidth = \"0B\"", "width is 0B"),
        ("kind = \"memory-bus\"\nclock = \"0Hz\"", "clock is 0Hz"),
        ("kind = \"memory-bus\"\noutstanding = 0", "outstanding is 0"),
        ("kind = \"llc\"\nregister_latency = \"2ms\"", "register_latency is 2ms"),
        ("register_latency = \"2ns\"", "register_latency applies to kind"),
        (
            "latency = \"2ns\"",
            "latency applies to kind \"memory-bus\", \"llc\", \"llc-headers\" only, not to \"pcie\"",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = read(&format!("{BUS}\nburst = \"48B\"")).unwrap_err();
    assert!(error.starts_with("burst is 48B"), "{error}");
}

#[test]
fn the_functional_path_sums_latencies_and_has_the_narrowest_stages_bandwidth() {
    let text = "kind = \"bus\"\nregister_latency = \"30ns\"\nstages = [
        {width = \"8B\", clock = \"100MHz\", latency = \"5ns\", bridge_latency = \"50ns\"},
        {width = \"16B\", clock = \"1GHz\", latency = \"7ns\", address_cycles = 0}]";
    let path = read(text).unwrap().chain().unwrap().path();
    assert_eq!(path.latency, Ps::from_ns(62));
    assert_eq!((path.up_bandwidth, path.down_bandwidth.0), (BitsPerSec(6_400_000_000), 6_400_000_000));
    assert_eq!(path.request_overhead, Bytes(8), "an address cycle");
    // Address and data on the first bus, data on the second, and half the device's response time.
    assert_eq!(path.mmio_latency, Ps::from_ns(62 + 20 + 1 + 15));
}
