//! redis-server answers redis-benchmark: the counted requests match the traffic on the cable.

use doorbell_acceptance::{number, summary};
use serde_json::Value;

/// Frames per transaction in each direction. Transactions in flight at the edges may count at one end only.
fn frames(of: &Value) -> [f64; 2] {
    let transactions = number(of, "/transfer/transactions");
    assert!(transactions > 200.0, "{of}");
    ["/transfer/wire_to_server/frames", "/transfer/wire_to_client/frames"]
        .map(|path| number(of, path) / transactions)
}

#[test]
#[ignore = "long: make test-long runs it"]
fn redis_answers_with_one_frame_per_request_and_fewer_when_pipelined() {
    for command in ["GET", "SET"] {
        let one = summary(&format!("redis --set redis.command={command} --duration 10ms"));
        // Acknowledgements are piggybacked on the next request.
        assert!(frames(&one).iter().all(|each| (0.9..1.15).contains(each)), "{command}: {one}");
        let many =
            summary(&format!("redis --set redis.command={command} --set redis.pipeline=16 --duration 10ms"));
        assert!(frames(&many).iter().all(|each| *each < 0.3), "{command}: {many}");
        let rate = |of: &Value| number(of, "/transfer/transactions_per_second");
        assert!(rate(&many) > 2.0 * rate(&one), "{command}: {many}");
    }
    let again = || summary("redis --duration 2ms")["state_hash"].clone();
    assert_eq!(again(), again());
}
