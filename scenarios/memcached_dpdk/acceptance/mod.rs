//! `guest/programs/memcached-dpdk` without its network: compared with Debian's memcached and with a simple
//! list model, and fed hostile datagrams. It runs under the address and undefined-behaviour sanitizers. Then the
//! whole program in a guest.

use std::collections::HashMap;
use std::time::Duration;

use doorbell_acceptance::{answers_the_example_of_requests, short_or_long};
use doorbell_sim::rng::Rng;

mod commands;
mod native;
mod sides;

use commands::{CasIds, Commands};
use sides::{HEADER, Ours, Theirs, datagram};

const MEMORY: usize = 16 << 20;

/// Assembles datagrams into replies: the headers and the text of each.
fn replies(datagrams: &[Vec<u8>]) -> Vec<(Vec<Vec<u8>>, Vec<u8>)> {
    let mut found: Vec<(Vec<Vec<u8>>, Vec<u8>)> = Vec::new();
    for bytes in datagrams {
        let (header, text) = bytes.split_at(HEADER);
        // memcached sends an empty datagram with a count of zero before the END of a get that finds nothing,
        // when its reply buffers are used up (about every 20th in one request).
        if header[4..6] == [0, 0] && text.is_empty() {
            continue;
        }
        if header[2..4] == [0, 0] {
            found.push((vec![header.to_vec()], text.to_vec()));
        } else {
            let last = found.last_mut().expect("a reply starts with datagram 0");
            last.0.push(header.to_vec());
            last.1.extend_from_slice(text);
        }
    }
    found
}

/// Removes the cas ID from the reply to a `gets`; returns key and ID.
fn take_cas(text: &mut Vec<u8>) -> Option<(Vec<u8>, u64)> {
    let end = text.windows(2).position(|pair| pair == b"\r\n")?;
    let words: Vec<Vec<u8>> = text[..end].split(|&letter| letter == b' ').map(<[u8]>::to_vec).collect();
    let [value, key, _, _, cas] = words.as_slice() else { return None };
    let cas_number = std::str::from_utf8(cas).ok()?.parse().ok()?;
    if value != b"VALUE" {
        return None;
    }
    text.drain(end - cas.len()..end);
    Some((key.clone(), cas_number))
}

/// Sends a request to both servers and compares the replies. Cas IDs must identify the same items.
fn compare(
    ours: &mut Ours,
    theirs: &mut Theirs,
    id: u16,
    both: (&[u8], &[u8]),
    cas_ids: &mut CasIds,
    names: &mut Names,
) {
    let (our_replies, their_replies) =
        (replies(&ours.request(&datagram(id, both.0))), replies(&theirs.request(&datagram(id, both.1))));
    let request = String::from_utf8_lossy(both.0);
    assert_eq!(our_replies.len(), their_replies.len(), "{request:?}: {our_replies:?} {their_replies:?}");
    for ((our_headers, mut our_text), (their_headers, mut their_text)) in
        our_replies.into_iter().zip(their_replies)
    {
        // memcached's cas IDs may have more digits, so that a reply needs another datagram.
        let as_long = our_text.len() == their_text.len();
        let cas = (take_cas(&mut our_text), take_cas(&mut their_text));
        let shown = (String::from_utf8_lossy(&our_text), String::from_utf8_lossy(&their_text));
        assert!(our_text == their_text, "the reply to {request:?} is {:?}, expected {:?}", shown.0, shown.1);
        if as_long {
            assert_eq!(our_headers, their_headers, "{request:?}: {:?}", shown.0);
        }
        if let (Some((key, our_cas)), Some((_, their_cas))) = cas {
            assert_eq!(
                *names.entry(their_cas).or_insert(our_cas),
                our_cas,
                "{request:?}: the cas ID is another item's"
            );
            cas_ids.insert(key, (our_cas, their_cas));
        }
    }
}

/// Our cas ID of each of memcached's.
type Names = HashMap<u64, u64>;

