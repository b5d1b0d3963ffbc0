//! Protocol tests: a client talks to the stub over an in-memory connection.

mod client;

use client::{BASE, Client, ebreak, exit, program};
use doorbell_machine::{Limits, Machine, MachineConfig, Outcome};
use doorbell_sim::{Bytes, Ps};

const A0: usize = 10;
const A1: usize = 11;
const PC: usize = 32;
const SATP: usize = 65 + 0x180;
const MEPC: usize = 65 + 0x341;
const PMPCFG0: usize = 65 + 0x3a0;
const PMPADDR0: usize = 65 + 0x3b0;
const PRIVILEGE: usize = 4161;

fn machine(code: &[u32]) -> Machine {
    let mut config = MachineConfig::default();
    config.platform.ram = Bytes(64 << 20);
    let mut machine = Machine::new(config, 1).unwrap();
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert!(machine.load_bare(&bytes));
    machine
}

/// Puts 12 into a0, stores it at +0x100 and loads it into a1, then repeats this with a0 incremented.
fn counting() -> Vec<u32> {
    vec![
        program::addi(5, 0, 5),   // 0x00 addi t0, zero, 5
        program::addi(6, 0, 7),   // 0x04 addi t1, zero, 7
        program::add(10, 5, 6),   // 0x08 add a0, t0, t1
        program::auipc(8),        // 0x0c auipc s0, 0
        program::sd(10, 8, 0xf4), // 0x10 sd a0, 0xf4(s0)
        program::ld(11, 8, 0xf4), // 0x14 ld a1, 0xf4(s0)
        program::addi(10, 10, 1), // 0x18 addi a0, a0, 1
        program::jump(-0xc),      // 0x1c j 0x10
    ]
}

#[test]
fn a_breakpoint_stops_before_its_instruction() {
    let mut gdb = Client::attach(machine(&counting()));
    assert_eq!(gdb.register(PC), BASE);
    assert_eq!(gdb.ask(&format!("Z0,{:x},4", BASE + 0x18)), "OK");
    assert_eq!(gdb.ask("vCont;c"), "T05thread:01;swbreak:;");
    assert_eq!((gdb.register(PC), gdb.register(A0), gdb.register(A1)), (BASE + 0x18, 12, 12));
    assert_eq!(gdb.ask(&format!("m{:x},8", BASE + 0x100)), "0c00000000000000");
    // The guest's code is unmodified.
    assert_eq!(gdb.ask(&format!("m{:x},4", BASE + 0x18)), "13051500");
    let all = gdb.ask("g");
    assert_eq!((&all[A0 * 16..A0 * 16 + 16], &all[PC * 16..]), ("0c00000000000000", "1800008000000000"));
}

#[test]
fn a_breakpoint_inside_already_decoded_code_hits_each_time() {
    let mut gdb = Client::attach(machine(&counting()));
    gdb.run_for(1_000);
    assert_eq!(gdb.interrupt(), "T02thread:01;");
    assert_eq!(gdb.ask(&format!("Z0,{:x},4", BASE + 0x14)), "OK");
    assert_eq!(gdb.ask("vCont;c"), "T05thread:01;swbreak:;");
    let first = gdb.register(A0);
    // Debuggers step over a breakpoint before they continue.
    for round in 1..4 {
        assert_eq!(gdb.ask("vCont;s:1;c"), "T05thread:01;");
        assert_eq!(gdb.register(PC), BASE + 0x18);
        assert_eq!(gdb.ask("vCont;c"), "T05thread:01;swbreak:;");
        assert_eq!((gdb.register(PC), gdb.register(A0)), (BASE + 0x14, first + round));
    }
    assert_eq!(gdb.ask(&format!("z0,{:x},4", BASE + 0x14)), "OK");
    gdb.run_for(100);
    assert_eq!(gdb.interrupt(), "T02thread:01;");
}

#[test]
fn a_step_is_one_instruction_and_one_slot() {
    let mut gdb = Client::attach(machine(&counting()));
    for instruction in 1..10u64 {
        assert_eq!(gdb.ask("vCont;s:1;c"), "T05thread:01;");
        let hart = &gdb.debuggee.machine.harts()[0];
        assert_eq!((hart.instructions(), hart.slots()), (instruction, instruction));
    }
}

