//! Branch prediction: direction, target buffer, indirect targets, return stack.
//!
//! A branch is predicted when it is fetched and trains the predictors at once, in program order: they see no
//! wrong-path branches and no delayed updates. The penalty of a wrong target depends on where it is detected:
//! in the decoder, for a direct branch that missed in the BTB (a *misfetch*), or in the branch unit (a
//! *misprediction*).

mod bimodal;
mod bimode;
mod btb;
mod counters;
mod indirect;
mod returns;
mod tage;
mod tournament;

use doorbell_sim::op::{Op, OpClass};
use serde::{Deserialize, Serialize};

use crate::config::{BranchConfig, DirectionPredictor};
use bimodal::Bimodal;
use bimode::BiMode;
use btb::Btb;
use indirect::Indirect;
use returns::ReturnStack;
use tage::Tage;
use tournament::Tournament;

/// The outcome of a branch prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prediction {
    /// No branch, or fetch continued at the correct address.
    #[default]
    Right,
    /// The decoder detected that fetch continued at a wrong address.
    Misfetched,
    /// A conditional branch with a mispredicted direction.
    WrongDirection,
    /// An indirect jump or call with a mispredicted target.
    WrongTarget,
    /// A return with a mispredicted target.
    WrongReturn,
}

impl Prediction {
    /// Whether the error is detected only when the branch executes.
    pub const fn is_misprediction(self) -> bool {
        matches!(self, Prediction::WrongDirection | Prediction::WrongTarget | Prediction::WrongReturn)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Direction {
    Bimodal(Bimodal),
    BiMode(BiMode),
    Tage(Box<Tage>),
    Tournament(Tournament),
}

/// All predictors of a core.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BranchUnit {
    direction: Direction,
    btb: Btb,
    indirect: Indirect,
    returns: ReturnStack,
}

impl BranchUnit {
    pub(crate) fn new(config: &BranchConfig) -> BranchUnit {
        let direction = match config.direction {
            DirectionPredictor::Bimodal => Direction::Bimodal(Bimodal::new(config.bimodal_entries)),
            DirectionPredictor::BiMode => {
                let BranchConfig { bimode_choice_entries, bimode_direction_entries, .. } = *config;
                Direction::BiMode(BiMode::new(bimode_choice_entries, bimode_direction_entries))
            }
            DirectionPredictor::Tage => Direction::Tage(Box::new(Tage::new(config))),
            DirectionPredictor::Tournament => Direction::Tournament(Tournament::new(config)),
        };
        BranchUnit {
            direction,
            btb: Btb::new(config.btb_entries, config.btb_ways, config.btb_set_shift),
            indirect: Indirect::new(config.indirect_entries),
            returns: ReturnStack::new(config.return_stack),
        }
    }

    /// Predicts a branch, compares with its outcome, and trains the predictors.
    #[inline]
    pub(crate) fn predict(&mut self, op: &Op) -> Prediction {
        match op.class {
            OpClass::Branch => self.predict_conditional(op),
            OpClass::Jump => self.predict_direct(op),
            OpClass::Call => {
                self.returns.push(op.pc.wrapping_add(u64::from(op.length)));
                self.predict_direct(op)
            }
            OpClass::IndirectJump => self.predict_indirect(op),
            OpClass::IndirectCall => {
                self.returns.push(op.pc.wrapping_add(u64::from(op.length)));
                self.predict_indirect(op)
            }
            OpClass::Return => self.predict_return(op),
            _ => Prediction::Right,
        }
    }

    fn predict_conditional(&mut self, op: &Op) -> Prediction {
        let taken = op.is_taken();
        let predicted = match &mut self.direction {
            Direction::Bimodal(predictor) => predictor.predict(op.pc, taken),
            Direction::BiMode(predictor) => predictor.predict(op.pc, taken),
            Direction::Tage(predictor) => predictor.predict(op.pc, taken),
            Direction::Tournament(predictor) => predictor.predict(op.pc, taken),
        };
        let in_btb = taken && self.btb.look_up(op.pc, op.virt);
        if predicted != taken {
            Prediction::WrongDirection
        } else if taken && !in_btb {
            Prediction::Misfetched
        } else {
            Prediction::Right
        }
    }

    fn predict_direct(&mut self, op: &Op) -> Prediction {
        if self.btb.look_up(op.pc, op.virt) { Prediction::Right } else { Prediction::Misfetched }
    }

