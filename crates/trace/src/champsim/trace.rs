//! A trace file whose ops can be read any number of times.
//!
//! Opening the file surveys it; a second pass yields the ops. They equal those of the whole trace in memory,
//! whatever its length. A pipe can only be read once, with [`Reader`].

use std::iter::Take;
use std::path::{Path, PathBuf};

use super::{Blocks, Error, OpStream, Reader, Record, Survey, Variant};

/// A surveyed trace file; see the module.
#[derive(Clone, Debug)]
pub struct Trace {
    file: PathBuf,
    variant: Variant,
    records_max: u64,
    survey: Survey,
}

impl Trace {
    /// Opens a file and surveys its first `instructions`, or all.
    pub fn open(path: impl AsRef<Path>, variant: Variant, instructions: Option<u64>) -> Result<Trace, Error> {
        let file = path.as_ref().to_owned();
        // The record after the last instruction has its branch target.
        let records_max = instructions.unwrap_or(u64::MAX).saturating_add(1);
        let found = std::fs::metadata(&file).map_err(|error| Error::open(&file, error))?;
        if !found.is_file() && !found.is_dir() {
            let (what, advice) =
                ("not a regular file, but the trace is read twice", "write it to a file, and name that");
            return Err(Error::NoTrace { file, what, advice });
        }
        let survey = Survey::of(Trace::begin(&file, variant, records_max)?)?;
        Ok(Trace { file, variant, records_max, survey })
    }

    fn begin(file: &Path, variant: Variant, records_max: u64) -> Result<Take<Reader>, Error> {
        let records = usize::try_from(records_max).unwrap_or(usize::MAX);
        Ok(Reader::open(file, variant)?.take(records))
    }

    /// Survey of the trace.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// Number of instructions: one less than records.
    pub fn instructions(&self) -> u64 {
        self.survey.records().saturating_sub(1)
    }

    /// Stream of the ops, from the first instruction.
    pub fn ops(&self) -> Result<OpStream<CheckedRecords>, Error> {
        let records = Trace::begin(&self.file, self.variant, self.records_max)?;
        let checked =
            CheckedRecords { file: self.file.clone(), records, survey: self.survey.clone(), count: 0 };
        Ok(OpStream::new(checked, self.survey.clone()))
    }

    /// The same, in blocks.
    pub fn blocks(&self) -> Result<Blocks, Error> {
        Blocks::new(self.ops()?).map_err(|error| Error::open(&self.file, error))
    }
}

/// Records of a surveyed trace, checked against the survey.
pub struct CheckedRecords {
    file: PathBuf,
    records: Take<Reader>,
    survey: Survey,
    count: u64,
}

impl CheckedRecords {
    /// Returns whether the record shows that the file changed after the survey.
    #[inline]
    fn shows_change(&self, record: &Record) -> bool {
        self.count == self.survey.records() || !self.survey.covers(record)
    }
}

impl Iterator for CheckedRecords {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Result<Record, Error>> {
        let next = self.records.next();
        match &next {
            Some(Ok(record)) if self.shows_change(record) => Some(Err(Error::Changed(self.file.clone()))),
            Some(Ok(_)) => {
                self.count += 1;
                next
            }
            None if self.count < self.survey.records() => {
                // Reported once.
                self.count = self.survey.records();
                Some(Err(Error::Changed(self.file.clone())))
            }
            _ => next,
        }
    }
}
