//! Tests from a driver's view; bits are intentionally declared again.

use super::*;
use AccessSize::{B1, B4};
use proptest::prelude::*;

fn get(uart: &mut Uart, offset: u64) -> u8 {
    uart.read(offset, B1) as u8
}

fn set(uart: &mut Uart, offset: u64, value: u8) {
    uart.write(offset, B1, u64::from(value));
}

/// The state after Linux's 8250 driver has set up the port: FIFOs on, trigger at 8 bytes, 8N1.
fn started() -> Uart {
    let mut uart = Uart::default();
    set(&mut uart, 2, 0x87);
    set(&mut uart, 3, 0x03);
    set(&mut uart, 4, 0x0b);
    uart
}

#[test]
fn only_the_documented_registers_share_an_offset() {
    for (i, a) in REGISTERS.iter().enumerate() {
        for b in REGISTERS[i + 1..].iter().filter(|b| b.offset == a.offset) {
            let latch = [a.id, b.id].iter().any(|id| matches!(id, UartRegister::Dll | UartRegister::Dlm));
            let directions = a.access.readable() != b.access.readable();
            assert!(latch || directions, "{} and {}", a.name, b.name);
        }
    }
}

#[test]
fn registers_have_their_reset_values() {
    let mut uart = Uart::default();
    let values: Vec<u8> = (0..8).map(|offset| get(&mut uart, offset)).collect();
    assert_eq!(values, [0, 0, 0x01, 0, 0, 0x60, 0xb0, 0]);
}

#[test]
fn written_bytes_are_sent_once_and_in_order() {
    let mut uart = started();
    for byte in b"hello" {
        assert_eq!(get(&mut uart, 5) & 0x20, 0x20);
        set(&mut uart, 0, *byte);
    }
    assert_eq!(uart.take_output(), b"hello");
    assert!(!uart.has_output() && uart.take_output().is_empty());
}

#[test]
fn the_divisor_latch_hides_data_and_interrupt_enable() {
    let mut uart = started();
    set(&mut uart, 1, 0x05);
    set(&mut uart, 3, 0x83);
    set(&mut uart, 0, 0x34);
    set(&mut uart, 1, 0x12);
    assert_eq!((get(&mut uart, 0), get(&mut uart, 1)), (0x34, 0x12));
    set(&mut uart, 3, 0x03);
    assert_eq!(get(&mut uart, 1), 0x05);
    assert!(!uart.has_output(), "writes to the divisor are not sent");
}

#[test]
fn the_transmitter_interrupt_is_raised_on_enable_and_after_each_byte_and_cleared_by_iir() {
    let mut uart = started();
    assert!(!uart.irq());
    set(&mut uart, 1, 0x02);
    assert!(uart.irq());
    assert_eq!(get(&mut uart, 2), 0xc2);
    assert!(!uart.irq());
    assert_eq!(get(&mut uart, 2), 0xc1);
    set(&mut uart, 0, b'x');
    assert!(uart.irq());
    set(&mut uart, 1, 0x00);
    assert!(!uart.irq(), "masked");
    set(&mut uart, 1, 0x02);
    assert_eq!(get(&mut uart, 2), 0xc2);
    set(&mut uart, 1, 0x02);
    assert!(!uart.irq(), "writing the same value again does not raise it");
}

#[test]
fn received_bytes_raise_a_timeout_below_the_trigger_level_and_data_from_it_on() {
    let mut uart = started();
    set(&mut uart, 1, 0x01);
    assert_eq!(uart.push_input(b"1234567"), 7);
    assert_eq!(get(&mut uart, 2), 0xcc);
    uart.push_input(b"8");
    assert_eq!(get(&mut uart, 2), 0xc4);
    for expected in b"12345678" {
        assert!(uart.irq());
        assert_eq!(get(&mut uart, 5) & 1, 1);
        assert_eq!(get(&mut uart, 0), *expected);
    }
    assert!(!uart.irq());
    assert_eq!((get(&mut uart, 5), get(&mut uart, 0)), (0x60, 0));
    assert_eq!(uart.stats.empty_reads, 1);
}

#[test]
fn input_beyond_the_fifo_is_queued_without_loss() {
    let mut uart = started();
    let text: Vec<u8> = (0..200u8).collect();
    assert_eq!(uart.push_input(&text), 200);
    let mut got = Vec::new();
    while get(&mut uart, 5) & 1 != 0 {
        got.push(get(&mut uart, 0));
    }
    assert_eq!(got, text);
}

#[test]
fn the_input_queue_is_bounded_and_reports_the_accepted_bytes() {
    let mut uart = started();
    let flood = vec![b'.'; INPUT_BYTES_MAX + 1000];
    let accepted = uart.push_input(&flood);
    assert_eq!(accepted, INPUT_BYTES_MAX);
    assert_eq!(uart.push_input(&flood), FIFO_BYTES, "bytes that moved into the FIFO made room");
    assert_eq!(uart.push_input(b"x"), 0);
}

