//! Validation of core configurations.

use crate::config::{BranchConfig, CoreKind, DecodedConfig, PipelineConfig, TlbConfig, UnitsConfig};

/// Checks that `value` is between `low` and `high`.
fn range(key: &str, value: impl Into<u64>, low: u64, high: u64) -> Result<(), String> {
    let value = value.into();
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} is {value}; it can be {low} to {high}"))
    }
}

/// Checks that `value` is a power of two between `low` and `high`.
fn power(key: &str, value: u32, low: u32, high: u32) -> Result<(), String> {
    if value.is_power_of_two() && (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} is {value}; it can be a power of two from {low} to {high}"))
    }
}

/// Checks a table of `entries` in sets of `ways`.
fn sets(key: &str, entries: u32, ways: u32, high: u32) -> Result<(), String> {
    range(&format!("{key}_entries"), entries, 1, u64::from(high))?;
    if ways != 0 && entries.is_multiple_of(ways) && (entries / ways).is_power_of_two() {
        Ok(())
    } else {
        Err(format!("{key}_ways is {ways}; {entries} ({key}_entries) divided by it must be a power of two"))
    }
}

impl DecodedConfig {
    fn validate(&self) -> Result<(), String> {
        if self.sets != 0 {
            power("decoded.sets", self.sets, 1, 4096)?;
        }
        range("decoded.ways", self.ways, 1, 64)?;
        power("decoded.window", self.window, 4, 64)?;
        range("decoded.latency", self.latency, 1, 20)
    }
}

impl PipelineConfig {
    /// Checks every key; the error names the key and its legal values.
    pub fn validate(&self) -> Result<(), String> {
        for (key, width) in [
            ("fetch_width", self.fetch_width),
            ("decode_width", self.decode_width),
            ("rename_width", self.rename_width),
            ("dispatch_width", self.dispatch_width),
            ("issue_width", self.issue_width),
            ("writeback_width", self.writeback_width),
            ("commit_width", self.commit_width),
            ("drain_width", self.drain_width),
        ] {
            range(key, width, 1, 16)?;
        }
        for (key, entries) in [("rob", self.rob), ("iq", self.iq), ("lq", self.lq), ("sq", self.sq)] {
            range(key, entries, 1, 4096)?;
        }
        range("int_registers", self.int_registers, 33, 8192)?;
        range("float_registers", self.float_registers, 33, 8192)?;
        range("commit_cycles", self.commit_cycles, 1, 20)?;
        range("in_order_window", self.in_order_window, 0, 4096)?;
        range("front_end_depth", self.front_end_depth, 3, 40)?;
        range("fetch_queue", self.fetch_queue, 1, 1024)?;
        range("redirect_cycles", self.redirect_cycles, 1, 100)?;
        range("misfetch_cycles", self.misfetch_cycles, 1, 100)?;
        range("trap_cycles", self.trap_cycles, 1, 1000)?;
        range("serialising_cycles", self.serialising_cycles, 1, 1000)?;
        range("address_cycles", self.address_cycles, 1, 20)?;
        range("forward_cycles", self.forward_cycles, 1, 100)?;
        power("store_sets", self.store_sets, 16, 65536)?;
        range("store_set_clear", self.store_set_clear, 1000, 1_000_000_000)?;
        range("drains_in_flight", self.drains_in_flight, 1, 64)?;
        self.decoded.validate()?;
        self.units.validate()?;
        self.branch.validate()?;
        self.tlb.validate()
    }

    /// Dispatch slots per cycle, the unit of top-down accounting.
    pub fn slots(&self) -> u32 {
        match self.kind {
            CoreKind::OutOfOrder => self.dispatch_width,
            CoreKind::InOrder => self.issue_width,
        }
    }
}

impl UnitsConfig {
    fn validate(&self) -> Result<(), String> {
        for (key, count) in [
            ("alus", self.alus),
            ("multipliers", self.multipliers),
            ("dividers", self.dividers),
            ("float_adders", self.float_adders),
            ("float_multipliers", self.float_multipliers),
            ("float_dividers", self.float_dividers),
            ("load_ports", self.load_ports),
        ] {
            range(&format!("units.{key}"), count, 1, 16)?;
        }
        // With 0 these ops use the integer units and load ports.
        range("units.branch_units", self.branch_units, 0, 16)?;
        range("units.store_ports", self.store_ports, 0, 16)?;
        for (key, cycles) in [
            ("alu_cycles", self.alu_cycles),
            ("branch_cycles", self.branch_cycles),
            ("multiply_cycles", self.multiply_cycles),
            ("divide_cycles", self.divide_cycles),
            ("float_add_cycles", self.float_add_cycles),
            ("float_multiply_cycles", self.float_multiply_cycles),
            ("float_fma_cycles", self.float_fma_cycles),
            ("float_divide_cycles", self.float_divide_cycles),
            ("multiply_interval", self.multiply_interval),
            ("divide_interval", self.divide_interval),
            ("float_add_interval", self.float_add_interval),
            ("float_multiply_interval", self.float_multiply_interval),
            ("float_divide_interval", self.float_divide_interval),
        ] {
            range(&format!("units.{key}"), cycles, 1, 200)?;
        }
        Ok(())
    }
}

impl BranchConfig {
    fn validate(&self) -> Result<(), String> {
        power("branch.bimodal_entries", self.bimodal_entries, 16, 1 << 20)?;
        power("branch.bimode_choice_entries", self.bimode_choice_entries, 16, 1 << 20)?;
        power("branch.bimode_direction_entries", self.bimode_direction_entries, 16, 1 << 20)?;
        range("branch.tage_tables", self.tage_tables, 2, 12)?;
        power("branch.tage_entries", self.tage_entries, 64, 65536)?;
        range("branch.tage_tag_bits", self.tage_tag_bits, 6, 15)?;
        range("branch.tage_history_min", self.tage_history_min, 2, 64)?;
        let above = u64::from(self.tage_history_min) + 1;
        range("branch.tage_history_max", self.tage_history_max, above, 480)?;
        power("branch.tournament_histories", self.tournament_histories, 16, 1 << 16)?;
        power("branch.tournament_local_entries", self.tournament_local_entries, 16, 1 << 20)?;
        power("branch.tournament_global_entries", self.tournament_global_entries, 16, 1 << 20)?;
        power("branch.btb_entries", self.btb_entries, 16, 1 << 20)?;
        range("branch.btb_ways", self.btb_ways, 1, 16)?;
        range("branch.btb_set_shift", self.btb_set_shift, 0, 6)?;
        sets("branch.btb", self.btb_entries, self.btb_ways, 1 << 20)?;
        if self.indirect_entries != 0 {
            power("branch.indirect_entries", self.indirect_entries, 16, 65536)?;
        }
        range("branch.return_stack", self.return_stack, 1, 256)
    }
}

impl TlbConfig {
    fn validate(&self) -> Result<(), String> {
        sets("tlb.instruction", self.instruction_entries, self.instruction_ways, 4096)?;
        sets("tlb.data", self.data_entries, self.data_ways, 4096)?;
        if self.second_entries != 0 {
            sets("tlb.second", self.second_entries, self.second_ways, 65536)?;
        }
        range("tlb.second_cycles", self.second_cycles, 0, 100)?;
        range("tlb.walkers", self.walkers, 1, 8)?;
        range("tlb.walk_cache", self.walk_cache, 0, 64)?;
        range("tlb.fault_cycles", self.fault_cycles, 0, 100_000)?;
        range("tlb.walk_cache_from", self.walk_cache_from, 1, 4)
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
