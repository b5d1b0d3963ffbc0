//! Programs without a kernel: `doorbell boot --bare`.

use std::process::Command;

/// li a0, 7; m5 work begin; lui t0, 0x10; addi t0, t0, -1; bnez t0, the addi; m5 work end; li a0, 0; m5 exit.
const PROBE: [u32; 8] =
    [0x0070_0513, 0xb400_007b, 0x0001_02b7, 0xfff2_8293, 0xfe02_9ee3, 0xb600_007b, 0x0000_0513, 0x4200_007b];

/// What it says on standard error, and whether it ends well.
fn boot(more: &[&str]) -> (String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("probe.bin");
    std::fs::write(&program, PROBE.map(u32::to_le_bytes).concat()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.current_dir(folder.path()).args(["boot", "--fast-forward", "--bare"]).arg(&program).args(more);
    let output = command.output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.success())
}

#[test]
fn a_program_on_a_timed_machine_that_is_named_has_the_cores_figures_at_each_marker() {
    for more in [&["--timed"][..], &["--preset", "server"], &["--timed", "--preset", "altra"]] {
        let (said, ends_well) = boot(more);
        let work: Vec<&str> = said.lines().filter(|line| line.starts_with("hart 0: ")).collect();
        assert!(ends_well && work.len() == 2, "at the marker and at the end: {said}");
        let ipc: f64 = work[0].rsplit(' ').next().unwrap().parse().unwrap();
        // Two instructions, of which one is a taken branch, per cycle.
        assert!(work[0].starts_with("hart 0: 131074 instructions, ") && (1.9..=2.0).contains(&ipc), "{said}");
    }
}

#[test]
fn without_timing_there_are_no_cycles_to_tell() {
    for more in [&[][..], &["--preset", "fast"]] {
        let (said, ends_well) = boot(more);
        assert!(ends_well && said.contains("m5 work end: id 7") && !said.contains("IPC"), "{said}");
    }
    let (said, ends_well) = boot(&["--timed", "--preset", "fast"]);
    assert!(
        !ends_well && said.contains("core.model is \"functional\"") && said.contains("--preset server"),
        "{said}"
    );
}
