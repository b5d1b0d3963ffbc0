//! The two servers under comparison: our store and protocol in `memcached-shell`, and Debian's memcached over
//! UDP loopback.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use doorbell_acceptance::memcached::Memcached;
pub use doorbell_acceptance::memcached::datagram;
use doorbell_acceptance::repository;

/// Size of memcached's UDP header in bytes.
pub const HEADER: usize = 8;
const CLOCK_STEP: u32 = 1 << 31;
/// Request ID of a datagram sent after each request to memcached. Its reply marks the end of the request's
/// replies.
const SENTINEL: u16 = 0xffff;

/// The programs' folder.
pub fn folder() -> PathBuf {
    repository().join("guest/programs/memcached-dpdk")
}

fn shell() -> &'static Path {
    static SHELL: OnceLock<PathBuf> = OnceLock::new();
    SHELL.get_or_init(|| {
        let program =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memcached-shell-{}", std::process::id()));
        let sources = ["memcached-shell.c", "protocol.c", "store.c", "number.c"];
        let output = Command::new("cc")
            .args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror"])
            .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
            .args(sources.map(|source| folder().join(source)))
            .arg("-o")
            .arg(&program)
            .output()
            .expect("there is a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    })
}

/// Our store and protocol, under the compiler's sanitizers.
pub struct Ours {
    child: Child,
    requests: Option<ChildStdin>,
    replies: ChildStdout,
}

impl Ours {
    /// Starts a store with `memory` bytes and `buckets` buckets, whose clock starts at the current time.
    pub fn start(memory: usize, buckets: usize) -> Ours {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
        let mut child = Command::new(shell())
            .args([memory.to_string(), buckets.to_string(), now.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the shell starts");
        let (requests, replies) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        Ours { child, requests, replies }
    }

    fn write(&mut self, number: u32, bytes: &[u8]) {
        let pipe = self.requests.as_mut().expect("it is open until the end");
        pipe.write_all(&number.to_le_bytes())
            .and_then(|()| pipe.write_all(bytes))
            .expect("the shell reads requests");
    }

    fn read(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        self.replies.read_exact(&mut length).expect("the shell replies; its error message is above");
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        self.replies.read_exact(&mut bytes).expect("it writes whole datagrams");
        (!bytes.is_empty()).then_some(bytes)
    }

    pub fn request(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.write(datagram.len() as u32, datagram);
        std::iter::from_fn(|| self.read()).collect()
    }

    /// Sends a request and returns the reply without headers.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> String {
        let replies = self.request(&datagram(1, text.as_ref()));
        replies.iter().map(|reply| String::from_utf8_lossy(&reply[HEADER..]).into_owned()).collect()
    }

    pub fn advance_clock(&mut self, seconds: u32) {
        self.write(CLOCK_STEP | seconds, &[]);
    }

    /// Ends the shell; fails if the sanitizers have found an error or a leak.
    pub fn end(mut self) {
        self.requests = None;
        assert!(self.child.wait().expect("it can be waited for").success());
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Debian's memcached.
pub struct Theirs(Memcached);

impl Theirs {
    pub fn start() -> Theirs {
        // Disable the segmented LRU: its maintainer thread briefly references items, and incr and decr
        // replace referenced items.
        Theirs(Memcached::start(&[], &["-o", "no_modern"], Duration::from_secs(10)))
    }

    /// Replies to one request. memcached answers requests in order, so the sentinel's reply follows the last
    /// one.
    pub fn request(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.0.socket.send(datagram).expect("memcached runs");
        self.0.socket.send(&self::datagram(SENTINEL, b"version\r\n")).expect("memcached runs");
        let mut replies = Vec::new();
        loop {
            let mut bytes = vec![0; 2048];
            let length = self.0.socket.recv(&mut bytes).unwrap_or_else(|error| {
                panic!("memcached does not reply ({error}) to {:?}", String::from_utf8_lossy(datagram))
            });
            bytes.truncate(length);
            if bytes[..2] == SENTINEL.to_be_bytes() {
                return replies;
            }
            replies.push(bytes);
        }
    }
}
