//! User programs: runs the example of `docs/images.md` verbatim, and checks scripts and their error cases.
//! Needs riscv64-linux-gnu-gcc with its libc.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use doorbell_acceptance::{
    CommandOutput, Running, blocks, cache_with_own_checkpoints, doorbell, doorbell_path, repository, scratch,
};
use serde_json::Value;

/// Cache folder of these tests, with its own checkpoints.
fn cache() -> &'static str {
    static FOLDER: OnceLock<String> = OnceLock::new();
    FOLDER.get_or_init(|| cache_with_own_checkpoints("acceptance-scripts").display().to_string())
}

/// A folder that contains a script for `--script`.
struct ScriptFolder(tempfile::TempDir);

impl ScriptFolder {
    fn with(script: &str) -> ScriptFolder {
        let folder = scratch();
        fs::write(folder.path().join("script"), script).unwrap();
        ScriptFolder(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn run(&self, more: &[&str]) -> CommandOutput {
        let (script, out) = (self.path("script"), self.path("out"));
        doorbell(&[&["--cache", cache(), "run", "--script", &script, "--out", &out], more].concat())
    }

    fn console(&self) -> String {
        fs::read_to_string(self.path("out/console.log")).unwrap()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(&format!("out/{name}"))).unwrap()).unwrap()
    }
}

#[test]
fn the_example_of_the_page_on_images_works() {
    let page = fs::read_to_string(repository().join("docs/images.md")).unwrap();
    let example = repository().join("guest/examples/reflect");
    // A fixed folder, so that the image is found in the cache.
    let folder = Path::new(cache()).join("example");
    fs::create_dir(&folder).unwrap();
    for file in ["hello.sh", "reflect.c", "reflect.sh", "reflect.toml"] {
        fs::copy(example.join(file), folder.join(file)).unwrap();
    }
    // The page's listings must match the files.
    let script = fs::read_to_string(example.join("reflect.sh")).unwrap();
    assert!(blocks(&page, "text").contains(&script), "the page's script differs from reflect.sh");
    let recipe = fs::read_to_string(example.join("reflect.toml")).unwrap();
    assert!(recipe.ends_with(&blocks(&page, "toml")[0]), "the page's recipe differs from reflect.toml");

    let commands = blocks(&page, "sh");
    assert_eq!(commands.len(), 4);
    let in_path = doorbell_path().parent().unwrap().display().to_string();
    let mut outputs = commands.iter().map(|block| {
        let mut command = Command::new("sh");
        command.args(["-e", "-c", block]).current_dir(&folder);
        command.env("DOORBELL_CACHE", cache());
        command.env("PATH", format!("{in_path}:{}", std::env::var("PATH").unwrap()));
        let output = Running::start(command).end();
        assert_eq!(output.code, Some(0), "{block}\n{}\n{}", output.stdout, output.stderr);
        output
    });
    outputs.next().unwrap();
    let table = outputs.next().unwrap();
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("results/latest/summary.json")).unwrap())
            .unwrap();
    check_reflection(&table, &summary);
    outputs.next().unwrap();
    let lock = fs::read_to_string(folder.join("reflect.lock")).unwrap();
    assert!(lock.contains("name = \"jq\"") && lock.contains("image_sha256"), "{lock}");
    outputs.next().unwrap();
    let console = fs::read_to_string(folder.join("results/latest/console.log")).unwrap();
    let lines = fs::read_to_string(example.join("reflect.c")).unwrap().lines().count();
    assert!(console.contains(&format!("{lines} /root/reflect.c")), "{console}");
    assert!(folder.join("results/latest/m5stats-0.json").exists());
}

/// At low rates every frame returns, and program, kernel and load generator agree on the counts. At the
/// highest rate the guest is overloaded and drops frames.
fn check_reflection(output: &CommandOutput, summary: &Value) {
    let points = summary["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    for (point, frames) in points.iter().zip([500, 1000, 2000]) {
        assert_eq!(point["frames_offered"], frames);
        assert_eq!(point["frames_delivered"], frames, "{point}");
        assert_eq!((&point["exit_status"], &point["frames_corrupt"]), (&0.into(), &0.into()));
        assert_eq!(point["simulated_seconds"].as_f64().map(|s| (s * 1e5).round()), Some(1000.0));
    }
    let (last, number) = (&points[3], |value: &Value| value.as_u64().unwrap());
    let lost = number(&last["frames_offered"]) - number(&last["frames_delivered"]);
    assert!(lost > 1000 && number(&last["drops"]["guest"]) == lost, "{last}");
    let mut counted = 0;
    for pair in output.stderr.lines().collect::<Vec<_>>().windows(2) {
        if let Some(reflected) = pair[0].strip_prefix("reflected ").and_then(|rest| rest.split(' ').next()) {
            assert!(pair[1].ends_with(&format!(",\"sent\":{reflected}}}")), "{pair:?}");
            counted += 1;
        }
    }
    assert_eq!(counted, 4, "{}", output.stderr);
}

