//! Hints for invalid command lines: negative values, a benchmark in place of a command or together with a
//! script, and files of another type.

use std::path::Path;

use doorbell_bench::BENCHMARKS;
use toml::Table;

/// File types that need another command: characteristic keys, description, command.
const OTHER_KINDS: [(&[&str], &str, &str); 3] = [
    (&["grid", "list", "random", "measure", "search", "plot"], "an experiment", "doorbell sweep"),
    (&["node", "switch", "generator", "cable"], "a network", "doorbell run --network"),
    (&["schema", "packages", "initramfs", "extends"], "an image's recipe", "doorbell image build"),
];

/// Error message for a negative value, which the parser takes for an option.
pub fn negative_value(words: &[String]) -> Option<String> {
    let is_number = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let at = words.iter().position(|word| is_number(word)).filter(|at| *at > 0)?;
    let (option, value) = (&words[at - 1], &words[at]);
    option
        .starts_with("--")
        .then(|| format!("error: {option}: \"{value}\" is negative; give a value of 0 or more"))
}

/// Hint for words that the parser rejects.
pub fn of_words(words: &[String]) -> Option<String> {
    let is_benchmark = |word: &str| BENCHMARKS.iter().any(|benchmark| benchmark.name == word);
    let Some(script) = words.iter().position(|word| word == "--script" || word.starts_with("--script="))
    else {
        let first = words.first().filter(|word| is_benchmark(word))?;
        return Some(format!("tip: run a benchmark with `doorbell run {first}`"));
    };
    let benchmark = |(at, word): (usize, &String)| (at != script + 1 && is_benchmark(word)).then_some(at);
    let at = words.iter().enumerate().find_map(benchmark)?;
    let others =
        words.iter().enumerate().filter(|(other, word)| *other != at && !(*other == 0 && *word == "run"));
    let others: Vec<&str> = others.map(|(_, word)| word.as_str()).collect();
    Some(format!(
        "tip: --script runs a script instead of the benchmark {}: `doorbell run {}` (--image chooses its guest)",
        words[at],
        others.join(" ")
    ))
}

/// Hint for a file given in place of a benchmark: the command for its type.
pub fn of_file(name: &str) -> Option<String> {
    let path = Path::new(name);
    if !path.is_file() {
        return None;
    }
    let text = std::fs::read_to_string(path).ok();
    let table = text.as_deref().and_then(|text| text.parse::<Table>().ok());
    let Some(table) = table else {
        return Some(format!("{name} is a file; to run a script, use `doorbell run --script {name}`"));
    };
    let kind = OTHER_KINDS.iter().find(|(keys, ..)| keys.iter().any(|key| table.contains_key(*key)));
    Some(match kind {
        Some((_, what, command)) => format!("{name} is {what}; run it with `{command} {name}`"),
        None => format!(
            "{name} is a file; give a machine with `--machine {name}` or traffic with `--traffic {name}`, in addition to a benchmark"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_negative_value_has_its_own_message() {
        let hint = negative_value(&words("run testpmd --rate -5Mpps")).unwrap();
        assert_eq!(hint, "error: --rate: \"-5Mpps\" is negative; give a value of 0 or more");
        for other in ["run testpmd --rate 5Mpps -q", "run -5", "run testpmd --append -x"] {
            assert_eq!(negative_value(&words(other)), None);
        }
    }

    #[test]
    fn a_misplaced_benchmark_gets_a_hint() {
        let hint = of_words(&words("testpmd --rate 5Mpps")).unwrap();
        assert_eq!(hint, "tip: run a benchmark with `doorbell run testpmd`");
        let hint = of_words(&words("run testpmd --script x.sh")).unwrap();
        assert!(hint.contains("instead of the benchmark testpmd: `doorbell run --script x.sh`"), "{hint}");
        let hint = of_words(&words("testpmd --script x.sh")).unwrap();
        assert!(hint.contains("`doorbell run --script x.sh`"), "{hint}");
        assert_eq!(of_words(&words("run --script testpmd")), None);
        assert_eq!(of_words(&words("runn testpmd")), None);
    }

    #[test]
    fn a_file_in_place_of_a_benchmark_gets_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        for (text, part) in [
            (
                "benchmark = \"testpmd\"\n[grid]\nrate = [\"1Mpps\"]\n",
                "is an experiment; run it with `doorbell sweep ",
            ),
            ("[node.a]\nbenchmark = \"testpmd\"\n", "is a network; run it with `doorbell run --network "),
            ("schema = 1\nname = \"own\"\n", "`doorbell image build "),
            ("base = \"server\"\n", "--machine"),
            ("#!/bin/sh\ntrue\n", "`doorbell run --script "),
        ] {
            let path = folder.path().join("file");
            std::fs::write(&path, text).unwrap();
            let hint = of_file(path.to_str().unwrap()).unwrap();
            assert!(hint.contains(part), "{hint}");
        }
        assert_eq!(of_file("nothing.toml"), None);
    }
}
