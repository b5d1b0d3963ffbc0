//! The page is made from the file that a run writes, so both must use the same fields.

use doorbell_bench::{
    Change, Drops, Figure, FigureGroup, FunctionCost, KindCost, KindFigures, PointSummary, PortFigures,
    RunIdentity, RunSummary,
};
use doorbell_loadgen::{BatchSummary, Confidence};

fn batch(begin_ns: f64) -> BatchSummary {
    BatchSummary { begin_ns, offered: 5, delivered: 3, latency_ns_mean: Some(7e3), latency_ns_p99: None }
}

fn point() -> PointSummary {
    PointSummary {
        benchmark: "testpmd".into(),
        config_hash: "0".into(),
        rate: "1Mpps".into(),
        frame_size: 64,
        frames_offered: 10,
        frames_delivered: 7,
        frames_corrupt: 0,
        frames_timed_out: 1,
        frames_late: 0,
        frames_reordered: 2,
        frames_duplicate: 0,
        drop_rate: 0.3,
        drops: Drops { dma: 1, core: 1, guest: 1, ..Drops::default() },
        offered_gbps: 0.512,
        delivered_gbps: 0.3584,
        offered_mpps: 1.0,
        delivered_mpps: 0.7,
        arrived_mpps: 1.0,
        arrived_gbps: 0.512,
        wire_share: None,
        drive_behind: None,
        outstanding: None,
        latency_ns: None,
        latency_from_actual_ns: None,
        delay_variation_ns: None,
        confidence_95: Some(Confidence {
            batches: 40,
            batch_ns: 1e3,
            correlated: true,
            delivered_mpps: 0.0123,
            drop_rate: 0.01,
            latency_ns: None,
        }),
        not_steady: None,
        limit: None,
        steady: None,
        memory_over_time: Vec::new(),
        batches: [0.0, 1e3].map(batch).to_vec(),
        latency_stages_ns: None,
        latency_stages_by_queue: Vec::new(),
        streams: Vec::new(),
        simulated_seconds: 1e-5,
        instructions: 30_000,
        ipc: 1.0,
        instructions_per_frame: f64::INFINITY,
        timer_ticks: None,
        interrupts_per_second: None,
        host_seconds: 0.1,
        host_mips: 0.3,
        state_hash: "0".into(),
        timing: None,
        cores: Vec::new(),
        beside: Vec::new(),
        functions: Some(vec![FunctionCost {
            program: "dpdk-testpmd".into(),
            object: "librte_net_e1000.so.25.0".into(),
            function: "eth_em_recv_pkts".into(),
            cycles: 12_000,
            share: 0.75,
            instructions: 15_000,
            l1i_misses: 1,
            l1d_misses: 2,
            l2_misses: 3,
            llc_misses: 4,
        }]),
        kinds: Some(KindFigures {
            kinds: vec![KindCost {
                kind: "receive".into(),
                cycles: 12_000,
                share: 0.75,
                ..KindCost::default()
            }],
            cycles: 16_000,
            ..KindFigures::default()
        }),
        ports: vec![PortFigures {
            groups: vec![FigureGroup {
                title: "Statistics registers".into(),
                figures: vec![Figure { name: "GPRC".into(), value: 4_711 }],
            }],
            ..PortFigures::default()
        }],
        exit_status: None,
        iperf: None,
        transfer: None,
        played: None,
        network: None,
    }
}

#[test]
fn the_report_reads_all_fields_that_a_run_writes() {
    for points in [vec![point()], vec![point(), point()]] {
        let count = points.len();
        let summary = RunSummary {
            benchmark: "testpmd".into(),
            preset: "fast".into(),
            doorbell_version: "0".into(),
            command: "doorbell run testpmd".into(),
            ran: RunIdentity {
                doorbell_commit: "0123abcd".into(),
                images: Vec::new(),
                boot: "feed".into(),
                traces: Vec::new(),
            },
            incomplete: Some("1 of 3 loads was not measured".into()),
            changed: vec![Change { key: "nic.rx_fifo".into(), preset: "64KiB".into(), here: "4MiB".into() }],
            meanings: [("GPRC".to_owned(), "Good frames received".to_owned())].into(),
            points,
        };
        let read = doorbell_report::RunSummary::from_json(&summary.to_json()).unwrap();
        assert_eq!(read.points.len(), count);
        assert_eq!(read.points[0].drops.guest, 1);
        let page = doorbell_report::html_with(&read, "", &doorbell_report::PageLinks::default());
        for text in ["doorbell run testpmd", "Statistics registers", "4,711", "Good frames received"]
            .into_iter()
            .chain(["0123abcd", "feed", "1 of 3 loads was not"])
            .chain(["Not as in fast", "nic.rx_fifo", "0.0123", "40, correlated"])
        {
            assert!(page.contains(text), "{text}");
        }
        assert_eq!(page.contains("id=\"over-time"), count == 1, "time has one line a load");
    }
}
