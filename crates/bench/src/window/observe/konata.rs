//! Pipeline log for the viewer Konata, format `Kanata 0004`: lines of fields separated by tabs. `C=` and `C` set and
//! advance the cycle; `I` begins an op (number in the file, number in the program, thread), `L` labels it, `S` begins a
//! stage (and ends the previous one), `R` retires it.
//!
//! Stages: F fetch, Dc decode, Rn rename, Ds dispatched and waiting in the issue queue, Is executing, Cm complete and
//! waiting to commit. A stage of zero cycles is omitted.

use std::fmt::Write;

use doorbell_machine::LoggedOp;
use doorbell_sim::{CoreCycle, Op, OpClass};
use doorbell_symbols::{Mode, Place};

use super::names::Names;

/// The function that contains an op.
pub fn place_of(op: &Op, symbols: &mut dyn Names) -> Place {
    let mode = match (op.flags & Op::PRIVILEGED != 0, op.pc >> 63 != 0) {
        (false, _) => Mode::User,
        (true, true) => Mode::Kernel,
        (true, false) => Mode::Firmware,
    };
    symbols.place(mode, op.pc, op.fetch)
}

/// The text of the log.
pub fn konata(ops: &[LoggedOp], mut place: impl FnMut(&Op) -> Place) -> String {
    let mut events: Vec<(CoreCycle, String)> = Vec::with_capacity(8 * ops.len());
    let mut retired = vec![0u64; ops.iter().map(|logged| logged.hart as usize + 1).max().unwrap_or(0)];
    for (number, logged) in ops.iter().enumerate() {
        let (op, stages) = (&logged.op, &logged.stages);
        let order = &mut retired[logged.hart as usize];
        let found = place(op);
        let mut text = format!("I\t{number}\t{order}\t{}\n", logged.hart);
        let _ = writeln!(text, "L\t{number}\t0\t{:x} {:?} {}", op.pc, op.class, line(&found.function));
        let _ = writeln!(text, "L\t{number}\t1\t{}", line(&detail(logged, &found)));
        events.push((stages.fetch, text));
        let bounds = [
            ("F", stages.fetch),
            ("Dc", stages.decode),
            ("Rn", stages.rename),
            ("Ds", stages.dispatch),
            ("Is", stages.issue),
            ("Cm", stages.complete),
            ("", stages.commit),
        ];
        for pair in bounds.windows(2) {
            if pair[1].1 > pair[0].1 {
                events.push((pair[0].1, format!("S\t{number}\t0\t{}\n", pair[0].0)));
            }
        }
        events.push((stages.commit, format!("R\t{number}\t{order}\t0\n")));
        *order += 1;
    }
    // Stable: events of one cycle stay in program order.
    events.sort_by_key(|(cycle, _)| *cycle);
    let mut out = String::from("Kanata\t0004\n");
    let mut now = None;
    for (cycle, text) in &events {
        match now {
            None => drop(writeln!(out, "C=\t{}", cycle.number())),
            Some(before) if *cycle > before => drop(writeln!(out, "C\t{}", *cycle - before)),
            _ => {}
        }
        now = Some(*cycle);
        out.push_str(text);
    }
    out
}

/// Details that the viewer shows when the mouse points at an op.
fn detail(logged: &LoggedOp, place: &Place) -> String {
    let (op, stages) = (&logged.op, &logged.stages);
    let mut text = place.object.clone();
    if op.class == OpClass::Prefetch {
        let _ = write!(text, ", prefetches {:#x}", op.virt);
        match stages.level {
            Some(level) => drop(write!(text, ", line from {level:?}")),
            None => text.push_str(", dropped"),
        }
        return text;
    }
    if op.class.is_memory() || op.class == OpClass::Device {
        let _ = write!(text, ", {} bytes at {:#x}", op.size, op.virt);
    }
    if let Some(level) = stages.level {
        let _ = write!(text, ", served by {level:?}");
    }
    if stages.written > CoreCycle::ZERO {
        let _ = write!(text, ", written in cycle {}", stages.written.number());
    }
    if stages.replayed {
        text.push_str(", replayed");
    }
    text
}

/// A text without control characters, for one field.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
