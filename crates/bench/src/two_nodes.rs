//! Two nodes whose applications are ready: booted once, or taken from a checkpoint, any number of times.

use std::path::{Path, PathBuf};
use std::time::Instant;

use doorbell_files::create_folders;
use doorbell_image::{GuestFile, Image, overlay};
use doorbell_machine::{ConfigError, Guest, Limits, Outcome, Pair, PairCheckpoint, PairOutcome};
use doorbell_sim::Ps;
use xxhash_rust::xxh3::xxh3_64;

use crate::boot_turn::{BOOT_VERSION, BootTurn};
use crate::config::RunConfig;
use crate::disks::BOOT_SEED;
use crate::error::{RunError, describe};
use crate::session::{Control, Places, Source, guest_identity, read_guest};
use crate::summary::Ran;

/// Simulated time between looks at the user.
const SLICE_TIME: Ps = Ps::from_ms(5);
/// How often nodes that call themselves ready are asked whether their links are up.
const LINK_STEP: Ps = Ps::from_us(100);
pub(crate) const LINES_SHOWN: usize = 12;

/// What runs in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGuest {
    /// A built-in image, or the path of a recipe.
    pub image: String,
    /// The words that it adds to the kernel's command line.
    pub words: String,
    /// A script laid over the image: its name in `/scripts`, and its lines.
    pub script: Option<(&'static str, &'static str)>,
    /// What the node's console shows when it is ready.
    pub ready_marker: &'static str,
}

/// Two nodes, at the point where both are ready.
pub struct TwoNodes {
    config: RunConfig,
    name: String,
    guests: [String; 2],
    images: [Image; 2],
    commit: &'static str,
    checkpoint: PairCheckpoint,
    /// Host time and instructions of the boot; `None` if it came from a checkpoint.
    pub boot: Option<(f64, u64)>,
    /// Whether runs leave fingerprints.
    pub fingerprint: bool,
}

impl TwoNodes {
    /// Gets both nodes ready: node 0 is the one that is tested. `name` is that of the checkpoint.
    pub fn prepare(
        config: &RunConfig,
        name: &str,
        guests: &[NodeGuest; 2],
        places: &Places,
        source: &Source,
        control: &mut Control,
    ) -> Result<TwoNodes, RunError> {
        config.validate()?;
        // What two nodes cannot be is found before a boot.
        Pair::new(config.nodes(), config.run.seed)?;
        let images = [
            with_room(places.build_image_for(&guests[0].image, config, control.say)?, config)?,
            with_room(places.build_image(&guests[1].image, control.say)?, config)?,
        ];
        let identities = [0, 1].map(|node| identity(&images[node], &guests[node]));
        let hashes = (BOOT_VERSION, config.nodes().map(|node| node.guest_hash()), &identities);
        let key = xxh3_64(format!("{hashes:?}").as_bytes());
        let cached = places.checkpoints().join(format!("{name}-{key:016x}.pair"));
        let mut nodes = TwoNodes {
            config: config.clone(),
            name: name.to_owned(),
            guests: identities,
            images: images.clone(),
            commit: places.commit,
            checkpoint: PairCheckpoint::empty(),
            boot: None,
            fingerprint: false,
        };
        match source {
            Source::Boot => nodes.boot(&images, guests, control)?,
            Source::File(path) => {
                nodes.checkpoint = PairCheckpoint::read(path)?;
                nodes.pair()?;
            }
            Source::Cache if nodes.take_cached(&cached, control.say) => {}
            Source::Cache => {
                // Others who want the same guests wait until they have booted, and then find them.
                let _turn = BootTurn::wait(&cached, control)?;
                if !nodes.take_cached(&cached, &mut |_| {}) {
                    nodes.boot(&images, guests, control)?;
                    nodes.keep(cached, control);
                }
            }
        }
        Ok(nodes)
    }

    /// Begins from a cached checkpoint, if there is one. One that cannot be used is no error: a new one is made.
    fn take_cached(&mut self, path: &Path, say: &mut dyn FnMut(&str)) -> bool {
        let Ok(found) = PairCheckpoint::read(path) else { return false };
        self.checkpoint = found;
        match self.pair() {
            Ok(_) => true,
            Err(error) => {
                say(&format!("not using the cached checkpoint: {error}"));
                false
            }
        }
    }

