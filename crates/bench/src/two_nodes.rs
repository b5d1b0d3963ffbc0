//! Two nodes whose applications are ready: booted once, or taken from a checkpoint, any number of times.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use doorbell_image::{GuestFile, Image, overlay};
use doorbell_machine::{ConfigError, Guest, Limits, Outcome, Pair, PairCheckpoint, PairOutcome};
use doorbell_sim::Ps;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::RunConfig;
use crate::error::{RunError, describe};
use crate::session::{Control, Places, Source, guest_identity, read_guest};

/// Simulated time between looks at the user.
const SLICE_TIME: Ps = Ps::from_ms(5);
const LINES_SHOWN: usize = 12;

/// What runs in a node.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// The script's name: what `doorbell.app` calls it.
    pub name: &'static str,
    /// The script.
    pub script: &'static str,
    /// What the node's console shows when it is ready.
    pub ready_marker: &'static str,
    /// The node's address and prefix length.
    pub address: &'static str,
}

/// Two nodes of the net image, at the point where both are ready.
pub struct TwoNodes {
    config: RunConfig,
    guests: [String; 2],
    checkpoint: PairCheckpoint,
    /// Host time and instructions of the boot; `None` if it came from a checkpoint.
    pub boot: Option<(f64, u64)>,
}

impl TwoNodes {
    /// Gets both nodes ready.
    pub fn prepare(
        config: &RunConfig,
        roles: &[Role; 2],
        places: &Places,
        source: &Source,
        control: &mut Control,
    ) -> Result<TwoNodes, RunError> {
        config.validate()?;
        let image = places.build_image("net", control.say)?;
        if config.platform.ram < image.ram_min() {
            let problem =
                format!("{} is too little: this image needs {}", config.platform.ram, image.ram_min());
            return Err(ConfigError::new("platform.ram", problem).into());
        }
        let guests = roles.map(|role| identity(&image, &role));
        let hashes = (config.machine().guest_hash(), &guests);
        let key = xxh3_64(format!("{hashes:?}").as_bytes());
        let cached = places.checkpoints().join(format!("{}-{key:016x}.pair", roles[0].name));
        let found = match source {
            Source::Boot => None,
            Source::File(path) => Some(PairCheckpoint::read(path)?),
            Source::Cache => PairCheckpoint::read(&cached).ok(),
        };
        let mut nodes = TwoNodes {
            config: config.clone(),
            guests,
            checkpoint: found.clone().unwrap_or_else(PairCheckpoint::empty),
            boot: None,
        };
        if found.is_some() {
            match nodes.pair() {
                Err(error) if *source == Source::Cache => {
                    (control.say)(&format!("not using the cached checkpoint: {error}"));
                }
                tried => return tried.map(|_| nodes),
            }
        }
        nodes.boot(&image, roles, control)?;
        if *source == Source::Cache {
            nodes.keep(cached, control);
        }
        Ok(nodes)
    }

    fn boot(&mut self, image: &Image, roles: &[Role; 2], control: &mut Control) -> Result<(), RunError> {
        let started = Instant::now();
        (control.say)("booting Debian on two nodes");
        let mut pair = Pair::new(&self.config.machine(), self.config.run.seed)?;
        let [one, other] = [guest(image, &roles[0])?, guest(image, &roles[1])?];
        pair.load([&one, &other])?;
        for (node, role) in roles.iter().enumerate() {
            pair.node_mut(node).console.watch(Some(role.ready_marker));
        }
        let mut ready = [false; 2];
        while ready != [true; 2] {
            match run_watched(&mut pair, self.config.run.boot_timeout, true, control)? {
                PairOutcome::Node { node, outcome: Outcome::Marker } => ready[node] = true,
                outcome => return Err(not_ready(&pair, outcome, ready)),
            }
        }
        // Both at one moment, so that the checkpoint serves any link.
        let present = pair.now();
        match pair.run(&Limits::until(present)) {
            PairOutcome::Time | PairOutcome::Asleep => {}
            outcome => return Err(not_ready(&pair, outcome, ready)),
        }
        self.boot = Some((started.elapsed().as_secs_f64(), pair.instructions()));
        self.checkpoint = pair.checkpoint([&self.guests[0], &self.guests[1]], roles[0].name);
        Ok(())
    }

    /// Failing to keep a checkpoint costs the next run a boot, and nothing else.
    fn keep(&self, path: PathBuf, control: &mut Control) {
        let folder = path.parent().expect("the checkpoint folder has a name");
        let kept = fs::create_dir_all(folder)
            .map_err(RunError::io("create the folder", folder))
            .and_then(|()| Ok(self.checkpoint.write(&path)?));
        if let Err(error) = kept {
            (control.say)(&format!("{error}; the next run will boot again"));
        }
    }

    /// The two nodes at the point where both have just become ready.
    pub fn pair(&self) -> Result<Pair, RunError> {
        let mut pair = Pair::new(&self.config.machine(), self.config.run.seed)?;
        pair.restore(&self.checkpoint, [&self.guests[0], &self.guests[1]])?;
        Ok(pair)
    }

    /// The checkpoint from which runs start.
    pub fn checkpoint(&self) -> &PairCheckpoint {
        &self.checkpoint
    }

    /// The configuration.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }
}

fn bootargs(image: &Image, role: &Role) -> String {
    format!("{} doorbell.app={} doorbell.ip={}", image.command_line(), role.name, role.address)
}

/// The script belongs to the guest's name: a checkpoint must not outlive a change of it.
fn identity(image: &Image, role: &Role) -> String {
    let name = guest_identity(image, &bootargs(image, role));
    format!("{name} {:016x}", xxh3_64(role.script.as_bytes()))
}

fn guest(image: &Image, role: &Role) -> Result<Guest, RunError> {
    let mut guest = read_guest(image, bootargs(image, role))?;
    let path = format!("scripts/{}", role.name);
    let script = GuestFile { path, executable: false, content: role.script.as_bytes().to_vec() };
    guest.initramfs.extend(overlay(&[script])?);
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
