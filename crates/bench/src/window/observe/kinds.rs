//! Rules that assign a kind of CPU time to a function; the first matching rule decides. `guest/kinds.toml` has the
//! built-in rules and documents their format.

use std::path::Path;

use doorbell_symbols::{Mode, Place};
use serde::Deserialize;

use crate::error::RunError;

const BUILT_IN: &str = include_str!("../../../../../guest/kinds.toml");
/// Pseudo-kind of a rule: the kind of the nearest caller that has one.
const CALLER: &str = "caller";
/// Kind of functions that no rule matches.
const OTHER: &str = "other";
/// Suffixes that compilers append to the names of cloned or split functions.
const SUFFIXES: [&str; 6] = [".isra.", ".constprop.", ".part.", ".cold", ".lto_priv.", ".llvm."];

/// One pattern or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Patterns {
    One(String),
    Several(Vec<String>),
}

impl Patterns {
    fn all(&self) -> &[String] {
        match self {
            Patterns::One(one) => std::slice::from_ref(one),
            Patterns::Several(all) => all,
        }
    }

    fn fit(&self, text: &str) -> bool {
        self.all().iter().any(|pattern| fits(pattern.as_bytes(), text.as_bytes()))
    }

    fn fit_function(&self, name: &str) -> bool {
        self.fit(name) || Some(plain(name)).filter(|plain| *plain != name).is_some_and(|name| self.fit(name))
    }
}

/// Whether a text matches a glob pattern: `*` is any text, `?` any one character.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    // Position of the last `*` in the pattern, and end of the text that it has matched.
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b'?') => (p, t) = (p + 1, t + 1),
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, from)) => {
                    (p, t) = (at + 1, from + 1);
                    star = Some((at, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// A function name without compiler suffixes and leading underscores.
fn plain(name: &str) -> &str {
    let ends = SUFFIXES.iter().filter_map(|suffix| name.find(suffix));
    let name = &name[..ends.min().unwrap_or(name.len())];
    name.trim_start_matches('_')
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    kind: String,
    function: Option<Patterns>,
    object: Option<Patterns>,
    program: Option<Patterns>,
    privilege: Option<Mode>,
    under: Option<Patterns>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    meaning: String,
}

/// A file of rules.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    kind: Vec<Named>,
    rule: Vec<Rule>,
}

/// The rules: the user's before the built-in ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindRules {
    kinds: Vec<Named>,
    rules: Vec<Rule>,
}

/// An executed function, as the rules test it.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// Object and name.
    pub place: &'a Place,
    /// The program that executed it.
    pub program: &'a str,
    /// The privilege mode in which it ran.
    pub privilege: Mode,
}

/// Result of the rules for a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Index of its kind; `None` for the caller's kind.
    pub kind: Option<usize>,
    /// Whether the rule has a pattern for the function name.
    pub by_name: bool,
}

impl Default for KindRules {
    fn default() -> Self {
        let File { kind, rule } = toml::from_str(BUILT_IN).expect("the built-in rules can be read");
        let rules = KindRules { kinds: kind, rules: rule };
        assert_eq!(rules.problem(), None, "in the built-in rules");
        rules
    }
}

impl KindRules {
    /// The rules of a file, followed by the built-in ones.
    pub fn with_file(path: &Path) -> Result<KindRules, RunError> {
        let text = doorbell_files::read_text(path).map_err(RunError::io("read", path))?;
        let wrong = |problem: String| RunError::Kinds { path: path.to_owned(), problem };
        Self::with(&text).map_err(wrong)
    }

    fn with(text: &str) -> Result<KindRules, String> {
        let own: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let mut all = KindRules::default();
        for named in own.kind {
            match all.kinds.iter_mut().find(|known| known.name == named.name) {
                Some(known) => known.meaning = named.meaning,
                None => all.kinds.push(named),
            }
        }
        all.rules.splice(0..0, own.rule);
        all.problem().map_or(Ok(all), Err)
    }

