//! The real testpmd image in an independent machine: QEMU boots it, and testpmd answers frames on its e1000.
//! Needs a Debian mirror and some minutes, so it runs only on request: `cargo test -p doorbell-image --test
//! boot -- --ignored`. DOORBELL_IMAGE_CACHE names a cache folder to reuse.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use doorbell_image::{BuildOptions, Image, Recipe, build};

const MAC_OF_GUEST: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
const MAC_OF_TESTER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
/// QEMU's e1000 reports its link half a second after the driver restarted it, and drops earlier frames.
const LINK_UP: Duration = Duration::from_millis(1500);
const FRAMES: usize = 500;

/// Kills QEMU at the end of the test, even after a panic.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn frame(number: usize, destination: [u8; 6], source: [u8; 6]) -> Vec<u8> {
    let length = if number.is_multiple_of(2) { 60 } else { 1514 };
    let mut bytes = [&destination[..], &source[..], &[0x08, 0x00], &(number as u32).to_be_bytes()].concat();
    bytes.extend((bytes.len()..length).map(|at| (at * 7 + number) as u8));
    bytes
}

/// One end of a link made of UDP datagrams, and the options of QEMU's `dgram` network for the other end.
fn link() -> (UdpSocket, String) {
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    let there = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    here.connect(("127.0.0.1", there)).unwrap();
    here.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let end = |side: &str, port: u16| format!("{side}.type=inet,{side}.host=127.0.0.1,{side}.port={port}");
    let port = here.local_addr().unwrap().port();
    (here, format!("dgram,id=net0,{},{}", end("local", there), end("remote", port)))
}

fn start(image: &Image, firmware: &str, network: &str) -> Qemu {
    let child = doorbell_oracle::qemu()
        .args([
            "-M",
            "virt",
            "-cpu",
            "rv64",
            "-display",
            "none",
            "-serial",
            "stdio",
            "-monitor",
            "none",
            "-no-reboot",
        ])
        .args(["-m", &format!("{}", image.ram_min().0 >> 20)])
        .arg("-bios")
        .arg(image.firmware(firmware).unwrap())
        .arg("-kernel")
        .arg(image.kernel())
        .arg("-initrd")
        .arg(image.initramfs())
        .args(["-append", &format!("{} doorbell.app=testpmd", image.command_line())])
        .args(["-device", "e1000,netdev=net0,romfile=", "-netdev", network])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("QEMU starts");
    Qemu(child)
}

#[test]
#[ignore = "long: make test-long runs it"]
fn qemu_boots_the_image_and_testpmd_swaps_every_frame() {
    let dir = tempfile::tempdir().unwrap();
    let cache =
        std::env::var_os("DOORBELL_IMAGE_CACHE").map_or_else(|| dir.path().join("cache"), PathBuf::from);
    let options =
        BuildOptions { cache_dir: cache, out_dir: dir.path().join("testpmd"), ..BuildOptions::default() };
    let image = build(&Recipe::load("testpmd").unwrap(), &options, &mut |step| println!("{step}")).unwrap();
    for firmware in ["fw_jump.bin", "fw_dynamic.bin"] {
        forwards(&image, firmware);
    }
}

fn forwards(image: &Image, firmware: &str) {
    let (wire, network) = link();
    let mut qemu = start(image, firmware, &network);
    let mut keyboard = qemu.0.stdin.take().unwrap();
    let mut printed = Vec::new();
    for line in BufReader::new(qemu.0.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains("Press enter to exit") {
            std::thread::sleep(LINK_UP);
            for number in 0..FRAMES {
                wire.send(&frame(number, MAC_OF_GUEST, MAC_OF_TESTER)).unwrap();
                let mut answer = [0; 2048];
                let length = wire.recv(&mut answer).unwrap();
                assert_eq!(answer[..length], frame(number, MAC_OF_TESTER, MAC_OF_GUEST), "frame {number}");
            }
            keyboard.write_all(b"\n").unwrap();
        }
        printed.push(line);
    }
    let all = printed.join("\n");
    for expected in ["doorbell: init", "doorbell: ports 1", "doorbell: start testpmd", "doorbell: exit 0"] {
        assert!(all.contains(expected), "{expected}:\n{all}");
    }
    assert!(!all.contains("hugepages, give") && !all.contains("unknown option"), "{all}");
    assert!(qemu.0.wait().unwrap().success());
}
