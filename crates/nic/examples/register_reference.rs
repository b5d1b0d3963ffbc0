//! Prints the register reference page.

fn main() {
    print!("{}", doorbell_nic::e82540::register_reference());
}
