//! Access to the timing models of a machine or of a trace player.

use doorbell_machine::playback::Player;
use doorbell_machine::{Attachment, CoreStats, Machine, Timing};
use doorbell_sim::Ps;

/// Timing models with their counters.
pub(crate) struct Models<'a> {
    /// Time up to which all events are handled. Figures leave out resource bookings after this time.
    pub now: Ps,
    /// The models.
    pub timing: &'a Timing,
    /// Counters of each core.
    pub cores: Vec<CoreStats>,
    /// Attachments, by the names of their devices.
    pub attached: Vec<(String, &'a Attachment)>,
    /// Number of measured cores, which come first. The others run co-runners (neighbours).
    pub own: usize,
    /// Whether co-runners have devices.
    pub neighbours_have_devices: bool,
    /// Number of disks.
    pub disks: usize,
}

impl<'a> Models<'a> {
    /// The models of a machine, if it has any.
    pub fn of(machine: &'a Machine) -> Option<Models<'a>> {
        let timing = machine.timing()?;
        let core = |hart| machine.core_stats(hart).expect("the machine has timing models");
        let attachments = machine.attachments();
        Some(Models {
            now: machine.complete_until(),
            timing,
            cores: (0..machine.harts().len() + machine.corunners().count()).map(core).collect(),
            attached: attachments.map(|(first, attachment)| (first.name().to_owned(), attachment)).collect(),
            own: machine.measured_harts,
            neighbours_have_devices: false,
            disks: machine.disk_stats().len(),
        })
    }

    /// The models of a trace player.
    pub fn of_player(player: &'a Player) -> Models<'a> {
        let cores = (0..player.harts()).map(|hart| player.core_stats(hart));
        let attached = player.attachments().iter();
        Models {
            now: player.now(),
            timing: player.timing(),
            cores: cores.collect(),
            attached: attached.map(|(port, attachment)| (format!("port{port}"), attachment)).collect(),
            own: player.own_harts(),
            neighbours_have_devices: player.neighbours_have_devices(),
            disks: 0,
        }
    }
}