    fn boot(
        &mut self,
        images: &[Image; 2],
        guests: &[NodeGuest; 2],
        control: &mut Control,
    ) -> Result<(), RunError> {
        let started = Instant::now();
        (control.say)("booting Debian on two nodes");
        let mut pair = Pair::new(self.config.nodes().map(|node| node.for_boot()), BOOT_SEED)?;
        let [one, other] = [guest(&images[0], &guests[0])?, guest(&images[1], &guests[1])?];
        pair.load([&one, &other])?;
        for (node, guest) in guests.iter().enumerate() {
            pair.node_mut(node).console.watch(Some(guest.ready_marker));
        }
        let patience = self.config.run.boot_timeout;
        let mut ready = [false; 2];
        while ready != [true; 2] {
            match run_watched(&mut pair, patience, true, control)? {
                PairOutcome::Node { node, outcome: Outcome::Marker } => ready[node] = true,
                outcome => return Err(not_ready(&pair, outcome, ready)),
            }
        }
        // The applications say that they are ready; their NICs must be, too. At last both come to one moment, so that the
        // checkpoint serves any link.
        let mut present = pair.now();
        loop {
            match run_watched(&mut pair, present, false, control)? {
                PairOutcome::Time | PairOutcome::Asleep if present < patience => {}
                outcome => return Err(not_ready(&pair, outcome, ready)),
            }
            if pair.nodes().iter().all(|node| node.nic(0).is_receiving()) {
                break;
            }
            present = pair.now() + LINK_STEP;
        }
        self.boot = Some((started.elapsed().as_secs_f64(), pair.instructions()));
        self.checkpoint = pair.checkpoint([&self.guests[0], &self.guests[1]], &self.name);
        Ok(())
    }

    /// Failing to keep a checkpoint costs the next run a boot, and nothing else.
    fn keep(&self, path: PathBuf, control: &mut Control) {
        let folder = path.parent().expect("the checkpoint folder has a name");
        let kept = create_folders(folder)
            .map_err(RunError::io("create the folder", folder))
            .and_then(|()| Ok(self.checkpoint.write(&path)?));
        if let Err(error) = kept {
            (control.say)(&format!("{error}; the next run will boot again"));
        }
    }

    /// The two nodes at the point where both have just become ready.
    pub fn pair(&self) -> Result<Pair, RunError> {
        let mut pair = Pair::new(self.config.nodes(), self.config.run.seed)?;
        pair.restore(&self.checkpoint, [&self.guests[0], &self.guests[1]])?;
        if self.fingerprint {
            (0..2).for_each(|node| pair.node_mut(node).hear_wires());
        }
        Ok(pair)
    }

    /// The checkpoint from which runs start.
    pub fn checkpoint(&self) -> &PairCheckpoint {
        &self.checkpoint
    }

    /// What runs, for results.
    pub fn ran(&self) -> Ran {
        Ran {
            doorbell_commit: self.commit.to_owned(),
            images: self.images.iter().map(Image::provenance).collect(),
            boot: format!("{:016x}", self.checkpoint.hash()),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }
}

/// An image, if the machine has room for it.
fn with_room(image: Image, config: &RunConfig) -> Result<Image, RunError> {
    if config.platform.ram < image.ram_min() {
        let problem = format!("{} is too little: this image needs {}", config.platform.ram, image.ram_min());
        return Err(ConfigError::new("platform.ram", problem).into());
    }
    Ok(image)
}

fn bootargs(image: &Image, guest: &NodeGuest) -> String {
    format!("{} {}", image.command_line(), guest.words)
}

/// A script belongs to the guest's name: a checkpoint must not outlive a change of it.
fn identity(image: &Image, guest: &NodeGuest) -> String {
    let name = guest_identity(image, &bootargs(image, guest));
    match guest.script {
        Some((_, lines)) => format!("{name} {:016x}", xxh3_64(lines.as_bytes())),
        None => name,
    }
}

fn guest(image: &Image, of: &NodeGuest) -> Result<Guest, RunError> {
    let mut guest = read_guest(image, bootargs(image, of))?;
    if let Some((name, lines)) = of.script {
        let path = format!("scripts/{name}");
        let script = GuestFile { path, executable: false, content: lines.as_bytes().to_vec() };
        guest.initramfs.extend(overlay(&[script])?);
    }
    Ok(guest)
}

fn not_ready(pair: &Pair, outcome: PairOutcome, ready: [bool; 2]) -> RunError {
    let (node, why) = match outcome {
        PairOutcome::Node { node, outcome } => (node, describe(outcome, pair.now())),
        PairOutcome::Asleep => (usize::from(ready[0]), describe(Outcome::Asleep, pair.now())),
        PairOutcome::Time => (usize::from(ready[0]), describe(Outcome::Time, pair.now())),
    };
    RunError::NotReady {
        why: format!("node {node}: {why}"),
        console: pair.nodes()[node].console.last_lines(LINES_SHOWN),
    }
}

/// Runs both nodes to a time in slices, so that they can be watched and interrupted. m5ops are ignored.
pub fn run_watched(
    pair: &mut Pair,
    time: Ps,
    on_marker: bool,
    control: &mut Control,
) -> Result<PairOutcome, RunError> {
    loop {
        let slice = pair.now().saturating_add(SLICE_TIME).min(time);
        let outcome = pair.run(&Limits { on_marker, on_m5op: false, ..Limits::until(slice) });
        control.check()?;
        (control.progress)(pair.instructions(), pair.now());
        if outcome != PairOutcome::Time || slice >= time {
            return Ok(outcome);
        }
    }
}
