//! A cluster of Slurm's on this host: its controller, nodes and munge from Debian's packages, started in a folder, without root,
//! systemd, cgroups or accounts, and ended with this value.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use doorbell_image::{BuildOptions, Unpacked, fetch_unpacked};

use crate::cache;

const ROOTS: [&str; 5] = ["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge"];
/// Debian 12 and 13: they run with the host's own C library, because a daemon starts itself again, which it cannot under another loader.
const SUITES: [&str; 2] = ["bookworm", "trixie"];
/// What the packages need when they are installed, or what the host has.
const LEFT_OUT: [&str; 13] = [
    "adduser",
    "debconf*",
    "dmsetup",
    "init-system-helpers",
    "libc6",
    "libc-bin",
    "logrotate",
    "lsb-base",
    "mount",
    "perl*",
    "procps",
    "systemd*",
    "ucf",
];
const DAEMONS: &[&str] = &["munged", "slurmctld", "slurmd", "slurmstepd"];
const COMMANDS: &[&str] = &["sbatch", "squeue", "scancel", "scontrol", "sinfo", "sacct"];
/// Daemons take a second or two.
const PATIENCE: Duration = Duration::from_secs(60);
/// slurm.conf(5), SlurmdTimeout: a node that does not answer for so long is down.
const NODE_TIMEOUT_SECONDS: u32 = 5;

/// A cluster.
pub struct Slurm {
    folder: PathBuf,
    /// The nodes' daemons; one that was killed is not there.
    nodes: Vec<Option<Daemon>>,
    _controller: Daemon,
    _munged: Daemon,
}

