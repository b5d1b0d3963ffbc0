//! Writing files to a result folder. Each file is written atomically.

use std::path::{Path, PathBuf};

use doorbell_files::{create_folders, replace};
use serde_json::Value;

use crate::error::RunError;
use crate::plan::config::RunConfig;
use doorbell_results::RunSummary;

/// A folder for results.
#[derive(Clone, Debug)]
pub struct ResultFolder {
    path: PathBuf,
    /// Final path, after publication, for messages.
    shown: PathBuf,
}

impl ResultFolder {
    /// Creates the folder if it does not exist, and checks that it is writable. Called before the run, so
    /// that it fails early.
    pub fn create(path: &Path) -> Result<ResultFolder, RunError> {
        create_folders(path).map_err(RunError::io("create the result folder", path))?;
        tempfile::tempfile_in(path).map_err(RunError::io("write to the result folder", path))?;
        Ok(ResultFolder { path: path.to_owned(), shown: path.to_owned() })
    }

    /// The same folder, with another final path.
    pub(crate) fn shown_as(self, shown: &Path) -> ResultFolder {
        ResultFolder { shown: shown.to_owned(), ..self }
    }

    /// The folder's present path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a subfolder.
    pub fn sub(&self, name: &str) -> Result<ResultFolder, RunError> {
        Ok(ResultFolder::create(&self.path.join(name))?.shown_as(&self.shown.join(name)))
    }

    /// Final path of a file of this name.
    pub fn shown(&self, name: &str) -> PathBuf {
        self.shown.join(name)
    }

    /// Writes a text file, replacing an existing one.
    pub fn write(&self, name: &str, contents: &str) -> Result<(), RunError> {
        self.write_bytes(name, contents.as_bytes())
    }

    /// Writes a binary file, replacing an existing one.
    pub fn write_bytes(&self, name: &str, contents: &[u8]) -> Result<(), RunError> {
        let target = self.path.join(name);
        replace(&target, contents).map_err(RunError::io("write", target))
    }

    /// Writes a configuration with its hash, and returns the hash.
    pub fn write_config(&self, config: &RunConfig) -> Result<String, RunError> {
        let hash = config.hash();
        self.write("config.toml", &format!("# config_hash = \"{hash}\"\n\n{}", config.to_toml()))?;
        Ok(hash)
    }

    /// The text of `config.toml`. With several load points, which have one file each, it is the first
    /// point's.
    pub fn config_text(&self) -> Result<String, RunError> {
        let own = self.path().join("config.toml");
        let path = if own.is_file() { own } else { self.path().join("point-00/config.toml") };
        doorbell_files::read_text(&path).map_err(RunError::io("read", &path))
    }

    /// Writes `summary.json`, and returns its text.
    pub fn write_summary(&self, summary: &RunSummary) -> Result<String, RunError> {
        let text = summary.to_json();
        self.write("summary.json", &text)?;
        Ok(text)
    }
}

/// Indented JSON, with a final newline.
pub(crate) fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a JSON value can be written");
    text.push('\n');
    text
}
