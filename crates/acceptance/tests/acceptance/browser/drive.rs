//! A browser that is told what to do over a pipe (Chrome DevTools Protocol, `--remote-debugging-pipe`): what it is asked is
//! answered when it is done, however fast the host is.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use doorbell_acceptance::scratch;
use serde_json::{Value, json};

/// Answers that a page owes for longer than this, in milliseconds, are not waited for.
const PATIENCE: u32 = 120_000;

/// The browser's program. Where no package has one, `--skip browser::` leaves these tests out, as tests/short does.
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
    /// The page's session; none speaks to the browser itself.
    session: Option<String>,
    number: u64,
    /// What came on the console since the page was opened.
    console: Vec<String>,
    /// The document that was loaded last, by its loader.
    loaded: Value,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let profile = scratch();
        // It reads requests from descriptor 3 and writes answers to 4.
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

    /// Opens a page in a window of this width, in the dark or not: what came on the console until it had loaded.
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
        // Its own script is done, and so is what that logged.
        self.ask("return 0;");
        self.console.clone()
    }

    /// What a script in the page answers, which is a function's body.
    pub fn ask(&mut self, script: &str) -> Value {
        let expression = format!(
            "Promise.race([(async () => {{\n{script}\n}})(),
                new Promise((_, no) => setTimeout(() => no(new Error('no answer in {PATIENCE} ms')), {PATIENCE}))])"
        );
        let how = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.request("Runtime.evaluate", how);
        assert!(answer.get("exceptionDetails").is_none(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Sends a request, and waits for its answer.
    fn request(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).expect("the browser listens");
        loop {
            let message = self.receive();
            if message["id"] == self.number {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Waits for the next message; what it tells of the page is noted.
    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.answers.read_until(0, &mut message).expect("the browser answers");
        assert_eq!(message.pop(), Some(0), "the browser has ended");
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
        // It has nothing to keep: its profile goes with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
