//! The real-time clock of QEMU's `virt`: the "goldfish" RTC, a 64-bit count of nanoseconds since 1970
//! with one alarm.
//!
//! Document: Android's goldfish virtual hardware guide, "Goldfish real-time clock". Modelled: all registers,
//! including a settable time. The date at the start of a run is a parameter with a fixed default, because a
//! run must not depend on the current date. Accesses of one or two bytes are undefined: they read as zero and
//! are counted.

use doorbell_sim::{AccessSize, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::registers::{Access, Register, find};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RtcRegister {
    TimeLow,
    TimeHigh,
    AlarmLow,
    AlarmHigh,
    IrqEnabled,
    ClearAlarm,
    AlarmStatus,
    ClearInterrupt,
}

const SECTION: &str = "goldfish RTC";

/// The register table.
pub const REGISTERS: [Register<RtcRegister>; 8] = [
    Register::one(RtcRegister::TimeLow, "TIME_LOW", 0x00, 4, 0, Access::BothHaveEffects, SECTION),
    Register::one(RtcRegister::TimeHigh, "TIME_HIGH", 0x04, 4, 0, Access::ReadWrite, SECTION),
    Register::one(RtcRegister::AlarmLow, "ALARM_LOW", 0x08, 4, 0, Access::BothHaveEffects, SECTION),
    Register::one(RtcRegister::AlarmHigh, "ALARM_HIGH", 0x0c, 4, 0, Access::ReadWrite, SECTION),
    Register::one(RtcRegister::IrqEnabled, "IRQ_ENABLED", 0x10, 4, 0, Access::ReadWrite, SECTION),
    Register::one(RtcRegister::ClearAlarm, "CLEAR_ALARM", 0x14, 4, 0, Access::WriteOnly, SECTION),
    Register::one(RtcRegister::AlarmStatus, "ALARM_STATUS", 0x18, 4, 0, Access::ReadOnly, SECTION),
    Register::one(RtcRegister::ClearInterrupt, "CLEAR_INTERRUPT", 0x1c, 4, 0, Access::WriteOnly, SECTION),
];

/// Start of the machine's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RtcConfig {
    /// Seconds from 1970-01-01T00:00:00Z to the moment at which simulated time begins, 0 to 4294967295.
    pub start_unix_seconds: u32,
}

impl Default for RtcConfig {
    /// 2026-01-01T00:00:00Z.
    fn default() -> RtcConfig {
        RtcConfig { start_unix_seconds: 1_767_225_600 }
    }
}

doorbell_sim::stats! {
    /// RTC counters.
    pub struct RtcStats {
        /// Alarms that went off.
        alarms,
        /// Accesses to no register, of a width that is not defined, or against the register's direction.
        undefined_accesses,
    }
}

/// The device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rtc {
    /// The clock minus simulated time, in nanoseconds, wrapping.
    offset_ns: u64,
    /// The upper half of the time when TIME_LOW was last read.
    latched_high: u32,
    alarm_ns: u64,
    alarm_armed: bool,
    irq_enabled: bool,
    irq_pending: bool,
    stats: RtcStats,
}

fn with_low(value: u64, low: u64) -> u64 {
    (value & !0xffff_ffff) | (low & 0xffff_ffff)
}

fn with_high(value: u64, high: u64) -> u64 {
    (value & 0xffff_ffff) | (high << 32)
}

impl Rtc {
    /// Version of the saved state, which is the device itself.
    pub const VERSION: u32 = 1;

    /// A clock that shows the configured date at time zero.
    pub fn new(config: &RtcConfig) -> Rtc {
        Rtc {
            offset_ns: u64::from(config.start_unix_seconds) * 1_000_000_000,
            latched_high: 0,
            alarm_ns: 0,
            alarm_armed: false,
            irq_enabled: false,
            irq_pending: false,
            stats: RtcStats::default(),
        }
    }

    /// The clock's time: nanoseconds since 1970.
    pub fn time_ns(&self, now: Ps) -> u64 {
        (now.0 / 1000).wrapping_add(self.offset_ns)
    }

