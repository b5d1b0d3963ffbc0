//! Fetches what tests compare Doorbell with, so that they need not, and prints the folder.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match doorbell_oracle::fetch(&mut |step| eprintln!("QEMU and memcached to compare with: {step}")) {
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
