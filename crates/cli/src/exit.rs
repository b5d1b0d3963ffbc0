//! How the command ends: 0 when all is done, 2 for wrong use, 130 when it was interrupted, 3 when a comparison finds what it was told
//! to fail over, 1 for everything else. `run --script` ends as its script did. docs/commands.md says what scripts may rely on.

use std::error::Error;
use std::fmt;

use doorbell_bench::RunError;
use doorbell_image::ImageError;
use doorbell_machine::ConfigError;
use doorbell_machine::playback::PlaybackError;
use doorbell_qemu_trace::recording::RecordError;
use doorbell_study::experiment::ExperimentError;

/// Something failed.
pub const FAILED: u8 = 1;
/// What was asked for cannot be: a wrong option, key, value or unit.
pub const WRONG_USE: u8 = 2;
/// Results differ by more than was allowed.
pub const DIFFERS: u8 = 3;
/// The user ended it before its time: 128 and the number of SIGINT, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// The user ended it, and this is to be said.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; {0}")]
pub struct Interrupted(pub &'static str);

/// An error in what was asked for; it reads as the error itself does.
#[derive(Debug)]
struct WrongUse(anyhow::Error);

impl fmt::Display for WrongUse {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for WrongUse {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Results of looking at what was asked for.
pub trait Asked<T> {
    /// An error is one in what was asked for, unless the host failed, as it does when a file cannot be read.
    fn asked(self) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Asked<T> for Result<T, E> {
    fn asked(self) -> anyhow::Result<T> {
        self.map_err(|error| match error.into() {
            error if is_the_hosts(&error) => error,
            error => WrongUse(error).into(),
        })
    }
}

fn is_the_hosts(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<std::io::Error>()
            || cause.downcast_ref::<ConfigError>().is_some_and(|error| error.is_hosts)
            || match cause.downcast_ref() {
                Some(RunError::Io { .. }) => true,
                Some(RunError::Config(error)) => error.is_hosts,
                _ => false,
            }
    })
}

/// The exit status of a command that ended with this error.
pub fn status(error: &anyhow::Error) -> u8 {
    error.chain().find_map(status_of).unwrap_or(FAILED)
}

fn status_of(cause: &(dyn Error + 'static)) -> Option<u8> {
    if cause.is::<Interrupted>() {
        return Some(INTERRUPTED);
    }
    match cause.downcast_ref() {
        Some(RecordError::Interrupted) => return Some(INTERRUPTED),
        // It reads as its cause, as below.
        Some(RecordError::Image(error)) => return of_image(error),
        _ => {}
    }
    if let Some(error) = cause.downcast_ref::<ConfigError>() {
        return Some(of_config(error));
    }
    if cause.is::<WrongUse>() {
        return Some(WRONG_USE);
    }
    match cause.downcast_ref() {
        Some(ExperimentError::File(_) | ExperimentError::Point { .. }) => return Some(WRONG_USE),
        // It reads as its cause, and is not followed by it.
        Some(ExperimentError::Run(error)) => return of_run(error),
        None => {}
    }
    cause.downcast_ref().map(of_run).unwrap_or_else(|| cause.downcast_ref().and_then(of_image))
}

fn of_config(error: &ConfigError) -> u8 {
    if error.is_hosts { FAILED } else { WRONG_USE }
}

fn of_run(error: &RunError) -> Option<u8> {
    match error {
        RunError::Interrupted => Some(INTERRUPTED),
        RunError::Config(error) | RunError::Playback { error: PlaybackError::Config(error), .. } => {
            Some(of_config(error))
        }
        RunError::Playback { error: PlaybackError::Pace(_), .. } => Some(WRONG_USE),
        RunError::Image(error) => of_image(error),
        _ => None,
    }
}

fn of_image(error: &ImageError) -> Option<u8> {
    match error {
        ImageError::Interrupted => Some(INTERRUPTED),
        ImageError::UnknownRecipe { .. } | ImageError::Recipe { .. } => Some(WRONG_USE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    fn wrong_key() -> ConfigError {
        ConfigError::new("nic.rx_fifi", "there is no such key")
    }

    #[test]
    fn an_error_is_known_however_deep_it_lies() {
        let status =
            |error: anyhow::Error| super::status(&error.context("of a load").context("3 of 4 are done"));
        assert_eq!(status(RunError::Interrupted.into()), 130);
        assert_eq!(status(ExperimentError::from(RunError::Interrupted).into()), 130);
        assert_eq!(status(RecordError::Interrupted.into()), 130);
        assert_eq!(status(ImageError::Interrupted.into()), 130);
        assert_eq!(status(RunError::from(ImageError::Interrupted).into()), 130);
        assert_eq!(status(RecordError::from(ImageError::Interrupted).into()), 130);
        assert_eq!(status(Interrupted("the points that are done stay done").into()), 130);
        assert_eq!(status(wrong_key().into()), 2);
        assert_eq!(status(RunError::from(wrong_key()).into()), 2);
        let no_memory = || ConfigError::of_host("platform.ram", "the host does not provide 12GiB of memory");
        assert_eq!(status(no_memory().into()), 1);
        assert_eq!(status(RunError::from(no_memory()).into()), 1);
        assert_eq!(status(Err::<(), _>(no_memory()).asked().unwrap_err()), 1);
        assert_eq!(status(Err::<(), _>(RunError::from(no_memory())).asked().unwrap_err()), 1);
        assert_eq!(status(ExperimentError::from(RunError::from(wrong_key())).into()), 2);
        let played = |error| RunError::Playback { path: "a.dbt".into(), error };
        assert_eq!(status(played(wrong_key().into()).into()), 2);
        assert_eq!(status(played(PlaybackError::Ram).into()), 1);
        assert_eq!(status(ExperimentError::File("sweep.toml: unknown field".into()).into()), 2);
        let unknown = || ImageError::UnknownRecipe { name: "nope".into(), known: "net".into() };
        assert_eq!(status(unknown().into()), 2);
        assert_eq!(status(RunError::from(unknown()).into()), 2);
        let wrong = ImageError::Recipe { recipe: "bad.toml".into(), problem: "unknown field".into() };
        assert_eq!(status(wrong.into()), 2);
        assert_eq!(status(RunError::NoAnswer("nobody answers".into()).into()), 1);
        assert_eq!(status(anyhow!("a fault")), 1);
    }

    #[test]
    fn wrong_use_reads_as_the_error_does_and_a_file_that_cannot_be_read_is_none() {
        let wrong = Err::<(), _>(anyhow!("no unit")).context("--rate").asked().unwrap_err();
        assert_eq!((status(&wrong), format!("{wrong:#}")), (2, "--rate: no unit".to_owned()));
        let missing = std::fs::read("/nowhere/at/all").context("--file").asked().unwrap_err();
        assert_eq!(status(&missing), 1);
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let missing = Err::<(), anyhow::Error>(RunError::io("read", "net.toml")(missing).into()).asked();
        assert_eq!(status(&missing.unwrap_err()), 1);
    }
}