#[test]
fn a_step_over_an_ebreak_ends_at_the_trap_handler() {
    let mut code = counting();
    code[0] = ebreak();
    let mut gdb = Client::attach(machine(&code));
    assert_eq!(gdb.ask(&format!("P{:x}={}", 65 + 0x305, client::hex(BASE + 0x18))), "OK"); // mtvec
    assert_eq!(gdb.ask("vCont;s:1;c"), "T05thread:01;");
    assert_eq!((gdb.register(PC), gdb.register(MEPC)), (BASE + 0x18, BASE));
}

#[test]
fn debugger_writes_to_code_and_registers_take_effect() {
    let mut gdb = Client::attach(machine(&counting()));
    gdb.run_for(100);
    gdb.interrupt();
    // Instead of counting, end with the exit code in a1.
    let exit_code = client::hex_bytes(&exit().to_le_bytes());
    assert_eq!(gdb.ask(&format!("M{:x},4:{exit_code}", BASE + 0x18)), "OK");
    assert_eq!(gdb.ask(&format!("P{A0:x}={}", client::hex(77))), "OK");
    assert_eq!(gdb.ask(&format!("P{PC:x}={}", client::hex(BASE + 0x10))), "OK");
    assert_eq!(gdb.ask("vCont;c"), "W4d"); // 77
}

#[test]
fn breakpoints_are_virtual_addresses() {
    let mut code = counting();
    code.resize(0x1000 / 4, 0);
    // A page table at +0x1000: one gigapage maps 0x4000_0000 to 0x8000_0000 (V, R, W, X, A, D), another is an
    // identity mapping.
    let leaf = (BASE >> 12 << 10) | 0xcf;
    code.extend([0, 0, leaf as u32, 0, leaf as u32, 0]);
    let mut gdb = Client::attach(machine(&code));
    let (virt, satp) = (0x4000_0000, 8 << 60 | (BASE + 0x1000) >> 12);
    for (register, value) in [(PMPADDR0, u64::MAX), (PMPCFG0, 0x1f), (SATP, satp), (PC, virt)] {
        assert_eq!(gdb.ask(&format!("P{register:x}={}", client::hex(value))), "OK");
    }
    assert_eq!(gdb.ask(&format!("P{PRIVILEGE:x}=01")), "OK");
    assert_eq!(gdb.ask(&format!("p{PRIVILEGE:x}")), "01");
    assert_eq!(gdb.ask(&format!("Z0,{:x},4", virt + 0x14)), "OK");
    assert_eq!(gdb.ask("vCont;c"), "T05thread:01;swbreak:;");
    assert_eq!((gdb.register(PC), gdb.register(A0)), (virt + 0x14, 12));
    assert_eq!(gdb.ask(&format!("m{:x},8", virt + 0x100)), "0c00000000000000");
    // The same code at its other address has no breakpoint, although it shares the decoded blocks.
    assert_eq!(gdb.ask(&format!("P{PC:x}={}", client::hex(BASE))), "OK");
    gdb.run_for(100);
    assert_eq!(gdb.interrupt(), "T02thread:01;");
    assert!(gdb.register(A0) > 20 && gdb.register(PC) >= BASE);
    // Unmapped addresses and device addresses cannot be read.
    assert_eq!(gdb.ask("m0,8"), "E0e");
    assert_eq!(gdb.ask(&format!("M0,1:{:02x}", 1)), "E0e");
}

#[test]
fn devices_are_not_read() {
    let mut gdb = Client::attach(machine(&counting()));
    assert_eq!(gdb.ask("m10000000,1"), "E0e"); // the UART
    assert_eq!(gdb.ask(&format!("m{:x},4", BASE + (64 << 20) - 2)), "0000"); // RAM ends there
}

