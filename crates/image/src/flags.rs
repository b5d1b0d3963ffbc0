//! The compiler options that a recipe may use.
//!
//! A compiler has options that run programs of the recipe's choice (`-wrapper`, `-fplugin=`, `-B`,
//! `-specs=`), that read or write any file of the host (`@file`, `-T`, `-o`, `-dumpdir`), or that pass
//! options to programs with such options (`-Wl,`, `-Wa,`, `-Xlinker`). Each compiler release may add more. So
//! only options from a list of harmless ones are allowed.

/// The allowed options, for the error message.
const ALLOWED: &str = "allowed are -O…, -g, -std=…, -W… (warnings), -m…, -D…, -U…, -I and -include of the recipe's own or the packages' \
    headers, -pthread, -static, -nostdlib and their like, -Wl,--gc-sections and its like, and those -f… that change the code \
    and touch no files";

/// Options that are allowed as they are.
#[rustfmt::skip]
const EXACT_OPTIONS: &[&str] = &[
    "-O", "-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-Og", "-Ofast", "-g", "-g0", "-g1", "-g2", "-g3", "-ggdb", "-gdwarf",
    "-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-ansi", "-pedantic", "-pedantic-errors", "-w", "-pipe", "-pthread",
    "-static", "-static-pie", "-static-libgcc", "-shared", "-pie", "-no-pie", "-nostdinc", "-nostdlib", "-nostartfiles",
    "-nodefaultlibs", "-nolibc", "-rdynamic", "-s",
    // Linker options that choose the contents of a program.
    "-Wl,--gc-sections", "-Wl,--no-gc-sections", "-Wl,--as-needed", "-Wl,--no-as-needed", "-Wl,--export-dynamic", "-Wl,-E",
    "-Wl,--whole-archive", "-Wl,--no-whole-archive", "-Wl,--build-id=none", "-Wl,-O1", "-Wl,-O2", "-Wl,-z,now", "-Wl,-z,relro",
    "-Wl,-z,norelro", "-Wl,-z,noexecstack", "-Wl,-Bsymbolic", "-Wl,--no-undefined", "-Wl,--fatal-warnings",
];

/// Prefixes of options whose rest is a plain value: letters, digits and `= . _ + -`. No warning option and no
/// machine option names a file; those for the linker and the assembler contain a comma.
const VALUE_PREFIXES: &[&str] = &["-std=", "-W", "-m", "--param="];

/// The `-f` options that affect code generation, each also with `no-`, and with `=` and a plain value where
/// it takes one.
#[rustfmt::skip]
const CODE_OPTIONS: &[&str] = &[
    "PIC", "PIE", "aggressive-loop-optimizations", "align-functions", "align-jumps", "align-labels", "align-loops", "allow-store-data-races",
    "associative-math", "asynchronous-unwind-tables", "builtin", "caller-saves", "combine-stack-adjustments", "common",
    "conserve-stack", "crossjumping", "cse-follow-jumps", "cx-limited-range", "data-sections", "dce", "delete-null-pointer-checks",
    "devirtualize", "diagnostics-color", "dollars-in-identifiers", "dse", "early-inlining", "exceptions", "excess-precision",
    "expensive-optimizations", "fast-math", "finite-loops", "finite-math-only", "float-store", "forward-propagate",
    "fp-contract", "freestanding", "function-sections", "gcse", "gcse-after-reload", "gnu89-inline", "graphite-identity",
    "guess-branch-probability", "hosted", "if-conversion", "if-conversion2", "indirect-inlining", "inline",
    "inline-functions", "inline-functions-called-once", "inline-limit", "inline-small-functions", "ipa-cp", "ipa-cp-clone",
    "ipa-icf", "ipa-pta", "ipa-ra", "ipa-sra", "ira-algorithm", "isolate-erroneous-paths-dereference", "ivopts",
    "jump-tables", "keep-inline-functions", "keep-static-consts", "lax-vector-conversions", "math-errno", "max-errors",
    "merge-all-constants", "merge-constants", "modulo-sched", "move-loop-invariants", "ms-extensions", "non-call-exceptions",
    "omit-frame-pointer", "optimize-sibling-calls", "optimize-strlen", "pack-struct", "partial-inlining", "peel-loops",
    "pic", "pie", "plan9-extensions", "plt", "predictive-commoning", "prefetch-loop-arrays", "reciprocal-math", "ree",
    "rename-registers", "reorder-blocks", "reorder-functions", "rounding-math", "schedule-insns", "schedule-insns2",
    "section-anchors", "short-enums", "short-wchar", "shrink-wrap", "signaling-nans", "signed-bitfields", "signed-char",
    "signed-zeros", "single-precision-constant", "split-loops", "split-wide-types", "ssa-phiopt", "stack-check",
    "stack-clash-protection", "stack-protector", "stack-protector-all", "stack-protector-strong", "store-merging",
    "strict-aliasing", "strict-overflow", "strict-volatile-bitfields", "thread-jumps", "tls-model", "tracer",
    "trapping-math", "trapv", "tree-bit-ccp", "tree-ccp", "tree-ch", "tree-coalesce-vars", "tree-copy-prop", "tree-dce",
    "tree-dominator-opts", "tree-dse", "tree-fre", "tree-loop-distribute-patterns", "tree-loop-distribution", "tree-loop-im",
    "tree-loop-ivcanon", "tree-loop-optimize", "tree-loop-vectorize", "tree-partial-pre", "tree-phiprop", "tree-pre",
    "tree-pta", "tree-sink", "tree-slp-vectorize", "tree-slsr", "tree-sra", "tree-switch-conversion", "tree-tail-merge",
    "tree-ter", "tree-vectorize", "tree-vrp", "unconstrained-commons", "unit-at-a-time", "unroll-all-loops",
    "unroll-loops", "unsafe-math-optimizations", "unsigned-bitfields", "unsigned-char", "unswitch-loops", "unwind-tables",
    "vect-cost-model", "visibility", "web", "whole-program", "wrapv", "zero-initialized-in-bss",
];

