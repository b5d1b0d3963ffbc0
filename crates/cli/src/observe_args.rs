//! Options of `doorbell run` for what is observed besides the figures.

use std::fs::read_dir;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use doorbell_bench::{KindRules, Observe, Places, TIMELINE_PACKETS};
use doorbell_image::{BuildOptions, DebugSymbols, Image};

#[derive(Args, Default)]
#[command(next_help_heading = "What to observe (see docs/profiling.md)")]
pub struct ObserveArgs {
    /// Also tell what CPU time was for, by kind and by guest function
    ///
    /// As tables, kinds.csv and functions.csv, functions.folded, and a flame graph on the page. With several nodes, of each that is timed.
    #[arg(long)]
    profile: bool,
    /// Rules of your own by which functions have kinds
    ///
    /// They stand in front of the built-in ones; guest/kinds.toml says what they look like.
    #[arg(long, value_name = "FILE", requires = "profile", hide_short_help = true)]
    kinds: Option<PathBuf>,
    /// Take names of functions also from this folder of debugging symbols
    ///
    /// By build ID, as distributions pack them: .build-id/ab/cdef.debug.
    #[arg(long, value_name = "DIR", requires = "profile", hide_short_help = true)]
    symbols: Option<PathBuf>,
    /// Fetch Debian's debugging symbols for the names of programs' functions
    ///
    /// Those of the image's programs and libraries, unless they are in the cache.
    #[arg(long, requires = "profile")]
    debug_symbols: bool,
    /// Also write a timeline of the first packets, as timeline.perfetto
    ///
    /// Of the measurement's first 200 packets of each port, unless told otherwise; ui.perfetto.dev opens it.
    #[arg(long, value_name = "PACKETS", num_args = 0..=1, require_equals = true)]
    timeline: Option<Option<usize>>,
    /// Also log the first N instructions in the pipeline, as pipeline.konata
    #[arg(long, value_name = "N", hide_short_help = true)]
    pipeline: Option<u64>,
    /// Also record what harts execute and devices do, as trace.dbt
    ///
    /// In the measurement; see `doorbell trace --help`.
    #[arg(long, hide_short_help = true)]
    pub(crate) trace: bool,
    /// Of two nodes or a network, whose trace it is [default: the node that is tested, or the only one that is timed]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    node: Option<String>,
}

impl ObserveArgs {
    /// What to observe; `capture` is the wire's file, and other files belong into `folder`.
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

    /// The debugging symbols of all that was booted, if they are wanted.
    pub fn fetch_symbols(
        &self,
        images: &[&Image],
        places: &Places,
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Vec<DebugSymbols>> {
        let images = if self.debug_symbols { images } else { &[] };
        let fetched = images.iter().map(|image| places.debug_symbols(image, BuildOptions::default(), say));
        Ok(fetched.collect::<Result<_, _>>()?)
    }

    /// The rules of kinds, if they are not the built-in ones.
    pub fn rules(&self) -> anyhow::Result<Option<KindRules>> {
        Ok(self.kinds.as_deref().map(KindRules::with_file).transpose()?)
    }

    /// The file of the trace, if one is wanted.
    pub fn trace_in(&self, folder: &Path) -> Option<PathBuf> {
        self.trace.then(|| folder.join("trace.dbt"))
    }

    /// Refuses the options that nodes of a network do not have.
    pub fn refuse_for_nodes(&self, what: &str) -> anyhow::Result<()> {
        let given = [("--timeline", self.timeline.is_some()), ("--pipeline", self.pipeline.is_some())];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                bail!("{option} is for benchmarks of one machine, such as testpmd, and not for {what}")
            }
            None => Ok(()),
        }
    }
}
