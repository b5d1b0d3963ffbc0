//! Whether what the configuration of direct cache access names is there: queues, and devices.

use doorbell_nic::NicModel;

use crate::config::{ConfigError, MachineConfig};
use crate::disks::DISK_DEVICES;

/// What a machine has of what direct cache access tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcaDevices {
    /// PCI functions, NICs first.
    pub functions: usize,
    /// Disks.
    pub disks: usize,
}

impl DcaDevices {
    fn has(self, device: u8) -> bool {
        match device.checked_sub(DISK_DEVICES) {
            Some(disk) => usize::from(disk) < self.disks,
            None => usize::from(device) < self.functions,
        }
    }
}

impl MachineConfig {
    /// Devices for which direct cache access is said to be otherwise are ones that the machine has; of a network that has the configuration
    /// in common, one of its machines.
    pub fn check_dca_devices(&self, machines: &[DcaDevices]) -> Result<(), ConfigError> {
        let has = |device| machines.iter().any(|machine| machine.has(device));
        self.check_dca_entries(has, || device_ranges(machines))
    }

    /// The same of devices of which it can be asked whether they are there, and said which are.
    pub(crate) fn check_dca_entries(
        &self,
        has: impl Fn(u8) -> bool,
        device_ranges: impl Fn() -> String,
    ) -> Result<(), ConfigError> {
        let dca = &self.memory.dca;
        let devices = dca.devices.iter().map(|entry| Some(entry.device));
        let queues = dca.queues.iter().map(|entry| Some(entry.device));
        let schedule = dca.schedule.iter().map(|entry| entry.device);
        let named = (0..).zip(devices).map(|(index, device)| ("devices", index, device));
        let named = named.chain((0..).zip(queues).map(|(index, device)| ("queues", index, device)));
        let named = named.chain((0..).zip(schedule).map(|(index, device)| ("schedule", index, device)));
        for (list, index, device) in named {
            let Some(device) = device else { continue };
            if !has(device) {
                let key = format!("memory.dca.{list}[{index}].device");
                return Err(ConfigError::new(key, format!("{device}; {}", device_ranges())));
            }
        }
        Ok(())
    }

    /// Queues that direct cache access treats apart are ones that their devices have.
    pub(crate) fn check_dca_queues(&self) -> Result<(), ConfigError> {
        for (index, entry) in self.memory.dca.queues.iter().enumerate() {
            let port = usize::from(entry.device);
            let model = (port < self.platform.nics as usize).then(|| self.port(port).nic.model);
            let problem = match model {
                _ if entry.queue == 0 => continue,
                Some(NicModel::E82576) => continue,
                Some(NicModel::E82540em) => format!(
                    "queue {}, and port {port}'s 82540EM has one, number 0; set nic.model=82576 for 16",
                    entry.queue
                ),
                None => {
                    format!("queue {}, and device {port}, which is no NIC, has one, number 0", entry.queue)
                }
            };
            return Err(ConfigError::new(format!("memory.dca.queues[{index}].queue"), problem));
        }
        Ok(())
    }
}

fn device_ranges(machines: &[DcaDevices]) -> String {
    let most = |of: fn(&DcaDevices) -> usize| machines.iter().map(of).max().unwrap_or(0);
    let are = |what: &str, first: usize, count: usize| match count {
        0 => format!("there is no {what}"),
        1 => format!("the {what} is {first}"),
        _ => format!("the {what}s are {first} to {}", first + count - 1),
    };
    let functions = are("PCI function", 0, most(|machine| machine.functions));
    let disks = are("disk", usize::from(DISK_DEVICES), most(|machine| machine.disks));
    format!("{functions}, and {disks}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_are_not_there_are_refused_wherever_they_stand() {
        let check = |text: &str, machines: &[DcaDevices]| {
            let config: MachineConfig = toml::from_str(&format!("[memory.dca]\n{text}")).unwrap();
            config.check_dca_devices(machines).map_err(|error| error.to_string())
        };
        let one = DcaDevices { functions: 1, disks: 0 };
        let gateway = DcaDevices { functions: 2, disks: 1 };
        let device = |text: &str| text.replace("DEVICE", "1");
        for (key, entry) in [
            ("devices", "devices = [{ device = DEVICE, policy = {} }]"),
            ("queues", "queues = [{ device = DEVICE, queue = 0 }]"),
            ("schedule", "schedule = [{ after = \"0s\", device = DEVICE, policy = {} }]"),
        ] {
            assert_eq!(
                check(&device(entry), &[one]).unwrap_err(),
                format!("memory.dca.{key}[0].device: 1; the PCI function is 0, and there is no disk")
            );
            assert_eq!(check(&device(entry), &[one, gateway]), Ok(()), "one machine has it");
        }
        let disk = |device: u8| format!("devices = [{{ device = {device}, policy = {{}} }}]");
        assert_eq!(check(&disk(56), &[gateway]), Ok(()));
        assert!(
            check(&disk(57), &[gateway])
                .unwrap_err()
                .ends_with("; the PCI functions are 0 to 1, and the disk is 56")
        );
        assert_eq!(check("schedule = [{ after = \"0s\", policy = {} }]", &[one]), Ok(()), "all of them");
    }
}
