//! Attachments of PCI functions. Functions of one PCI device, such as the ports of one card, share an
//! attachment: its bandwidth and, on a PCI Express link, its tags and credits. Requests are served in issue
//! order. Posted writes of all functions stay in order, like those of one requester, because no function sets
//! ID-based ordering. An attachment's counters have the name of its first function.

use doorbell_attach::Attachment;
use doorbell_pcie::{PciFunction, Place};

use crate::config::{ConfigError, MachineConfig};
use crate::functions::{FUNCTIONS_MAX, PluggedFunction};
use crate::machine::Machine;
use crate::ports_config::PortConfig;

/// Functions, NICs first, and their attachments.
#[derive(Default)]
pub(crate) struct Cards {
    pub functions: Vec<PluggedFunction>,
    pub attachments: Vec<Attachment>,
}

impl Cards {
    /// Creates the ports' NICs, then the other functions. A function at the place of a port's NIC replaces
    /// that NIC.
    pub fn new(
        config: &MachineConfig,
        mut others: Vec<(Place, Box<dyn PciFunction>)>,
    ) -> Result<Cards, ConfigError> {
        if others.len() > FUNCTIONS_MAX {
            let problem = format!("{}; a machine has at most {FUNCTIONS_MAX} apart from NICs", others.len());
            return Err(ConfigError::new("functions", problem));
        }
        let mut cards = Cards::default();
        for port in 0..config.platform.nics as usize {
            let PortConfig { nic, attach, pcie, link } = config.port(port);
            let place = config.ports().place(port);
            let nic = match others.iter().position(|(at, _)| *at == place) {
                Some(index) => require_wire(others.remove(index).1, place)?,
                None => doorbell_nic::new(nic, link.rate, port)
                    .map_err(|error| ConfigError::in_part("nic", &error.to_string()))?,
            };
            let attachment = || Attachment::new(&attach, &pcie, bridges_before(config, place));
            cards.plug(place, PluggedFunction::nic(port as u8, nic, place), attachment);
        }
        for (number, (place, function)) in others.into_iter().enumerate() {
            let attachment = || Attachment::new(&config.attach, &config.pcie, bridges_before(config, place));
            cards.plug(place, PluggedFunction::other(number, function, place), attachment);
        }
        Ok(cards)
    }

    /// Adds a function. It shares the attachment of its device, or gets a new one if it is the device's first
    /// function.
    fn plug(&mut self, at: Place, mut function: PluggedFunction, attachment: impl FnOnce() -> Attachment) {
        let device = |place: Place| Place { function: 0, ..place };
        let first = self.functions.iter().find(|other| device(other.place()) == device(at));
        let shared = first.map(|other| other.card);
        let card = shared.unwrap_or_else(|| {
            self.attachments.push(attachment());
            self.attachments.len() as u8 - 1
        });
        (function.card, function.is_first) = (card, shared.is_none());
        self.functions.push(function);
    }
}

/// Rejects a function without a wire, which cannot replace a port's NIC.
fn require_wire(function: Box<dyn PciFunction>, place: Place) -> Result<Box<dyn PciFunction>, ConfigError> {
    if function.network().is_some() {
        return Ok(function);
    }
    let problem = format!(
        "the function at {place} replaces a port's NIC but has no wire; implement `PciFunction::network`, or use another place"
    );
    Err(ConfigError::new("functions", problem))
}

/// Number of bridges above a place. Building the tree rejects a place behind a missing bridge.
fn bridges_before(config: &MachineConfig, place: Place) -> u32 {
    let listed = &config.platform.bridges;
    let before = |place: &Place| listed.get(usize::from(place.behind?)).copied();
    // A bridge can only be behind bridges listed before it.
    std::iter::successors(before(&place), before).take(listed.len()).count() as u32
}

impl Machine {
    /// Attachment of a function.
    pub fn attachment_of(&self, function: &PluggedFunction) -> &Attachment {
        &self.attachments[usize::from(function.card)]
    }

    pub(crate) fn attachment_mut(&mut self, function: u8) -> &mut Attachment {
        &mut self.attachments[usize::from(self.functions[usize::from(function)].card)]
    }

    /// Attachment of a device's first function; `None` for the device's other functions.
    pub fn own_attachment(&self, function: &PluggedFunction) -> Option<&Attachment> {
        function.is_first.then(|| self.attachment_of(function))
    }

    /// Each attachment, with its first function.
    pub fn attachments(&self) -> impl Iterator<Item = (&PluggedFunction, &Attachment)> {
        self.functions.iter().filter(|plugged| plugged.is_first).zip(&self.attachments)
    }
}
