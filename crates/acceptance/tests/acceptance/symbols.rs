//! Kernel and module symbols read from guest memory match the guest's `/proc/kallsyms`.

use std::collections::BTreeSet;
use std::fs;

use doorbell_acceptance::net_guest::{boot, run_to_pause};
use doorbell_acceptance::places;
use doorbell_sim::PhysAddr;
use doorbell_symbols::{Mode, Symbols, kernel_symbols};

const SCRIPT: &str = r#"
pause begin
busybox head -n 100 /proc/kallsyms
busybox grep -F -e tcp_v4 -e '[e1000]' /proc/kallsyms
pause end
"#;

#[test]
#[ignore = "long: make test-long runs it"]
fn symbols_match_the_guests_kallsyms() {
    let mut machine = boot(&[], "doorbell.app=ours", SCRIPT, &[]);
    run_to_pause(&mut machine, "begin");
    doorbell_acceptance::net_guest::resume(&mut machine);
    let text = run_to_pause(&mut machine, "end");
    let image = places().build_image("net", &mut |_| {}).expect("the net image can be built");
    let (kernel, initramfs) = (fs::read(image.kernel()).unwrap(), fs::read(image.initramfs()).unwrap());
    let peek = |addr: u64, into: &mut [u8]| machine.peek(0, addr, into) == into.len();
    let mut symbols = Symbols::new(&kernel, &initramfs, machine.ram(), &peek, &[]);

    let table = kernel_symbols(&kernel, machine.ram());
    let ours: BTreeSet<(u64, &str)> =
        table.iter().map(|symbol| (symbol.addr, symbol.name.as_str())).collect();
    let modules: BTreeSet<(u64, &str)> = symbols
        .modules()
        .iter()
        .flat_map(|module| module.functions.iter().map(|(begin, _, name)| (*begin, name.as_str())))
        .collect();
    let (mut of_kernel, mut of_module, mut entry) = (0, 0, None);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(Ok(addr)) = words.first().map(|word| u64::from_str_radix(word, 16)) else { continue };
        match words[..] {
            [_, kind, name] if kind.len() == 1 => {
                assert!(ours.contains(&(addr, name)), "{line}");
                of_kernel += 1;
            }
            // Labels and mapping symbols of the assembler are not functions.
            [_, _, name, "[e1000]"] if name.starts_with(['.', '$']) => {}
            [_, "t" | "T", name, "[e1000]"] => {
                assert!(modules.contains(&(addr, name)), "{line}");
                of_module += 1;
                entry = (name == "e1000_clean").then_some(addr).or(entry);
            }
            _ => {}
        }
    }
    assert!(of_kernel > 100 && of_module > 100, "{of_kernel} and {of_module} in {text}");
    let entry = entry.expect("the driver polls");
    for (addr, inside) in [(entry, true), (entry + 8, true), (entry - 2, false)] {
        let place = symbols.place(Mode::Kernel, addr, PhysAddr(0));
        assert_eq!((place.object.as_str(), place.function == "e1000_clean"), ("e1000.ko", inside));
    }
}
