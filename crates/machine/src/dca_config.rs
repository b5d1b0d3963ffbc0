//! Checks that the queues and devices named in the configuration of direct cache access exist.

use doorbell_nic::NicModel;

use crate::config::{ConfigError, MachineConfig};
use crate::disks::DISK_DEVICES;

/// Device counts of a machine, to check the device numbers in direct cache access settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcaDevices {
    /// PCI functions, including NICs.
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
    /// Checks that devices with their own direct cache access settings exist. In a network that shares the
    /// configuration, one machine must have the device.
    pub fn check_dca_devices(&self, machines: &[DcaDevices]) -> Result<(), ConfigError> {
        let has = |device| machines.iter().any(|machine| machine.has(device));
        self.check_dca_entries(has, || device_ranges(machines))
    }

    /// Checks the same, with `has` to test for a device and `device_ranges` to describe the devices that
    /// exist.
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

    /// Checks that queues with their own direct cache access settings exist.
    pub(crate) fn check_dca_queues(&self) -> Result<(), ConfigError> {
        for (index, entry) in self.memory.dca.queues.iter().enumerate() {
            let port = usize::from(entry.device);
            let model = (port < self.platform.nics as usize).then(|| self.port(port).nic.model);
            let problem = match model {
                _ if entry.queue == 0 => continue,
                Some(NicModel::E82576) => continue,
                Some(NicModel::E82540em) => format!(
                    "queue {}, but port {port}'s 82540EM has only queue 0; set nic.model=82576 for 16 queues",
                    entry.queue
                ),
                None => {
                    format!("queue {}, but device {port} is not a NIC and has only queue 0", entry.queue)
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
    fn missing_devices_are_rejected_in_every_list() {
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
        assert_eq!(
            check("schedule = [{ after = \"0s\", policy = {} }]", &[one]),
            Ok(()),
            "applies to all devices"
        );
    }
}
