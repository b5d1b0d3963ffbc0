//! Validation of core configurations.

use doorbell_sim::config::{OutOfRange, PowersOfTwo, check};

use crate::config::{CoreKind, PipelineConfig};

/// Describes the values that `section.field` can have.
fn in_section(section: &str, error: OutOfRange) -> String {
    let OutOfRange { field, value, valid } = error;
    format!("{section}{field} is {value}; it can be {}", valid.trim_start_matches("from "))
}

/// Checks that `value` is between `low` and `high`.
fn range(key: &str, value: u32, low: u32, high: u32) -> Result<(), String> {
    check(key, &value, low..=high).map_err(|error| in_section("", error))
}

/// Checks that `value` is zero or a power of two between `low` and `high`.
fn power_or_zero(key: &str, value: u32, low: u32, high: u32) -> Result<(), String> {
    if value == 0 {
        return Ok(());
    }
    check(key, &value, PowersOfTwo(low..=high)).map_err(|error| in_section("", error))
}

/// Checks a table of `entries` in sets of `ways`.
fn sets(key: &str, entries: u32, ways: u32, high: u32) -> Result<(), String> {
    range(&format!("{key}_entries"), entries, 1, high)?;
    if ways != 0 && entries.is_multiple_of(ways) && (entries / ways).is_power_of_two() {
        Ok(())
    } else {
        Err(format!("{key}_ways is {ways}; {entries} ({key}_entries) divided by it must be a power of two"))
    }
}

impl PipelineConfig {
    /// Checks every key; the error names the key and its legal values.
    pub fn validate(&self) -> Result<(), String> {
        let PipelineConfig { decoded, units, branch, tlb, .. } = self;
        for (section, checked) in [
            ("", self.check_ranges()),
            ("decoded.", decoded.check_ranges()),
            ("units.", units.check_ranges()),
            ("branch.", branch.check_ranges()),
            ("tlb.", tlb.check_ranges()),
        ] {
            checked.map_err(|error| in_section(section, error))?;
        }
        power_or_zero("decoded.sets", decoded.sets, 1, 4096)?;
        range("branch.tage_history_max", branch.tage_history_max, branch.tage_history_min + 1, 480)?;
        sets("branch.btb", branch.btb_entries, branch.btb_ways, 1 << 20)?;
        power_or_zero("branch.indirect_entries", branch.indirect_entries, 16, 65536)?;
        sets("tlb.instruction", tlb.instruction_entries, tlb.instruction_ways, 4096)?;
        sets("tlb.data", tlb.data_entries, tlb.data_ways, 4096)?;
        if tlb.second_entries != 0 {
            sets("tlb.second", tlb.second_entries, tlb.second_ways, 65536)?;
        }
        Ok(())
    }

    /// Dispatch slots per cycle, the unit of top-down accounting.
    pub fn slots(&self) -> u32 {
        match self.kind {
            CoreKind::OutOfOrder => self.dispatch_width,
            CoreKind::InOrder => self.issue_width,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_survive_toml() {
        let config = PipelineConfig::default();
        config.validate().unwrap();
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<PipelineConfig>(&text).unwrap(), config);
        assert_eq!(toml::from_str::<PipelineConfig>("kind = \"in-order\"").unwrap().kind, CoreKind::InOrder);
        assert!(toml::from_str::<PipelineConfig>("robs = 3").is_err());
    }

    #[test]
    fn an_illegal_value_is_reported_with_its_range() {
        let mut config = PipelineConfig { rob: 0, ..PipelineConfig::default() };
        assert_eq!(config.validate().unwrap_err(), "rob is 0; it can be 1 to 4096");
        config.rob = 1;
        config.branch.btb_entries = 5000;
        let error = config.validate().unwrap_err();
        assert!(error.starts_with("branch.btb_entries") && error.contains("power of two"), "{error}");
        config.branch.btb_entries = 8192;
        config.tlb.data_ways = 3;
        assert!(config.validate().unwrap_err().starts_with("tlb.data_ways"));
    }
}
