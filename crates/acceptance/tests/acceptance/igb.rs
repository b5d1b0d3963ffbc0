//! The 82576 in whole machines. Linux's igb driver passes its self-test, spreads flows over queues that
//! interrupt one core each, and transfers TCP with all offloads. DPDK's driver forwards without loss.

use doorbell_acceptance::net_guest::{boot, run};
use doorbell_acceptance::{quiet, run_point, session, timed_session};
use doorbell_bench::Point;
use doorbell_sim::Bytes;

const MODEL: &str = "nic.model=\"82576\"";

/// Self-test, ping and file transfers. 10.0.0.254 returns every frame with swapped addresses.
const SCRIPT: &str = r"
ethtool -t eth0 offline && echo self-test ok
until read -r carrier < /sys/class/net/eth0/carrier && [ $carrier = 1 ]; do busybox usleep 10000; done
ping -q -c 1 -W 1 10.0.0.1 && echo ping ok
busybox dd if=/dev/urandom of=/srv/file bs=64k count=4 2> /dev/null
busybox httpd -h /srv
for turn in 1 2 3 4 5 6 7 8; do
    busybox wget -q -O - http://10.0.0.254/file | busybox cmp - /srv/file && echo file ok
done
busybox grep eth0-rx- /proc/interrupts
";

/// Exercises all ethtool options for queues. `queues` prints the frames received per queue. `interrupts`
/// prints the sum over all vectors and the time since boot in hundredths of a second.
const ETHTOOL: &str = r"
queues() { echo queues $1 $(ethtool -S eth0 | busybox sed -n 's/ *rx_queue_[0-9]*_packets: //p'); }
interrupts() {
    sum=$(busybox awk '/eth0-rx-/ { for (n = 2; n < 6; n++) sum += $n } END { print sum }' /proc/interrupts)
    echo interrupts $1 $sum $(busybox awk '{ print int(100 * $1) }' /proc/uptime)
}
load() {
    for turn in 1 2 3 4 5 6; do
        busybox wget -q -O - http://10.0.0.254/file | busybox cmp - /srv/file || echo file differs
    done
}
datagrams() { iperf3 -c 10.0.0.254 -u -P 8 -l 64 -b 20K -t 1 > /dev/null || echo no datagrams; }
packets() { echo packets $1 $(ethtool -S eth0 | busybox sed -nE 's/ *[rt]x_(queue_[0-9]*_)?packets: //p'); }
iperf3 -s -D > /dev/null
ethtool -l eth0 | busybox grep Combined
ethtool -x eth0 | busybox grep 'indirection table'
queues begin
packets begin
load
queues spread
ethtool -X eth0 weight 0 0 0 1
queues unweighted
load
queues weighted
ethtool -X eth0 default
ethtool -N eth0 rx-flow-hash udp4 sd
queues udp
datagrams
queues together
ethtool -N eth0 rx-flow-hash udp4 sdfn
queues otherwise
datagrams
queues apart
ethtool -C eth0 rx-usecs 10
interrupts begin
load
interrupts often
ethtool -C eth0 rx-usecs 5000
interrupts later
load
interrupts seldom
ethtool -c eth0 | busybox grep rx-usecs:
busybox usleep 50000
packets end
ethtool -L eth0 combined 2
ethtool -x eth0 | busybox grep 'indirection table'
";

