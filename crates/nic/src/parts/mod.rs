//! Chip-independent parts of a NIC, such as descriptor rings, FIFOs and filters. Each has its own state and
//! does not refer to registers: a chip composes the parts and passes them its register values.

pub(crate) mod buffers;
pub(crate) mod checksum;
pub(crate) mod dma;
pub(crate) mod doorbells;
pub(crate) mod drops;
pub(crate) mod engine;
pub(crate) mod fifo;
pub(crate) mod filter;
pub(crate) mod headers;
pub(crate) mod jobs;
pub(crate) mod measured;
pub(crate) mod moderation;
pub(crate) mod offload;
pub(crate) mod outlet;
pub(crate) mod pause;
pub(crate) mod phy;
pub(crate) mod registers;
pub(crate) mod ring;
pub(crate) mod timer;
pub(crate) mod toeplitz;
pub(crate) mod waits;

#[cfg(test)]
mod tests {
    use std::path::Path;

    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn parts_do_not_refer_to_chips_or_registers() {
        let mut found = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/parts"), &mut found);
        assert!(found.len() > 10);
        let chips = [concat!("e82", "540"), concat!("Reg", "::")];
        assert!(!found.iter().any(|source| chips.iter().any(|chip| source.contains(chip))));
    }
}
