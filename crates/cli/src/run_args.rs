//! Options of `doorbell run`, and those shared with other commands: machine, guest and results.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::Context;
use clap::Args;
use doorbell_bench::{BENCHMARKS, Benchmark, Layers, Length, Resolved, RunConfig, Source};
use doorbell_loadgen::{Kind, Rate};
use doorbell_machine::{Base, PRESETS};
use doorbell_sim::{Bytes, Ps};

use crate::frame_sizes::FrameSizes;
use crate::observe_args::ObserveArgs;
use crate::out::errln;
use crate::script_cmd::ScriptArgs;
use crate::traffic_args::{TrafficArgs, one_size};

/// Headings of options.
pub const TRAFFIC: &str = "Traffic (see docs/traffic.md)";
const RESULTS: &str = "Results";

#[derive(Args)]
#[command(after_help = run_names(), after_long_help = run_help())]
pub struct RunArgs {
    /// Name of the benchmark
    pub(crate) benchmark: Option<String>,
    /// Offered load: 5Mpps, 10Gbps, 40% of the line rate; several give a table
    ///
    /// Gbps are at layer 2, with FCS; 10Gbps-l1 includes preamble and gap, and 2x doubles the streams' own
    /// rates. Separate several rates by commas.
    #[arg(long, value_name = "RATE,…", value_delimiter = ',')]
    pub(crate) rate: Vec<String>,
    /// Bytes per frame with FCS, 64 to 16384, or a mix such as imix
    ///
    /// Mixes are imix, sizes with weights (7x64B,1x1518B), and genomes (genome:aaafg, RFC 6985). Several,
    /// separated by commas, give a table each; parts with weights form one mix.
    #[arg(long, value_name = "BYTES|MIX,…")]
    pub(crate) frame_size: Option<FrameSizes>,
    /// Measure exactly this many frames; with --script, send at most this many
    #[arg(long, value_name = "N", conflicts_with = "duration", hide_short_help = true)]
    pub(crate) frames: Option<u64>,
    /// Measure for this simulated time, such as 2ms
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Measure this many samples of that duration, and report their variation
    ///
    /// Consecutive samples of a transfer between nodes, as of iperf or nfs; short for --set
    /// transfer.samples=N.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) samples: Option<u32>,
    /// Simulated time of traffic before the measurement: 10ms, or auto
    ///
    /// auto: until caches and rings are steady and two ticks of the guest's timer have occurred. A given time
    /// is used as it is; the result notes if it contains fewer than two ticks.
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub(crate) warmup: Option<String>,
    /// Run a network of nodes and switches described by this file
    ///
    /// A TOML file of nodes, switches, load generators and cables (docs/networks.md).
    #[arg(long, value_name = "FILE", conflicts_with = "script")]
    pub(crate) network: Option<PathBuf>,
    /// Host threads that run a network's nodes; results do not depend on this [default: the host's cores]
    #[arg(long, value_name = "N", requires = "network", value_parser = clap::value_parser!(u16).range(1..), hide_short_help = true)]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    /// Source of the load: generator, or node (with DPDK)
    ///
    /// A generator is hardware, a node is a second machine. Short for --set drive.kind=WHAT.
    #[arg(long, value_name = "WHAT", help_heading = TRAFFIC)]
    pub(crate) drive: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Also capture the wire at the load generator, both directions, as wire.pcap
    ///
    /// With several ports, port 0 is captured. A network has one capture per cable.
    #[arg(long, help_heading = RESULTS)]
    pub(crate) pcap: bool,
    /// Also write fingerprint.json: hashes of the guest's and the wires' activity, to compare versions of
    /// Doorbell
    #[arg(long, help_heading = RESULTS, hide_short_help = true)]
    pub(crate) fingerprint: bool,
    #[command(flatten)]
    pub(crate) observe: ObserveArgs,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
    #[command(flatten)]
    pub(crate) script: ScriptArgs,
}

