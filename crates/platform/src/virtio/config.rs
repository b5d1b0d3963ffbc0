//! Disk parameters: timing, and the limit of guest writes.

use doorbell_sim::{BitsPerSec, Bytes, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters common to all disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DiskConfig {
    /// Time from the driver's notification to the completion, not counting the data transfer, at most 1s.
    /// Latencies of several requests overlap.
    pub latency: Ps,
    /// Data rate, 1Mbps to 1Tbps. Requests are transferred one at a time.
    pub bandwidth: BitsPerSec,
    /// Most host memory for a disk's written blocks, at most 16GiB; a write beyond it fails.
    pub written_max: Bytes,
}

impl Default for DiskConfig {
    /// A mid-range solid-state disk.
    fn default() -> DiskConfig {
        DiskConfig {
            latency: Ps::from_us(50),
            bandwidth: BitsPerSec(16_000_000_000),
            written_max: Bytes(1 << 30),
        }
    }
}

const LATENCY_MAX: Ps = Ps(Ps::PER_SECOND);
const BANDWIDTH_MIN: BitsPerSec = BitsPerSec(1_000_000);
const BANDWIDTH_MAX: BitsPerSec = BitsPerSec(1_000_000_000_000);

impl DiskConfig {
    /// The upper limit of [`Self::written_max`].
    pub const WRITTEN_MAX: Bytes = Bytes(16 << 30);

    /// Checks every value; an error has the key within the section, and the problem.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        if self.latency > LATENCY_MAX {
            return Err(("latency", format!("{} is more than {LATENCY_MAX}", self.latency)));
        }
        if !(BANDWIDTH_MIN..=BANDWIDTH_MAX).contains(&self.bandwidth) {
            let problem =
                format!("{} is not from \"{BANDWIDTH_MIN}\" to \"{BANDWIDTH_MAX}\"", self.bandwidth);
            return Err(("bandwidth", problem));
        }
        if self.written_max > Self::WRITTEN_MAX {
            let problem = format!("{} is more than \"{}\"", self.written_max, Self::WRITTEN_MAX);
            return Err(("written_max", problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_name_their_key() {
        assert_eq!(DiskConfig::default().validate(), Ok(()));
        let slow = DiskConfig { latency: Ps(Ps::PER_SECOND + 1), ..DiskConfig::default() };
        assert_eq!(slow.validate().unwrap_err().0, "latency");
        let still = DiskConfig { bandwidth: BitsPerSec(0), ..DiskConfig::default() };
        assert_eq!(still.validate().unwrap_err().0, "bandwidth");
        let endless = DiskConfig { written_max: Bytes(u64::MAX), ..DiskConfig::default() };
        assert_eq!(endless.validate().unwrap_err().0, "written_max");
    }
}
