//! nginx and Apache answer wrk with the requested files, and with the specified mix. Needs tshark.

use std::path::Path;

use doorbell_acceptance::{doorbell, number, scratch, summary, tshark};
use serde_json::Value;

#[test]
#[ignore = "long: make test-long runs it"]
fn a_web_server_answers_with_the_requested_file() {
    for (server, file, duration) in
        [("nginx", 100, "10ms"), ("nginx", 10_000, "20ms"), ("apache", 10_000, "20ms")]
    {
        let found =
            summary(&format!("web --set web.server={server} --set web.file={file} --duration {duration}"));
        let each = number(&found, "/transfer/bytes_received") / number(&found, "/transfer/transactions");
        // The HTTP header precedes the file.
        let header = each - f64::from(file);
        assert!((150.0..500.0).contains(&header), "{server}, {file}: {each} bytes per reply: {found}");
        assert!(number(&found, "/transfer/drive_idle") > 0.05, "{found}");
    }
}

/// HTTP headers in a capture: the path of each request, or the status of each response.
fn http_headers(capture: &Path) -> Vec<[String; 2]> {
    let wanted = ["http.request.uri", "http.response.code"];
    let headers = tshark::fields(capture, "http.request || http.response", &wanted);
    headers.into_iter().map(|header| header.try_into().expect("two fields")).collect()
}

#[test]
#[ignore = "long: make test-long runs it"]
fn specweb99_mix_has_the_specified_shares_of_classes_files_directories_and_dynamic_pages() {
    for server in ["nginx", "apache"] {
        let folder = scratch();
        let out = folder.path().join("out");
        let options = "--preset fast --set web.mix=specweb99 --warmup 1ms --duration 60ms --pcap --json -q";
        let set = format!("web.server={server}");
        let words = ["run", "web", "--out", out.to_str().expect("a path in UTF-8"), "--set", &set];
        let words: Vec<&str> = words.into_iter().chain(options.split_whitespace()).collect();
        let found: Value = serde_json::from_str(&doorbell(&words).success()).expect("the summary");
        let headers = http_headers(&out.join("wire.pcap"));
        let paths: Vec<&String> =
            headers.iter().map(|[path, _]| path).filter(|path| !path.is_empty()).collect();
        let statuses: Vec<&String> =
            headers.iter().map(|[_, status]| status).filter(|status| !status.is_empty()).collect();
        assert!(statuses.iter().all(|status| *status == "200"), "{server}: {statuses:?}");
        // Each of 16 connections may have a truncated request or response at the start and the end of the
        // capture.
        assert!(
            statuses.len().abs_diff(paths.len()) <= 32,
            "{server}: {} of {}",
            statuses.len(),
            paths.len()
        );
        let parts =
            found.pointer("/transfer/over_time").and_then(Value::as_array).expect("figures over time");
        let of = |part: &Value| number(part, "/transactions_per_second") * number(part, "/length_ns") / 1e9;
        let counted: f64 = parts.iter().map(of).sum();
        // The count starts at a connection's first acknowledgement, and each connection may have a request in
        // flight at the end.
        assert!(
            counted > 1000.0 && (counted - paths.len() as f64).abs() <= 33.0,
            "{server}: {counted} counted"
        );
        // The random draws are reproducible. The tolerance is four standard deviations of a share of one
        // half.
        let off = 2.0 / (paths.len() as f64).sqrt();
        let share = |is: &dyn Fn(&str) -> bool| {
            paths.iter().filter(|path| is(path)).count() as f64 / paths.len() as f64
        };
        // Paths have the forms `/f/DD/C_F` and `/d?DD/C_F`: directory, class and file.
        for (at, text, expected) in [
            (6, "0", 0.35),
            (6, "1", 0.5),
            (6, "2", 0.14),
            (6, "3", 0.01),
            (8, "5", 0.353),
            (8, "1", 0.039),
            (1, "d?", 0.3),
            // The first of eight by Zipf's law: 1 / (1 + 1/2 + … + 1/8).
            (3, "00", 0.368),
            (3, "07", 0.046),
        ] {
            let found = share(&|path| path[at..].starts_with(text));
            assert!((found - expected).abs() < off, "{server}: {text} at {at}: {found} of {}", paths.len());
        }
    }
}
