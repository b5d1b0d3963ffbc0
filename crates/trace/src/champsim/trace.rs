//! A trace in a file, whose ops can be had any number of times.
//!
//! It is gone through twice: surveyed when it is opened, and read again for its ops. So the ops are those that the whole trace in
//! memory would become, whatever its length. A pipe can only be read once, by [`Reader`].

use std::iter::Take;
use std::path::{Path, PathBuf};

use super::reader::can_be_read_again;
use super::{Blocks, Error, OpStream, Reader, Record, Survey, Variant};

/// See the module.
#[derive(Clone, Debug)]
pub struct Trace {
    file: PathBuf,
    variant: Variant,
    records_max: u64,
    survey: Survey,
}

impl Trace {
    /// Opens a file and surveys it: its first so many instructions, or all of them.
    pub fn open(path: impl AsRef<Path>, variant: Variant, instructions: Option<u64>) -> Result<Trace, Error> {
        let file = path.as_ref().to_owned();
        // Where the last instruction went, its successor's record says.
        let records_max = instructions.unwrap_or(u64::MAX).saturating_add(1);
        let again = can_be_read_again(&file).map_err(|error| Error::open(&file, error))?;
        if !again && !file.is_dir() {
            let (what, advice) =
                ("no ordinary file, and a trace is read twice", "write it into a file, and name that");
            return Err(Error::NoTrace { file, what, advice });
        }
        let survey = Survey::of(Trace::begin(&file, variant, records_max)?)?;
        Ok(Trace { file, variant, records_max, survey })
    }

    fn begin(file: &Path, variant: Variant, records_max: u64) -> Result<Take<Reader>, Error> {
        let records = usize::try_from(records_max).unwrap_or(usize::MAX);
        Ok(Reader::open(file, variant)?.take(records))
    }

    /// What is known of it.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// How many instructions it becomes: one less than it has records.
    pub fn instructions(&self) -> u64 {
        self.survey.records().saturating_sub(1)
    }

    /// Its ops, from the first instruction on.
    pub fn ops(&self) -> Result<OpStream<Again>, Error> {
        let records = Trace::begin(&self.file, self.variant, self.records_max)?;
        let again = Again { file: self.file.clone(), records, survey: self.survey.clone(), seen: 0 };
        Ok(OpStream::new(again, self.survey.clone()))
    }

    /// The same in blocks.
    pub fn blocks(&self) -> Result<Blocks, Error> {
        Blocks::new(self.ops()?).map_err(|error| Error::open(&self.file, error))
    }
}

/// The records of a trace that was surveyed, as long as it is the same trace.
pub struct Again {
    file: PathBuf,
    records: Take<Reader>,
    survey: Survey,
    seen: u64,
}

impl Again {
    /// Whether the trace is another one since it was surveyed, as this record shows.
    #[inline]
    fn is_new(&self, record: &Record) -> bool {
        self.seen == self.survey.records() || !self.survey.knows(record)
    }
}

impl Iterator for Again {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Result<Record, Error>> {
        let next = self.records.next();
        match &next {
            Some(Ok(record)) if self.is_new(record) => Some(Err(Error::Changed(self.file.clone()))),
            Some(Ok(_)) => {
                self.seen += 1;
                next
            }
            None if self.seen < self.survey.records() => {
                // Said once.
                self.seen = self.survey.records();
                Some(Err(Error::Changed(self.file.clone())))
            }
            _ => next,
        }
    }
}
