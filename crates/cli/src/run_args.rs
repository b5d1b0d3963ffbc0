//! The options of `doorbell run`, and those that other commands share with it: which machine, which guest, where results go.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::Context;
use clap::Args;
use doorbell_bench::{BENCHMARKS, Benchmark, Layers, Length, RunConfig, Source};
use doorbell_loadgen::{Kind, Rate};
use doorbell_machine::{Base, PRESETS};
use doorbell_sim::{Bytes, Ps};

use crate::frame_sizes::FrameSizes;
use crate::observe_args::ObserveArgs;
use crate::out::tell;
use crate::script_cmd::ScriptArgs;
use crate::traffic_args::{TrafficArgs, one_size};

/// Headings of options.
pub const TRAFFIC: &str = "Traffic (see docs/traffic.md)";
const RESULTS: &str = "Results";

#[derive(Args)]
#[command(after_help = run_names(), after_long_help = run_help())]
pub struct RunArgs {
    /// Which benchmark
    pub(crate) benchmark: Option<String>,
    /// Offered load: 5Mpps, 10Gbps, 40% of the line; several give a table
    ///
    /// Gbps are of layer 2, with FCS; 10Gbps-l1 counts preamble and gap too, and 2x is twice the streams' own rate. Several are
    /// comma-separated.
    #[arg(long, value_name = "RATE,…", value_delimiter = ',')]
    pub(crate) rate: Vec<String>,
    /// Bytes of each frame with FCS, 64 to 16384, or a mix such as imix
    ///
    /// Mixes are imix, sizes with weights (7x64B,1x1518B), and genomes (genome:aaafg, RFC 6985). Several, comma-separated, give a table each;
    /// parts with weights are one mix.
    #[arg(long, value_name = "BYTES|MIX,…")]
    pub(crate) frame_size: Option<FrameSizes>,
    /// Measure over exactly so many frames; with --script, send no more than so many
    #[arg(long, value_name = "N", conflicts_with = "duration", hide_short_help = true)]
    pub(crate) frames: Option<u64>,
    /// Measure for this simulated time, such as 2ms
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Measure so many samples of that time, and tell how much they vary
    ///
    /// One after the other, of what two nodes transfer (iperf, netperf, redis, web); short for --set transfer.samples=N.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) samples: Option<u32>,
    /// Simulated time of traffic before the measurement: 10ms, or auto
    ///
    /// auto: until caches and rings are steady and two ticks of the guest's timer have come. A time is kept as it is given; with fewer
    /// than two ticks in it the result says so.
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub(crate) warmup: Option<String>,
    /// Run a network of nodes and switches as this file describes it
    ///
    /// A TOML file of nodes, switches, load generators and cables (docs/networks.md).
    #[arg(long, value_name = "FILE", conflicts_with = "script")]
    pub(crate) network: Option<PathBuf>,
    /// Host threads that run a network's nodes; results do not depend on it [default: the host's cores]
    #[arg(long, value_name = "N", requires = "network", value_parser = clap::value_parser!(u16).range(1..), hide_short_help = true)]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    /// Where the load comes from: generator, or node (one with DPDK)
    ///
    /// A generator is hardware, a node a second machine. Short for --set drive.kind=WHAT.
    #[arg(long, value_name = "WHAT", help_heading = TRAFFIC)]
    pub(crate) drive: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Also capture the wire at the load generator, both directions, as wire.pcap
    ///
    /// Of several ports that is port 0's. A network has a capture of each cable.
    #[arg(long, help_heading = RESULTS)]
    pub(crate) pcap: bool,
    /// Also write fingerprint.json: hashes of what the guest and the wires did, to compare versions of Doorbell
    #[arg(long, help_heading = RESULTS, hide_short_help = true)]
    pub(crate) fingerprint: bool,
    #[command(flatten)]
    pub(crate) observe: ObserveArgs,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
    #[command(flatten)]
    pub(crate) script: ScriptArgs,
}

/// Where results go, and how much is told.
#[derive(Args)]
#[command(next_help_heading = RESULTS)]
pub struct OutputArgs {
    /// Result folder
    #[arg(long, value_name = "DIR", default_value = "results/latest")]
    pub(crate) out: PathBuf,
    /// Print the summary as JSON, and nothing else
    ///
    /// On standard output; what goes on is told on standard error all the same.
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not tell what is going on
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Where the guest comes from.
#[derive(Args, Default, PartialEq, Eq)]
#[command(next_help_heading = "Where the guest comes from")]
pub struct GuestArgs {
    /// Boot the guest even if there is a checkpoint, and keep none
    #[arg(long, hide_short_help = true)]
    pub(crate) boot: bool,
    /// Start from this checkpoint file
    #[arg(long, value_name = "FILE", conflicts_with = "boot", hide_short_help = true)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Also write the checkpoint from which the measurements start
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) save_checkpoint: Option<PathBuf>,
}

