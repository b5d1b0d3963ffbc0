//! What must be known of a whole trace before its first record can become ops: which registers it ever names, and how long its calls
//! are, which shows when they return. It takes a pass of its own, and memory that does not grow with the trace.

use std::collections::{BTreeMap, VecDeque};

use doorbell_sim::OpClass;

use super::{Record, Variant};

/// A call is not longer than this; a return that comes back further behind it is somebody else's.
const CALL_BYTES_MAX: u64 = 10;
/// The most calls within each other whose lengths are found, and the most places that calls are made from. Programs have
/// less; broken traces have any number.
const NESTED_MAX: usize = 1 << 20;
const PLACES_MAX: usize = 1 << 20;
/// With fewer records than this nothing is concluded from where they lie.
const RECORDS_FOR_DOUBT: u64 = 16;

/// What is known of a trace that was gone through. See the module.
#[derive(Clone, Debug)]
pub struct Survey {
    records: u64,
    /// Those whose address is 0.
    nowhere: u64,
    named: [bool; 256],
    calls: BTreeMap<u64, u8>,
}

/// A survey that is being made.
#[derive(Debug)]
struct Surveyor {
    survey: Survey,
    /// Where calls were made from that have not returned, the last one last.
    begun: VecDeque<u64>,
    /// The call that the next record comes back from.
    returned_from: Option<u64>,
}

impl Surveyor {
    #[inline]
    fn see(&mut self, record: &Record) {
        let survey = &mut self.survey;
        survey.records += 1;
        survey.nowhere += u64::from(record.ip == 0);
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
                if self.begun.len() == NESTED_MAX {
                    self.begun.pop_front();
                }
                self.begun.push_back(record.ip);
            }
            Some(OpClass::Return) => self.returned_from = self.begun.pop_back(),
            _ => {}
        }
    }
}

impl Survey {
    /// Goes through a trace, to its end or its first error.
    pub fn of<E>(records: impl IntoIterator<Item = Result<Record, E>>) -> Result<Survey, E> {
        let survey = Survey { records: 0, nowhere: 0, named: [false; 256], calls: BTreeMap::new() };
        let mut surveyor = Surveyor { survey, begun: VecDeque::new(), returned_from: None };
        for record in records {
            surveyor.see(&record?);
        }
        Ok(surveyor.survey)
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether a record names this register.
    pub fn names(&self, register: u8) -> bool {
        self.named[usize::from(register)]
    }

    /// Whether it has seen all registers of this record.
    #[inline]
    pub(super) fn knows(&self, record: &Record) -> bool {
        record.sources.iter().chain(&record.destinations).all(|register| self.names(*register))
    }

    /// Bytes of the call at this address, if it ever returned: what it came back behind.
    pub(super) fn call_length(&self, ip: u64) -> Option<u8> {
        self.calls.get(&ip).copied()
    }

    /// Why the trace may well be of the other variant than it was read as: what should be instructions' addresses is then often a place
    /// where there was no access, which is 0.
    pub fn doubt(&self, variant: Variant) -> Option<String> {
        let many = self.records >= RECORDS_FOR_DOUBT && self.nowhere > self.records / 8;
        many.then(|| {
            format!(
                "{} of {} instructions are at address 0: is the trace of the variant {} instead of {}?",
                self.nowhere,
                self.records,
                variant.other().name(),
                variant.name(),
            )
        })
    }
}
