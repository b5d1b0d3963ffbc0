//! Exit status of the command: 0 for success, 1 for failure, 2 for a usage error, 3 if a comparison exceeds
//! its limit, 130 if interrupted. `run --script` returns the script's status. docs/commands.md describes what
//! scripts may rely on.

use std::error::Error;
use std::fmt;

use doorbell_bench::RunError;
use doorbell_image::ImageError;
use doorbell_machine::ConfigError;
use doorbell_machine::playback::PlaybackError;
use doorbell_qemu_trace::recording::RecordError;
use doorbell_study::experiment::ExperimentError;

/// A failure other than the ones below.
pub const FAILED: u8 = 1;
/// Usage error: an invalid option, key, value or unit.
pub const USAGE_ERROR: u8 = 2;
/// Results differ by more than the limit.
pub const DIFFERS: u8 = 3;
/// Interrupted by the user: 128 plus the number of SIGINT, as in shells.
pub const INTERRUPTED: u8 = 130;

/// Interrupted by the user, with a message.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; {0}")]
pub struct Interrupted(pub &'static str);

/// A usage error; it displays as the error that it wraps.
#[derive(Debug)]
struct UsageError(anyhow::Error);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for UsageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Marks errors of argument checks as usage errors.
pub trait OrUsageError<T> {
    /// Wraps an error as a usage error, unless the host caused it, for example if a file cannot be read.
    fn or_usage_error(self) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrUsageError<T> for Result<T, E> {
    fn or_usage_error(self) -> anyhow::Result<T> {
        self.map_err(|error| match error.into() {
            error if is_host_error(&error) => error,
            error => UsageError(error).into(),
        })
    }
}

fn is_host_error(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<std::io::Error>()
            || cause.downcast_ref::<ConfigError>().is_some_and(|error| error.is_host_limit)
            || match cause.downcast_ref() {
                Some(RunError::Io { .. }) => true,
                Some(RunError::Config(error)) => error.is_host_limit,
                _ => false,
            }
    })
}

/// Exit status for this error.
pub fn status(error: &anyhow::Error) -> u8 {
    error.chain().find_map(status_of).unwrap_or(FAILED)
}

fn status_of(cause: &(dyn Error + 'static)) -> Option<u8> {
    if cause.is::<Interrupted>() {
        return Some(INTERRUPTED);
    }
    match cause.downcast_ref() {
        Some(RecordError::Interrupted) => return Some(INTERRUPTED),
        // It displays as its cause, as below.
        Some(RecordError::Image(error)) => return of_image(error),
        _ => {}
    }
    if let Some(error) = cause.downcast_ref::<ConfigError>() {
        return Some(of_config(error));
    }
    if cause.is::<UsageError>() {
        return Some(USAGE_ERROR);
    }
    match cause.downcast_ref() {
        Some(ExperimentError::File(_) | ExperimentError::Point { .. }) => return Some(USAGE_ERROR),
        // It displays as its cause, which is not in its error chain.
        Some(ExperimentError::Run(error)) => return of_run(error),
        None => {}
    }
    cause.downcast_ref().map(of_run).unwrap_or_else(|| cause.downcast_ref().and_then(of_image))
}

fn of_config(error: &ConfigError) -> u8 {
    if error.is_host_limit { FAILED } else { USAGE_ERROR }
}

fn of_run(error: &RunError) -> Option<u8> {
    match error {
        RunError::Interrupted => Some(INTERRUPTED),
        RunError::Config(error) | RunError::Playback { error: PlaybackError::Config(error), .. } => {
            Some(of_config(error))
        }
        RunError::Playback { error: PlaybackError::Pace(_), .. } => Some(USAGE_ERROR),
        RunError::Image(error) => of_image(error),
        _ => None,
    }
}

fn of_image(error: &ImageError) -> Option<u8> {
    match error {
        ImageError::Interrupted => Some(INTERRUPTED),
        ImageError::UnknownRecipe { .. } | ImageError::Recipe { .. } => Some(USAGE_ERROR),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    fn wrong_key() -> ConfigError {
        ConfigError::new("nic.rx_fifi", "unknown key")
    }

    #[test]
    fn the_status_is_found_at_any_depth_of_the_error_chain() {
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
        let no_memory =
            || ConfigError::host_limit("platform.ram", "the host does not provide 12GiB of memory");
        assert_eq!(status(no_memory().into()), 1);
        assert_eq!(status(RunError::from(no_memory()).into()), 1);
        assert_eq!(status(Err::<(), _>(no_memory()).or_usage_error().unwrap_err()), 1);
        assert_eq!(status(Err::<(), _>(RunError::from(no_memory())).or_usage_error().unwrap_err()), 1);
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
        assert_eq!(status(RunError::NoAnswer("no answer".into()).into()), 1);
        assert_eq!(status(anyhow!("a fault")), 1);
    }

    #[test]
    fn usage_errors_display_their_cause_and_unreadable_files_are_not_usage_errors() {
        let wrong = Err::<(), _>(anyhow!("no unit")).context("--rate").or_usage_error().unwrap_err();
        assert_eq!((status(&wrong), format!("{wrong:#}")), (2, "--rate: no unit".to_owned()));
        let missing = std::fs::read("/nowhere/at/all").context("--file").or_usage_error().unwrap_err();
        assert_eq!(status(&missing), 1);
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let missing =
            Err::<(), anyhow::Error>(RunError::io("read", "net.toml")(missing).into()).or_usage_error();
        assert_eq!(status(&missing.unwrap_err()), 1);
    }
}