/// A process that ends with this value.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Slurm {
    /// Starts a cluster with so many nodes of one core each, in a folder that is there; `None` on a host for which there are no packages.
    pub fn start(folder: &Path, nodes: usize) -> Option<Slurm> {
        let packages = packages()?;
        for part in ["bin", "programs", "state", "munge"] {
            fs::create_dir_all(folder.join(part)).expect("the cluster's folder can be written");
        }
        wrap(&packages, folder);
        write_configuration(&packages, folder, nodes);
        let munge = folder.join("munge");
        // Whoever can enter the folder is this user, which munge finds too strict.
        let key: Vec<u8> = (0..128u8).map(|byte| byte.wrapping_mul(37)).collect();
        fs::write(munge.join("key"), key).expect("the key can be written");
        let private = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        private(&munge.join("key"), 0o600).and_then(|()| private(&munge, 0o711)).expect("they are ours");
        let at = |name: &str| munge.join(name).display().to_string();
        let daemon = |name: &str| command(folder, name);
        let munged = {
            let mut munged = daemon("munged");
            munged.args(["--foreground", "--force"]).args([
                format!("--socket={}", at("socket")),
                format!("--key-file={}", at("key")),
                format!("--pid-file={}", at("pid")),
                format!("--log-file={}", at("log")),
                format!("--seed-file={}", at("seed")),
            ]);
            begin(munged, &munge.join("said"))
        };
        wait_for(folder, "munge's socket", || munge.join("socket").exists());
        let mut controller = daemon("slurmctld");
        controller.arg("-D");
        let controller = begin(controller, &folder.join("slurmctld.said"));
        let mut cluster =
            Slurm { folder: folder.to_owned(), nodes: Vec::new(), _controller: controller, _munged: munged };
        for node in 0..nodes {
            cluster.nodes.push(None);
            cluster.start_node(node);
        }
        wait_for(folder, "idle nodes", || (0..nodes).all(|node| cluster.state(node) == "idle"));
        Some(cluster)
    }

    /// Where its commands are, for PATH, and its configuration, for SLURM_CONF.
    pub fn places(&self) -> (PathBuf, PathBuf) {
        (self.folder.join("bin"), self.folder.join("slurm.conf"))
    }

    /// What a command of its prints.
    pub fn says(&self, name: &str, words: &[&str]) -> String {
        let output = command(&self.folder, name).args(words).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// What the controller has of a node, such as idle, mixed, down.
    pub fn state(&self, node: usize) -> String {
        let said = self.says("sinfo", &["--noheader", "--format=%T", &format!("--nodes=n{node}")]);
        said.trim_end_matches(['*', '~', '#', '$', '@', '+']).to_owned()
    }

    /// Starts a node's daemon.
    pub fn start_node(&mut self, node: usize) {
        let mut daemon = command(&self.folder, "slurmd");
        let name = format!("n{node}");
        daemon.args(["-D", "-N", &name, "-d"]).arg(self.folder.join("bin/slurmstepd"));
        self.nodes[node] = Some(begin(daemon, &self.folder.join(format!("{name}.said"))));
    }

    /// Kills a node's daemon, as if its power went; what runs there goes on, and nobody hears of it.
    pub fn kill_node(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    /// Waits until the controller has a node in one of these states.
    pub fn wait_for_state(&self, node: usize, states: &[&str]) {
        wait_for(&self.folder, &format!("{states:?} of node {node}"), || {
            states.contains(&&*self.state(node))
        });
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // What runs ends before what it would report to.
        self.says("scancel", &["--partition=main"]);
        let began = Instant::now();
        while !self.says("squeue", &["--noheader"]).is_empty() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn begin(mut command: Command, said: &Path) -> Daemon {
    let said = fs::File::options()
        .create(true)
        .append(true)
        .open(said)
        .expect("the cluster's folder can be written");
    let also = said.try_clone().expect("a file can be shared");
    Daemon(command.stdin(Stdio::null()).stdout(said).stderr(also).spawn().expect("a daemon starts"))
}

fn command(folder: &Path, name: &str) -> Command {
    let mut command = Command::new(folder.join("bin").join(name));
    command.env("SLURM_CONF", folder.join("slurm.conf"));
    command
}

fn wait_for(folder: &Path, what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        let said = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let all = || ["munge/said", "slurmctld.said", "n0.said"].map(said).join("\n");
        assert!(began.elapsed() < PATIENCE, "the cluster comes to no {what}:\n{}", all());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Makes a command of each program. Debian's alternatives, such as slurmctld for slurmctld-wlm, are made at installation; the
/// programs want to be called by these names.
fn wrap(packages: &Path, folder: &Path) {
    let libraries = libraries(packages);
    for (place, names) in [("usr/sbin", DAEMONS), ("usr/bin", COMMANDS)] {
        for name in names {
            let own = [(*name).to_owned(), format!("{name}-wlm")].map(|name| packages.join(place).join(name));
            let own = own.iter().find(|path| path.exists());
            let own = own.unwrap_or_else(|| panic!("Slurm's packages have no {name}"));
            let (link, path) = (folder.join("programs").join(name), folder.join("bin").join(name));
            symlink(own, &link).expect("the cluster's folder can be written");
            let script = format!(
                "#!/bin/sh\nexport LD_LIBRARY_PATH='{0}:{0}/slurm-wlm'\nexec '{1}' \"$@\"\n",
                libraries.display(),
                link.display()
            );
            fs::write(&path, script).expect("the cluster's folder can be written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
    }
}

fn libraries(packages: &Path) -> PathBuf {
    packages.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))
}

/// The packages for this host, unpacked; `None` on one that is no Debian of which this is known.
fn packages() -> Option<PathBuf> {
    let host = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let suite = SUITES.into_iter().find(|suite| host.contains(&format!("VERSION_CODENAME={suite}\n")))?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        _ => return None,
    };
    let wanted = Unpacked { name: "slurm", suite, architecture, roots: &ROOTS, leave_out: &LEFT_OUT };
    let options = BuildOptions {
        cache_dir: cache().join("packages"),
        out_dir: cache().join("slurm"),
        ..BuildOptions::default()
    };
    let fetched = fetch_unpacked(&wanted, &options, &mut |step| eprintln!("Slurm: {step}"));
    Some(fetched.unwrap_or_else(|error| panic!("Slurm is not there, and cannot be fetched: {error}")))
}

/// slurm.conf(5). Without cgroups and accounts, which containers seldom have.
fn write_configuration(packages: &Path, folder: &Path, nodes: usize) {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host has a name");
    let host = host.trim().split('.').next().expect("split gives one");
    let user = Command::new("id").arg("-un").output().expect("id starts").stdout;
    let user = String::from_utf8_lossy(&user).trim().to_owned();
    let (at, plugins) = (folder.display(), libraries(packages).join("slurm-wlm"));
    let ports: Vec<u16> = free_ports(nodes + 1);
    let mut text = format!(
        "ClusterName=doorbell\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\nSlurmdUser={user}\n\
         AuthType=auth/munge\nAuthInfo=socket={at}/munge/socket\nCredType=cred/munge\nPluginDir={}\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\nMpiDefault=none\nSwitchType=switch/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\nReturnToService=2\n\
         StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool-%n\nSlurmctldPidFile={at}/slurmctld.pid\n\
         SlurmdPidFile={at}/slurmd-%n.pid\nSlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd-%n.log\n\
         SlurmdTimeout={NODE_TIMEOUT_SECONDS}\nTaskProlog={at}/prolog\n",
        ports[0],
        plugins.display()
    );
    for (node, port) in ports[1..].iter().enumerate() {
        fs::create_dir_all(folder.join(format!("spool-n{node}")))
            .expect("the cluster's folder can be written");
        let _ = writeln!(
            text,
            "NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN"
        );
    }
    let _ = writeln!(text, "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP");
    fs::write(folder.join("slurm.conf"), text).expect("the cluster's folder can be written");
    // Tests write their own in its place: what it prints goes into a task's environment.
    let prolog = folder.join("prolog");
    fs::write(&prolog, "#!/bin/sh\n").expect("the cluster's folder can be written");
    fs::set_permissions(&prolog, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// Ports that nobody listens at just now.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect()
}
