//! Options of `doorbell run` for what is observed besides the figures.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use doorbell_bench::{KindRules, Observe, TIMELINE_PACKETS};

#[derive(Args, Default)]
pub struct ObserveArgs {
    /// Also tell what CPU time was for, by kind and by guest function: tables, kinds.csv and functions.csv, and functions.folded for flame
    /// graphs (docs/profiling.md). With several nodes, of each that is timed
    #[arg(long)]
    profile: bool,
    /// Rules of your own by which functions have kinds, in front of the built-in ones (guest/kinds.toml says what they look like)
    #[arg(long, value_name = "FILE", requires = "profile")]
    kinds: Option<PathBuf>,
    /// Take names of functions also from this folder of debugging symbols (.build-id/ab/cdef.debug, as distributions pack them)
    #[arg(long, value_name = "DIR", requires = "profile")]
    symbols: Option<PathBuf>,
    /// Also write a timeline of the first packets of the measurement (200 of each port, unless told otherwise) as
    /// timeline.perfetto, which ui.perfetto.dev opens
    #[arg(long, value_name = "PACKETS", num_args = 0..=1, require_equals = true)]
    timeline: Option<Option<usize>>,
    /// Also log the way of the measurement's first N instructions through the pipeline as pipeline.konata
    #[arg(long, value_name = "N")]
    pipeline: Option<u64>,
    /// Also record what harts execute and devices do in the measurement as trace.dbt (see `doorbell trace --help`)
    #[arg(long)]
    pub(crate) trace: bool,
    /// Of two nodes or a network, whose trace it is [default: the node that is tested, or the only one that is timed]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

impl ObserveArgs {
    /// What to observe; `capture` is the wire's file, and other files belong into `folder`.
    pub fn observe(&self, capture: Option<PathBuf>, folder: &Path) -> anyhow::Result<Observe> {
        Ok(Observe {
            capture,
            profile: self.profile,
            kinds: self.rules()?,
            symbols: self.symbols.clone(),
            timeline: self.timeline.map(|packets| packets.unwrap_or(TIMELINE_PACKETS)),
            pipeline: self.pipeline,
            trace: self.trace_in(folder),
            node: self.node.clone(),
        })
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

    /// The same of what has no profile either.
    pub fn refuse_but_trace(&self, what: &str) -> anyhow::Result<()> {
        if self.profile {
            bail!("--profile is for benchmarks and networks, and not for {what}");
        }
        self.refuse_for_nodes(what)
    }
}
