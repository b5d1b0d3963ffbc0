//! What helps with words of the command that cannot be what was meant: negative values, a benchmark in the command's place or beside a
//! script, and files of another kind.

use std::path::Path;

use doorbell_bench::BENCHMARKS;
use toml::Table;

/// Files for which a run is named by other words.
const OTHER_KINDS: [(&[&str], &str, &str); 3] = [
    (&["grid", "list", "random", "measure", "search", "plot"], "an experiment", "doorbell sweep"),
    (&["node", "switch", "generator", "cable"], "a network", "doorbell run --network"),
    (&["schema", "packages", "initramfs", "extends"], "an image's recipe", "doorbell image build"),
];

/// What to say in place of the parser's own tip: of a value that begins with a minus sign, which it takes for an option.
pub fn negative_value(words: &[String]) -> Option<String> {
    let is_number = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let at = words.iter().position(|word| is_number(word)).filter(|at| *at > 0)?;
    let (option, value) = (&words[at - 1], &words[at]);
    option
        .starts_with("--")
        .then(|| format!("error: {option}: \"{value}\" is negative; give a value from 0 up"))
}

/// What the user may have meant by words that the parser refuses.
pub fn of_words(words: &[String]) -> Option<String> {
    let is_benchmark = |word: &str| BENCHMARKS.iter().any(|known| known.name == word);
    let Some(script) = words.iter().position(|word| word == "--script" || word.starts_with("--script="))
    else {
        let first = words.first().filter(|word| is_benchmark(word))?;
        return Some(format!("tip: a benchmark is run by `doorbell run {first}`"));
    };
    let benchmark = |(at, word): (usize, &String)| (at != script + 1 && is_benchmark(word)).then_some(at);
    let at = words.iter().enumerate().find_map(benchmark)?;
    let others =
        words.iter().enumerate().filter(|(other, word)| *other != at && !(*other == 0 && *word == "run"));
    let others: Vec<&str> = others.map(|(_, word)| word.as_str()).collect();
    Some(format!(
        "tip: --script runs a script of your own in place of the benchmark {}: `doorbell run {}` (--image chooses its guest)",
        words[at],
        others.join(" ")
    ))
}

/// By what a file is run that was named where a benchmark is: it is another kind of file.
pub fn of_file(name: &str) -> Option<String> {
    let path = Path::new(name);
    if !path.is_file() {
        return None;
    }
    let text = std::fs::read_to_string(path).ok();
    let table = text.as_deref().and_then(|text| text.parse::<Table>().ok());
    let Some(table) = table else {
        return Some(format!(
            "{name} is a file; a script of your own is run by `doorbell run --script {name}`"
        ));
    };
    let kind = OTHER_KINDS.iter().find(|(keys, ..)| keys.iter().any(|key| table.contains_key(*key)));
    Some(match kind {
        Some((_, what, command)) => format!("{name} is {what}, which `{command} {name}` takes"),
        None => format!(
            "{name} is a file; a machine is `--machine {name}`, traffic is `--traffic {name}`, both beside a benchmark's name"
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
    fn a_negative_value_is_called_that() {
        let said = negative_value(&words("run testpmd --rate -5Mpps")).unwrap();
        assert_eq!(said, "error: --rate: \"-5Mpps\" is negative; give a value from 0 up");
        for other in ["run testpmd --rate 5Mpps -q", "run -5", "run testpmd --append -x"] {
            assert_eq!(negative_value(&words(other)), None);
        }
    }

    #[test]
    fn a_benchmark_in_another_place_is_told_where_it_belongs() {
        let said = of_words(&words("testpmd --rate 5Mpps")).unwrap();
        assert_eq!(said, "tip: a benchmark is run by `doorbell run testpmd`");
        let said = of_words(&words("run testpmd --script x.sh")).unwrap();
        assert!(said.contains("in place of the benchmark testpmd: `doorbell run --script x.sh`"), "{said}");
        let said = of_words(&words("testpmd --script x.sh")).unwrap();
        assert!(said.contains("`doorbell run --script x.sh`"), "{said}");
        assert_eq!(of_words(&words("run --script testpmd")), None);
        assert_eq!(of_words(&words("runn testpmd")), None);
    }

    #[test]
    fn a_file_in_a_benchmarks_place_is_told_what_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        for (text, part) in [
            (
                "benchmark = \"testpmd\"\n[grid]\nrate = [\"1Mpps\"]\n",
                "is an experiment, which `doorbell sweep ",
            ),
            ("[node.a]\nbenchmark = \"testpmd\"\n", "is a network, which `doorbell run --network "),
            ("schema = 1\nname = \"own\"\n", "`doorbell image build "),
            ("base = \"server\"\n", "--machine"),
            ("#!/bin/sh\ntrue\n", "`doorbell run --script "),
        ] {
            let path = folder.path().join("file");
            std::fs::write(&path, text).unwrap();
            let said = of_file(path.to_str().unwrap()).unwrap();
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(of_file("nothing.toml"), None);
    }
}