/// Options for results and progress messages.
#[derive(Args)]
#[command(next_help_heading = RESULTS)]
pub struct OutputArgs {
    /// Result folder
    #[arg(long, value_name = "DIR", default_value = "results/latest")]
    pub(crate) out: PathBuf,
    /// Print only the summary, as JSON
    ///
    /// On standard output; progress is still shown on standard error.
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not show progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Options for the guest's boot.
#[derive(Args, Default, PartialEq, Eq)]
#[command(next_help_heading = "Guest")]
pub struct GuestArgs {
    /// Boot the guest even if there is a checkpoint, and store no checkpoint
    #[arg(long, hide_short_help = true)]
    pub(crate) boot: bool,
    /// Start from this checkpoint file
    #[arg(long, value_name = "FILE", conflicts_with = "boot", hide_short_help = true)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Also write the checkpoint from which the measurements start
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) save_checkpoint: Option<PathBuf>,
}

/// Options of every command that builds a machine.
#[derive(Args, Clone)]
#[command(next_help_heading = "Machine (see docs/machines.md)")]
pub struct CommonArgs {
    /// Base machine: a preset or a path
    ///
    /// `doorbell config presets` lists the presets; the default is the first.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Start from your own machine file; a result's config.toml is one
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    pub machine: Option<PathBuf>,
    #[arg(skip)]
    read: OnceLock<Base>,
    /// Override any parameter, for example --set nic.rx_fifo=48KiB (repeatable)
    ///
    /// `doorbell config show` lists all, and `doorbell config explain PATH` explains one.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Number of harts; short for --set platform.harts=N
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub harts: Option<u32>,
    /// Seed of all random streams
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub seed: Option<u64>,
    /// Give the guest this file as a virtio disk (repeatable)
    ///
    /// It follows the image's own disk, if there is one. The file is only read: the guest's writes are kept
    /// in memory and in checkpoints.
    #[arg(long = "disk", value_name = "FILE", hide_short_help = true)]
    pub disks: Vec<PathBuf>,
}

/// List of benchmark names.
pub fn run_names() -> String {
    let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
    format!("Benchmarks: {}\n\n--help describes each, and lists more options.", names.join(", "))
}