/// The numbers on the console line that starts with `words`.
fn numbers(console: &str, words: &str) -> Vec<u64> {
    let line = console.lines().find_map(|line| line.trim_end().strip_prefix(words));
    let line = line.unwrap_or_else(|| panic!("no line starts with {words}: {console}"));
    line.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Checks the effects of `ethtool -l -L -x -X -N -C -S` on the console.
fn check_ethtool(console: &str) {
    assert!(!console.contains("differs") && !console.contains("no datagrams"), "{console}");
    let at = |moment: &str| numbers(console, &format!("queues {moment} "));
    let grown = |from: &str, to: &str| -> Vec<u64> {
        at(from).iter().zip(at(to)).map(|(before, after)| after - before).collect()
    };
    let used = |grown: &[u64], least: u64| grown.iter().filter(|frames| **frames >= least).count();
    assert!(console.contains("table for eth0 with 4 RX ring(s)"), "-l, -x: {console}");
    assert!(console.contains("table for eth0 with 2 RX ring(s)"), "-L: {console}");
    assert!(used(&grown("begin", "spread"), 1) > 1, "{console}");
    let weighted = grown("unweighted", "weighted");
    assert!(weighted[3] > 100 && weighted[..3].iter().sum::<u64>() < 10, "-X: {weighted:?}");
    // Eight flows of about forty datagrams in both directions, and iperf3's control connection over TCP.
    let (together, apart) = (grown("udp", "together"), grown("otherwise", "apart"));
    assert_eq!(used(&together, 240), 1, "without ports all flows have the same hash: {together:?}");
    assert!(used(&apart, 30) > 1, "-N: {apart:?}");
    // Interrupts and elapsed hundredths of a second.
    let passed = |from: &str, to: &str| {
        let [from, to] = [from, to].map(|moment| numbers(console, &format!("interrupts {moment} ")));
        (to[0] - from[0], to[1] - from[1] + 1)
    };
    let (often, seldom) = (passed("begin", "often"), passed("later", "seldom"));
    // Five vectors with at most 200 interrupts per second each.
    assert!(seldom.0 <= 5 * (2 * seldom.1 + 1), "-C: {seldom:?}");
    assert!(often.0 * seldom.1 > 4 * seldom.0 * often.1, "-C: {often:?} {seldom:?}");
    // Received and sent packets, then packets per transmit queue and per receive queue.
    let [before, after] = ["begin", "end"].map(|moment| numbers(console, &format!("packets {moment} ")));
    let packets: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let sums = [packets[6..].iter().sum::<u64>(), packets[2..6].iter().sum()];
    assert_eq!((packets.len(), [packets[0], packets[1]]), (10, sums), "-S: {packets:?}");
}

#[test]
fn drops_under_overload_are_counted_per_queue_and_cause() {
    let others = ["loadgen.traffic.streams=[{rate=\"40Mpps\", sweeps=[{field=\"source-port\", count=100}]}]"];
    let session = session(&TWO_QUEUES, &[&others[..], &["run.warmup=100us", "run.duration=300us"]].concat());
    let rate = "40Mpps".parse().unwrap();
    let point = quiet(|control| run_point(&session, rate, Bytes(64), control)).unwrap();
    point.machine.check_conservation();
    let port = &point.summary.ports[0];
    let of = |queue: usize, name: &str| {
        let figure = port.queues[queue].figures.iter().find(|figure| figure.name == name);
        figure.unwrap_or_else(|| panic!("queues have no counter {name}")).value
    };
    let sum = |name: &str| -> u64 { (0..port.queues.len()).map(|queue| of(queue, name)).sum() };
    assert_eq!(port.queues.len(), 2);
    for name in
        ["rx_drop_dma", "rx_drop_core", "rx_drop_tx", "rx_fifo_full", "rx_descriptors", "tx_descriptors"]
    {
        assert_eq!(sum(name), port.value(name), "{name}");
    }
    let lost = sum("rx_drop_dma") + sum("rx_drop_core") + sum("rx_drop_tx");
    assert!(lost > 1000 && lost == sum("rx_fifo_full"), "{port:?}");
    assert_eq!(sum("rx_offered"), port.value("GPRC") + port.value("MPC"), "frames that passed the filters");
    assert_eq!((sum("rx_frames"), sum("tx_frames")), (port.value("GPRC"), port.value("GPTC")));
}

#[test]
fn linux_igb_spreads_flows_over_queues_with_one_core_each_and_ethtool_options_work() {
    let harts = 4;
    let aia = ["platform.interrupts=aia", "platform.harts=4", MODEL];
    let mut machine = boot(&aia, "doorbell.app=ours", &[SCRIPT, ETHTOOL].concat(), &[]);
    let console = run(&mut machine);
    check_ethtool(&console);
    for (line, times) in [("self-test ok", 1), ("ping ok", 1), ("file ok", 8)] {
        assert_eq!(console.matches(line).count(), times, "{line}: {console}");
    }
    // Each row has one count per core: nonzero for the queue's core only.
    let rows: Vec<Vec<u64>> = console
        .lines()
        .filter(|line| line.contains(" eth0-rx-"))
        .map(|line| line.split_whitespace().skip(1).take(harts).map(|count| count.parse().unwrap()).collect())
        .collect();
    assert_eq!(rows.len(), harts, "{console}");
    for (queue, counts) in rows.iter().enumerate() {
        for (hart, count) in counts.iter().enumerate() {
            assert_eq!(*count > 0, hart == queue, "queue {queue}: {counts:?}");
        }
    }
    let nic = machine.nic(0);
    assert!(nic.stats().tx_segments > 100, "the NIC segments TCP");
    let used = nic.queue_stats().iter().filter(|queue| queue.rx_delivered > 0 && queue.tx_frames > 0);
    assert!(used.count() > 1, "{:?}", nic.queue_stats());
}

#[test]
fn dpdk_forwards_every_frame() {
    let session = session(&[MODEL], &["run.warmup=100us", "run.duration=500us"]);
    let point = quiet(|control| run_point(&session, "1Mpps".parse().unwrap(), Bytes(64), control)).unwrap();
    assert_eq!((point.summary.frames_offered, point.summary.frames_delivered), (500, 500));
    point.machine.check_conservation();
    let queues = &point.summary.ports[0].queues;
    assert_eq!(queues.len(), 1, "testpmd uses one queue");
}

/// Two cores forward with one queue each; RSS spreads a hundred flows over them.
const TWO_QUEUES: [&str; 4] = [MODEL, "testpmd.cores=2", "platform.harts=2", "platform.ram=\"256MiB\""];
const FLOWS: &str = "loadgen.traffic.streams=[{rate=\"4Mpps\", sweeps=[{field=\"source-port\", count=100}]}]";

/// Packet header misses per packet in a core's L2.
fn header_misses(point: &Point, hart: usize) -> f64 {
    let figures = &point.summary.cores[hart].figures;
    let l2 = figures.0.iter().find(|group| group.name == "L2").expect("cores have an L2");
    let misses = l2.figures.iter().find(|figure| figure.name == "header_misses_per_packet");
    misses.and_then(|figure| figure.value).expect("frames were forwarded")
}

#[test]
#[ignore = "long: make test-long runs it"]
fn dca_writes_headers_to_the_l2_of_the_queues_core() {
    let forwarded = |set: &[&str]| {
        let others = [&[FLOWS, "run.warmup=200us", "run.duration=50us"], set].concat();
        let session = timed_session(&TWO_QUEUES, &others);
        let rate = "4Mpps".parse().unwrap();
        let point = quiet(|control| run_point(&session, rate, Bytes(64), control)).unwrap();
        assert_eq!(point.summary.frames_delivered, point.summary.frames_offered);
        [0, 1].map(|hart| header_misses(&point, hart))
    };
    let [first, second] = forwarded(&[r#"memory.dca.queues=[{queue=1, headers="l2", l2_hart=1}]"#]);
    assert!(first > 0.3 && second < 0.02, "headers of queue 1 are in the L2 of hart 1: {first} {second}");
    let [first, second] = forwarded(&[r#"memory.dca.policy.headers="queue-l2""#]);
    assert!(
        first < 0.02 && second < 0.02,
        "headers of both queues are in the L2s of their cores: {first} {second}"
    );
}
