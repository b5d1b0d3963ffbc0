use super::*;

#[test]
fn the_image_fills_the_memory_that_it_protects() {
    let image = image();
    assert_eq!(image.len() as u64, layout::BYTES);
    assert!(layout::BYTES.is_power_of_two() && layout::BASE.is_multiple_of(layout::BYTES));
}
