//! Where cores, slices, memory controllers and root ports stand, as a configuration file spells it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::between;

/// Stops that a ring or mesh can have.
const STOPS_MAX: u32 = 256;

/// What joins the stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FabricKind {
    /// Nothing has a place: everybody is as far from everything, and only the links of cores and of the root complex can be full.
    #[default]
    Crossbar,
    /// Each stop has two neighbours. Messages take the shorter way round.
    Ring,
    /// Stops in rows and columns. Messages go along their column first, then along the row.
    Mesh,
}

/// See the module. Stops are numbered along the ring, or row by row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FabricConfig {
    /// "crossbar": no places, and every way takes `interconnect.latency` alone. "ring", "mesh": to that comes the way from stop to stop;
    /// each of `llc.slices` has `llc.ports` ports of its own.
    pub kind: FabricKind,
    /// Stops of the ring, or of a row of the mesh, 0 to 256; 0: as many as there are cores or slices, whichever are more, or for a mesh so
    /// many in a row that it is about as wide as it is high.
    pub columns: u32,
    /// Rows of the mesh, 0 to 256, which has 256 stops at most; 0: as many as cores or slices need.
    pub rows: u32,
    /// Interconnect cycles from a stop to the next along the ring or a column, 1 to 100. 1 is a ring's of Intel's.
    pub hop: u32,
    /// Interconnect cycles from a stop to the next along a row of the mesh, 1 to 100. Knights Landing, the first of Intel's meshes, takes 1
    /// along a column and 2 along a row (Sodani, "Knights Landing", Hot Chips 27, 2015).
    pub hop_across: u32,
    /// Bytes of lines a cycle of each link between two stops, each way, 1 to 1024. Requests have wires of their own, one a cycle.
    pub bytes_per_cycle: u32,
    /// The stops of the cores, one each; none: core N at stop N, and from the first again when there are no more.
    pub cores: Vec<u32>,
    /// The stops of the slices, one each; none: slice N at stop N, and from the first again when there are no more.
    pub slices: Vec<u32>,
    /// The stops of the memory controllers, which have as many of `dram.channels` each; none: one in the middle of the ring, or two at both
    /// ends of the middle row.
    pub memory: Vec<u32>,
    /// The stops at which devices come in: device N at the Nth, and from the first again; none: all at stop 0. Ports' cards come
    /// first, in their order.
    pub devices: Vec<u32>,
}

impl Default for FabricConfig {
    fn default() -> FabricConfig {
        FabricConfig {
            kind: FabricKind::Crossbar,
            columns: 0,
            rows: 0,
            hop: 1,
            hop_across: 2,
            bytes_per_cycle: 32,
            cores: Vec::new(),
            slices: Vec::new(),
            memory: Vec::new(),
            devices: Vec::new(),
        }
    }
}

/// Who has a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub columns: u32,
    pub rows: u32,
    pub cores: Vec<u8>,
    pub slices: Vec<u8>,
    /// Of each channel's controller.
    pub memory: Vec<u8>,
    pub devices: Vec<u8>,
}

impl FabricConfig {
    /// Whether it says nothing: older configurations keep their hash.
    pub(crate) fn is_default(&self) -> bool {
        *self == FabricConfig::default()
    }

    /// Columns and rows of a fabric with something at each of `tiles` stops.
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

    /// Who stands where on a machine of so many cores, slices and channels, or what is wrong with that; nothing on a crossbar.
    pub(crate) fn places(&self, cores: usize, slices: u32, channels: u64) -> Result<Option<Places>, String> {
        between("hop", self.hop, 1, 100)?;
        between("hop_across", self.hop_across, 1, 100)?;
        between("bytes_per_cycle", self.bytes_per_cycle, 1, 1024)?;
        between("columns", self.columns, 0, STOPS_MAX)?;
        between("rows", self.rows, 0, STOPS_MAX)?;
        if self.kind == FabricKind::Ring && self.rows > 1 {
            return Err(format!("rows is {}, and a ring has one; leave it out", self.rows));
        }
        let (columns, rows) = self.shape(slices.max(cores as u32));
        let stops = columns * rows;
        if stops > STOPS_MAX {
            return Err(format!("columns · rows is {stops}; there can be {STOPS_MAX} stops"));
        }
        if stops == 1 && self.columns == 0 && self.kind != FabricKind::Crossbar {
            return Err("kind is a ring or mesh, but one core with one slice has one stop; set llc.slices, or columns".into());
        }
        let list = |name: &str, given: &[u32], needed: Option<u32>, otherwise: &dyn Fn(u32) -> u32| {
            if let Some(beyond) = given.iter().find(|stop| **stop >= stops) {
                return Err(format!(
                    "{name} has stop {beyond}, but the stops are 0 to {}; columns and rows say how many there are",
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
                "memory has {count} stops for the {channels} channels of dram; each must have as many"
            ));
        }
        let memory = (0..channels as usize).map(|channel| controllers[channel / each]).collect();
        let places = Places { columns, rows, cores, slices, memory, devices };
        Ok((self.kind != FabricKind::Crossbar).then_some(places))
    }
}
