//! Timing models wherever they are: in a machine, or in a player of traces.

use doorbell_machine::playback::Player;
use doorbell_machine::{Attachment, CoreStats, Machine, Timing};
use doorbell_sim::Ps;

/// The timing models, as figures are taken of them.
pub(crate) struct Models<'a> {
    /// Up to when everything has happened: what is booked for later is not in figures.
    pub now: Ps,
    /// The models.
    pub timing: &'a Timing,
    /// What each core has counted up to the present.
    pub cores: Vec<CoreStats>,
    /// The attachments, by the names of what is attached.
    pub attached: Vec<(String, &'a Attachment)>,
    /// Of the cores, those from the first on that are measured; the others are neighbours.
    pub own: usize,
    /// Whether neighbours have devices, too.
    pub neighbours_have_devices: bool,
    /// How many disks there are.
    pub disks: usize,
}

impl<'a> Models<'a> {
    /// A machine's, if it has any.
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

    /// A player's.
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