/// What every command that builds a machine takes.
#[derive(Args, Clone)]
#[command(next_help_heading = "Machine (see docs/machines.md)")]
pub struct CommonArgs {
    /// The machine to start from: a preset or a path
    ///
    /// `doorbell config presets` lists the presets; without this it is the first of them.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Start from a machine's file of your own; a result's config.toml is one
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    pub machine: Option<PathBuf>,
    #[arg(skip)]
    read: OnceLock<Base>,
    /// Override any parameter, for instance --set nic.rx_fifo=48KiB (repeatable)
    ///
    /// `doorbell config show` has them all, and `doorbell config explain PATH` says what one means.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// How many harts; short for --set platform.harts=N
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub harts: Option<u32>,
    /// Seed of all random streams
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub seed: Option<u64>,
    /// Give the guest this file as a virtio disk (repeatable)
    ///
    /// It stands behind the image's own disk, if that has one. The file is only read: what the guest writes is kept in memory and in
    /// checkpoints.
    #[arg(long = "disk", value_name = "FILE", hide_short_help = true)]
    pub disks: Vec<PathBuf>,
}

/// The benchmarks by name.
pub fn run_names() -> String {
    let names: Vec<&str> = BENCHMARKS.iter().map(|known| known.name).collect();
    format!("Benchmarks: {}\n\n--help says more of each, and has further options.", names.join(", "))
}

/// The same with what they are, and where their own options are.
pub fn run_help() -> String {
    let line = |known: &Benchmark| {
        let sections: Vec<&str> = known.options.iter().map(|section| section.name).collect();
        let options = if sections.is_empty() { String::new() } else { format!(" [{}]", sections.join(", ")) };
        format!("  {:<17} {}{options}", known.name, known.summary)
    };
    let lines: Vec<String> = BENCHMARKS.iter().map(line).collect();
    format!("Benchmarks, and the sections of `doorbell config show` that are theirs:\n{}", lines.join("\n"))
}

impl GuestArgs {
    pub(crate) fn source(&self) -> Source {
        match &self.checkpoint {
            Some(path) => Source::File(path.clone()),
            None if self.boot => Source::Boot,
            None => Source::Cache,
        }
    }
}

impl CommonArgs {
    fn preset(&self) -> &str {
        self.preset.as_deref().unwrap_or(PRESETS[0].name)
    }

    /// Whether the user names a machine.
    pub fn names_machine(&self) -> bool {
        self.preset.is_some() || self.machine.is_some()
    }

    /// The machine to start from. A file is read once: results tell what was read, whatever becomes of it meanwhile.
    pub fn base(&self) -> anyhow::Result<&Base> {
        if let Some(base) = self.read.get() {
            return Ok(base);
        }
        let named = self.machine.as_deref().map(|path| ("--machine", path));
        let named = named.or_else(|| Some(("--preset", Base::path(self.preset())?)));
        let base = match named {
            Some((option, path)) => {
                // A file that cannot be read is the host's failure, and no wrong word.
                let file = doorbell_files::open_regular(path);
                let file = file.with_context(|| format!("{option}: cannot read {}", path.display()))?;
                Base::read(path).map_err(|error| match file.metadata() {
                    Ok(found) if found.is_dir() => {
                        anyhow::Error::new(io::Error::from(io::ErrorKind::IsADirectory)).context(error)
                    }
                    _ => error.into(),
                })?
            }
            None => Base::find(self.preset())?,
        };
        Ok(self.read.get_or_init(|| base))
    }

    /// The configuration, with further overrides laid over the user's.
    pub fn resolve(&self, further: &[String]) -> anyhow::Result<RunConfig> {
        self.resolve_over(None, &[], further)
    }

    /// The user's overrides, and further ones.
    pub fn overrides(&self, further: &[String]) -> Vec<String> {
        let mut overrides = self.set.clone();
        overrides.extend(self.harts.map(|harts| format!("platform.harts={harts}")));
        overrides.extend(self.seed.map(|seed| format!("run.seed={seed}")));
        overrides.extend_from_slice(further);
        overrides
    }

    /// The same, over a traffic file (its name and text) and a benchmark's settings. Where the machine's file says otherwise than the
    /// benchmark, the user is told.
    pub fn resolve_over(
        &self,
        traffic: Option<(&str, &str)>,
        defaults: &[&str],
        further: &[String],
    ) -> anyhow::Result<RunConfig> {
        let overrides = self.overrides(further);
        let layers = Layers { base: self.base()?, defaults, traffic, overrides: &overrides };
        let mut config = layers.resolve()?;
        for said in layers.overruled() {
            tell!("note: {said}");
        }
        config.run.disks.extend_from_slice(&self.disks);
        Ok(config)
    }
}