    /// The interrupt line.
    pub fn irq(&self) -> bool {
        self.irq_enabled && self.irq_pending
    }

    /// The time at which to call [`expire`](Rtc::expire), if an alarm is armed. Never before `now`.
    pub fn alarm_at(&self, now: Ps) -> Option<Ps> {
        let wait_ns = self.alarm_ns.saturating_sub(self.time_ns(now));
        // The clock counts whole nanoseconds of simulated time, so an alarm goes off at a whole nanosecond.
        let at = (now.0 / 1000).saturating_add(wait_ns).saturating_mul(1000);
        self.alarm_armed.then_some(Ps(at.max(now.0)))
    }

    /// Sets off an armed alarm if its time has come; otherwise does nothing.
    pub fn expire(&mut self, now: Ps) {
        if self.alarm_armed && self.time_ns(now) >= self.alarm_ns {
            self.alarm_armed = false;
            self.irq_pending = true;
            self.stats.alarms += 1;
        }
    }

    /// Reads a register; reading TIME_LOW latches TIME_HIGH.
    pub fn read(&mut self, offset: u64, size: AccessSize, now: Ps) -> u64 {
        let hit = find(&REGISTERS, offset, size).filter(|_| size == AccessSize::B4);
        let value = match hit.map(|hit| hit.id) {
            Some(RtcRegister::TimeLow) => {
                let time = self.time_ns(now);
                self.latched_high = (time >> 32) as u32;
                time as u32
            }
            Some(RtcRegister::TimeHigh) => self.latched_high,
            Some(RtcRegister::AlarmLow) => self.alarm_ns as u32,
            Some(RtcRegister::AlarmHigh) => (self.alarm_ns >> 32) as u32,
            Some(RtcRegister::IrqEnabled) => u32::from(self.irq_enabled),
            Some(RtcRegister::AlarmStatus) => u32::from(self.alarm_armed),
            Some(RtcRegister::ClearAlarm | RtcRegister::ClearInterrupt) | None => {
                self.stats.undefined_accesses += 1;
                0
            }
        };
        u64::from(value)
    }

    /// Writes a register. Afterwards [`irq`](Rtc::irq) and [`alarm_at`](Rtc::alarm_at) may have changed.
    pub fn write(&mut self, offset: u64, size: AccessSize, value: u64, now: Ps) {
        let time = self.time_ns(now);
        let hit = find(&REGISTERS, offset, size).filter(|_| size == AccessSize::B4);
        match hit.map(|hit| hit.id) {
            Some(RtcRegister::TimeLow) => self.set_time(with_low(time, value), now),
            Some(RtcRegister::TimeHigh) => self.set_time(with_high(time, value), now),
            Some(RtcRegister::AlarmLow) => {
                self.alarm_ns = with_low(self.alarm_ns, value);
                self.alarm_armed = true;
                self.expire(now);
            }
            Some(RtcRegister::AlarmHigh) => self.alarm_ns = with_high(self.alarm_ns, value),
            Some(RtcRegister::IrqEnabled) => self.irq_enabled = value & 1 != 0,
            Some(RtcRegister::ClearAlarm) => self.alarm_armed = false,
            Some(RtcRegister::ClearInterrupt) => self.irq_pending = false,
            Some(RtcRegister::AlarmStatus) | None => self.stats.undefined_accesses += 1,
        }
    }