/// List of benchmarks with their descriptions and option sections.
pub fn run_help() -> String {
    let line = |benchmark: &Benchmark| {
        let sections: Vec<&str> = benchmark.options.iter().map(|section| section.name).collect();
        let options = if sections.is_empty() { String::new() } else { format!(" [{}]", sections.join(", ")) };
        format!("  {:<17} {}{options}", benchmark.name, benchmark.summary)
    };
    let lines: Vec<String> = BENCHMARKS.iter().map(line).collect();
    format!("Benchmarks, with their sections of `doorbell config show`:\n{}", lines.join("\n"))
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

    /// Whether the user gave a machine.
    pub fn names_machine(&self) -> bool {
        self.preset.is_some() || self.machine.is_some()
    }

    /// The base machine. A file is read once, so that results describe what was used, even if the file
    /// changes.
    pub fn base(&self) -> anyhow::Result<&Base> {
        if let Some(base) = self.read.get() {
            return Ok(base);
        }
        let named = self.machine.as_deref().map(|path| ("--machine", path));
        let named = named.or_else(|| Some(("--preset", Base::path(self.preset())?)));
        let base = match named {
            Some((option, path)) => {
                // An unreadable file is a host error, not a usage error.
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

    /// The configuration, with additional overrides applied after the user's.
    pub fn resolve(&self, extra: &[String]) -> anyhow::Result<Resolved> {
        self.resolve_over(None, &[], extra)
    }

    /// The user's overrides, followed by additional ones.
    pub fn overrides(&self, extra: &[String]) -> Vec<String> {
        let mut overrides = self.set.clone();
        overrides.extend(self.harts.map(|harts| format!("platform.harts={harts}")));
        overrides.extend(self.seed.map(|seed| format!("run.seed={seed}")));
        overrides.extend_from_slice(extra);
        overrides
    }

    /// The same, over a traffic file (its name and text) and a benchmark's settings. Prints a note where the
    /// machine file overrides the benchmark.
    pub fn resolve_over(
        &self,
        traffic: Option<(&str, &str)>,
        defaults: &[&str],
        extra: &[String],
    ) -> anyhow::Result<Resolved> {
        let overrides = self.overrides(extra);
        let layers = Layers { base: self.base()?, defaults, traffic, overrides: &overrides };
        let config = layers.resolve()?;
        for note in layers.overruled() {
            errln!("note: {note}");
        }
        Ok(config.with_change(|config| config.run.disks.extend_from_slice(&self.disks))?)
    }
}

/// The override set by `--warmup`.
pub(crate) fn warmup_override(warmup: Option<&str>) -> anyhow::Result<Option<String>> {
    let Some(text) = warmup else { return Ok(None) };
    text.parse::<Length>().context("--warmup")?;
    Ok(Some(format!("run.warmup={text}")))
}

impl RunArgs {
    /// The requested configurations, over a benchmark's own settings: one per frame size.
    pub fn configs(&self, defaults: &[&str]) -> anyhow::Result<Vec<Resolved>> {
        match &self.frame_size {
            None => Ok(vec![self.config(defaults, None)?]),
            Some(FrameSizes(all)) => all.iter().map(|size| self.config(defaults, Some(size))).collect(),
        }
    }

    /// The configuration for this frame size.
    fn config(&self, defaults: &[&str], frame_size: Option<&str>) -> anyhow::Result<Resolved> {
        let mut extra = Vec::new();
        let mut defaults = defaults.to_vec();
        if self.script.script.is_some() {
            // A script controls its own warm-up, unless the user sets this.
            defaults.push("run.warmup=0ns");
            extra.extend(self.script.time_limit.map(|limit| format!("run.script_timeout={limit}")));
        }
        extra.extend(self.drive.as_ref().map(|kind| format!("drive.kind={kind}")));
        extra.extend(self.frames.map(|frames| format!("run.frames={frames}")));
        if let Some(text) = &self.duration {
            text.parse::<Ps>().context("--duration")?;
            extra.push(format!("run.duration={text}"));
        }
        extra.extend(self.samples.map(|samples| format!("transfer.samples={samples}")));
        extra.extend(warmup_override(self.warmup.as_deref())?);
        if let Some(size) = frame_size.and_then(one_size) {
            extra.push(format!("loadgen.traffic.frame_size={size}"));
        }
        let file = self.traffic.file()?;
        let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        let config = self.common.resolve_over(file, &defaults, &extra)?;
        let mut config = self.traffic.apply(frame_size, config)?;
        if let (None, Some(image)) = (&self.script.script, &self.script.image) {
            config = config.with_change(|config| config.run.image = Some(image.clone()))?;
        }
        if frame_size.is_some() && !matches!(config.loadgen.traffic.kind, Kind::Frames | Kind::Ping) {
            anyhow::bail!(
                "--frame-size: memcached's frame size follows from the requests; set loadgen.traffic.memcached.value"
            );
        }
        Ok(config)
    }

    /// The requested rates; by default, the configuration's rate.
    pub fn rates(&self, config: &RunConfig) -> anyhow::Result<Vec<Rate>> {
        let given = self.rates_given(config)?;
        Ok(if given.is_empty() { vec![config.loadgen.traffic.requested_rate()] } else { given })
    }

    /// The rates given on the command line.
    pub fn rates_given(&self, config: &RunConfig) -> anyhow::Result<Vec<Rate>> {
        let rates = self.rate.iter().map(|text| {
            let rate = text.parse::<Rate>().context("--rate")?;
            config.loadgen.traffic.at_rate(rate).validate().context("--rate")?;
            Ok(rate)
        });
        rates.collect()
    }
}

/// A frame size may be given without a unit, in bytes.
pub fn frame_size(text: &str) -> anyhow::Result<Bytes> {
    let with_unit =
        if text.bytes().all(|b| b.is_ascii_digit()) { format!("{text}B") } else { text.to_owned() };
    with_unit.parse().context("--frame-size")
}

/// The command line as given.
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
    fn one_rate_and_a_table_of_rates_use_the_same_arrivals() {
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
