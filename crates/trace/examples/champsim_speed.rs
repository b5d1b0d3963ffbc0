//! Measures the speed of reading, surveying and converting a ChampSim trace.
//!
//!     cargo run --release -p doorbell-trace --example champsim_speed -- standard|cloudsuite FILE …
//!     cargo run --release -p doorbell-trace --example champsim_speed -- copy FILE AS_FILE

use std::time::Instant;

use doorbell_trace::champsim::{Error, Reader, Trace, Variant, Writer};

/// Prints records per second, and the rate in bytes of a plain file.
fn report(what: &str, records: u64, variant: Variant, start: Instant) {
    let millions = records as f64 / 1e6 / start.elapsed().as_secs_f64();
    println!("{what}: {millions:.2} million records/s, {:.0} MB/s", millions * variant.record_bytes() as f64);
}

fn measure(file: &str, variant: Variant) -> Result<(), Error> {
    let start = Instant::now();
    let mut reader = Reader::open(file, variant)?;
    let mut last = 0;
    for record in reader.by_ref() {
        last ^= record?.ip;
    }
    // Prevents the compiler from removing the loop.
    std::hint::black_box(last);
    let how = format!("{file} ({}), records", reader.compression().name());
    report(&how, reader.records(), variant, start);

    let start = Instant::now();
    let trace = Trace::open(file, variant, None)?;
    report("  survey", trace.survey().records(), variant, start);

    let start = Instant::now();
    let (mut stream, mut ops, mut count) = (trace.ops()?, Vec::new(), 0);
    while stream.instructions(1000, &mut ops)? > 0 {
        count += ops.len() as u64;
        ops.clear();
    }
    report("  ops", trace.instructions(), variant, start);
    println!("  {count} ops of {} instructions", trace.instructions());
    Ok(())
}

fn copy(from: &str, to: &str, variant: Variant) -> Result<(), Error> {
    let start = Instant::now();
    let mut writer = Writer::create(to, variant)?;
    for record in Reader::open(from, variant)? {
        writer.write_record(&record?)?;
    }
    let records = writer.written();
    writer.finish()?;
    report(&format!("{to} written"), records, variant, start);
    Ok(())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["copy", from, to] => copy(from, to, Variant::Standard),
        [variant @ ("standard" | "cloudsuite"), files @ ..] => {
            let variant = Variant::ALL.into_iter().find(|one| one.name() == *variant);
            files.iter().try_for_each(|file| measure(file, variant.expect("one of the two")))
        }
        _ => {
            eprintln!("champsim_speed standard|cloudsuite FILE … | champsim_speed copy FILE AS_FILE");
            std::process::exit(2);
        }
    };
    if let Err(error) = done {
        eprintln!("champsim_speed: {error}");
        std::process::exit(1);
    }
}
