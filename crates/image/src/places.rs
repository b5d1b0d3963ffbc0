//! Where a user's cache is.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder for what `doorbell` keeps, from the environment as `variable` reads it: `$XDG_CACHE_HOME/doorbell`, else
/// `~/.cache/doorbell`. The XDG Base Directory Specification has a relative XDG_CACHE_HOME ignored: the cache would
/// change with the working folder.
pub fn user_cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| folder("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("doorbell"))
}

/// The folder for images, packages and checkpoints, found as the command `doorbell` finds it: `$DOORBELL_CACHE`, else the
/// [`user_cache`].
pub fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = variable("DOORBELL_CACHE").filter(|value| !value.is_empty()).map(PathBuf::from);
    named.or_else(|| user_cache(variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_xdg_says_and_a_relative_path_is_ignored() {
        let cache = |xdg: &str, home: &str| {
            let told = [("XDG_CACHE_HOME", xdg.to_owned()), ("HOME", home.to_owned())];
            user_cache(|name| told.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        assert_eq!(cache("/var/cache/me", "/home/me"), Some("/var/cache/me/doorbell".into()));
        for ignored in ["", "cache", "./cache", "../cache"] {
            assert_eq!(cache(ignored, "/home/me"), Some("/home/me/.cache/doorbell".into()));
        }
        assert_eq!(cache("", ""), None);
        assert_eq!(user_cache(|_| None), None);
    }

    #[test]
    fn a_cache_that_is_named_goes_before_the_users() {
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
