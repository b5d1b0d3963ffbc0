//! Programs without a kernel: `doorbell boot --bare`.

use std::process::Command;

/// li a0, 7; m5 work begin; lui t0, 0x10; addi t0, t0, -1; bnez t0, the addi; m5 work end; li a0, 0; m5 exit.
const PROBE: [u32; 8] =
    [0x0070_0513, 0xb400_007b, 0x0001_02b7, 0xfff2_8293, 0xfe02_9ee3, 0xb600_007b, 0x0000_0513, 0x4200_007b];

/// Runs the probe. Returns standard error, and whether the command succeeded.
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
fn a_timed_program_prints_core_figures_at_each_marker() {
    for more in [&["--timed"][..], &["--preset", "server"], &["--timed", "--preset", "altra"]] {
        let (stderr, ends_well) = boot(more);
        let work: Vec<&str> = stderr.lines().filter(|line| line.starts_with("hart 0: ")).collect();
        assert!(ends_well && work.len() == 2, "at the marker and at the end: {stderr}");
        let ipc: f64 = work[0].rsplit(' ').next().unwrap().parse().unwrap();
        // Two instructions, of which one is a taken branch, per cycle.
        assert!(
            work[0].starts_with("hart 0: 131074 instructions, ") && (1.9..=2.0).contains(&ipc),
            "{stderr}"
        );
    }
}

#[test]
fn an_untimed_program_prints_no_cycles() {
    for more in [&[][..], &["--preset", "fast"]] {
        let (stderr, ends_well) = boot(more);
        assert!(ends_well && stderr.contains("m5 work end: id 7") && !stderr.contains("IPC"), "{stderr}");
    }
    let (stderr, ends_well) = boot(&["--timed", "--preset", "fast"]);
    assert!(
        !ends_well && stderr.contains("core.model is \"functional\"") && stderr.contains("--preset server"),
        "{stderr}"
    );
}
