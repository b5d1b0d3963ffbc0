//! Compares percentiles with numpy's (package python3-numpy), on the exact samples.

use std::io::Write;
use std::process::{Command, Stdio};

use doorbell_loadgen::Latency;
use doorbell_sim::Ps;
use doorbell_sim::rng::Rng;

const SHARES: [u64; 9] = [1, 100, 2_500, 5_000, 9_000, 9_900, 9_990, 9_999, 10_000];

/// Reads samples, one per line; prints percentiles, mean and standard deviation.
const SCRIPT: &str = "
import sys, numpy
samples = numpy.array([int(line) for line in sys.stdin], dtype=numpy.float64)
shares = [float(share) / 100 for share in sys.argv[1:]]
for value in numpy.percentile(samples, shares, method='inverted_cdf'): print(int(value))
print(repr(float(samples.mean()))); print(repr(float(samples.std())))
";

fn numpy(samples: &[u64]) -> Vec<f64> {
    let shares = SHARES.map(|share| share.to_string());
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", SCRIPT])
        .args(shares)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let text: String = samples.iter().map(|sample| format!("{sample}\n")).collect();
    child.stdin.take().expect("stdin is piped").write_all(text.as_bytes()).expect("python reads");
    let output = child.wait_with_output().expect("python ends");
    assert!(output.status.success(), "this check needs numpy (package python3-numpy)");
    let text = String::from_utf8(output.stdout).expect("python writes text");
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

#[test]
fn percentiles_mean_and_deviation_match_numpy_within_a_bucket() {
    let mut rng = Rng::stream(1, "numpy");
    // Few and many samples, with narrow and wide (nine decades) distributions. Counts are not round, because
    // numpy computes ranks in floating point, where 99.9 % of 1000 is slightly above 999.
    for (count, spread) in [(1, 4), (2, 20), (997, 20), (1_003, 33), (40_009, 8), (40_009, 33)] {
        let mut sample = || {
            let bits = rng.below(spread);
            2_000_000 + rng.below(1 << bits)
        };
        let samples: Vec<u64> = (0..count).map(|_| sample()).collect();
        let mut latency = Latency::default();
        samples.iter().for_each(|sample| latency.record(Ps(*sample)));
        let expected = numpy(&samples);
        for (share, exact) in SHARES.iter().zip(&expected) {
            let found = latency.percentile(*share, 10_000).expect("there are samples").0 as f64;
            assert!(
                (0.0..=exact / 1024.0).contains(&(found - exact)),
                "{share}: {found}, numpy says {exact}"
            );
        }
        let summary = latency.summary().expect("there are samples");
        for (own, numpys) in
            [(summary.mean, expected[SHARES.len()]), (summary.stddev, expected[SHARES.len() + 1])]
        {
            assert!(
                (own * 1e3 - numpys).abs() <= 1e-9 * summary.max * 1e3,
                "{own} ns, numpy says {numpys} ps"
            );
        }
    }
}
