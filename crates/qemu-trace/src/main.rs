//! For developers: fetches what a recording needs, and prints where it is.

#![forbid(unsafe_code)]

use doorbell_qemu_trace::{guest, tools::Tools};

fn main() {
    let cache = doorbell_image::user_cache(|name| std::env::var_os(name)).expect("a home folder");
    let mut say = |step: &str| eprintln!("{step}");
    println!("{:?}", Tools::fetch(&cache, &mut say).unwrap());
    println!("{}", guest::image("net-amd64", &cache, &mut say).unwrap().dir().display());
}
