//! Random requests for memcached, with several commands each, most of them well-formed.
//!
//! Commands that memcached does not define and the differences listed at the head of `protocol.h` are left
//! out.

use std::collections::HashMap;

use doorbell_sim::rng::Rng;

/// The same request for both servers; only the cas IDs differ.
#[derive(Default)]
pub struct Request {
    pub ours: Vec<u8>,
    pub theirs: Vec<u8>,
    /// Whether the request has a get, after which memcached treats incr and decr differently.
    has_get: bool,
}

impl Request {
    fn put(&mut self, text: impl AsRef<[u8]>) {
        self.ours.extend_from_slice(text.as_ref());
        self.theirs.extend_from_slice(text.as_ref());
    }
}

/// Last cas IDs of each key, ours and theirs.
pub type CasIds = HashMap<Vec<u8>, (u64, u64)>;

pub struct Commands {
    rng: Rng,
}

const COUNTS: &[&str] =
    &["0", "1", "7", "18446744073709551615", "18446744073709551616", "-1", "+3", "x", "4x", "1\t"];
const TIMES: &[&str] = &[
    "0",
    "0",
    "0",
    "100",
    "2592000",
    "2592001",
    "2000000000",
    "-1",
    "-99999999999",
    "x",
    "99999999999999999999",
];
const FLAGS: &[&str] =
    &["0", "0", "1", "4294967295", "4294967296", "-1", "-18446744073709551615", "f", "12 "];
const LENGTHS: &[&str] =
    &["-1", "x", "2147483647x", "4294967297", "99999999999999999999", "3-", "0x10", "--2", "5"];
const LINES: &[&str] = &[
    "",
    "\r",
    " ",
    "get",
    "gets",
    "gat",
    "gat 10",
    "gat x a",
    "set",
    "set a",
    "set a 0 0",
    "set a 0 0 1 2 3",
    "cas a 0 0 1",
    "add a 0 0",
    "delete",
    "delete a 0",
    "delete a 1",
    "delete a noreply",
    "delete a 0 noreply",
    "delete a 1 noreply",
    "delete a b c d",
    "incr",
    "incr a",
    "incr a 1 2 3",
    "touch a",
    "touch a 1 2 3",
    "touch a x",
    "verbosity",
    "verbosity x",
    "verbosity 0 1 2",
    "verbosity 0 noreply",
    "flush_all x",
    "flush_all x noreply",
    "flush_all 1 2 3",
    "GET a",
    "geta a",
    "ge a",
    "stats nothing",
    "get\0 a",
    "getsa",
    "g",
    "s",
    "bget a",
    "s t",
    "\t",
    "q",
];

