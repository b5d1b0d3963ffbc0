//! Configuration of the topology: stops of cores, slices, memory controllers and root ports.

use doorbell_sim::config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of stops.
const STOPS_MAX: u32 = 256;

/// Topology of the stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FabricKind {
    /// No topology: all distances are equal, and only the links of cores and of the root complex have limited
    /// bandwidth.
    #[default]
    Crossbar,
    /// Each stop has two neighbours. Messages take the shorter direction.
    Ring,
    /// Stops in rows and columns. Messages are routed along the column first, then along the row.
    Mesh,
}

config! {
    /// Topology parameters. Stops are numbered along the ring, or row by row.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct FabricConfig {
        /// "crossbar": no topology; every path takes just `interconnect.latency`. "ring", "mesh": the hops
        /// from stop to stop are added, and each of `llc.slices` has its own `llc.ports` ports.
        pub kind: FabricKind = FabricKind::Crossbar,
        /// Stops of the ring, or of a row of the mesh, 0 to 256. 0 for a ring: the larger of the numbers of
        /// cores and slices; 0 for a mesh: a nearly square mesh.
        pub columns: u32 [0..=STOPS_MAX] = 0,
        /// Rows of the mesh, 0 to 256; it has 256 stops at most. 0: the rows that cores and slices need.
        pub rows: u32 [0..=STOPS_MAX] = 0,
        /// Interconnect cycles from one stop to the next along the ring or a column, 1 to 100. Intel's rings
        /// take 1.
        pub hop: u32 [1..=100] = 1,
        /// Interconnect cycles from one stop to the next along a row of the mesh, 1 to 100. Knights Landing,
        /// Intel's first mesh, takes 1 along a column and 2 along a row (Sodani, "Knights Landing", Hot Chips
        /// 27, 2015).
        pub hop_across: u32 [1..=100] = 2,
        /// Bytes of lines per cycle on each link between two stops, each way, 1 to 1024. Requests have
        /// separate wires, one per cycle.
        pub bytes_per_cycle: u32 [1..=1024] = 32,
        /// Stops of the cores, one each; empty: core N at stop N, modulo the number of stops.
        pub cores: Vec<u32> = Vec::new(),
        /// Stops of the slices, one each; empty: slice N at stop N, modulo the number of stops.
        pub slices: Vec<u32> = Vec::new(),
        /// Stops of the memory controllers, which share `dram.channels` evenly; empty: one in the middle of
        /// the ring, or two at both ends of the middle row.
        pub memory: Vec<u32> = Vec::new(),
        /// Stops where devices are attached: device N at the Nth entry, modulo the list's length; empty: all
        /// at stop 0. The cards of ports come first, in their order.
        pub devices: Vec<u32> = Vec::new(),
    }
}

/// Stops of all components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub columns: u32,
    pub rows: u32,
    pub cores: Vec<u8>,
    pub slices: Vec<u8>,
    /// Stop of the controller of each channel.
    pub memory: Vec<u8>,
    pub devices: Vec<u8>,
}

impl FabricConfig {
    /// Columns and rows of a fabric that needs `tiles` stops.
    fn shape(&self, tiles: u32) -> (u32, u32) {
        let ring = self.kind == FabricKind::Ring;
        let columns = match (self.columns, self.rows) {
            (0, _) if ring => tiles,
            (0, 0) => (1..=tiles).find(|columns| columns * columns >= tiles).unwrap_or(1),
            (0, rows) => tiles.div_ceil(rows),
            (columns, _) => columns,
        };
        let rows = if ring { 1 } else { self.rows };
        (columns, if rows == 0 { tiles.div_ceil(columns) } else { rows })
    }

    /// Stops of all components for these numbers of cores, slices and channels, or an error; `None` for a
    /// crossbar.
    pub(crate) fn places(&self, cores: usize, slices: u32, channels: u64) -> Result<Option<Places>, String> {
        self.check_ranges()?;
        if self.kind == FabricKind::Ring && self.rows > 1 {
            return Err(format!("rows is {}, but a ring has one row; omit it", self.rows));
        }
        let (columns, rows) = self.shape(slices.max(cores as u32));
        let stops = columns * rows;
        if stops > STOPS_MAX {
            return Err(format!("columns · rows is {stops}; it must be at most {STOPS_MAX}"));
        }
        if stops == 1 && self.columns == 0 && self.kind != FabricKind::Crossbar {
            return Err("kind is a ring or mesh, but one core with one slice has one stop; set llc.slices, or columns".into());
        }
        let list = |name: &str, given: &[u32], needed: Option<u32>, otherwise: &dyn Fn(u32) -> u32| {
            if let Some(beyond) = given.iter().find(|stop| **stop >= stops) {
                return Err(format!(
                    "{name} has stop {beyond}, but the stops are 0 to {}; their number is columns · rows",
                    stops - 1
                ));
            }
            match needed {
                Some(needed) if !given.is_empty() && given.len() != needed as usize => {
                    Err(format!("{name} has {} stops; there must be {needed}, or none", given.len()))
                }
                Some(needed) if given.is_empty() => {
                    Ok((0..needed).map(|n| (otherwise(n) % stops) as u8).collect())
                }
                _ => Ok(given.iter().map(|stop| *stop as u8).collect::<Vec<u8>>()),
            }
        };
        let one_each = |n| n;
        let cores = list("cores", &self.cores, Some(cores as u32), &one_each)?;
        let slices = list("slices", &self.slices, Some(slices), &one_each)?;
        let mut controllers = list("memory", &self.memory, None, &one_each)?;
        let mut devices = list("devices", &self.devices, None, &one_each)?;
        if controllers.is_empty() {
            controllers = match self.kind {
                FabricKind::Mesh => vec![columns * (rows / 2), columns * (rows / 2) + columns - 1],
                _ => vec![stops / 2],
            }
            .into_iter()
            .map(|stop| stop as u8)
            .take(channels as usize)
            .collect();
        }
        if devices.is_empty() {
            devices.push(0);
        }
        let each = channels as usize / controllers.len();
        if each * controllers.len() != channels as usize {
            let count = controllers.len();
            return Err(format!(
                "memory has {count} stops for the {channels} channels of dram; each must have the same number"
            ));
        }
        let memory = (0..channels as usize).map(|channel| controllers[channel / each]).collect();
        let places = Places { columns, rows, cores, slices, memory, devices };
        Ok((self.kind != FabricKind::Crossbar).then_some(places))
    }
}
