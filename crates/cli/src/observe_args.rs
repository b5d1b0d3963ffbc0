//! Options of `doorbell run` that select what is observed in addition to the figures.

use std::fs::read_dir;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use doorbell_bench::{CachePaths, KindRules, Observe, TIMELINE_PACKETS};
use doorbell_image::{BuildOptions, DebugSymbols, Image};

#[derive(Args, Default)]
#[command(next_help_heading = "Observation (see docs/profiling.md)")]
pub struct ObserveArgs {
    /// Also profile CPU time, by kind and by guest function
    ///
    /// Writes kinds.csv, functions.csv and functions.folded, and a flame graph on the page. With several
    /// nodes, each timed node is profiled.
    #[arg(long)]
    profile: bool,
    /// Your own rules that assign functions to kinds
    ///
    /// They take precedence over the built-in ones; guest/kinds.toml describes the format.
    #[arg(long, value_name = "FILE", requires = "profile", hide_short_help = true)]
    kinds: Option<PathBuf>,
    /// Also take function names from this folder of debugging symbols
    ///
    /// By build ID, in the layout of distributions: .build-id/ab/cdef.debug.
    #[arg(long, value_name = "DIR", requires = "profile", hide_short_help = true)]
    symbols: Option<PathBuf>,
    /// Fetch Debian's debugging symbols for function names
    ///
    /// For the image's programs and libraries, unless they are in the cache.
    #[arg(long, requires = "profile")]
    debug_symbols: bool,
    /// Also write a timeline of the first packets, as timeline.perfetto
    ///
    /// By default, the measurement's first 200 packets of each port; open it with ui.perfetto.dev.
    #[arg(long, value_name = "PACKETS", num_args = 0..=1, require_equals = true)]
    timeline: Option<Option<usize>>,
    /// Also log the first N instructions in the pipeline, as pipeline.konata
    #[arg(long, value_name = "N", hide_short_help = true)]
    pipeline: Option<u64>,
    /// Also record executed instructions and device activity, as trace.dbt
    ///
    /// Covers the measurement; see `doorbell trace --help`.
    #[arg(long, hide_short_help = true)]
    pub(crate) trace: bool,
    /// With several nodes, the node to trace [default: the tested node, or the only timed one]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    node: Option<String>,
}

impl ObserveArgs {
    /// The observation request. `capture` is the file for wire traffic; other files are written to `folder`.
    pub fn observe(&self, capture: Option<PathBuf>, folder: &Path) -> anyhow::Result<Observe> {
        if let Some(folder) = &self.symbols {
            read_dir(folder).with_context(|| format!("--symbols: cannot read {}", folder.display()))?;
        }
        Ok(Observe {
            capture,
            profile: self.profile,
            kinds: self.rules()?,
            symbols: self.symbols.iter().cloned().collect(),
            timeline: self.timeline.map(|packets| packets.unwrap_or(TIMELINE_PACKETS)),
            pipeline: self.pipeline,
            trace: self.trace_in(folder),
            node: self.node.clone(),
        })
    }

    /// Fetches the debugging symbols of all booted images, if requested.
    pub fn fetch_symbols(
        &self,
        images: &[Image],
        places: &CachePaths,
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Vec<DebugSymbols>> {
        let images = if self.debug_symbols { images } else { &[] };
        let fetched = images.iter().map(|image| places.debug_symbols(image, BuildOptions::default(), say));
        Ok(fetched.collect::<Result<_, _>>()?)
    }

    /// The rules for kinds; `None` for the built-in ones.
    pub fn rules(&self) -> anyhow::Result<Option<KindRules>> {
        Ok(self.kinds.as_deref().map(KindRules::with_file).transpose()?)
    }

    /// Path of the trace file, if requested.
    pub fn trace_in(&self, folder: &Path) -> Option<PathBuf> {
        self.trace.then(|| folder.join("trace.dbt"))
    }

    /// Rejects the options that do not apply to nodes of a network.
    pub fn reject_for_nodes(&self, what: &str) -> anyhow::Result<()> {
        let given = [("--timeline", self.timeline.is_some()), ("--pipeline", self.pipeline.is_some())];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                bail!("{option} applies only to benchmarks of one machine, such as testpmd, not to {what}")
            }
            None => Ok(()),
        }
    }
}
