//! Survey of a whole trace before its records are converted to ops: the registers that it uses, and the
//! lengths of its call instructions, which returns reveal. It takes one pass, in constant memory.

use std::collections::{BTreeMap, VecDeque};

use doorbell_sim::OpClass;

use super::{Record, Variant};

/// Longest call instruction; a return further after the call does not belong to it.
const CALL_BYTES_MAX: u64 = 10;
/// Limits of the call depth and of the number of call sites. Real programs stay below them; corrupt traces
/// may not.
const NESTED_MAX: usize = 1 << 20;
const PLACES_MAX: usize = 1 << 20;
/// With fewer records, [`Survey::doubt`] has too little evidence.
const RECORDS_FOR_DOUBT: u64 = 16;

/// Result of a survey; see the module.
#[derive(Clone, Debug)]
pub struct Survey {
    records: u64,
    /// Records with address 0.
    at_zero: u64,
    named: [bool; 256],
    calls: BTreeMap<u64, u8>,
}

/// A survey in progress.
#[derive(Debug)]
struct Surveyor {
    survey: Survey,
    /// Addresses of calls that have not returned yet, the innermost last.
    pending: VecDeque<u64>,
    /// Call to which the previous record returned.
    returned_from: Option<u64>,
}

impl Surveyor {
    #[inline]
    fn add_record(&mut self, record: &Record) {
        let survey = &mut self.survey;
        survey.records += 1;
        survey.at_zero += u64::from(record.ip == 0);
        for register in record.sources.iter().chain(&record.destinations) {
            survey.named[usize::from(*register)] = true;
        }
        if let Some(call) = self.returned_from.take() {
            let length = record.ip.wrapping_sub(call);
            let has_room = survey.calls.len() < PLACES_MAX || survey.calls.contains_key(&call);
            if (1..=CALL_BYTES_MAX).contains(&length) && has_room {
                survey.calls.insert(call, length as u8);
            }
        }
        match record.branch() {
            Some(OpClass::Call | OpClass::IndirectCall) => {
                if self.pending.len() == NESTED_MAX {
                    self.pending.pop_front();
                }
                self.pending.push_back(record.ip);
            }
            Some(OpClass::Return) => self.returned_from = self.pending.pop_back(),
            _ => {}
        }
    }
}

impl Survey {
    /// Surveys a trace, up to its end or first error.
    pub fn of<E>(records: impl IntoIterator<Item = Result<Record, E>>) -> Result<Survey, E> {
        let survey = Survey { records: 0, at_zero: 0, named: [false; 256], calls: BTreeMap::new() };
        let mut surveyor = Surveyor { survey, pending: VecDeque::new(), returned_from: None };
        for record in records {
            surveyor.add_record(&record?);
        }
        Ok(surveyor.survey)
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns whether any record uses the register.
    pub fn names(&self, register: u8) -> bool {
        self.named[usize::from(register)]
    }

    /// Returns whether the survey covers all registers of the record.
    #[inline]
    pub(super) fn covers(&self, record: &Record) -> bool {
        record.sources.iter().chain(&record.destinations).all(|register| self.names(*register))
    }

    /// Length of the call at this address, if it ever returned.
    pub(super) fn call_length(&self, ip: u64) -> Option<u8> {
        self.calls.get(&ip).copied()
    }

    /// Warning that the trace is probably of the other variant: many instruction addresses are 0. In the
    /// wrong variant, they are often read from unused address fields.
    pub fn doubt(&self, variant: Variant) -> Option<String> {
        let many = self.records >= RECORDS_FOR_DOUBT && self.at_zero > self.records / 8;
        many.then(|| {
            format!(
                "{} of {} instructions are at address 0: is the trace of variant {} instead of {}?",
                self.at_zero,
                self.records,
                variant.other().name(),
                variant.name(),
            )
        })
    }
}