#[test]
fn a_run_has_the_scripts_exit_status_output_and_figures() {
    let here =
        ScriptFolder::with("echo one\nm5 resetstats\nm5 workbegin 7\nm5 dumpstats\necho -n two\nexit 3\n");
    let output = here.run(&[]);
    assert_eq!(output.code, Some(3), "{}", output.stderr);
    for line in ["one", "two"] {
        assert!(output.stderr.lines().any(|printed| printed == line), "{}", output.stderr);
    }
    assert!(output.stderr.contains("work begin: id 7"), "{}", output.stderr);
    assert!(output.stderr.contains("script ended with exit status 3"), "{}", output.stderr);
    assert!(output.stdout.contains("exit status 3, measured for "), "{}", output.stdout);
    assert!(here.console().contains("one\ntwodoorbell: exit 3\n"), "{}", here.console());
    let summary = here.json("summary.json");
    assert_eq!((&summary["exit_status"], &summary["rate"]), (&3.into(), &"none".into()));
    assert_eq!(summary["frames_offered"], 0);
    let counted = here.json("m5stats-0.json")["counters"]["hart0.instructions"]["value"].as_u64().unwrap();
    assert!(counted > 1_000 && counted < summary["instructions"].as_u64().unwrap());
    let page = fs::read_to_string(here.path("out/report.html")).unwrap();
    assert!(page.trim_end().ends_with("</html>"));

    // A run from the checkpoint of the first run is identical, and -q prints no progress.
    let again = here.run(&["-q"]);
    assert_eq!(again.stderr.lines().count(), 1, "{}", again.stderr);
    assert_eq!(here.json("summary.json")["state_hash"], summary["state_hash"]);
    // A run with a new boot is identical too.
    here.run(&["--boot"]);
    assert_eq!(here.json("summary.json")["state_hash"], summary["state_hash"]);
}

