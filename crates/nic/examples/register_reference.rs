//! Prints the register reference page.

fn main() {
    print!("{}", doorbell_nic::register_reference());
}
