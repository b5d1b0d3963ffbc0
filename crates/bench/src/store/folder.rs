//! The result folder. Each file appears whole or not at all.

use std::path::{Path, PathBuf};

use doorbell_files::{create_folders, replace};
use serde_json::Value;

use crate::error::RunError;
use crate::plan::config::RunConfig;
use doorbell_results::RunSummary;

/// A folder that results are written to.
#[derive(Clone, Debug)]
pub struct ResultFolder {
    path: PathBuf,
    /// Where it is going to be, for messages.
    shown: PathBuf,
}

impl ResultFolder {
    /// Makes the folder, if need be, and checks that it can be written, before any time is spent.
    pub fn create(path: &Path) -> Result<ResultFolder, RunError> {
        create_folders(path).map_err(RunError::io("create the result folder", path))?;
        tempfile::tempfile_in(path).map_err(RunError::io("write to the result folder", path))?;
        Ok(ResultFolder { path: path.to_owned(), shown: path.to_owned() })
    }

    /// The same folder, which is going to be at another place.
    pub(crate) fn shown_as(self, shown: &Path) -> ResultFolder {
        ResultFolder { shown: shown.to_owned(), ..self }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder inside it.
    pub fn sub(&self, name: &str) -> Result<ResultFolder, RunError> {
        Ok(ResultFolder::create(&self.path.join(name))?.shown_as(&self.shown.join(name)))
    }

    /// Where a file of this name is going to be.
    pub fn shown(&self, name: &str) -> PathBuf {
        self.shown.join(name)
    }

    /// Writes a file, replacing one that is there.
    pub fn write(&self, name: &str, contents: &str) -> Result<(), RunError> {
        self.write_bytes(name, contents.as_bytes())
    }

    /// Writes a file that is no text, replacing one that is there.
    pub fn write_bytes(&self, name: &str, contents: &[u8]) -> Result<(), RunError> {
        let target = self.path.join(name);
        replace(&target, contents).map_err(RunError::io("write", target))
    }

    /// Writes a configuration with its hash, which it returns.
    pub fn write_config(&self, config: &RunConfig) -> Result<String, RunError> {
        let hash = config.hash();
        self.write("config.toml", &format!("# config_hash = \"{hash}\"\n\n{}", config.to_toml()))?;
        Ok(hash)
    }

    /// The configuration as `config.toml` has it; of several loads, which have one each, the first one's.
    pub fn config_text(&self) -> Result<String, RunError> {
        let own = self.path().join("config.toml");
        let path = if own.is_file() { own } else { self.path().join("point-00/config.toml") };
        doorbell_files::read_text(&path).map_err(RunError::io("read", &path))
    }

    /// Writes the summary. With a single point its figures stand at the top as well.
    pub fn write_summary(&self, summary: &RunSummary) -> Result<String, RunError> {
        let text = summary.to_json();
        self.write("summary.json", &text)?;
        Ok(text)
    }
}

/// JSON as people like to read it.
pub(crate) fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a JSON value can be written");
    text.push('\n');
    text
}
