//! The cache folder's path.

use std::ffi::OsString;
use std::path::PathBuf;

/// The user's cache folder, from the environment as `variable` reads it: `$XDG_CACHE_HOME/doorbell`, else
/// `~/.cache/doorbell`. A relative XDG_CACHE_HOME is ignored, as the XDG Base Directory Specification
/// demands: the cache would depend on the working folder.
pub fn user_cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| folder("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("doorbell"))
}

/// The folder for images, packages and checkpoints, as the command `doorbell` finds it: `$DOORBELL_CACHE`,
/// else the [`user_cache`].
pub fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = variable("DOORBELL_CACHE").filter(|value| !value.is_empty()).map(PathBuf::from);
    named.or_else(|| user_cache(variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_follows_xdg_and_a_relative_path_is_ignored() {
        let cache = |xdg: &str, home: &str| {
            let variables = [("XDG_CACHE_HOME", xdg.to_owned()), ("HOME", home.to_owned())];
            user_cache(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(cache("/var/cache/me", "/home/me"), Some("/var/cache/me/doorbell".into()));
        for ignored in ["", "cache", "./cache", "../cache"] {
            assert_eq!(cache(ignored, "/home/me"), Some("/home/me/.cache/doorbell".into()));
        }
        assert_eq!(cache("", ""), None);
        assert_eq!(user_cache(|_| None), None);
    }

    #[test]
    fn doorbell_cache_takes_precedence_over_the_users_cache() {
        let cache = |named: &'static str| {
            cache_folder(|name| match name {
                "DOORBELL_CACHE" => Some(named.into()),
                "HOME" => Some("/home/me".into()),
                _ => None,
            })
        };
        assert_eq!(cache("/scratch"), Some("/scratch".into()));
        assert_eq!(cache(""), Some("/home/me/.cache/doorbell".into()));
    }
}