#[test]
fn files_are_copied_intact_and_every_kind_of_script_runs() {
    let here = ScriptFolder::with(
        "#!/bin/sh -e\nsha256sum /usr/bin/big\ntest -x /usr/bin/big\ntest ! -x /root/a\ntest -L /bin\n",
    );
    let big: Vec<u8> = (0..300_001_u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
    let (big_path, small_path) = (here.path("big"), here.path("a=b"));
    fs::write(&big_path, &big).unwrap();
    fs::set_permissions(&big_path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(&small_path, "small").unwrap();
    // `bin` is a symbolic link in the image and must remain one.
    let files = [format!("{big_path}=bin/big"), format!("{small_path}=/root/a")];
    let output = here.run(&["--file", &files[0], "--file", &files[1]]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let output = Command::new("sha256sum").arg(&big_path).output().unwrap();
    let sum = String::from_utf8(output.stdout).unwrap();
    assert!(here.console().contains(sum.split(' ').next().unwrap()), "{}", here.console());

    // A program instead of a script, and a missing interpreter.
    fs::write(here.path("main.c"), "#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 42; }\n")
        .unwrap();
    let gcc = Command::new("riscv64-linux-gnu-gcc")
        .args(["-o", &here.path("script"), &here.path("main.c")])
        .status();
    assert!(gcc.expect("this test needs riscv64-linux-gnu-gcc (package gcc-riscv64-linux-gnu)").success());
    assert_eq!(here.run(&["-q"]).code, Some(42));
    assert!(here.console().contains("compiled"));
    fs::write(here.path("script"), "#!/no/interpreter\n").unwrap();
    here.run(&[]).assert_failure(&["not found", "exit status 127"]);
}

#[test]
fn begin_at_and_end_at_delimit_the_measurement() {
    let here = ScriptFolder::with(
        "busybox usleep 3000\necho go\nbusybox usleep 5000\necho stop\nbusybox usleep 4000\n",
    );
    let seconds = |here: &ScriptFolder| here.json("summary.json")["simulated_seconds"].as_f64().unwrap();
    here.run(&["-q"]).success();
    assert!(seconds(&here) > 0.012, "without marks it is the whole script: {}", seconds(&here));
    here.run(&["-q", "--begin-at", "go", "--end-at", "stop", "--rate", "50kpps"]).success();
    let measured = seconds(&here);
    assert!((0.005..0.007).contains(&measured), "{measured}");
    let summary = here.json("summary.json");
    let offered = summary["frames_offered"].as_u64().unwrap();
    assert!(offered.abs_diff((measured * 5e4) as u64) <= 1, "{offered} in {measured} s");
    // The kernel does not route: the guest receives all frames and returns none.
    assert_eq!(summary["drops"]["guest"].as_u64(), Some(offered), "{summary}");

    here.run(&["-q", "--begin-at", "go", "--warmup", "1ms", "--duration", "2ms"]).success();
    assert_eq!((seconds(&here) * 1e6).round(), 2000.0);
    here.run(&["-q", "--begin-at", "gone"]).assert_failure(&["\"gone\"", "--begin-at", "exit status 0"]);
    here.run(&["-q", "--end-at", "m5"]).assert_failure(&["m5op", "--end-at"]);

    let server = ScriptFolder::with("echo listening\nwhile :; do busybox sleep 1; done\n");
    let measure = ["-q", "--begin-at", "listening", "--duration", "1ms"];
    server.run(&[&measure[..], &["--end-with-measurement"]].concat()).success();
    assert_eq!(server.json("summary.json")["exit_status"], Value::Null);
    server.run(&[&measure[..], &["--time-limit", "50ms"]].concat()).assert_failure(&["--time-limit"]);
}

#[test]
fn a_script_that_hangs_or_ends_the_guest_fails_with_its_last_console_lines() {
    for script in ["echo spinning; while :; do :; done\n", "echo sleeping; sleep 1000\n"] {
        let here = ScriptFolder::with(script);
        here.run(&["-q", "--time-limit", "30ms"]).assert_failure(&["its time limit", "--time-limit", "ing"]);
        assert!(here.console().contains("ing\n"), "the console is kept: {}", here.console());
        assert!(!Path::new(&here.path("out/summary.json")).exists());
    }
    ScriptFolder::with("busybox poweroff -f\n").run(&["-q"]).assert_failure(&["powered off", "start script"]);
    ScriptFolder::with("busybox reboot -f\n").run(&["-q"]).assert_failure(&["reset", "start script"]);
    let failing = ScriptFolder::with("echo before; m5 fail 9; echo after\n");
    assert_eq!(failing.run(&["-q"]).code, Some(9));
    assert!(!failing.console().contains("after\n"));
}

#[test]
fn errors_on_the_host_are_reported_before_boot() {
    let here = ScriptFolder::with("true\n");
    here.run(&["--image", "nothing"]).assert_failure(&["no image recipe \"nothing\"", "net"]);
    here.run(&["--image", &here.path("absent.toml")]).assert_failure(&["absent.toml"]);
    for (file, expected) in [("x", "HOST=GUEST"), ("absent=/x", "absent"), ("=x", "HOST=GUEST")] {
        here.run(&["--file", file]).assert_failure(&["--file", expected]);
    }
    let outside = format!("{}=../x", here.path("script"));
    here.run(&["--file", &outside]).assert_failure(&["--file", "../x"]);
    here.run(&["--begin-at", ""]).assert_failure(&["--begin-at"]);
    fs::write(here.path("other"), "other").unwrap();
    let twice = ["script", "other"].map(|name| format!("{}=/x", here.path(name)));
    here.run(&["--file", &twice[0], "--file", &twice[1]]).assert_failure(&["\"x\""]);

    let script = |path: &str| doorbell(&["run", "--script", path, "--out", &here.path("out")]);
    script(&here.path("absent")).assert_failure(&["cannot read", "absent"]);
    script("/").assert_failure(&["cannot read", "directory"]);
    script("/bin/true").assert_failure(&["/bin/true", "not an executable for RISC-V"]);
    fs::write(here.path("empty"), "").unwrap();
    script(&here.path("empty")).assert_failure(&["empty"]);
    doorbell(&["run", "testpmd", "--append", "x"]).assert_failure(&["--append", "--script"]);
    doorbell(&["run"]).assert_failure(&["testpmd", "--script"]);
    assert!(!Path::new(&here.path("out/console.log")).exists());
}

#[test]
fn scripts_run_in_the_testpmd_image() {
    let here = ScriptFolder::with(
        "#!/bin/sh\nls /sys/bus/pci/drivers/uio_pci_generic\ngrep HugePages_Total /proc/meminfo\n",
    );
    here.run(&["-q", "--image", "testpmd"]).success();
    let console = here.console();
    assert!(console.contains("0000:00:01.0") && console.contains("HugePages_Total:      16"), "{console}");
}

#[test]
fn a_failed_init_line_is_reported_at_every_run_and_modules_load_on_demand() {
    // The kernel requests rtnl-link-vxlan, whose module depends on two others.
    let here = ScriptFolder::with(
        "test ! -e /sys/module/vxlan\nip link add v0 type vxlan id 1 dev eth0 dstport 4789 || exit 1\n\
         modprobe -q absent && exit 2\ncut -d ' ' -f 1 /proc/modules\n",
    );
    let recipe = "schema = 1\nextends = \"net\"\ninit = [\"echo fine\", \"ip link set eth7 up\"]\n\
                  kernel.on_demand = [\"vxlan\"]\n";
    // A fixed path, so that the image is found in the cache.
    let path = Path::new(cache()).join("on-demand.toml");
    fs::write(&path, recipe).unwrap();
    for _ in ["booted", "from its checkpoint"] {
        let output = here.run(&["--image", path.to_str().unwrap()]);
        assert_eq!(output.code, Some(0), "{}\n{}", output.stderr, here.console());
        let warning = "warning: init line 2 failed with status 2: ip link set eth7 up";
        assert!(output.stderr.contains(warning) && output.stderr.contains("init.log"), "{}", output.stderr);
        let log = fs::read_to_string(here.path("out/init.log")).unwrap();
        assert!(log.contains("No such device\n") && log.contains("init line 2 failed"), "{log}");
        let console = here.console();
        for module in ["vxlan", "udp_tunnel", "ip6_udp_tunnel"] {
            assert!(console.contains(&format!("\n{module}\n")), "{console}");
        }
    }
}

#[test]
fn a_script_continues_from_its_own_checkpoint_at_each_rate() {
    let here = ScriptFolder::with(
        "echo first\nbusybox usleep 2000\nm5 checkpoint\necho second\nbusybox usleep 5000\necho third\nexit 5\n",
    );
    let output = here.run(&["--rate", "30kpps"]);
    assert_eq!(output.code, Some(5), "{}", output.stderr);
    let checkpoint = here.path("m5.ckpt");
    fs::copy(here.path("out/m5checkpoint-0.ckpt"), &checkpoint).unwrap();
    let from = ["--checkpoint", &checkpoint];
    let output = here.run(&[&from[..], &["--rate", "50kpps,100kpps"]].concat());
    assert_eq!(output.code, Some(5), "{}", output.stderr);
    let times = |line: &str| output.stderr.lines().filter(|printed| *printed == line).count();
    assert_eq!([times("first"), times("second"), times("third")], [0, 2, 2], "{}", output.stderr);
    let summary = here.json("summary.json");
    let points = summary["points"].as_array().unwrap();
    for (point, rate) in points.iter().zip([50e3, 100e3]) {
        let (frames, seconds) = (point["frames_offered"].as_f64().unwrap(), &point["simulated_seconds"]);
        assert!((frames - rate * seconds.as_f64().unwrap()).abs() <= 1.0, "{point}");
        assert!((0.005..0.006).contains(&seconds.as_f64().unwrap()), "{point}");
    }
    let page = fs::read_to_string(here.path("out/report.html")).unwrap();
    assert!(page.trim_end().ends_with("</html>"));
    // Without a rate there is no traffic, although the checkpoint was taken under traffic.
    let output = here.run(&from);
    assert!(output.stderr.contains("taken under traffic"), "{}", output.stderr);
    assert_eq!(here.json("summary.json")["frames_offered"], 0);
}

#[test]
fn a_script_run_can_be_profiled() {
    let here = ScriptFolder::with("m5 resetstats\nsha256sum /srv/index.html\nm5 dumpstats\n");
    here.run(&["--profile"]).assert_failure(&["--profile", "timed"]);
    let marks = ["--begin-at", "m5", "--end-at", "m5", "--set", "core.model=timed"];
    here.run(&[&["--preset", "small-in-order", "--profile"], &marks[..]].concat()).success();
    let functions = here.json("summary.json")["functions"].as_array().unwrap().clone();
    assert!(
        functions.iter().any(|function| function["object"].as_str().unwrap().contains("busybox")),
        "{functions:?}"
    );
    for file in ["functions.csv", "functions.folded", "kinds.csv"] {
        assert!(Path::new(&here.path(&format!("out/{file}"))).exists(), "{file}");
    }
}
