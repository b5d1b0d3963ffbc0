//! Validation of a script file: it is a shell script, or an executable for the guest's architecture.

use doorbell_image::SIMULATED;

use crate::error::RunError;

/// Rejects files that no guest can run.
pub(crate) fn check_program(content: &[u8]) -> Result<(), RunError> {
    let fail = |problem: String| Err(RunError::Script(problem));
    if content.is_empty() {
        return fail("the script is empty".into());
    }
    if let Err(problem) = SIMULATED.check_elf(content) {
        return fail(format!("the script cannot run: {problem}"));
    }
    match content {
        [b'#', b'!', rest @ ..]
            if rest.split(|byte| *byte == b'\n').next().is_some_and(|l| l.ends_with(b"\r")) =>
        {
            fail(
                "the script has CR LF line ends, with which the guest does not find its interpreter; use LF"
                    .into(),
            )
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::script::Script;

    #[test]
    fn files_that_no_guest_can_run_are_rejected() {
        let elf = |machine: u8| {
            let mut bytes = b"\x7fELF".to_vec();
            bytes.resize(64, 0);
            bytes[18] = machine;
            bytes
        };
        let refused = |content: Vec<u8>| Script::new(content, &[]).unwrap_err().to_string();
        assert!(refused(Vec::new()).contains("empty"));
        assert!(refused(elf(62)).contains("not an executable for RISC-V"));
        assert!(refused(elf(0)[..19].to_vec()).contains("not an executable for RISC-V"));
        assert!(refused(b"#!/bin/sh\r\necho hello\r\n".to_vec()).contains("CR LF"));
        assert!(Script::new(elf(243), &[]).is_ok());
        assert!(Script::new(b"echo hello".to_vec(), &[]).is_ok());
    }
}
