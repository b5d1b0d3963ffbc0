//! Configuration of memory controllers and DRAM.

use doorbell_sim::config::{PowersOfTwo, check};
use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{BitsPerSec, Ps, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mapping::Mapping;
use super::timing::{DramStandard, DramTiming};

/// Page policy: when a row without requests is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PagePolicy {
    /// When its bank needs another row, or at the refresh.
    #[default]
    Open,
    /// As soon as the bank may be precharged.
    Closed,
    /// After `row_idle`, in banks whose recent rows should have been closed earlier.
    Adaptive,
}

/// Row bits used by the bank hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HashRows {
    /// The lowest bits, as many as bank and bank group have together.
    #[default]
    Low,
    /// All bits, folded by XOR.
    All,
}

/// Memory with one latency and one bandwidth, for studies in which memory is not the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a latency and a rate, such as {latency=\"50ns\",rate=\"128Gbps\"}")]
pub struct FlatConfig {
    /// Latency at the controller's port without contention, at most 10us.
    pub latency: Ps,
    /// Bandwidth of each channel, reads and writes together: 1Mbps to 100Tbps.
    pub rate: BitsPerSec,
}

impl FlatConfig {
    /// Time for which a line occupies a channel.
    pub(super) fn line_time(&self) -> Ps {
        self.rate.time_for_bits(8 * LINE_BYTES)
    }

    fn validate(&self) -> Result<(), String> {
        check("flat.latency", &self.latency, ..=Ps::from_us(10))?;
        check("flat.rate", &self.rate, BitsPerSec(1_000_000)..=BitsPerSec(100_000_000_000_000))?;
        Ok(())
    }
}

config! {
    /// Memory controllers and the memory behind them.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct DramConfig {
        /// DRAM standard: "ddr4-2400", "ddr4-2666", "ddr4-3200" or "ddr5-4800".
        pub standard: DramStandard = DramStandard::default(),
        /// A custom timing table instead of the standard's.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timing: Option<DramTiming> = None,
        /// One latency and one bandwidth instead of DRAM devices. Then only `channels` and the distribution
        /// of lines over them by `mapping` and `channel_hash` also matter.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub flat: Option<FlatConfig> = None,
        /// Channels, with a controller each: a power of two, 1 to 64.
        pub channels: u64 [PowersOfTwo(1..=64)] = 1,
        /// Ranks per channel: a power of two, 1 to 8.
        pub ranks: u64 [PowersOfTwo(1..=8)] = 2,
        /// Latency from the controller's port to the command pins, at most 1us.
        pub request_latency: Ps [..=Ps::from_us(1)] = Ps::from_ns(5),
        /// Latency from the data pins to the controller's port, at most 1us.
        pub response_latency: Ps [..=Ps::from_us(1)] = Ps::from_ns(5),
        /// Page policy: "open", "closed" or "adaptive".
        pub page_policy: PagePolicy = PagePolicy::default(),
        /// Time for which an unused row stays open under "adaptive", at most 100us.
        pub row_idle: Ps [..=Ps::from_us(100)] = Ps::from_ns(200),
        /// Address fields from the highest bit to the lowest: `row`, `rank`, `bank`, `bank_group`, `column`,
        /// `channel`. `column:2` is a piece of two bits. Columns are lines of 64 bytes.
        pub mapping: String = "row rank bank column bank_group channel".to_owned(),
        /// Whether bank and bank group are XORed with row bits, which spreads rows that are a power of two
        /// apart.
        pub bank_hash: bool = true,
        /// Row bits for `bank_hash`: "low", as many low ones as bank and bank group have together, or "all",
        /// XORed together in pieces of that many bits, as in ChampSim.
        pub bank_hash_rows: HashRows = HashRows::default(),
        /// Whether the channel is XORed with all address bits above it.
        pub channel_hash: bool = true,
        /// Capacity of a channel's read queue, 1 to 256; further reads wait at the port.
        pub read_queue: u64 [1..=256] = 64,
        /// Capacity of a channel's write queue, 2 to 256.
        pub write_queue: u64 [2..=256] = 64,
        /// Number of waiting writes that starts a drain, from 1 to `write_queue`.
        pub write_high: u64 = 48,
        /// Number of waiting writes at which that drain ends, less than `write_high`.
        pub write_low: u64 = 16,
        /// An idle channel drains its writes if more than this many wait. At most `write_queue`.
        pub write_idle: u64 = 8,
        /// Whether DRAM is refreshed.
        pub refresh: bool = true,
    }
}

impl DramConfig {
    /// The timing table in use.
    pub fn timing(&self) -> DramTiming {
        self.timing.clone().unwrap_or_else(|| self.standard.timing())
    }

    /// Bytes per second of all channels' pins.
    pub fn bytes_per_second(&self) -> u64 {
        let channel = self.flat.map(|flat| flat.rate.0 / 8);
        channel.unwrap_or_else(|| self.timing().bytes_per_second()) * self.channels
    }

    /// Checks the parameters. The message names the parameter and its valid values.
    pub fn validate(&self) -> Result<(), String> {
        self.check_ranges()?;
        for (name, value, min, max) in [
            ("write_high", self.write_high, 1, (self.write_queue, ", which is write_queue")),
            (
                "write_low",
                self.write_low,
                0,
                (self.write_high.saturating_sub(1), ", which is below write_high"),
            ),
            ("write_idle", self.write_idle, 0, (self.write_queue, ", which is write_queue")),
        ] {
            let (max, reason) = max;
            if !(min..=max).contains(&value) {
                return Err(format!("{name} is {value}; it must be from {min} to {max}{reason}"));
            }
        }
        self.flat.map_or(Ok(()), |flat| flat.validate())?;
        let timing = self.timing();
        timing.validate()?;
        Mapping::new(self, &timing).map(|_| ())
    }
}