#[test]
fn random_commands_get_the_same_replies_as_from_memcached() {
    let (mut ours, mut theirs) = (Ours::start(MEMORY, 0), Theirs::start());
    let (mut cas_ids, mut names) = (CasIds::new(), Names::new());
    let seed = std::env::var("DOORBELL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut commands = Commands::new(seed);
    for number in 0..short_or_long(4_000, 400_000u32) {
        let request = commands.next(&cas_ids);
        let both = (request.ours.as_slice(), request.theirs.as_slice());
        compare(&mut ours, &mut theirs, (number % 60_000) as u16, both, &mut cas_ids, &mut names);
    }
    for value in ["-1", "-18446744073709551615", "1-", " 7", "7 -", "9223372036854775808-"] {
        let text = format!("set n 0 0 {}\r\n{value}\r\nincr n 1\r\ndecr n 3\r\nget n\r\n", value.len());
        compare(&mut ours, &mut theirs, 1, (text.as_bytes(), text.as_bytes()), &mut cas_ids, &mut names);
    }
    // This must be last: after a quit, memcached drops the commands after the first get of every datagram,
    // from any client.
    let quit = b"set a 0 0 1\r\n1\r\nget a\r\nquit\r\nget a\r\n";
    compare(&mut ours, &mut theirs, 1, (quit, quit), &mut cas_ids, &mut names);
    assert!(names.len() > 300, "replies had the cas IDs of only {} items", names.len());
    let distinct: std::collections::HashSet<_> = names.values().collect();
    assert_eq!(distinct.len(), names.len(), "cas IDs are unique");
    ours.end();
}

#[test]
fn items_expire_as_in_memcached() {
    let (mut ours, mut theirs) = (Ours::start(MEMORY, 0), Theirs::start());
    let (mut cas_ids, mut names) = (CasIds::new(), Names::new());
    let mut request = |ours: &mut Ours, text: &str| {
        let both = (text.as_bytes(), text.as_bytes());
        compare(ours, &mut theirs, 7, both, &mut cas_ids, &mut names);
    };
    request(
        &mut ours,
        "set soon 0 1 1\r\n1\r\nset later 0 100 1\r\n2\r\nset never 0 0 1\r\n3\r\nset touched 0 1 1\r\n4\r\n",
    );
    request(
        &mut ours,
        "touch touched 100\r\nset shortened 0 0 1\r\n5\r\ngat 1 shortened\r\nset n 0 1 1\r\n9\r\n",
    );
    request(&mut ours, "incr n 1\r\nappend soon 0 100 1\r\n!\r\n");
    request(&mut ours, "get soon later never touched shortened n\r\n");
    std::thread::sleep(Duration::from_millis(2_300));
    ours.advance_clock(2);
    request(&mut ours, "get soon later never touched shortened n\r\n");
    request(
        &mut ours,
        "add soon 0 0 1\r\n6\r\nreplace n 0 0 1\r\n7\r\ntouch shortened 5\r\nincr n 1\r\nget soon later\r\n",
    );
    // Items stored while a flush is pending are flushed too.
    request(&mut ours, "flush_all 3\r\nset between 0 0 1\r\n8\r\nget between later never\r\n");
    std::thread::sleep(Duration::from_millis(4_300));
    ours.advance_clock(4);
    request(&mut ours, "get soon later never touched between\r\nset after 0 0 1\r\n8\r\nget after\r\n");
    ours.end();
}

/// Cells occupied by an item; see the head of `store.h`.
fn cells(key: &str, value: usize) -> usize {
    1 + (key.len() + value).saturating_sub(87).div_ceil(124)
}

#[test]
fn the_least_recently_used_item_is_evicted() {
    const MEMORY: usize = 20_000;
    const BUCKETS: usize = 8;
    let room = (MEMORY - 4 * BUCKETS - 127) / 128;
    let mut ours = Ours::start(MEMORY, BUCKETS);
    let mut rng = Rng::stream(3, "use");
    // Least recently used first.
    let mut model: Vec<(String, String)> = Vec::new();
    let mut evicted = 0;
    for number in 0..short_or_long(4_000, 200_000) {
        let key = format!("{}", rng.below(400));
        let at = model.iter().position(|(other, _)| *other == key);
        match rng.below(8) {
            0..4 => {
                let expected = at.map_or("END\r\n".to_owned(), |at| {
                    let (key, value) = &model[at];
                    format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len())
                });
                assert_eq!(ours.text(format!("get {key}\r\n")), expected, "at {number}");
                if let Some(at) = at {
                    let used = model.remove(at);
                    model.push(used);
                }
            }
            4 => {
                let expected = if at.is_some() { "DELETED\r\n" } else { "NOT_FOUND\r\n" };
                assert_eq!(ours.text(format!("delete {key}\r\n")), expected, "at {number}");
                at.map(|at| model.remove(at));
            }
            _ => {
                let longest = if rng.below(20) == 0 { 5_000 } else { 300 };
                let length = rng.below(longest) as usize;
                let value = format!("{number:0>length$}");
                at.map(|at| model.remove(at));
                let taken = |model: &[(String, String)]| {
                    model.iter().map(|(key, value)| cells(key, value.len())).sum::<usize>()
                };
                while taken(&model) + cells(&key, value.len()) > room {
                    model.remove(0);
                    evicted += 1;
                }
                assert_eq!(ours.text(format!("set {key} 0 0 {}\r\n{value}\r\n", value.len())), "STORED\r\n");
                model.push((key, value));
            }
        }
    }
    assert!(evicted > 500, "only {evicted} items were evicted");
    let stats = ours.text("stats\r\n");
    let taken: usize = model.iter().map(|(key, value)| cells(key, value.len())).sum();
    for line in [
        format!("STAT curr_items {}\r\n", model.len()),
        format!("STAT evictions {evicted}\r\n"),
        format!("STAT bytes {}\r\n", 128 * taken),
        format!("STAT limit_maxbytes {}\r\n", 128 * room),
    ] {
        assert!(stats.contains(&line), "no {line:?} in {stats}");
    }
    ours.end();
}