/// Refuses the first option that is not listed as harmless. An option and its value may be two words.
pub(crate) fn check(flags: &[String]) -> Result<(), String> {
    let mut rest = flags.iter().map(String::as_str);
    while let Some(flag) = rest.next() {
        let refused = |why: &str| Err(format!("build.flags: \"{flag}\" {why}"));
        let ok = match flag {
            "-D" | "-U" | "-I" | "-include" => match rest.next() {
                None => return refused("needs a value in the next word"),
                Some(value) if flag == "-D" || flag == "-U" => is_macro(value),
                Some(value) => is_header_path(value),
            },
            _ => is_harmless(flag),
        };
        if !ok && ["-I", "-include"].iter().any(|option| flag.starts_with(option)) {
            return refused(
                "must name a relative path without . or .. in it: headers are the recipe's own or the packages'",
            );
        }
        if !ok {
            return refused(&format!(
                "is not among the compiler's options that a recipe may use, because others can run programs or touch files on \
                 this machine; {ALLOWED}"
            ));
        }
    }
    Ok(())
}

fn is_harmless(flag: &str) -> bool {
    let with_value = |start: &&str| flag.strip_prefix(*start).is_some_and(is_plain_value);
    EXACT_OPTIONS.contains(&flag)
        || VALUE_PREFIXES.iter().any(with_value)
        || flag.strip_prefix("-f").is_some_and(is_code_option)
        || ["-D", "-U"].iter().any(|option| flag.strip_prefix(option).is_some_and(is_macro))
        || flag.strip_prefix("-I").is_some_and(is_header_path)
}

fn is_code_option(option: &str) -> bool {
    let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
    let positive = name.strip_prefix("no-").unwrap_or(name);
    // -fno-builtin-FUNCTION.
    let builtin = positive.strip_prefix("builtin-").is_some_and(is_plain_value);
    (CODE_OPTIONS.contains(&positive) || builtin) && value.is_none_or(is_plain_value)
}

fn is_plain_value(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "=._+-".contains(c))
}

/// `NAME`, `NAME=VALUE` or `NAME(ARGUMENTS)=VALUE`; no shell interprets it.
fn is_macro(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && !text.contains(|c: char| c.is_control())
}