    fn set_time(&mut self, time_ns: u64, now: Ps) {
        self.offset_ns = time_ns.wrapping_sub(now.0 / 1000);
        self.expire(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessSize::{B1, B4, B8};

    const EPOCH_NS: u64 = 1_767_225_600_000_000_000;

    fn write(rtc: &mut Rtc, offset: u64, value: u64, now: Ps) {
        rtc.write(offset, B4, value, now);
    }

    fn arm(rtc: &mut Rtc, alarm_ns: u64, now: Ps) {
        write(rtc, 0x0c, alarm_ns >> 32, now);
        write(rtc, 0x08, alarm_ns, now);
    }

    #[test]
    fn the_high_half_is_latched_by_reading_the_low_half() {
        let mut rtc = Rtc::new(&RtcConfig { start_unix_seconds: 4 });
        let before_carry = Ps(294_967_295_000); // 2^32 − 1 ns
        assert_eq!(rtc.read(0, B4, before_carry), 0xffff_ffff);
        assert_eq!(rtc.read(4, B4, before_carry + Ps::from_ns(1)), 0);
        assert_eq!(rtc.read(0, B4, before_carry + Ps::from_ns(1)), 0);
        assert_eq!(rtc.read(4, B4, before_carry), 1);
    }

    #[test]
    fn an_alarm_goes_off_at_its_nanosecond_and_not_a_picosecond_before() {
        let mut rtc = Rtc::new(&RtcConfig::default());
        write(&mut rtc, 0x10, 1, Ps::ZERO);
        arm(&mut rtc, EPOCH_NS + 5000, Ps(1_500));
        assert_eq!(rtc.read(0x18, B4, Ps(1_500)), 1);
        let at = rtc.alarm_at(Ps(1_500)).unwrap();
        assert_eq!(at, Ps::from_us(5));
        rtc.expire(at - Ps(1));
        assert!(!rtc.irq());
        rtc.expire(at);
        assert!(rtc.irq());
        assert_eq!((rtc.alarm_at(at), rtc.read(0x18, B4, at)), (None, 0));
        write(&mut rtc, 0x1c, 1, at);
        assert!(!rtc.irq());
    }

    #[test]
    fn a_disabled_interrupt_stays_pending_and_a_cleared_alarm_never_goes_off() {
        let mut rtc = Rtc::new(&RtcConfig::default());
        arm(&mut rtc, EPOCH_NS, Ps::ZERO);
        assert!(!rtc.irq());
        write(&mut rtc, 0x10, 1, Ps::ZERO);
        assert!(rtc.irq(), "it was pending already");
        write(&mut rtc, 0x1c, 0, Ps::ZERO);
        arm(&mut rtc, EPOCH_NS + 10, Ps::ZERO);
        write(&mut rtc, 0x14, 0, Ps::ZERO);
        rtc.expire(Ps::from_us(1));
        assert!(!rtc.irq());
    }

    #[test]
    fn setting_the_clock_may_set_off_the_alarm() {
        let mut rtc = Rtc::new(&RtcConfig::default());
        write(&mut rtc, 0x10, 1, Ps::ZERO);
        arm(&mut rtc, EPOCH_NS + 1_000_000_000_000, Ps::ZERO);
        let new = EPOCH_NS + 2_000_000_000_000;
        write(&mut rtc, 0x04, new >> 32, Ps::from_ms(3));
        write(&mut rtc, 0x00, new, Ps::from_ms(3));
        assert_eq!(rtc.time_ns(Ps::from_ms(4)), new + 1_000_000);
        assert!(rtc.irq());
    }

    #[test]
    fn an_alarm_beyond_the_largest_time_does_not_overflow() {
        let mut rtc = Rtc::new(&RtcConfig::default());
        arm(&mut rtc, u64::MAX, Ps::ZERO);
        assert_eq!(rtc.alarm_at(Ps::ZERO), Some(Ps::MAX));
    }

    #[test]
    fn undefined_accesses_are_counted_and_a_restored_clock_continues() {
        let mut rtc = Rtc::new(&RtcConfig::default());
        for (offset, size) in [(0, B1), (0, B8), (0x14, B4), (0x20, B4), (0xffc, B4)] {
            assert_eq!(rtc.read(offset, size, Ps::ZERO), 0);
        }
        rtc.write(0x18, B4, 1, Ps::ZERO);
        assert_eq!(rtc.stats.undefined_accesses, 6);
        arm(&mut rtc, EPOCH_NS + 77, Ps::ZERO);
        let bytes = postcard::to_stdvec(&rtc).unwrap();
        let copy: Rtc = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(copy.alarm_at(Ps(9)), rtc.alarm_at(Ps(9)));
        assert_eq!(copy, rtc);
    }
}