#[test]
fn differences_from_memcached_are_as_documented() {
    let mut ours = Ours::start(1 << 20, 64);
    assert_eq!(ours.text("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
    for (request, reply) in [
        ("set a 0 0 9\r\nshort\r\n", "CLIENT_ERROR bad data chunk\r\n"),
        ("set a 0 0 1\r\nx", "CLIENT_ERROR bad data chunk\r\n"),
        ("set a 0 0 1\r\nx\r", "CLIENT_ERROR bad data chunk\r\n"),
        ("add a 0 0 2147483645\r\nx\r\n", "SERVER_ERROR object too large for cache\r\n"),
        ("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        // As in memcached, a set that fails because of its size deletes the old item.
        ("set a 0 0 2147483645\r\nx\r\n", "SERVER_ERROR object too large for cache\r\n"),
        ("get a\r\n", "END\r\n"),
        ("set a 0 0 1 noreply\r\nx\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("stats items\r\n", "ERROR\r\n"),
        ("stats reset\r\n", "RESET\r\n"),
        ("mg a v\r\n", "ERROR\r\n"),
    ] {
        assert_eq!(ours.text(request), reply, "{request:?}");
    }
    // An item that fills the store by itself; appending to it fails, as the longer item has no room.
    let half = "y".repeat(60_000);
    for _ in 0..8 {
        assert_eq!(ours.text(format!("append a 0 0 60000\r\n{half}\r\n")), "STORED\r\n");
    }
    assert_eq!(ours.text(format!("append a 0 0 60000\r\n{half}\r\n")), "NOT_STORED\r\n");
    assert!(ours.request(&datagram(1, b"get a\r\n")).len() > 340);
    ours.end();
}

#[test]
fn hostile_datagrams_do_no_harm() {
    let mut ours = Ours::start(100_000, 16);
    let mut commands = Commands::new(9);
    let mut rng = Rng::stream(9, "harm");
    for number in 0..short_or_long(6_000, 600_000u32) {
        let mut bytes = datagram(7, &commands.next(&CasIds::new()).ours);
        match rng.below(4) {
            0 => bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize),
            1 => bytes = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect(),
            2 => {
                let at = rng.below(bytes.len() as u64) as usize;
                let digits = rng.next_u64().to_string();
                bytes.splice(at..at, digits.into_bytes());
            }
            _ => {
                for _ in 0..=rng.below(8) {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] = rng.next_u64() as u8;
                }
            }
        }
        for reply in ours.request(&bytes) {
            assert!(reply.len() <= 1400 && reply[..2] == bytes[..2], "{bytes:?}");
        }
        if number % 16 == 0 {
            let kept = format!("set kept 0 0 6\r\n{number:0>6}\r\nget kept\r\n");
            assert_eq!(ours.text(kept), format!("STORED\r\nVALUE kept 0 6\r\n{number:0>6}\r\nEND\r\n"));
        }
    }
    ours.end();
}

#[test]
fn memcached_dpdk_answers_all_requests_of_the_example() {
    answers_the_example_of_requests("memcached-dpdk");
}