#[test]
fn a_debugged_run_ends_in_the_same_state_as_an_undebugged_one() {
    let end = Limits { instructions: 5_000, ..Limits::until(Ps::MAX) };
    let mut alone = machine(&counting());
    assert_eq!(alone.run(&end), Outcome::Instructions);

    let mut gdb = Client::attach(machine(&counting()));
    gdb.ask(&format!("Z0,{:x},4", BASE + 0x14));
    for _ in 0..50 {
        assert_eq!(gdb.ask("vCont;c"), "T05thread:01;swbreak:;");
        gdb.ask("g");
        gdb.ask(&format!("m{BASE:x},200"));
        gdb.ask("vCont;s:1;c");
    }
    gdb.ask("D");
    assert_eq!(gdb.debuggee.run(&end), Outcome::Instructions);
    assert_eq!(gdb.debuggee.machine.state_hash(), alone.state_hash());
    assert_eq!(gdb.debuggee.machine.now(), alone.now());
}

#[test]
fn detach_or_disconnect_removes_breakpoints() {
    for leave in ["D", ""] {
        let mut gdb = Client::attach(machine(&counting()));
        gdb.ask(&format!("Z0,{:x},4", BASE + 0x14));
        gdb.ask("vCont;c");
        match leave {
            "D" => assert_eq!(gdb.ask("D"), "OK"),
            _ => gdb.hang_up(),
        }
        assert!(gdb.is_detached());
        let end = Limits { instructions: 1_000, ..Limits::until(Ps::MAX) };
        assert_eq!(gdb.debuggee.run(&end), Outcome::Instructions);
    }
}

#[test]
fn a_step_of_a_waiting_hart_can_be_interrupted_and_a_jump_wakes_it() {
    let mut code = counting();
    code[0] = 0x1050_0073; // wfi
    let mut gdb = Client::attach(machine(&code));
    assert_eq!(gdb.ask("vCont;s:1;c"), "T05thread:01;");
    assert_eq!(gdb.register(PC), BASE + 4);
    gdb.run_with("vCont;s:1;c", 10);
    assert_eq!(gdb.interrupt(), "T02thread:01;");
    assert_eq!(gdb.register(PC), BASE + 4);
    assert_eq!(gdb.ask(&format!("P{PC:x}={}", client::hex(BASE + 8))), "OK");
    assert_eq!(gdb.ask("vCont;s:1;c"), "T05thread:01;");
    assert_eq!(gdb.register(PC), BASE + 0xc);
}

#[test]
fn invalid_packets_at_most_end_the_session() {
    let valid = ["Hg9", "Hg0", "p20", "g", "m80000000,4", "P20=00", "vCont;s:7;c"];
    let invalid =
        ["m", "mzz,4", "m80000000,4000", "Z0", "Z7,0,4", "vCont;x", "P20=", "P20=zz", "p1042", "Gff"];
    for packet in valid.into_iter().chain(invalid) {
        let mut gdb = Client::attach(machine(&counting()));
        gdb.ask(&format!("Z0,{:x},4", BASE + 0x14));
        gdb.say(packet);
        gdb.serve();
        gdb.hang_up();
        gdb.serve();
        // A packet may have changed the guest's state so that it traps forever, but no breakpoint is left.
        assert_eq!(gdb.debuggee.run(&Limits::until(Ps(20_000_000))), Outcome::Time, "{packet}");
    }
}

#[test]
fn a_kill_request_is_reported() {
    let mut gdb = Client::attach(machine(&counting()));
    gdb.say("k");
    assert!(gdb.is_killed());
}

#[test]
fn the_description_lists_exactly_readable_registers() {
    let mut gdb = Client::attach(machine(&counting()));
    let mut xml = String::new();
    loop {
        let part = gdb.ask(&format!("qXfer:features:read:target.xml:{:x},400", xml.len()));
        xml.push_str(&part[1..]);
        if part.starts_with('l') {
            break;
        }
    }
    let numbers: Vec<usize> =
        xml.split("regnum=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
    assert!(numbers.len() > 95, "{numbers:?}");
    for number in numbers {
        let answer = gdb.ask(&format!("p{number:x}"));
        assert_eq!(answer.len(), if number == PRIVILEGE { 2 } else { 16 }, "register {number}: {answer}");
    }
    assert_eq!(gdb.ask("qfThreadInfo"), "m01");
}