/// What `--warmup` sets.
pub(crate) fn warmup_given(warmup: Option<&str>) -> anyhow::Result<Option<String>> {
    let Some(text) = warmup else { return Ok(None) };
    text.parse::<Length>().context("--warmup")?;
    Ok(Some(format!("run.warmup={text}")))
}

impl RunArgs {
    /// The configurations that the options ask for, over a benchmark's own settings: one for each size of frames.
    pub fn configs(&self, defaults: &[&str]) -> anyhow::Result<Vec<RunConfig>> {
        match &self.frame_size {
            None => Ok(vec![self.config(defaults, None)?]),
            Some(FrameSizes(all)) => all.iter().map(|size| self.config(defaults, Some(size))).collect(),
        }
    }

    /// The configuration with frames of this size.
    fn config(&self, defaults: &[&str], frame_size: Option<&str>) -> anyhow::Result<RunConfig> {
        let mut further = Vec::new();
        let mut defaults = defaults.to_vec();
        if self.script.script.is_some() {
            // A script says itself where it is warm; who sets this means it.
            defaults.push("run.warmup=0ns");
            further.extend(self.script.time_limit.map(|limit| format!("run.script_timeout={limit}")));
        }
        further.extend(self.drive.as_ref().map(|kind| format!("drive.kind={kind}")));
        further.extend(self.frames.map(|frames| format!("run.frames={frames}")));
        if let Some(text) = &self.duration {
            text.parse::<Ps>().context("--duration")?;
            further.push(format!("run.duration={text}"));
        }
        further.extend(self.samples.map(|samples| format!("transfer.samples={samples}")));
        further.extend(warmup_given(self.warmup.as_deref())?);
        if let Some(size) = frame_size.and_then(one_size) {
            further.push(format!("loadgen.traffic.frame_size={size}"));
        }
        let file = self.traffic.file()?;
        let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        let mut config = self.common.resolve_over(file, &defaults, &further)?;
        self.traffic.apply(frame_size, &mut config)?;
        if self.script.script.is_none() {
            config.run.image = self.script.image.clone().or(config.run.image);
        }
        if frame_size.is_some() && !matches!(config.loadgen.traffic.kind, Kind::Frames | Kind::Ping) {
            anyhow::bail!(
                "--frame-size: memcached's frames are as long as their requests; set loadgen.traffic.memcached.value"
            );
        }
        Ok(config)
    }

    /// The rates; without any, the configuration's.
    pub fn rates(&self, config: &RunConfig) -> anyhow::Result<Vec<Rate>> {
        let given = self.rates_given(config)?;
        Ok(if given.is_empty() { vec![config.loadgen.traffic.requested_rate()] } else { given })
    }

    /// The rates that were given.
    pub fn rates_given(&self, config: &RunConfig) -> anyhow::Result<Vec<Rate>> {
        let rates = self.rate.iter().map(|text| {
            let rate = text.parse::<Rate>().context("--rate")?;
            config.loadgen.traffic.at_rate(rate).validate().context("--rate")?;
            Ok(rate)
        });
        rates.collect()
    }
}

/// A frame size may be given without a unit: the field counts in bytes.
pub fn frame_size(text: &str) -> anyhow::Result<Bytes> {
    let with_unit =
        if text.bytes().all(|b| b.is_ascii_digit()) { format!("{text}B") } else { text.to_owned() };
    with_unit.parse().context("--frame-size")
}

/// The command as it was given.
pub fn command_line() -> String {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    format!("doorbell {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use doorbell_loadgen::Arrivals;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    fn arrivals(words: &str) -> Arrivals {
        let line = Line::try_parse_from(format!("doorbell testpmd {words}").split_whitespace()).unwrap();
        let config = line.run.configs(&[]).unwrap().remove(0);
        config.loadgen.traffic.arrivals
    }

    #[test]
    fn one_rate_and_a_table_of_rates_are_the_same_experiment() {
        for words in
            ["--rate 1Mpps", "--rate 1Mpps,2Mpps", "--rate 1Mpps,2Mpps --frame-size imix", "--drive node"]
        {
            assert_eq!(arrivals(words), Arrivals::Jitter, "{words}");
        }
        for words in ["--rate 1Mpps", "--rate 1Mpps,2Mpps --flows 5"] {
            assert_eq!(arrivals(&format!("{words} --arrivals constant")), Arrivals::Constant, "{words}");
        }
        assert_eq!(arrivals("--rate 1Mpps --set loadgen.traffic.arrivals=poisson"), Arrivals::Poisson);
    }
}
