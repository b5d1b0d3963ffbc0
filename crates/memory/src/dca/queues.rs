//! Exceptions from a device's policy for single queues: target L2, placement of each kind of data, ways.

use doorbell_sim::memory::DmaAccess;
use doorbell_sim::ports::DmaPurpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DEVICES_MAX, DcaPolicy, Part, Place, Placement};
use crate::ways::WayMask;

/// Queues per direction that can be distinguished.
pub(super) const QUEUES_MAX: usize = 16;

/// Direction of a queue's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueueDirection {
    /// From the wire to memory.
    Receive,
    /// From memory to the wire.
    Transmit,
}

/// Exceptions for one queue. Settings not given are those of the device's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueDca {
    /// The device, 0 to 63, as above.
    #[serde(default)]
    pub device: u8,
    /// The queue, 0 to 15; the device must have it.
    pub queue: u8,
    /// "receive" or "transmit"; without it, both queues of that number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<QueueDirection>,
    /// Destination of headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Place>,
    /// Destination of the rest of the frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Place>,
    /// Destination of written-back descriptors, and of head write-backs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<Place>,
    /// The hart whose L2 both "l2" and "queue-l2" mean for this queue, 0 to 15; the machine must have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_hart: Option<u32>,
    /// LLC ways for allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<WayMask>,
    /// LLC ways for descriptors, if different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor_ways: Option<WayMask>,
}

impl QueueDca {
    /// Whether this entry places any data in a core's L2.
    pub(super) fn places_in_l2(&self) -> bool {
        [self.headers, self.payload, self.descriptors].into_iter().flatten().any(Place::is_l2)
    }

    /// Whether an access belongs to this queue. Rings and data of other devices have no direction; an
    /// interrupt message has no queue.
    pub(super) fn matches(&self, access: &DmaAccess) -> bool {
        let direction = match access.purpose {
            DmaPurpose::RxDescriptor | DmaPurpose::RxData => Some(QueueDirection::Receive),
            DmaPurpose::TxDescriptor | DmaPurpose::TxData => Some(QueueDirection::Transmit),
            DmaPurpose::Ring | DmaPurpose::Data => None,
            DmaPurpose::Interrupt => return false,
        };
        let same = (self.device, self.queue) == (access.device, access.tag.queue);
        same && (self.direction.is_none() || self.direction == direction)
    }

    /// Placement of a line; `own` is the queue's default hart.
    pub(super) fn place(&self, policy: &DcaPolicy, access: &DmaAccess, own: usize) -> Placement {
        let part = Part::of(access.purpose, access.offset, policy.header_bytes);
        let place = match part {
            Part::Header => self.headers.unwrap_or(policy.headers),
            Part::Payload => self.payload.unwrap_or(policy.payload),
            Part::Descriptor => self.descriptors.unwrap_or(policy.descriptors),
        };
        let hart = self.l2_hart.map(|hart| hart as usize);
        let (shared, own) = (hart.unwrap_or(policy.l2_hart as usize), hart.unwrap_or(own));
        place.resolve(policy.enabled, self.ways(policy, part), shared, own)
    }

    fn ways(&self, policy: &DcaPolicy, part: Part) -> WayMask {
        match part {
            Part::Header | Part::Payload => self.ways.unwrap_or(policy.ways),
            // The queue's ways apply to all its writes, unless it has separate ways for descriptors.
            Part::Descriptor => {
                let own = self.descriptor_ways.or(self.ways);
                own.or(policy.descriptor_ways).unwrap_or(policy.ways)
            }
        }
    }

    /// Ways in which lines that the queue's reads bring in are allocated.
    pub(super) fn read_ways(&self, policy: &DcaPolicy) -> WayMask {
        self.ways.unwrap_or(policy.ways)
    }

    fn validate(&self, ways: u32, harts: usize) -> Result<(), String> {
        if usize::from(self.device) >= DEVICES_MAX {
            return Err(format!("device is {}; devices are 0 to 63", self.device));
        }
        if usize::from(self.queue) >= QUEUES_MAX {
            return Err(format!("queue is {}; queues are 0 to {}", self.queue, QUEUES_MAX - 1));
        }
        if let Some(hart) = self.l2_hart.filter(|hart| *hart as usize >= harts) {
            return Err(format!("l2_hart is {hart}, but the harts are 0 to {}", harts - 1));
        }
        self.ways.map_or(Ok(()), |mask| mask.validate("ways", ways))?;
        self.descriptor_ways.map_or(Ok(()), |mask| mask.validate("descriptor_ways", ways))
    }

    /// Whether both entries cover the same queue.
    fn overlaps(&self, other: &QueueDca) -> bool {
        let same = (self.device, self.queue) == (other.device, other.queue);
        let apart = matches!((self.direction, other.direction), (Some(a), Some(b)) if a != b);
        same && !apart
    }
}

