//! The reference: one `qemu-system-riscv64` process, stopped at reset, its memory dumped, then logging.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

/// Where RAM begins on QEMU's `virt` board.
pub const RAM_BASE: u64 = 0x8000_0000;

/// What to run.
pub struct Options {
    /// Folder with `fw_dynamic.bin`, `kernel` and `initramfs.cpio`.
    pub image: PathBuf,
    /// A firmware instead of the image's.
    pub firmware: Option<PathBuf>,
    /// How many harts.
    pub harts: usize,
    /// An instruction takes 2 to this power nanoseconds. Harts take turns of 0.1 s, or until they wait.
    pub shift: u8,
    /// Whether QEMU will be stopped by a breakpoint.
    pub breakpoint: bool,
    /// Kernel command line.
    pub command_line: String,
    /// RAM in MiB.
    pub ram_mib: u64,
    /// Whether the hart has Sstc.
    pub sstc: bool,
    /// Whether the machine has interrupt files and an APLIC.
    pub aia: bool,
    /// Whether floating-point registers are logged.
    pub floats: bool,
}

/// A running QEMU, killed when dropped.
pub struct Qemu {
    child: Child,
    monitor: UnixStream,
    gdb: Option<UnixStream>,
    folder: TempDir,
    options: Options,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Qemu {
    /// Starts QEMU, stopped before its first instruction.
    pub fn start(options: Options) -> Result<Qemu> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let socket = |name: &str| -> Result<(PathBuf, UnixListener)> {
            let path = folder.path().join(name);
            let listener = UnixListener::bind(&path).context("no socket for QEMU")?;
            Ok((path, listener))
        };
        let (monitor, gdb) = (socket("monitor")?, socket("gdb")?);
        let file = |name: &str| -> Result<PathBuf> {
            let path = options.image.join(name);
            ensure!(path.is_file(), "{} is missing: build the image first", path.display());
            Ok(path)
        };
        let onoff = |on: bool| if on { "on" } else { "off" };
        // Our hart; ids as ours; time by instructions, so that every run is the same.
        let cpu = format!(
            "{},debug=off,pmu-mask=0,marchid=0,mimpid=0,sstc={}",
            doorbell_oracle::HART,
            onoff(options.sstc)
        );
        // With several harts, QEMU 7.2 hung when it goes on after a breakpoint, unless it sleeps while its harts do.
        let sleeps = options.breakpoint && options.harts > 1;
        let icount = format!("shift={}{}", options.shift, if sleeps { "" } else { ",sleep=off" });
        doorbell_oracle::fetch(&mut |step| eprintln!("QEMU: {step}"))?;
        // setpriv (util-linux) lets QEMU die with us, however we end.
        let mut command =
            doorbell_oracle::under(&["setpriv", "--pdeathsig", "KILL"], &doorbell_oracle::qemu());
        command
            .args([
                "-M",
                if options.aia { "virt,aia=aplic-imsic" } else { "virt" },
                "-cpu",
                &cpu,
                "-m",
                &options.ram_mib.to_string(),
            ])
            .args(["-smp", &options.harts.to_string()])
            .args(["-nodefaults", "-display", "none", "-serial", "null"])
            .args(["-icount", &icount, "-seed", "1", "-S"])
            .args(["-D", "/dev/stdout"])
            .arg("-bios")
            .arg(options.firmware.clone().map_or_else(|| file("fw_dynamic.bin"), Ok)?)
            .arg("-kernel")
            .arg(file("kernel")?)
            .arg("-initrd")
            .arg(file("initramfs.cpio")?)
            .args(["-append", &options.command_line])
            .args(["-chardev", &format!("socket,id=monitor,path={}", monitor.0.display())])
            .args(["-chardev", &format!("socket,id=gdb,path={}", gdb.0.display())])
            .args(["-mon", "chardev=monitor", "-gdb", "chardev:gdb"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("qemu-system-riscv64 does not start")?;
        let monitor = accept(&monitor.1, &mut child)?;
        let gdb = Some(accept(&gdb.1, &mut child)?);
        let mut qemu = Qemu { child, monitor, gdb, folder, options };
        qemu.prompt()?;
        Ok(qemu)
    }

    /// Reads the monitor up to its prompt.
    fn prompt(&mut self) -> Result<String> {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"(qemu) ") {
            ensure!(self.monitor.read(&mut byte)? == 1, "QEMU closed its monitor");
            text.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Gives the monitor a command and waits for its end.
    pub fn command(&mut self, command: &str) -> Result<String> {
        writeln!(self.monitor, "{command}")?;
        self.prompt()
    }

    /// Logs the state before each instruction from now on, and where it stops before one after all.
    pub fn log_instructions(&mut self) -> Result<()> {
        self.command("one-insn-per-tb on")?;
        self.command(if self.options.floats { "log exec,cpu,fpu,nochain" } else { "log exec,cpu,nochain" })?;
        Ok(())
    }

    /// The GDB stub's stream.
    pub fn take_gdb(&mut self) -> UnixStream {
        self.gdb.take().expect("the GDB stub is taken once")
    }

    /// All of RAM as it is now.
    pub fn memory(&mut self) -> Result<Vec<u8>> {
        let path = self.folder.path().join("memory");
        let size = self.options.ram_mib << 20;
        let answer = self.command(&format!("pmemsave {RAM_BASE:#x} {size:#x} \"{}\"", path.display()))?;
        let memory = read_file(&path).with_context(|| format!("QEMU did not dump its memory: {answer}"))?;
        ensure!(
            memory.len() as u64 == size,
            "QEMU dumped {} bytes of memory instead of {size}",
            memory.len()
        );
        std::fs::remove_file(&path)?;
        Ok(memory)
    }

    /// The log's stream.
    pub fn take_log(&mut self) -> BufReader<ChildStdout> {
        let stdout = self.child.stdout.take().expect("the log is taken once");
        BufReader::with_capacity(1 << 18, stdout)
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    Ok(std::fs::read(path)?)
}

/// Waits for QEMU to connect, or to die of a bad option.
fn accept(listener: &UnixListener, child: &mut Child) -> Result<UnixStream> {
    listener.set_nonblocking(true)?;
    for _ in 0..1000 {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false)?;
            return Ok(stream);
        }
        if let Some(status) = child.try_wait()? {
            bail!("qemu-system-riscv64 ended at once ({status}); its message stands above");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    bail!("qemu-system-riscv64 did not connect to its monitor within ten seconds")
}