impl Commands {
    pub fn new(seed: u64) -> Commands {
        Commands { rng: Rng::stream(seed, "memcached commands") }
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.rng.below(many) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.rng.below(from.len() as u64) as usize]
    }

    fn key(&mut self) -> Vec<u8> {
        match self.rng.below(20) {
            0 => vec![b'k'; 250],
            1 => vec![b'l'; 89],
            2 => b"\x80\xff+\t\r".to_vec(),
            other => vec![b'a' + (other % 6) as u8],
        }
    }

    fn noreply(&mut self) -> &'static str {
        if self.one_in(8) {
            " noreply\r\n"
        } else if self.one_in(30) {
            " more\r\n"
        } else {
            "\r\n"
        }
    }

    /// A random value, without a minus sign and not only white space: after these, memcached's incr would
    /// read remains of an older, longer value.
    fn value(&mut self) -> Vec<u8> {
        let length = match self.rng.below(30) {
            0 => self.rng.below(6000),
            // Lengths at which a reply needs a second datagram, then lengths at which an item needs a second
            // cell.
            1 => 1360 + self.rng.below(40),
            2..6 => 80 + self.rng.below(12),
            6..16 => return self.rng.below(300).to_string().into_bytes(),
            16 => return b"18446744073709551615".to_vec(),
            17 => return b" 5 6".to_vec(),
            _ => self.rng.below(30),
        };
        // A rejected value is parsed as commands. Long values contain no line ends, as the error replies
        // would overflow the socket.
        let letters = if length > 200 { 3 } else { 10 };
        let mut value: Vec<u8> =
            (0..length).map(|_| b"abc \r\n1+\0\xff"[self.rng.below(letters) as usize]).collect();
        if value.trim_ascii().is_empty() && !value.is_empty() {
            value[0] = b'a';
        }
        value
    }

    /// A storage command. A malformed one never announces more data than follow.
    fn store(&mut self, request: &mut Request, cas_ids: &CasIds) {
        let command = self.pick(&["set", "set", "set", "add", "replace", "append", "prepend", "cas"]);
        let key = if self.one_in(40) { vec![b'x'; 251] } else { self.key() };
        let value = self.value();
        let malformed = self.one_in(8);
        let odd = malformed && self.one_in(2);
        let flags = if malformed { self.pick(FLAGS) } else { "7" };
        let length = if odd { self.pick(LENGTHS).to_owned() } else { value.len().to_string() };
        let time = self.pick(if malformed { TIMES } else { &TIMES[..8] });
        request.put(format!("{command} "));
        request.put(key.as_slice());
        request.put(format!(" {flags} {time} {length}"));
        if command == "cas" {
            let wrong = if self.one_in(3) { Some(self.rng.below(5)) } else { None };
            let (ours, theirs) = match (wrong, cas_ids.get(&key)) {
                (None, Some(&both)) => both,
                (other, _) => (other.unwrap_or(0), other.unwrap_or(0)),
            };
            request.ours.extend_from_slice(format!(" {ours}").as_bytes());
            request.theirs.extend_from_slice(format!(" {theirs}").as_bytes());
        }
        request.put(self.noreply());
        request.put(value);
        request.put(if malformed && !odd { "ab\r\n" } else { "\r\n" });
        if malformed {
            request.put(b"so that there are always as many data as were announced\r\n");
        }
    }

    fn get(&mut self, request: &mut Request) {
        let command = self.pick(&["get", "gets", "get", "gets", "gat", "gats"]);
        request.put(command);
        if command.starts_with("gat") {
            let time = self.pick(&["0", "100", "-1", "2592001"]);
            request.put(format!(" {time}"));
        }
        let keys = if self.one_in(20) { 40 } else { 1 + self.rng.below(4) };
        for _ in 0..keys {
            request.put(if self.one_in(20) { "  " } else { " " });
            let key = self.key();
            request.put(key);
        }
        request.put(if self.one_in(10) { "\n" } else { "\r\n" });
        request.has_get = true;
    }

    fn change(&mut self, request: &mut Request) {
        let command = self.pick(&["incr", "decr", "incr", "decr", "touch", "delete"]);
        if request.has_get && matches!(command, "incr" | "decr") {
            return;
        }
        let key = if self.one_in(40) { vec![b'x'; 251] } else { self.key() };
        request.put(format!("{command} "));
        request.put(key);
        match command {
            "delete" => {}
            "touch" => request.put(format!(" {}", self.pick(TIMES))),
            _ => request.put(format!(" {}", self.pick(COUNTS))),
        }
        request.put(self.noreply());
    }

    /// An invalid line, or random characters.
    fn line(&mut self, request: &mut Request) {
        if self.one_in(2) {
            request.put(self.pick(LINES));
        } else {
            for _ in 0..self.rng.below(40) {
                request.put([b"getsdilcr 0179\t-\xf0"[self.rng.below(17) as usize]]);
            }
        }
        request.put("\r\n");
    }

    pub fn next(&mut self, cas_ids: &CasIds) -> Request {
        let mut request = Request::default();
        if self.one_in(50) {
            request.put(format!("get a {} b\r\n", "x".repeat(251)));
        }
        for _ in 0..=self.rng.below(4) {
            match self.rng.below(40) {
                0..14 => self.store(&mut request, cas_ids),
                14..26 => self.get(&mut request),
                26..34 => self.change(&mut request),
                34..38 => self.line(&mut request),
                38 if self.one_in(4) => {
                    request.put(self.pick(&["flush_all\r\n", "flush_all -1\r\n", "flush_all 0 noreply\r\n"]))
                }
                _ => request.put("verbosity 0\r\n"),
            }
        }
        if self.one_in(30) {
            request.put("get a");
        }
        request
    }
}
