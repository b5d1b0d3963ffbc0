//! Debian's memcached on the host, over UDP loopback.

use std::net::UdpSocket;
use std::process::Child;
use std::time::Duration;

/// How often, and how far apart, a memcached that starts is asked whether it answers.
const TRIES: u32 = 500;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// A memcached that answers; it ends with this value.
#[derive(Debug)]
pub struct Memcached {
    /// Its process.
    pub child: Child,
    /// Sends to it and receives from it, nothing else.
    pub socket: UdpSocket,
}

impl Memcached {
    /// Starts one with a thread, 64 MB and these options, under this command (`["taskset", …]`) if there is one, and waits until
    /// it answers. A receive that waits for `patience` has failed.
    pub fn start(under: &[&str], options: &[&str], patience: Duration) -> Memcached {
        let here = || UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let socket = here();
        let port = here().local_addr().expect("it is bound").port();
        socket.connect(("127.0.0.1", port)).expect("an address");
        let usual = format!("-u nobody -l 127.0.0.1 -p 0 -U {port} -t 1 -m 64");
        let alone = doorbell_oracle::memcached();
        let mut command = if under.is_empty() { alone } else { doorbell_oracle::under(under, &alone) };
        let child = command.args(usual.split(' ')).args(options).spawn().expect("memcached starts");
        let memcached = Memcached { child, socket };
        memcached.socket.set_read_timeout(Some(BETWEEN_TRIES)).expect("not zero");
        let answers = || {
            let sent = memcached.socket.send(&datagram(0, b"version\r\n"));
            sent.is_ok() && memcached.socket.recv(&mut [0; 2048]).is_ok()
        };
        let patiently = || {
            std::thread::sleep(BETWEEN_TRIES);
            answers()
        };
        assert!((0..TRIES).any(|_| patiently()), "memcached does not answer at UDP port {port}");
        // Answers to earlier tries may be on their way.
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

/// A request's datagram: memcached's header, and the text.
pub fn datagram(id: u16, text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![(id >> 8) as u8, id as u8, 0, 0, 0, 1, 0, 0];
    bytes.extend_from_slice(text);
    bytes
}