    fn predict_indirect(&mut self, op: &Op) -> Prediction {
        let in_btb = self.btb.look_up(op.pc, op.virt);
        let right = self.indirect.predict(op.pc, op.virt).unwrap_or(in_btb);
        if right { Prediction::Right } else { Prediction::WrongTarget }
    }

    fn predict_return(&mut self, op: &Op) -> Prediction {
        let in_btb = self.btb.look_up_branch(op.pc);
        if self.returns.pop() != op.virt {
            Prediction::WrongReturn
        } else if !in_btb {
            Prediction::Misfetched
        } else {
            Prediction::Right
        }
    }

    /// Swaps the tables, which threads share, with the other thread. Histories and return stacks stay.
    pub(crate) fn exchange(&mut self, other: &mut BranchUnit) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.returns, &mut other.returns);
        self.indirect.exchange_history(&mut other.indirect);
        match (&mut self.direction, &mut other.direction) {
            (Direction::BiMode(own), Direction::BiMode(other)) => own.exchange_history(other),
            (Direction::Tage(own), Direction::Tage(other)) => own.exchange_history(other),
            (Direction::Tournament(own), Direction::Tournament(other)) => own.exchange_history(other),
            _ => {}
        }
    }

    /// Whether saved predictors match this configuration.
    pub(crate) fn is_compatible(&self, fresh: &BranchUnit) -> bool {
        let direction = match (&self.direction, &fresh.direction) {
            (Direction::Bimodal(saved), Direction::Bimodal(fresh)) => saved.is_compatible(fresh),
            (Direction::BiMode(saved), Direction::BiMode(fresh)) => saved.is_compatible(fresh),
            (Direction::Tage(saved), Direction::Tage(fresh)) => saved.is_compatible(fresh),
            (Direction::Tournament(saved), Direction::Tournament(fresh)) => saved.is_compatible(fresh),
            _ => false,
        };
        direction
            && self.btb.is_compatible(&fresh.btb)
            && self.indirect.is_compatible(&fresh.indirect)
            && self.returns.is_compatible(&fresh.returns)
    }
}

/// The address without its lowest bit: instructions are at least two bytes apart.
const fn word(pc: u64) -> u64 {
    pc >> 1
}

/// A 32-bit hash of an address. Collisions do not depend on the low bits alone.
const fn digest(address: u64) -> u32 {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> BranchUnit {
        BranchUnit::new(&BranchConfig::default())
    }

    fn branch(class: OpClass, pc: u64, target: u64) -> Op {
        Op { class, pc, virt: target, length: 4, flags: Op::TAKEN, ..Op::default() }
    }

    #[test]
    fn a_direct_jump_misfetches_once() {
        let mut unit = unit();
        let jump = branch(OpClass::Jump, 0x1000, 0x2000);
        assert_eq!(unit.predict(&jump), Prediction::Misfetched);
        assert_eq!(unit.predict(&jump), Prediction::Right);
    }

    #[test]
    fn return_stack_predicts_nested_returns() {
        let mut unit = unit();
        let sites = [0x1000, 0x3000, 0x5000];
        for round in 0..2 {
            for site in sites {
                unit.predict(&branch(OpClass::Call, site, 0x8000));
            }
            for site in sites.iter().rev() {
                let prediction = unit.predict(&branch(OpClass::Return, 0x8010, site + 4));
                let first = round == 0 && *site == 0x5000;
                assert_eq!(prediction, if first { Prediction::Misfetched } else { Prediction::Right });
            }
        }
        assert_eq!(unit.predict(&branch(OpClass::Return, 0x8010, 0x1234)), Prediction::WrongReturn);
    }

    #[test]
    fn an_alternating_indirect_jump_is_learnt_by_history() {
        let mut unit = unit();
        let wrong: Vec<bool> = (0..200u64)
            .map(|turn| unit.predict(&branch(OpClass::IndirectJump, 0x1000, 0x2000 + turn % 3 * 0x100)))
            .map(Prediction::is_misprediction)
            .collect();
        assert!(wrong[0] && wrong[1]);
        assert!(wrong[100..].iter().all(|wrong| !wrong), "{wrong:?}");
        let mut plain = BranchUnit::new(&BranchConfig { indirect_entries: 0, ..BranchConfig::default() });
        let wrong = (0..200u64)
            .map(|turn| plain.predict(&branch(OpClass::IndirectJump, 0x1000, 0x2000 + turn % 3 * 0x100)))
            .filter(|prediction| prediction.is_misprediction())
            .count();
        assert_eq!(wrong, 200, "a BTB alone always predicts the last target");
    }
}