/// Checks a list of queues.
pub(super) fn validate(queues: &[QueueDca], ways: u32, harts: usize) -> Result<(), String> {
    for (index, entry) in queues.iter().enumerate() {
        entry.validate(ways, harts).map_err(|problem| format!("queues[{index}].{problem}"))?;
        if queues[..index].iter().any(|other| other.overlaps(entry)) {
            return Err(format!("queues names queue {} of device {} twice", entry.queue, entry.device));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dca::{DcaConfig, Inbound, Steering};
    use doorbell_sim::ports::DmaTag;

    /// Placements for a queue: written-back receive descriptor, header, payload, written-back transmit
    /// descriptor.
    fn places(config: &DcaConfig, queue: u8, core: Option<u8>) -> [Placement; 4] {
        let mut steering = Steering::new(config, 4, true, 1 << 10);
        let purposes = [
            (DmaPurpose::RxDescriptor, 0),
            (DmaPurpose::RxData, 0),
            (DmaPurpose::RxData, 64),
            (DmaPurpose::TxDescriptor, 0),
        ];
        purposes.map(|(purpose, offset)| {
            let access = DmaAccess { tag: DmaTag { queue, core }, ..DmaAccess::plain(0, purpose, offset) };
            let part = Part::of(purpose, offset, 64);
            steering.place(&Inbound { access, part, full: true, in_llc: false })
        })
    }

    fn entry(queue: u8) -> QueueDca {
        QueueDca {
            device: 0,
            queue,
            direction: None,
            headers: None,
            payload: None,
            descriptors: None,
            l2_hart: None,
            ways: None,
            descriptor_ways: None,
        }
    }

    const SHARED: Placement = Placement::Llc(WayMask(0xf));
    const fn l2(hart: usize) -> Placement {
        Placement::L2(hart, WayMask(0xf))
    }

    #[test]
    fn queue_lines_go_to_the_hart_with_the_queue_number() {
        let policy =
            DcaPolicy { headers: Place::QueueL2, descriptors: Place::QueueL2, ..DcaPolicy::default() };
        let config = DcaConfig { policy, ..DcaConfig::default() };
        for queue in 0..8 {
            let own = l2(usize::from(queue) % 4);
            assert_eq!(places(&config, queue, None), [own, own, SHARED, own]);
        }
    }

    #[test]
    fn a_listed_queue_has_its_own_places_hart_and_ways() {
        let mut named = entry(2);
        (named.headers, named.l2_hart) = (Some(Place::L2), Some(3));
        (named.payload, named.ways) = (Some(Place::Allocate), Some(WayMask(0x30)));
        let config = DcaConfig { queues: vec![named.clone()], ..DcaConfig::default() };
        let (own, there) = (Placement::Llc(WayMask(0x30)), Placement::L2(3, WayMask(0x30)));
        assert_eq!(places(&config, 2, None), [own, there, own, own]);
        assert_eq!(places(&config, 1, None), [SHARED; 4]);
        let receive = QueueDca { direction: Some(QueueDirection::Receive), ..named.clone() };
        let other = QueueDca { direction: Some(QueueDirection::Transmit), ..entry(2) };
        let config = DcaConfig { queues: vec![receive, other], ..DcaConfig::default() };
        assert_eq!(config.validate(16, 4), Ok(()));
        assert_eq!(places(&config, 2, None), [own, there, own, SHARED]);
        let apart = QueueDca { descriptor_ways: Some(WayMask(0x40)), ..named };
        let config = DcaConfig { queues: vec![apart], ..DcaConfig::default() };
        assert_eq!(places(&config, 2, None)[0], Placement::Llc(WayMask(0x40)));
    }

    #[test]
    fn dca_hints_are_followed_if_enabled_and_the_hart_exists() {
        let on = DcaConfig::default();
        assert_eq!(places(&on, 1, Some(3)), [l2(3); 4]);
        assert_eq!(places(&on, 1, Some(4)), [SHARED; 4], "no such hart");
        assert_eq!(places(&DcaConfig { hints: false, ..on.clone() }, 1, Some(3)), [SHARED; 4]);
        let off = DcaConfig { policy: DcaPolicy::off(), ..on.clone() };
        assert_eq!(places(&off, 1, Some(3)), [Placement::Memory; 4]);
        let mut without_l2 = Steering::new(&on, 4, false, 1 << 10);
        let access = DmaAccess {
            tag: DmaTag { queue: 0, core: Some(1) },
            ..DmaAccess::plain(0, DmaPurpose::RxData, 0)
        };
        let inbound = Inbound { access, part: Part::Header, full: true, in_llc: false };
        assert_eq!(without_l2.place(&inbound), SHARED);
    }

    #[test]
    fn an_invalid_queue_is_rejected_by_name() {
        let refused =
            |queues: Vec<QueueDca>| DcaConfig { queues, ..DcaConfig::default() }.validate(16, 2).unwrap_err();
        assert_eq!(refused(vec![entry(16)]), "queues[0].queue is 16; queues are 0 to 15");
        assert!(refused(vec![QueueDca { l2_hart: Some(2), ..entry(0) }]).contains("the harts are 0 to 1"));
        assert!(refused(vec![entry(1), entry(1)]).contains("queue 1 of device 0 twice"));
        assert!(refused(vec![QueueDca { ways: Some(WayMask(0)), ..entry(1) }]).contains("ways is empty"));
        assert!(refused(vec![QueueDca { device: 64, ..entry(1) }]).contains("0 to 63"));
    }
}