    /// The first error in the rules.
    fn problem(&self) -> Option<String> {
        let wrong = |named: &&Named| named.name.is_empty() || named.name.chars().any(char::is_control);
        if let Some(named) = self.kinds.iter().find(wrong) {
            return Some(format!("a kind has the name {:?}; give it a printable name", named.name));
        }
        if self.kinds.iter().any(|named| named.name == CALLER) {
            return Some(format!(
                "a kind cannot have the name \"{CALLER}\", which rules use for the caller's kind"
            ));
        }
        let unknown =
            self.rules.iter().find(|rule| rule.kind != CALLER && self.number(&rule.kind).is_none())?;
        let names: Vec<&str> = self.kinds.iter().map(|named| named.name.as_str()).collect();
        Some(format!(
            "a rule has the unknown kind \"{}\"; add [[kind]] with its name and meaning, or use {CALLER} or one of {}",
            unknown.kind,
            names.join(", ")
        ))
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.kinds.iter().position(|named| named.name == name)
    }

    /// The kinds' names and meanings, in their order.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.kinds.iter().map(|named| (named.name.as_str(), named.meaning.as_str()))
    }

    /// The kind of functions that no rule matches.
    pub fn other(&self) -> usize {
        self.number(OTHER).expect("a built-in kind")
    }

    /// The kind of idle time (WFI), which rules see as the function `[idle]` of the program `idle`.
    pub fn idle(&self) -> usize {
        let place = Place { object: "idle".into(), function: "[idle]".into(), is_program: false };
        let ran = Ran { place: &place, program: "idle", privilege: Mode::Kernel };
        self.classify(ran, &mut Vec::new).kind.unwrap_or_else(|| self.other())
    }

    /// Applies the first matching rule to a function; `stack` computes its callers when a rule needs them.
    pub fn classify(&self, ran: Ran<'_>, stack: &mut dyn FnMut() -> Vec<String>) -> Match {
        let mut below: Option<Vec<String>> = None;
        let fits = |rule: &&Rule| {
            let fit = |patterns: &Option<Patterns>, text: &str| {
                patterns.as_ref().is_none_or(|patterns| patterns.fit(text))
            };
            let function = &ran.place.function;
            rule.privilege.is_none_or(|privilege| privilege == ran.privilege)
                && fit(&rule.program, ran.program)
                && fit(&rule.object, &ran.place.object)
                && rule.function.as_ref().is_none_or(|patterns| patterns.fit_function(function))
                && rule.under.as_ref().is_none_or(|patterns| {
                    below.get_or_insert_with(&mut *stack).iter().any(|name| patterns.fit_function(name))
                })
        };
        match self.rules.iter().find(fits) {
            Some(rule) => Match { kind: self.number(&rule.kind), by_name: rule.function.is_some() },
            None => Match { kind: Some(self.other()), by_name: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(rules: &KindRules, ran: (&str, &str, &str, Mode), below: &[&str]) -> String {
        let (program, object, function, privilege) = ran;
        let place = Place { object: object.into(), function: function.into(), is_program: false };
        let stack = below.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let said = rules.classify(Ran { place: &place, program, privilege }, &mut || stack.clone());
        said.kind.map_or(CALLER, |kind| &rules.kinds[kind].name).to_owned()
    }

    #[test]
    fn pattern_must_match_the_whole_text() {
        for (pattern, text, expected) in [
            ("ip_*", "ip_rcv", true),
            ("ip_*", "skip_it", false),
            ("*", "", true),
            ("", "", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("*.ko", "e1000.ko", true),
            ("*.ko", "e1000.ko.xz", false),
            ("*a*b", "xaxbxab", true),
            ("*a*b", "xaxbxac", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        assert_eq!(
            ["__schedule", "ip_rcv_finish_core.isra.0", "_a.part.0.constprop.1", "libc.so.6+0x1"].map(plain),
            ["schedule", "ip_rcv_finish_core", "a", "libc.so.6+0x1"]
        );
    }

    #[test]
    fn built_in_rules_classify_kernel_driver_and_dpdk_functions() {
        let rules = KindRules::default();
        let kernel = |function: &str, below: &[&str]| {
            kind(&rules, ("kernel", "kernel", function, Mode::Kernel), below)
        };
        for (function, expected) in [
            ("tcp_ack", "stack"),
            ("__sys_sendmsg", "stack"),
            ("__riscv_sys_epoll_pwait", "syscalls"),
            ("fallback_scalar_usercopy", "copy"),
            ("_copy_from_iter", "copy"),
            ("__alloc_skb", "buffers"),
            ("napi_alloc_skb", "buffers"),
            ("napi_gro_receive", "stack"),
            ("__napi_poll", "interrupt"),
            ("handle_softirqs", "interrupt"),
            ("finish_task_switch.isra.0", "scheduler"),
            ("vfs_read", "filesystem"),
            ("nf_hook_slow", "netfilter"),
            ("do_idle", "idle"),
            ("_raw_spin_lock", CALLER),
            ("memset", CALLER),
        ] {
            assert_eq!(kernel(function, &[]), expected, "{function}");
        }
        // An exception in the idle loop is an interrupt; otherwise it counts as a system call.
        assert_eq!(kernel("handle_exception", &["arch_cpu_idle", "do_idle"]), "interrupt");
        assert_eq!(kernel("handle_exception", &[]), "syscalls");
        let of =
            |program, object, function, privilege| kind(&rules, (program, object, function, privilege), &[]);
        assert_eq!(of("kernel", "e1000.ko", "e1000_clean", Mode::Kernel), "driver");
        assert_eq!(of("kernel", "nf_nat.ko", "nf_nat_packet", Mode::Kernel), "netfilter");
        assert_eq!(of("idle", "idle", "[idle]", Mode::Kernel), "idle");
        assert_eq!(of("firmware", "firmware", "[firmware]", Mode::Firmware), OTHER);
        assert_eq!(of("memcached", "libc.so.6", "memmove", Mode::User), "user");
        let dpdk = |object, function| of("dpdk-testpmd", object, function, Mode::User);
        assert_eq!(dpdk("librte_net_e1000.so.25.0", "eth_em_recv_pkts"), "receive");
        // Functions named by the driver's own function table have their names before the rules apply.
        assert_eq!(dpdk("librte_net_e1000.so.25.0", "librte_net_e1000.so.25.0+0x220ba"), OTHER);
        assert_eq!(dpdk("librte_net_e1000.so.25.0", "librte_net_e1000.so.25.0 [plt]"), CALLER);
        assert_eq!(dpdk("dpdk-testpmd", "dpdk-testpmd+0x694bc"), "processing");
        assert_eq!(dpdk("ld-linux-riscv64-lp64d.so.1", "__tls_get_addr"), CALLER);
    }

    #[test]
    fn user_rules_take_precedence_and_may_define_kinds() {
        let own = "[[kind]]\nname = \"crypto\"\nmeaning = \"ciphers\"\n\
                   [[rule]]\nkind = \"crypto\"\nobject = [\"libcrypto*\", \"aes*.ko\"]\n\
                   [[rule]]\nkind = \"driver\"\nfunction = \"memset\"\nunder = \"e1000_*\"\n";
        let rules = KindRules::with(own).unwrap();
        assert_eq!(kind(&rules, ("sshd", "libcrypto.so.3", "f", Mode::User), &[]), "crypto");
        let memset = |below: &[&str]| kind(&rules, ("kernel", "kernel", "memset", Mode::Kernel), below);
        assert_eq!((memset(&["a", "e1000_clean"]), memset(&["a"])), ("driver".into(), CALLER.into()));
        assert_eq!(rules.kinds().last(), Some(("crypto", "ciphers")));
        assert_eq!(KindRules::with("").unwrap(), KindRules::default());
    }

    #[test]
    fn invalid_rule_file_is_rejected_with_the_reason() {
        for (text, expected) in [
            ("[[rule]]\nkind = \"cypto\"\n", "add [[kind]]"),
            ("[[rule]]\nkind = \"copy\"\nfuncton = \"x\"\n", "unknown field `functon`"),
            ("[[rule]]\nkind = \"copy\"\nprivilege = \"root\"\n", "unknown variant `root`"),
            ("[[kind]]\nname = \"caller\"\nmeaning = \"\"\n", "a kind cannot have the name \"caller\""),
            ("[[kind]]\nname = \"\"\nmeaning = \"\"\n", "give it a printable name"),
            ("rule = 1", "invalid type"),
        ] {
            let problem = KindRules::with(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }
}
