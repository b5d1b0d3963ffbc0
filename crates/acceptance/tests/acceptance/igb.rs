//! The 82576 in whole machines: Linux' igb driver passes its own self-test, spreads flows over its queues, each of which interrupts a
//! core of its own, and moves TCP with every offload; DPDK's forwards without loss.

use doorbell_acceptance::net_guest::{boot, run};
use doorbell_acceptance::{quiet, session, timed_session};
use doorbell_bench::{Point, run_point};
use doorbell_sim::Bytes;

const MODEL: &str = "nic.model=\"82576\"";

/// 10.0.0.254 sends everything back with its addresses exchanged.
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

#[test]
fn linux_spreads_flows_over_queues_that_interrupt_a_core_each() {
    let harts = 4;
    let aia = ["platform.interrupts=aia", "platform.harts=4", MODEL];
    let mut machine = boot(&aia, "doorbell.app=ours", SCRIPT, &[]);
    let console = run(&mut machine);
    for (line, times) in [("self-test ok", 1), ("ping ok", 1), ("file ok", 8)] {
        assert_eq!(console.matches(line).count(), times, "{line}: {console}");
    }
    // Each row has a count for each core: the queue's own, and zeros.
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
    assert!(nic.stats().tx_segments > 100, "TCP was segmented by the NIC");
    let used = nic.queue_stats().iter().filter(|queue| queue.rx_delivered > 0 && queue.tx_frames > 0);
    assert!(used.count() > 1, "{:?}", nic.queue_stats());
}

#[test]
fn dpdk_forwards_every_frame() {
    let session = session(&[MODEL], &["run.warmup=100us", "run.duration=500us"]);
    let point =
        quiet(|control| run_point(&session, "1Mpps".parse().unwrap(), Bytes(64), None, control)).unwrap();
    assert_eq!((point.summary.frames_offered, point.summary.frames_delivered), (500, 500));
    point.machine.check_conservation();
    let queues = &point.summary.ports[0].queues;
    assert_eq!(queues.len(), 1, "testpmd uses one queue");
}

/// Two cores forward, each by a queue of its own, as RSS spreads a hundred flows.
const TWO_QUEUES: [&str; 4] = [MODEL, "testpmd.cores=2", "platform.harts=2", "platform.ram=\"256MiB\""];
const FLOWS: &str = "loadgen.traffic.streams=[{rate=\"4Mpps\", sweeps=[{field=\"source-port\", count=100}]}]";

/// Misses of packets' headers in a core's L2.
fn header_misses(point: &Point, hart: usize) -> f64 {
    let figures = &point.summary.cores[hart].figures;
    let l2 = figures.0.iter().find(|group| group.name == "L2").expect("cores have an L2");
    let misses = l2.figures.iter().find(|figure| figure.name == "header_misses_per_packet");
    misses.and_then(|figure| figure.value).expect("frames were forwarded")
}

#[test]
fn a_queue_s_headers_go_to_the_cache_of_the_core_that_is_named_for_it() {
    let forwarded = |set: &[&str]| {
        let others = [&[FLOWS, "run.warmup=200us", "run.duration=50us"], set].concat();
        let session = timed_session(&TWO_QUEUES, &others);
        let rate = "4Mpps".parse().unwrap();
        let point = quiet(|control| run_point(&session, rate, Bytes(64), None, control)).unwrap();
        assert_eq!(point.summary.frames_delivered, point.summary.frames_offered);
        [0, 1].map(|hart| header_misses(&point, hart))
    };
    let [first, second] = forwarded(&[r#"memory.dca.queues=[{queue=1, headers="l2", l2_hart=1}]"#]);
    assert!(first > 0.3 && second < 0.02, "the second queue's are in its core's L2: {first} {second}");
    let [first, second] = forwarded(&[r#"memory.dca.policy.headers="queue-l2""#]);
    assert!(first < 0.02 && second < 0.02, "both queues' are: {first} {second}");
}
