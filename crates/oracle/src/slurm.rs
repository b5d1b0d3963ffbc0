//! A Slurm cluster on this host: controller, nodes and munge from Debian's packages. It runs in a folder,
//! without root, systemd, cgroups or accounting, and ends when this value is dropped.

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
/// Debian 12 and 13. The programs use the host's C library, because a daemon re-executes itself, which fails
/// under another loader.
const SUITES: [&str; 2] = ["bookworm", "trixie"];
/// Packages needed only for installation, or provided by the host.
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
/// Timeout for daemons, which take a second or two.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// slurm.conf(5), SlurmdTimeout: a node that does not answer for this long is down.
const NODE_TIMEOUT_SECONDS: u32 = 5;

/// A running cluster.
pub struct Slurm {
    folder: PathBuf,
    /// The nodes' daemons; `None` if killed.
    nodes: Vec<Option<Daemon>>,
    _controller: Daemon,
    _munged: Daemon,
}

/// A process that is killed on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Slurm {
    /// Starts a cluster of single-core nodes in an existing folder; `None` on a host without suitable
    /// packages.
    pub fn start(folder: &Path, nodes: usize) -> Option<Slurm> {
        let packages = packages()?;
        for part in ["bin", "programs", "state", "munge"] {
            fs::create_dir_all(folder.join(part)).expect("the cluster's folder can be written");
        }
        wrap(&packages, folder);
        write_configuration(&packages, folder, nodes);
        let munge = folder.join("munge");
        // `--force`: munge considers the folder's permissions unsafe, but only this user can enter it.
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
            start_daemon(munged, &munge.join("out"))
        };
        wait_for(folder, "munge's socket", || munge.join("socket").exists());
        let mut controller = daemon("slurmctld");
        controller.arg("-D");
        let controller = start_daemon(controller, &folder.join("slurmctld.out"));
        let mut cluster =
            Slurm { folder: folder.to_owned(), nodes: Vec::new(), _controller: controller, _munged: munged };
        for node in 0..nodes {
            cluster.nodes.push(None);
            cluster.start_node(node);
        }
        wait_for(folder, "idle nodes", || (0..nodes).all(|node| cluster.state(node) == "idle"));
        Some(cluster)
    }

    /// Folder of its commands, for PATH, and its configuration, for SLURM_CONF.
    pub fn paths(&self) -> (PathBuf, PathBuf) {
        (self.folder.join("bin"), self.folder.join("slurm.conf"))
    }

    /// Output of one of its commands.
    pub fn output_of(&self, name: &str, words: &[&str]) -> String {
        let output = command(&self.folder, name).args(words).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// State of a node in the controller, such as idle, mixed, down.
    pub fn state(&self, node: usize) -> String {
        let output = self.output_of("sinfo", &["--noheader", "--format=%T", &format!("--nodes=n{node}")]);
        output.trim_end_matches(['*', '~', '#', '$', '@', '+']).to_owned()
    }

    /// Starts a node's daemon.
    pub fn start_node(&mut self, node: usize) {
        let mut daemon = command(&self.folder, "slurmd");
        let name = format!("n{node}");
        daemon.args(["-D", "-N", &name, "-d"]).arg(self.folder.join("bin/slurmstepd"));
        self.nodes[node] = Some(start_daemon(daemon, &self.folder.join(format!("{name}.out"))));
    }

    /// Kills a node's daemon, like a power failure; its jobs continue, but are not reported.
    pub fn kill_node(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    /// Waits until a node is in one of these states.
    pub fn wait_for_state(&self, node: usize, states: &[&str]) {
        wait_for(&self.folder, &format!("{states:?} of node {node}"), || {
            states.contains(&&*self.state(node))
        });
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Jobs must end before the daemons to which they report.
        self.output_of("scancel", &["--partition=main"]);
        let began = Instant::now();
        while !self.output_of("squeue", &["--noheader"]).is_empty()
            && began.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn start_daemon(mut command: Command, output: &Path) -> Daemon {
    let output = fs::File::options()
        .create(true)
        .append(true)
        .open(output)
        .expect("the cluster's folder can be written");
    let also = output.try_clone().expect("a file can be shared");
    Daemon(command.stdin(Stdio::null()).stdout(output).stderr(also).spawn().expect("a daemon starts"))
}

fn command(folder: &Path, name: &str) -> Command {
    let mut command = Command::new(folder.join("bin").join(name));
    command.env("SLURM_CONF", folder.join("slurm.conf"));
    command
}

fn wait_for(folder: &Path, what: &str, is_done: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_done() {
        let output = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let all = || ["munge/out", "slurmctld.out", "n0.out"].map(output).join("\n");
        assert!(began.elapsed() < START_TIMEOUT, "timeout waiting for {what}:\n{}", all());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Creates a wrapper for each program under its plain name. Debian's alternatives, such as slurmctld for
/// slurmctld-wlm, exist only after installation.
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

/// Unpacked packages for this host; `None` if it is not a supported Debian.
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
    Some(fetched.unwrap_or_else(|error| panic!("Slurm cannot be fetched: {error}")))
}

/// Writes slurm.conf(5), without cgroups and accounting, which containers rarely have.
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
    // Tests replace it: its output is added to a task's environment.
    let prolog = folder.join("prolog");
    fs::write(&prolog, "#!/bin/sh\n").expect("the cluster's folder can be written");
    fs::set_permissions(&prolog, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// Ports that are currently free.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect()
}
