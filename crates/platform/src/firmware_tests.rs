use super::*;
use crate::linux_image::tests::image;

const MIB: u64 = 1 << 20;

fn layout(ram_mib: u64, kernel: &[u8], initrd: Option<&[u8]>) -> Result<BootLayout, BootError> {
    let images = BootImages { firmware: &[0x13; 300_000], kernel, initrd };
    BootLayout::plan(Bytes(ram_mib * MIB), &images)
}

/// A kernel of 1 MiB that uses 5 MiB of memory.
fn kernel() -> Vec<u8> {
    image(2 * MIB, 5 * MIB, MIB as usize)
}

#[test]
fn the_layout_has_no_overlaps_and_is_inside_ram() {
    let initrd = vec![1; 3_000_001];
    for ram_mib in [12, 13, 64, 256, 1024, 14 << 10] {
        let layout = layout(ram_mib, &kernel(), Some(&initrd)).unwrap();
        let placed = layout.initrd.clone().unwrap();
        let tree = layout.device_tree..layout.device_tree + DEVICE_TREE_ROOM_BYTES;
        let order = [layout.firmware, layout.kernel, placed.clone(), tree];
        for pair in order.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{order:x?}");
        }
        assert!(order[0].start == 0x8000_0000 && order[3].end <= 0x8000_0000 + ram_mib * MIB);
        assert_eq!(order[1].start, 0x8020_0000);
        assert_eq!(placed.end - placed.start, 3_000_001);
        assert_eq!((placed.start % 4096, layout.device_tree % (2 * MIB)), (0, 0));
    }
}

#[test]
fn ram_that_is_too_small_is_refused_with_the_needed_size() {
    let initrd = vec![1; 3 << 20];
    let Err(BootError::RamTooSmall { needed, .. }) = layout(11, &kernel(), Some(&initrd)) else {
        panic!("11 MiB were enough");
    };
    // 2 below the kernel, 5 for the kernel, 3 for the file system, 2 for the tree
    assert_eq!(needed, Bytes(12 * MIB));
    assert!(layout(12, &kernel(), Some(&initrd)).is_ok());
    assert!(layout(0, &kernel(), None).is_err());
}

#[test]
fn invalid_files_are_reported() {
    assert!(matches!(layout(64, b"\x7fELF", None), Err(BootError::Kernel(_))));
    assert!(matches!(layout(64, &kernel(), Some(&[])), Err(BootError::EmptyInitrd)));
    for firmware in [vec![], vec![0; 2 * MIB as usize + 1]] {
        let images = BootImages { firmware: &firmware, kernel: &kernel(), initrd: None };
        assert!(matches!(BootLayout::plan(Bytes(64 * MIB), &images), Err(BootError::Firmware { .. })));
    }
}

#[test]
fn a_tree_without_room_for_firmware_additions_is_refused() {
    let layout = layout(64, &kernel(), None).unwrap();
    let room = (2 * MIB - 64 * 1024) as usize;
    assert!(layout.reset_rom(&vec![0; room]).is_ok());
    assert!(layout.reset_rom(&vec![0; room + 1]).is_err());
}

#[test]
fn each_image_is_loaded_at_its_planned_address() {
    let images = BootImages { firmware: &[1; 9], kernel: &kernel(), initrd: Some(&[2; 10]) };
    let layout = BootLayout::plan(Bytes(64 * MIB), &images).unwrap();
    let mut loads = layout.loads(&images, &[3; 100]);
    loads.sort();
    assert_eq!(
        loads,
        [
            (PhysAddr(0x8000_0000), images.firmware),
            (PhysAddr(0x8020_0000), images.kernel),
            (PhysAddr(0x83df_f000), &[2; 10]),
            (PhysAddr(0x83e0_0000), &[3; 100]),
        ]
    );
}

/// The words are from QEMU's ROM, which an integration test also compares.
#[test]
fn the_reset_rom_passes_hart_tree_and_info_and_jumps_to_the_firmware() {
    let layout = layout(64, &kernel(), None).unwrap();
    let rom = layout.reset_rom(&[0; 100]).unwrap();
    let words: Vec<u32> = rom[..24].chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect();
    assert_eq!(words, [0x0000_0297, 0x0282_8613, 0xf140_2573, 0x0202_b583, 0x0182_b283, 0x0002_8067]);
    let data: Vec<u64> = rom[24..].chunks(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
    assert_eq!(data, [0x8000_0000, 0x83e0_0000, 0x4942_534f, 2, 0x8020_0000, 1, 0, 0]);
    assert_eq!(layout.registers(3), [(5, 0x8000_0000), (10, 3), (11, 0x83e0_0000), (12, 0x1028)]);
}
