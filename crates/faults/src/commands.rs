//! Command lines of a history's processes, and the compared results. Paths are relative to the world's
//! folder.

/// A command line of `doorbell` and its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its name in logs.
    pub name: &'static str,
    /// Arguments without the program and `--cache`, separated by spaces. `{archive}` is the folder of a small
    /// package archive.
    pub words: &'static str,
    /// The folder of its results.
    pub results: &'static str,
    /// Kind of that folder.
    pub kind: Kind,
}

/// Kind of a results folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A result folder, replaced as a whole, with this number of loads.
    Whole(usize),
    /// An experiment's folder, to which points are added.
    Points,
    /// An image in the cache, among others.
    Image,
}

/// The experiment of the sweeps.
pub const EXPERIMENT: &str = r#"
benchmark = "testpmd"
preset = "fast"
set = ["run.warmup=0ns", "run.duration=20us", "run.drain=10us"]

[grid]
"core.frequency" = ["1GHz", "3GHz"]

[measure]
rates = ["1Mpps", "2Mpps"]
"#;

/// Image builds, which the other commands do not run in: a build if the image is missing, and a forced
/// rebuild.
pub const IMAGE_COMMANDS: [Command; 2] = [
    Command {
        name: "image",
        words: "image build recipe --mirror copy:{archive}/mirror/debian --keyring {archive}/archive.gpg",
        results: "cache/images",
        kind: Kind::Image,
    },
    Command {
        name: "image-again",
        words: "image build recipe --force --mirror copy:{archive}/mirror/debian --keyring {archive}/archive.gpg",
        results: "cache/images",
        kind: Kind::Image,
    },
];

/// The other commands. Several write to the same folder, and boot their guest on different machines.
pub const COMMANDS: [Command; 6] = [
    Command {
        name: "run",
        words: "run testpmd --preset fast --rate 3Mpps --warmup 0ns --set run.drain=10us --duration 20us \
                --out latest",
        results: "latest",
        kind: Kind::Whole(1),
    },
    Command {
        name: "run-timed",
        words: "run testpmd --preset server --rate 2Mpps --warmup 5us --set run.drain=10us --duration 20us \
                --pcap --out latest --set run.settle=5us",
        results: "latest",
        kind: Kind::Whole(1),
    },
    Command {
        name: "loads",
        words: "run testpmd --preset fast --rate 1Mpps,2Mpps,3Mpps --warmup 0ns --set run.drain=10us \
                --duration 20us --out latest",
        results: "latest",
        kind: Kind::Whole(3),
    },
    Command {
        name: "sweep",
        words: "sweep experiment.toml --jobs 1 --out sweep",
        results: "sweep",
        kind: Kind::Points,
    },
    Command {
        name: "sweep-two-jobs",
        words: "sweep experiment.toml --jobs 2 --out sweep",
        results: "sweep",
        kind: Kind::Points,
    },
    Command {
        name: "search",
        words: "search testpmd --preset fast --set run.warmup=0ns --set run.drain=10us --frames 100 \
                --min 1Mpps --max 2Mpps --jobs 1 --out search",
        results: "search",
        kind: Kind::Whole(1),
    },
];