#[test]
fn clearing_the_receive_fifo_loses_only_its_bytes() {
    let mut uart = started();
    uart.push_input(&(0..20u8).collect::<Vec<_>>());
    set(&mut uart, 2, 0x83);
    assert_eq!(get(&mut uart, 0), 16);
    set(&mut uart, 2, 0x00);
    assert_eq!(get(&mut uart, 2), 0x01, "no FIFO bits in 16450 mode");
}

#[test]
fn without_the_fifo_a_single_byte_raises_a_data_interrupt() {
    let mut uart = Uart::default();
    set(&mut uart, 1, 0x01);
    uart.push_input(b"ab");
    assert_eq!(get(&mut uart, 2), 0x04);
    assert_eq!(uart.rx_fifo.len(), 1);
    assert_eq!((get(&mut uart, 0), get(&mut uart, 0)), (b'a', b'b'));
}

#[test]
fn loopback_returns_bytes_and_modem_lines_as_drivers_expect() {
    let mut uart = started();
    get(&mut uart, 6);
    set(&mut uart, 4, 0x1a); // loopback, OUT2, RTS
    assert_eq!(get(&mut uart, 6) & 0xf0, 0x90); // DCD, CTS
    set(&mut uart, 0, 0x5a);
    assert!(!uart.has_output());
    uart.push_input(b"z");
    assert_eq!(get(&mut uart, 0), 0x5a);
    assert_eq!(get(&mut uart, 5) & 1, 0, "the line is disconnected");
    set(&mut uart, 4, 0x0b);
    assert_eq!(get(&mut uart, 0), b'z');
}

#[test]
fn modem_changes_set_delta_bits_until_read_and_ring_only_on_its_trailing_edge() {
    let mut uart = started();
    set(&mut uart, 1, 0x08);
    set(&mut uart, 4, 0x1f);
    assert_eq!(get(&mut uart, 6), 0xf0, "all lines stay high and ring rose");
    set(&mut uart, 4, 0x1b);
    assert!(uart.irq());
    assert_eq!(get(&mut uart, 2), 0xc0);
    assert_eq!(get(&mut uart, 6), 0xb4);
    assert!(!uart.irq());
    assert_eq!(get(&mut uart, 6), 0xb0);
    set(&mut uart, 4, 0x10);
    assert_eq!(get(&mut uart, 6), 0x0b);
}

#[test]
fn an_overrun_has_the_highest_priority_and_is_reported_once() {
    let mut uart = started();
    set(&mut uart, 1, 0x0f);
    set(&mut uart, 4, 0x1b);
    for byte in 0..17 {
        set(&mut uart, 0, byte);
    }
    assert_eq!(get(&mut uart, 2), 0xc6);
    assert_eq!(get(&mut uart, 5), 0x63);
    assert_eq!(get(&mut uart, 5), 0x61);
    assert_eq!(get(&mut uart, 2), 0xc4);
    assert_eq!((0..16).map(|_| get(&mut uart, 0)).collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
}

#[test]
fn wide_and_out_of_range_accesses_are_counted() {
    let mut uart = started();
    assert_eq!(uart.read(5, B4), 0x60, "a wide access acts on its first byte");
    assert_eq!(uart.read(8, B1), 0);
    uart.write(0x80, B1, 1);
    set(&mut uart, 5, 0xff);
    assert_eq!(uart.stats.undefined_accesses, 4);
}

#[test]
fn output_that_is_not_taken_is_bounded() {
    let mut uart = started();
    for _ in 0..OUTPUT_BYTES_MAX + 3 {
        set(&mut uart, 0, b'!');
    }
    assert_eq!(uart.take_output().len(), OUTPUT_BYTES_MAX);
}

proptest! {
    #[test]
    fn a_restored_copy_behaves_like_the_original_after_any_accesses(
        accesses in prop::collection::vec((any::<bool>(), 0u64..10, any::<u8>()), 1..200),
        split in 0usize..200,
    ) {
        let mut uart = Uart::default();
        let mut copy = Uart::default();
        for (i, (write, offset, value)) in accesses.iter().enumerate() {
            if i == split {
                let bytes = postcard::to_stdvec(&uart).unwrap();
                copy.restore(postcard::from_bytes(&bytes).unwrap()).unwrap();
            }
            for (n, uart) in [&mut uart, &mut copy].into_iter().enumerate() {
                if n == 1 && i < split { continue }
                match (write, value % 3) {
                    (true, 0) => { uart.push_input(&[*value]); }
                    (true, _) => set(uart, *offset, *value),
                    (false, _) => { get(uart, *offset); }
                }
            }
            prop_assert!(uart.rx_fifo.len() <= 16);
            if i >= split {
                prop_assert_eq!(uart.irq(), copy.irq());
            }
        }
        if accesses.len() > split {
            (uart.output, copy.output) = (Vec::new(), Vec::new());
            prop_assert_eq!(uart, copy);
        }
    }
}
