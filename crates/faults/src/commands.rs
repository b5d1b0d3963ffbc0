//! What the processes of a history do, and which results are compared. Places are relative to the world's folder.

/// A command line of `doorbell`, and what it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its name in logs.
    pub name: &'static str,
    /// The words, without the program and `--cache`; none has white space in it. `{archive}` is the folder of a small archive.
    pub words: &'static str,
    /// The folder that it writes.
    pub results: &'static str,
    /// What that folder is.
    pub kind: Kind,
}

/// What a command leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A result folder, replaced as a whole, of so many loads.
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

/// Builds of an image, which the others do not run in: by whoever finds none, and by whoever wants it built again.
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
