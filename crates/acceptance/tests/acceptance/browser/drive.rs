//! Drives a browser over a pipe (Chrome DevTools Protocol, `--remote-debugging-pipe`). Each request is
//! answered when it is complete, so that checks do not depend on the host's speed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use doorbell_acceptance::scratch;
use serde_json::{Value, json};

/// Timeout of a script, in milliseconds.
const PATIENCE: u32 = 120_000;

/// Path of the browser. If none can be installed, skip these tests with `--skip browser::`, as tests/short
/// does.
fn program() -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    found.expect("a browser is installed (package chromium; tools/setup test installs it)")
}

/// A browser with one page.
pub struct Browser {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Session ID of the page; `None` addresses the browser itself.
    session: Option<String>,
    number: u64,
    /// Console messages since the page was opened.
    console: Vec<String>,
    /// Loader ID of the last loaded document.
    loaded: Value,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let profile = scratch();
        // The browser reads requests from descriptor 3 and writes responses to descriptor 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 < /dev/null > /dev/null 2>&1"]).arg(program());
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ]);
        command.arg("--remote-debugging-pipe").arg(format!("--user-data-dir={}", profile.path().display()));
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the browser starts");
        let mut own = Self {
            requests: process.stdin.take().expect("a pipe"),
            answers: BufReader::new(process.stdout.take().expect("a pipe")),
            process,
            session: None,
            number: 0,
            console: Vec::new(),
            loaded: Value::Null,
            _profile: profile,
        };
        let page = own.request("Target.createTarget", json!({ "url": "about:blank" }));
        let session =
            own.request("Target.attachToTarget", json!({ "targetId": page["targetId"], "flatten": true }));
        own.session = Some(session["sessionId"].as_str().expect("a session").to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            own.request(&format!("{domain}.enable"), json!({}));
        }
        own.request("Page.setLifecycleEventsEnabled", json!({ "enabled": true }));
        own
    }

    /// Opens a page with this window width and colour scheme; returns the console messages until it has
    /// loaded.
    pub fn open(&mut self, page: &Path, (width, dark): (u32, bool)) -> Vec<String> {
        let size = json!({ "width": width, "height": 3000, "deviceScaleFactor": 1, "mobile": false });
        self.request("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        self.request("Emulation.setEmulatedMedia", json!({ "features": [scheme] }));
        self.console.clear();
        let document = self.request("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        while self.loaded != document["loaderId"] {
            self.receive();
        }
        // Wait until the page's own script has run and its console messages have arrived.
        self.evaluate("return 0;");
        self.console.clone()
    }

    /// Runs a function body in the page and returns its result.
    pub fn evaluate(&mut self, script: &str) -> Value {
        let expression = format!(
            "Promise.race([(async () => {{\n{script}\n}})(),
                new Promise((_, no) => setTimeout(() => no(new Error('no answer in {PATIENCE} ms')), {PATIENCE}))])"
        );
        let how = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.request("Runtime.evaluate", how);
        assert!(answer.get("exceptionDetails").is_none(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Sends a request and waits for its response.
    fn request(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).expect("the browser accepts requests");
        loop {
            let message = self.receive();
            if message["id"] == self.number {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Waits for the next message, and records load events and console messages.
    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.answers.read_until(0, &mut message).expect("the browser sends messages");
        assert_eq!(message.pop(), Some(0), "the browser has exited");
        let message: Value = serde_json::from_slice(&message).expect("messages are JSON");
        match message["method"].as_str() {
            Some("Page.lifecycleEvent") if message["params"]["name"] == "load" => {
                self.loaded = message["params"]["loaderId"].clone();
            }
            Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") => {
                self.console.push(message["params"].to_string());
            }
            _ => {}
        }
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The profile folder is deleted too, so the browser needs no orderly shutdown.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
