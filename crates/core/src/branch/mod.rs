//! Branch prediction: direction, target buffer, indirect targets, return stack.
//!
//! A branch is predicted when it is fetched and its outcome is learnt at once, in program order: no predictor sees wrong-path
//! branches or learns late. What a wrong target costs depends on who finds out: the decoder, of a direct branch that the
//! BTB did not know (a *misfetch*), or the branch unit (a *misprediction*).

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

/// What became of a branch's prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prediction {
    /// No branch, or fetched on rightly.
    #[default]
    Right,
    /// The decoder found out that fetch went on at a wrong address.
    Misfetched,
    /// A conditional branch went the other way.
    WrongDirection,
    /// A computed jump or call went elsewhere.
    WrongTarget,
    /// A return went elsewhere.
    WrongReturn,
}

impl Prediction {
    /// Whether only executing the branch shows that it was predicted wrongly.
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

    /// Predicts a branch, compares with what it did, and learns from it.
    #[inline]
    pub(crate) fn predict(&mut self, op: &Op) -> Prediction {
        match op.class {
            OpClass::Branch => self.conditional(op),
            OpClass::Jump => self.direct(op),
            OpClass::Call => {
                self.returns.push(op.pc.wrapping_add(u64::from(op.length)));
                self.direct(op)
            }
            OpClass::IndirectJump => self.computed(op),
            OpClass::IndirectCall => {
                self.returns.push(op.pc.wrapping_add(u64::from(op.length)));
                self.computed(op)
            }
            OpClass::Return => self.returned(op),
            _ => Prediction::Right,
        }
    }

    fn conditional(&mut self, op: &Op) -> Prediction {
        let taken = op.is_taken();
        let predicted = match &mut self.direction {
            Direction::Bimodal(predictor) => predictor.predict(op.pc, taken),
            Direction::BiMode(predictor) => predictor.predict(op.pc, taken),
            Direction::Tage(predictor) => predictor.predict(op.pc, taken),
            Direction::Tournament(predictor) => predictor.predict(op.pc, taken),
        };
        let known = taken && self.btb.look_up(op.pc, op.virt);
        if predicted != taken {
            Prediction::WrongDirection
        } else if taken && !known {
            Prediction::Misfetched
        } else {
            Prediction::Right
        }
    }

    fn direct(&mut self, op: &Op) -> Prediction {
        if self.btb.look_up(op.pc, op.virt) { Prediction::Right } else { Prediction::Misfetched }
    }

    fn computed(&mut self, op: &Op) -> Prediction {
        let in_btb = self.btb.look_up(op.pc, op.virt);
        let right = self.indirect.predict(op.pc, op.virt).unwrap_or(in_btb);
        if right { Prediction::Right } else { Prediction::WrongTarget }
    }

    fn returned(&mut self, op: &Op) -> Prediction {
        let known = self.btb.knows(op.pc);
        if self.returns.pop() != op.virt {
            Prediction::WrongReturn
        } else if !known {
            Prediction::Misfetched
        } else {
            Prediction::Right
        }
    }

    /// The tables, which threads share, go to the other one, and the other way. Histories and return stacks stay.
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

    /// Whether saved predictors are of this kind and size.
    pub(crate) fn fits(&self, fresh: &BranchUnit) -> bool {
        let direction = match (&self.direction, &fresh.direction) {
            (Direction::Bimodal(saved), Direction::Bimodal(fresh)) => saved.fits(fresh),
            (Direction::BiMode(saved), Direction::BiMode(fresh)) => saved.fits(fresh),
            (Direction::Tage(saved), Direction::Tage(fresh)) => saved.fits(fresh),
            (Direction::Tournament(saved), Direction::Tournament(fresh)) => saved.fits(fresh),
            _ => false,
        };
        direction
            && self.btb.fits(&fresh.btb)
            && self.indirect.fits(&fresh.indirect)
            && self.returns.fits(&fresh.returns)
    }
}

/// The part of an address that tells instructions apart: they are two bytes apart at least.
const fn word(pc: u64) -> u64 {
    pc >> 1
}

/// Thirty-two bits that stand for an address; which two addresses look alike does not follow from their low bits alone.
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
    fn a_direct_jump_is_misfetched_once() {
        let mut unit = unit();
        let jump = branch(OpClass::Jump, 0x1000, 0x2000);
        assert_eq!(unit.predict(&jump), Prediction::Misfetched);
        assert_eq!(unit.predict(&jump), Prediction::Right);
    }

    #[test]
    fn returns_go_where_the_calls_came_from() {
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
    fn an_indirect_jump_that_alternates_is_learnt_by_its_history() {
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
        assert_eq!(wrong, 200, "a BTB alone always names the last target");
    }
}
