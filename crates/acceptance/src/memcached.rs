//! Debian's memcached on the host, over UDP loopback.

use std::net::UdpSocket;
use std::process::Child;
use std::time::Duration;

/// Number and interval of the `version` requests sent to a starting memcached until it answers.
const TRIES: u32 = 500;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// A running memcached; killed on drop.
#[derive(Debug)]
pub struct Memcached {
    /// Server process.
    pub child: Child,
    /// UDP socket connected to the server.
    pub socket: UdpSocket,
}

impl Memcached {
    /// Starts a server with one thread, 64 MB and these options, and waits until it answers. `under` is a
    /// prefix command (`["taskset", …]`) or empty; `patience` is the receive timeout.
    pub fn start(under: &[&str], options: &[&str], patience: Duration) -> Memcached {
        let here = || UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let socket = here();
        let port = here().local_addr().expect("it is bound").port();
        socket.connect(("127.0.0.1", port)).expect("an address");
        let usual = format!("-u nobody -l 127.0.0.1 -p 0 -U {port} -t 1 -m 64");
        let unprefixed = doorbell_oracle::memcached();
        let mut command =
            if under.is_empty() { unprefixed } else { doorbell_oracle::under(under, &unprefixed) };
        let child = command.args(usual.split(' ')).args(options).spawn().expect("memcached starts");
        let memcached = Memcached { child, socket };
        memcached.socket.set_read_timeout(Some(BETWEEN_TRIES)).expect("not zero");
        let answers = || {
            let sent = memcached.socket.send(&datagram(0, b"version\r\n"));
            sent.is_ok() && memcached.socket.recv(&mut [0; 2048]).is_ok()
        };
        let answers_after_delay = || {
            std::thread::sleep(BETWEEN_TRIES);
            answers()
        };
        assert!((0..TRIES).any(|_| answers_after_delay()), "memcached does not answer at UDP port {port}");
        // Discard answers to earlier tries.
        while memcached.socket.recv(&mut [0; 2048]).is_ok() {}
        memcached.socket.set_read_timeout(Some(patience)).expect("not zero");
        memcached
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Datagram of a request: memcached's UDP header, then the text.
pub fn datagram(id: u16, text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![(id >> 8) as u8, id as u8, 0, 0, 0, 1, 0, 0];
    bytes.extend_from_slice(text);
    bytes
}
