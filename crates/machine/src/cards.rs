//! The attachments of PCI functions. Functions of one PCI device, such as the ports of one card, share one: its bandwidth, and of a
//! PCI Express link its tags and credits. Their requests are served in the order in which they are made, and posted writes of all of them
//! stay in order, as those of one requester do: no function sets ID-based ordering. What an attachment counts stands under the name of its
//! first function.

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
    /// The ports' NICs, then the other functions. One of the others at the place of a port's NIC is that port's NIC.
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
                Some(index) => with_wire(others.remove(index).1, place)?,
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

    /// Adds a function: with the attachment of its device, if there is one, or else its own.
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

/// Refuses a function that cannot be behind a port.
fn with_wire(function: Box<dyn PciFunction>, place: Place) -> Result<Box<dyn PciFunction>, ConfigError> {
    if function.network().is_some() {
        return Ok(function);
    }
    let problem = format!(
        "the one at {place} is in the place of a port's NIC and has no wire; give it `PciFunction::network`, or another place"
    );
    Err(ConfigError::new("functions", problem))
}

/// How many bridges a place is behind. One that is not there is refused when the tree is built.
fn bridges_before(config: &MachineConfig, place: Place) -> u32 {
    let listed = &config.platform.bridges;
    let before = |place: &Place| listed.get(usize::from(place.behind?)).copied();
    // A bridge is behind ones that are listed before it.
    std::iter::successors(before(&place), before).take(listed.len()).count() as u32
}

impl Machine {
    /// The attachment of one of its functions.
    pub fn attachment_of(&self, function: &PluggedFunction) -> &Attachment {
        &self.attachments[usize::from(function.card)]
    }

    pub(crate) fn attachment_mut(&mut self, function: u8) -> &mut Attachment {
        &mut self.attachments[usize::from(self.functions[usize::from(function)].card)]
    }

    /// The same of the first function of a device; `None` of one that shares it.
    pub fn own_attachment(&self, function: &PluggedFunction) -> Option<&Attachment> {
        function.is_first.then(|| self.attachment_of(function))
    }

    /// Each attachment, with its first function.
    pub fn attachments(&self) -> impl Iterator<Item = (&PluggedFunction, &Attachment)> {
        self.functions.iter().filter(|plugged| plugged.is_first).zip(&self.attachments)
    }
}
