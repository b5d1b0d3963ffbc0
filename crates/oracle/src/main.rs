//! Fetches the reference programs of the tests in advance, and prints their folder.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match doorbell_oracle::fetch(&mut |step| eprintln!("reference programs QEMU and memcached: {step}")) {
        Ok(folder) => {
            println!("{}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
