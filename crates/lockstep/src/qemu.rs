//! The reference: a `qemu-system-riscv64` process that is stopped at reset, has its memory dumped, and then
//! logs.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

/// Start of RAM on QEMU's `virt` board.
pub const RAM_BASE: u64 = 0x8000_0000;

/// QEMU options.
pub struct Options {
    /// Folder with `fw_dynamic.bin`, `kernel` and `initramfs.cpio`.
    pub image: PathBuf,
    /// Number of harts.
    pub harts: usize,
    /// QEMU's time per instruction, as a power of two in nanoseconds. Harts take turns of 0.1 s, or until
    /// they wait.
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
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let socket = |name: &str| -> Result<(PathBuf, UnixListener)> {
            let path = folder.path().join(name);
            let listener = UnixListener::bind(&path).context("cannot create a socket for QEMU")?;
            Ok((path, listener))
        };
        let (monitor, gdb) = (socket("monitor")?, socket("gdb")?);
        let file = |name: &str| -> Result<PathBuf> {
            let path = options.image.join(name);
            ensure!(path.is_file(), "{} is missing: build the image first", path.display());
            Ok(path)
        };
        let onoff = |on: bool| if on { "on" } else { "off" };
        // Our hart model and IDs; time from the instruction count, so that every run is the same.
        let cpu = format!(
            "{},debug=off,pmu-mask=0,marchid=0,mimpid=0,sstc={}",
            doorbell_oracle::HART,
            onoff(options.sstc)
        );
        // With several harts, QEMU 7.2 hangs when resumed after a breakpoint, unless it sleeps while its
        // harts wait.
        let sleeps = options.breakpoint && options.harts > 1;
        let icount = format!("shift={}{}", options.shift, if sleeps { "" } else { ",sleep=off" });
        doorbell_oracle::fetch(&mut |step| eprintln!("QEMU: {step}"))?;
        // setpriv (util-linux) kills QEMU when this process dies, for any reason.
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
            .arg(file("fw_dynamic.bin")?)
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
        let mut child = command.spawn().context("cannot start qemu-system-riscv64")?;
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

    /// Sends a monitor command and waits for its completion.
    pub fn command(&mut self, command: &str) -> Result<String> {
        writeln!(self.monitor, "{command}")?;
        self.prompt()
    }

    /// Starts logging: the state before each instruction, and when execution stops before a logged one.
    pub fn log_instructions(&mut self) -> Result<()> {
        self.command("one-insn-per-tb on")?;
        self.command(if self.options.floats { "log exec,cpu,fpu,nochain" } else { "log exec,cpu,nochain" })?;
        Ok(())
    }

    /// The GDB stub's stream.
    pub fn take_gdb(&mut self) -> UnixStream {
        self.gdb.take().expect("take_gdb is called once")
    }

    /// Dumps all of RAM.
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
        let stdout = self.child.stdout.take().expect("take_log is called once");
        BufReader::with_capacity(1 << 18, stdout)
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    Ok(std::fs::read(path)?)
}

/// Waits for QEMU to connect, or to exit because of a bad option.
fn accept(listener: &UnixListener, child: &mut Child) -> Result<UnixStream> {
    listener.set_nonblocking(true)?;
    for _ in 0..1000 {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false)?;
            return Ok(stream);
        }
        if let Some(status) = child.try_wait()? {
            bail!("qemu-system-riscv64 exited at once ({status}); see its message above");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    bail!("qemu-system-riscv64 did not connect to its monitor within ten seconds")
}
