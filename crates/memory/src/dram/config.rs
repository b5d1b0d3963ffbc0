//! The memory system's parameters.

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{BitsPerSec, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mapping::Mapping;
use super::timing::{DramStandard, DramTiming};

/// When a row that nobody asks for is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PagePolicy {
    /// When another row of its bank is wanted, or at the refresh.
    #[default]
    Open,
    /// As soon as the bank may be precharged.
    Closed,
    /// After `row_idle`, in banks whose last rows would have been better closed.
    Adaptive,
}

/// The bits of a row that the hash of the bank takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HashRows {
    /// As many low ones as bank and bank group have.
    #[default]
    Low,
    /// All of them, folded.
    All,
}

/// Memory of one latency and one bandwidth, as studies have it in which memory is not the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a latency and a rate, such as {latency=\"50ns\",rate=\"128Gbps\"}")]
pub struct FlatConfig {
    /// From the controller's port to the data at it, if nothing is in the way, at most 10us.
    pub latency: Ps,
    /// What each channel moves, reads and writes together: 1Mbps to 100Tbps.
    pub rate: BitsPerSec,
}

impl FlatConfig {
    /// For which a line takes a channel.
    pub(super) fn line_time(&self) -> Ps {
        self.rate.time_for_bits(8 * LINE_BYTES)
    }

    fn validate(&self) -> Result<(), String> {
        if self.latency > Ps::from_us(10) {
            return Err(format!("flat.latency is {}; it must be at most 10us", self.latency));
        }
        if !(1_000_000..=100_000_000_000_000).contains(&self.rate.0) {
            return Err(format!("flat.rate is {}; it must be from 1Mbps to 100Tbps", self.rate));
        }
        Ok(())
    }
}

/// Memory controllers and what hangs on them, as a configuration file spells them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DramConfig {
    /// The devices: "ddr4-2400", "ddr4-2666", "ddr4-3200" or "ddr5-4800".
    pub standard: DramStandard,
    /// A table of the user's own in place of the standard's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<DramTiming>,
    /// One latency and one bandwidth in place of the devices. What else counts then is `channels`, and how `mapping` and
    /// `channel_hash` spread lines over them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flat: Option<FlatConfig>,
    /// Channels, each with a controller: a power of two, 1 to 64.
    pub channels: u64,
    /// Ranks of a channel: a power of two, 1 to 8.
    pub ranks: u64,
    /// From the controller's port to the command pins. At most 1us.
    pub request_latency: Ps,
    /// From the data pins to the controller's port. At most 1us.
    pub response_latency: Ps,
    /// When rows are closed: "open", "closed" or "adaptive".
    pub page_policy: PagePolicy,
    /// How long a row stays open unused under "adaptive". At most 100us.
    pub row_idle: Ps,
    /// The parts of an address from its highest bit to its lowest, of `row`, `rank`, `bank`, `bank_group`, `column`,
    /// `channel`; `column:2` are two bits of it. Columns are lines of 64 bytes.
    pub mapping: String,
    /// Bank and bank group are XORed with the row's low bits, which spreads rows that are a power of two apart.
    pub bank_hash: bool,
    /// Which bits of the row `bank_hash` takes: "low" ones, as many as bank and bank group have, or "all", folded upon each other in
    /// pieces of that many bits, as ChampSim does it.
    pub bank_hash_rows: HashRows,
    /// The channel is XORed with all address bits above it.
    pub channel_hash: bool,
    /// Reads that a channel's queue holds; more wait at the port: 1 to 256.
    pub read_queue: u64,
    /// Writes that a channel's queue holds: 2 to 256.
    pub write_queue: u64,
    /// With so many writes waiting the channel turns to writing. From 1 to `write_queue`.
    pub write_high: u64,
    /// It turns back when so few are left. Less than `write_high`.
    pub write_low: u64,
    /// With more than this many writes waiting and nothing to read it writes as well. At most `write_queue`.
    pub write_idle: u64,
    /// Whether rows are refreshed.
    pub refresh: bool,
}

impl Default for DramConfig {
    /// One channel of DDR4-2400, two ranks; lines go round channels and bank groups first.
    fn default() -> DramConfig {
        DramConfig {
            standard: DramStandard::default(),
            timing: None,
            flat: None,
            channels: 1,
            ranks: 2,
            request_latency: Ps::from_ns(5),
            response_latency: Ps::from_ns(5),
            page_policy: PagePolicy::default(),
            row_idle: Ps::from_ns(200),
            mapping: "row rank bank column bank_group channel".to_owned(),
            bank_hash: true,
            bank_hash_rows: HashRows::default(),
            channel_hash: true,
            read_queue: 64,
            write_queue: 64,
            write_high: 48,
            write_low: 16,
            write_idle: 8,
            refresh: true,
        }
    }
}

impl DramConfig {
    /// The table in force.
    pub fn timing(&self) -> DramTiming {
        self.timing.clone().unwrap_or_else(|| self.standard.timing())
    }

    /// Bytes a second of all channels' pins.
    pub fn bytes_per_second(&self) -> u64 {
        let channel = self.flat.map(|flat| flat.rate.0 / 8);
        channel.unwrap_or_else(|| self.timing().bytes_per_second()) * self.channels
    }

    /// Says what is wrong with the parameters, naming the one and what it can be.
    pub fn validate(&self) -> Result<(), String> {
        for (name, value, max) in [("channels", self.channels, 64), ("ranks", self.ranks, 8)] {
            if !value.is_power_of_two() || value > max {
                return Err(format!("{name} is {value}; it must be a power of two from 1 to {max}"));
            }
        }
        for (name, value, max) in [
            ("request_latency", self.request_latency, Ps::from_us(1)),
            ("response_latency", self.response_latency, Ps::from_us(1)),
            ("row_idle", self.row_idle, Ps::from_us(100)),
        ] {
            if value > max {
                return Err(format!("{name} is {value}; it must be at most {max}"));
            }
        }
        for (name, value, min, max) in [
            ("read_queue", self.read_queue, 1, (256, "")),
            ("write_queue", self.write_queue, 2, (256, "")),
            ("write_high", self.write_high, 1, (self.write_queue, ", which is write_queue")),
            (
                "write_low",
                self.write_low,
                0,
                (self.write_high.saturating_sub(1), ", which is below write_high"),
            ),
            ("write_idle", self.write_idle, 0, (self.write_queue, ", which is write_queue")),
        ] {
            let (max, why) = max;
            if !(min..=max).contains(&value) {
                return Err(format!("{name} is {value}; it must be from {min} to {max}{why}"));
            }
        }
        self.flat.map_or(Ok(()), |flat| flat.validate())?;
        let timing = self.timing();
        timing.validate()?;
        Mapping::new(self, &timing).map(|_| ())
    }
}
