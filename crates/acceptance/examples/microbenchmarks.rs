//! Prints the tables of microbenchmarks in `docs/timing-validation.md` as Markdown.
//!
//!     cargo run --release -p doorbell-acceptance --example microbenchmarks

use doorbell_acceptance::micro;

fn main() {
    let only = std::env::args().nth(1);
    for (heading, rows) in micro::GROUPS {
        if only.as_ref().is_some_and(|only| !heading.contains(only.as_str())) {
            continue;
        }
        let started = std::time::Instant::now();
        print!("{}", micro::document(&[(heading, rows())]));
        eprintln!("{heading}: {:.1} s", started.elapsed().as_secs_f64());
    }
}
