//! `doorbell boot` on a terminal and through a pipe.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use doorbell_acceptance::{Pty, doorbell_path, scratch};

/// The prompt of the image's shell.
const PROMPT: &str = "# ";

fn boot(arguments: &[&str]) -> Command {
    let mut command = Command::new(doorbell_path());
    command.arg("boot").args(arguments);
    command
}

#[test]
fn a_guest_is_a_shell_on_the_terminal() {
    let folder = scratch();
    let file = folder.path().join("shell.ckpt");
    let file = file.to_str().unwrap();
    quit_with_ctrl_a_x_and_save(file);
    continue_and_power_off(file);
    commands_through_a_pipe(file);
    the_checkpoint_is_rejected_with_another_command_line(Path::new(file));
}

fn quit_with_ctrl_a_x_and_save(file: &str) {
    let mut terminal = Pty::start(boot(&["--save-checkpoint", file]));
    assert!(terminal.is_cooked());
    terminal.wait_for("doorbell: start shell");
    terminal.wait_for(PROMPT);
    assert!(!terminal.is_cooked(), "the terminal is in raw mode");
    // The expected output differs from the command, so that the echo does not match it.
    terminal.type_keys("echo answer $((6 * 7)); uname -sm\r");
    terminal.wait_for("answer 42");
    terminal.wait_for("Linux riscv64");
    terminal.wait_for(PROMPT);
    // Ctrl-C goes to the guest and ends its command, not the simulator. The output "sleeps 8" shows that the
    // shell has set the terminal mode in which Ctrl-C interrupts.
    terminal.type_keys("echo sleeps $((2 * 4)); sleep 1000\r");
    terminal.wait_for("sleeps 8");
    terminal.type_keys("\x03");
    terminal.wait_for(PROMPT);
    // Ctrl-A S prints the progress, and its keys do not reach the guest.
    terminal.type_keys("\x01s");
    terminal.wait_for("running: ");
    terminal.wait_for(" M instructions");
    terminal.type_keys("kept=17\r");
    terminal.wait_for(PROMPT);
    terminal.type_keys("\x01x");
    assert!(terminal.end().success());
    assert!(terminal.is_cooked(), "the terminal mode is restored");
    assert!(terminal.screen().contains("checkpoint in"));
}

fn continue_and_power_off(file: &str) {
    let mut terminal = Pty::start(boot(&["--checkpoint", file]));
    let mode = terminal.mode();
    terminal.type_keys("echo still $kept\r");
    terminal.wait_for("still 17");
    terminal.type_keys("poweroff -f\r");
    assert!(terminal.end().success());
    let after = terminal.mode();
    assert_eq!(
        (after.input_modes, after.output_modes, after.local_modes, after.control_modes),
        (mode.input_modes, mode.output_modes, mode.local_modes, mode.control_modes)
    );
}

fn commands_through_a_pipe(file: &str) {
    let mut command = boot(&["--checkpoint", file]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The comment is longer than the guest's UART FIFO, and the shell must read all of it.
    let comment = "x".repeat(600);
    let script = format!("# {comment}\necho piped $((kept * 2))\npoweroff -f\n");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("piped 34"), "{text}");
}

/// Piped input waits until the booted guest reads it. End of input ends `cat` and then the shell.
#[test]
fn end_of_piped_input_ends_the_guest() {
    for script in ["echo piped $((2 * 17))", "cat > /dev/null\necho not a command\n"] {
        let mut command = boot(&["--fast-forward"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("doorbell: exit 0"), "{text}");
        assert_eq!(text.contains("piped 34"), script.starts_with("echo"), "{text}");
    }
}

fn the_checkpoint_is_rejected_with_another_command_line(file: &Path) {
    let output = boot(&["--append", "doorbell.app=testpmd", "--checkpoint"]).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("of another guest"), "{text}");
}