/// Resolved in the working folder, which holds the recipe's sources and the packages, and in `-I` folders.
fn is_header_path(path: &str) -> bool {
    // A path with a leading `=` or `$` would be relative to the root of the packages.
    crate::recipe::is_relative_path(path)
        && path.chars().all(|c| c.is_ascii_alphanumeric() || "_+./-".contains(c))
        && !path.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(flags: &str) -> Result<(), String> {
        check(&flags.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_that_only_affect_code_generation_are_allowed() {
        for flags in [
            "-O3 -g -std=gnu11 -Wall -Wextra -Wno-error=format-security -march=rv64gc_zba -mabi=lp64d -mtune=sifive-7-series",
            "-include rte_config.h -DALLOW_EXPERIMENTAL_API -DTEXT=\"a,b\" -D X(a)=a -UNDEBUG -U Y -Iprograms/common -I packages/usr/include",
            "-ffast-math -fno-strict-aliasing -fno-builtin-memcpy -fstack-protector-strong -falign-functions=32 -fvisibility=hidden",
            "-pthread -static -nostdlib -Wl,--gc-sections -ffunction-sections -Wl,-z,now --param=inline-unit-growth=50",
        ] {
            assert_eq!(verdict(flags), Ok(()), "{flags}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn options_that_run_programs_or_access_files_are_refused_by_name() {
        for flags in [
            "-wrapper /bin/sh,-c,id", "-fplugin=./x.so", "-fplugin-arg-x-y=1", "-B.", "-B /tmp", "-specs=x", "--specs=x", "-specs x",
            "@file", "@/etc/passwd", "-o /tmp/x", "-o/tmp/x", "-x c", "-T x", "-Tx", "-dumpdir /tmp/", "-dumpbase x", "-d", "-da",
            "-save-temps", "-save-temps=obj", "-fdump-tree-all", "-fdump-tree-all=/tmp/x", "-fprofile-use=/etc/x", "-fprofile-generate",
            "-fprofile-dir=/tmp", "-ftest-coverage", "-fuse-ld=/tmp/x", "-fuse-ld=gold", "--sysroot=/", "-isysroot /", "-isystem /usr/include",
            "-iquote/", "-idirafter /", "-iprefix /", "-imacros /etc/passwd", "-imultilib x", "-iplugindir=/tmp", "-Wl,-plugin,/tmp/x",
            "-Wl,-T,/x", "-Wl,--version-script=x", "-Wl,@x", "-Wl,-o,/tmp/x", "-Wl,-rpath,/x", "-Wl,-Map=/tmp/x", "-Wl,--gc-sections,-T,x",
            "-Wa,-a=/tmp/x", "-Wa,@x", "-Wp,-MD,/tmp/x", "-Xlinker -T", "-Xassembler -a=/x", "-Xpreprocessor -MD", "-MD", "-MF /tmp/x", "-M",
            "-fmodule-mapper=|x", "-fmodules-ts", "-fopt-info-all=/tmp/x", "-fopt-info", "-fsave-optimization-record", "-fcallgraph-info",
            "-fstack-usage", "-gsplit-dwarf", "-auxbase x", "-aux-info /tmp/x", "-L/usr/lib", "-L /x", "-l:x", "-lx", "-fself-test=x",
            "-fauto-profile=/x", "-fdiagnostics-format=sarif-file", "-ffile-prefix-map=/a=b", "-fcompare-debug", "-flto-partition=x",
            "-fabi-compat-version=/x", "-E", "-S", "-c", "-v", "-###", "--help", "-print-search-dirs", "-no-canonical-prefixes", "-u x", "-z x", "-e x",
            "-R/x", "-Qn", "-A x=y", "/etc/passwd", "file.c", "-", "", "--param", "-mx,y", "-m", "-W", "-std=/x", "-Wno-\u{e9}", "-wrapper",
        ] {
            let first = flags.split(' ').next().unwrap();
            let problem = verdict(flags).expect_err(flags);
            assert!(problem.contains(&format!("\"{first}\"")) && problem.contains("allowed are"), "{problem}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn headers_from_outside_and_options_without_values_are_refused() {
        for flags in [
            "-include /etc/passwd", "-include ../x.h", "-include=x", "-I/usr/include", "-I ..", "-I=usr", "-I$SYSROOT/x", "-I-", "-I @x", "-Ia/../../b",
        ] {
            assert!(verdict(flags).expect_err(flags).contains("relative path"), "{flags}");
        }
        for flags in ["-O2 -D", "-I", "-include"] {
            assert!(verdict(flags).expect_err(flags).contains("needs a value"), "{flags}");
        }
        for flags in ["-D -wrapper", "-U @x", "-D1", "-Da\nb"] {
            assert!(verdict(flags).is_err(), "{flags}");
        }
    }
}
