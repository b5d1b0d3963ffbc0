//! Prepares a recipe's `init` lines for the guest's `init`: the shell prints on the console which command
//! failed and its status, and continues.
//!
//! A check follows each complete command, so the end of each command must be found: a loop may span several
//! lines. The host's shell parses the lines, without executing them (`sh -n`). Where it finds no end
//! (here-documents, `done` without a loop), all remaining lines count as one command, with one check at its
//! end.

use std::io;
use std::process::Stdio;

use crate::host::{self, Tool};

const SHELL: Tool = Tool { name: "sh", package: "dash" };

/// Beginning of the console line about a failed `init` line; the line's number follows.
pub const INIT_FAILED: &str = "doorbell: init line ";
/// Version of the generated text: a change rebuilds the images of recipes that have `init` lines.
pub(crate) const INIT_LINES_VERSION: &str = " 2";
/// Length to which a command's text is cut in messages.
const SHOWN_CHARS: usize = 80;
/// `$?` after the check is the same as before it.
const CHECK: &str = "doorbell_init() { [ \"$1\" = 0 ] || echo \"doorbell: init line $2 failed with status $1: $3\"; \
                     return \"$1\"; }\n";

/// Generates the file that `init` runs.
pub(crate) fn checked(lines: &[String]) -> io::Result<String> {
    let mut file = CHECK.to_owned();
    for (first, command) in commands(lines)? {
        command.iter().for_each(|line| file.push_str(&format!("{line}\n")));
        let is_code = |line: &&String| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let Some(text) = command.iter().find(is_code) else { continue };
        let more = if command.iter().filter(is_code).count() > 1 { " ..." } else { "" };
        let shown: String = text.trim().chars().take(SHOWN_CHARS).collect();
        file.push_str(&format!("doorbell_init $? {} '{}{more}'\n", first + 1, shown.replace('\'', "'\\''")));
    }
    Ok(file)
}

/// Splits the lines into commands, each with the index of its first line.
fn commands(lines: &[String]) -> io::Result<Vec<(usize, &[String])>> {
    let (mut found, mut begin) = (Vec::new(), 0);
    for end in 1..=lines.len() {
        if end == lines.len() || is_complete(&lines[begin..end].join("\n"))? {
            found.push((begin, &lines[begin..end]));
            begin = end;
        }
    }
    Ok(found)
}

/// Whether the host's shell accepts a text as it is. It would also accept a line whose continuation is missing,
/// and a here-document without its end.
fn is_complete(text: &str) -> io::Result<bool> {
    let is_continued = text.ends_with('\\') && !text.ends_with("\\\\");
    if is_continued || text.contains("<<") {
        return Ok(false);
    }
    Ok(host::command(SHELL).args(["-n", "-c", text]).stderr(Stdio::null()).status()?.success())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    /// The first lines of the commands, counted from 1.
    fn begins(text: &str) -> Vec<usize> {
        commands(&lines(text)).unwrap().iter().map(|(first, _)| first + 1).collect()
    }

    /// Output of the generated file in the host's shell.
    fn run(text: &str) -> String {
        let out = Command::new("sh").arg("-c").arg(checked(&lines(text)).unwrap()).output().unwrap();
        assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    #[test]
    fn commands_of_several_lines_stay_whole() {
        assert_eq!(begins("a\nb; c\n# done\nd"), [1, 2, 3, 4]);
        assert_eq!(begins("for x in 1 2; do\n  echo done\ndone\nlast"), [1, 4]);
        assert_eq!(begins("if a; then\nb\nelse c\nfi\nwhile d; do e; done\nf"), [1, 5, 6]);
        assert_eq!(begins("case $x in\n a) b ;;\n done) c ;;\nesac\nd"), [1, 5]);
        assert_eq!(begins("a &&\nb\nc |\nd\ne \\\nf\ng"), [1, 3, 5, 7]);
        assert_eq!(begins("f()\n{\na\n}\nf"), [1, 5]);
        assert_eq!(begins("(a\nb)\nx=$(c\nd)\ne `f\ng`\nh"), [1, 3, 5, 7]);
        assert_eq!(begins("echo 'a\nb' \"c\nd\"\ne"), [1, 4]);
        assert_eq!(begins("echo \"$(cat \"$x\")\" ${y#'}'} ${#z} $#\nb"), [1, 2]);
        assert_eq!(begins("echo it\\'s; echo \"it's\"\nb"), [1, 2]);
        assert_eq!(begins("a\ncat <<END\nif\nEND\nb"), [1, 2]);
        assert_eq!(begins("a\ndone\nb"), [1, 2]);
    }

    #[test]
    fn a_failing_line_is_reported_and_the_rest_runs() {
        assert_eq!(
            run("x=1\nfalse\n(exit 3)\necho $x"),
            format!(
                "{INIT_FAILED}2 failed with status 1: false\n{INIT_FAILED}3 failed with status 3: (exit 3)\n1\n"
            )
        );
        let several = "for x in 'a b'; do\n  test -z \"$x\"\ndone\n";
        assert_eq!(run(several), format!("{INIT_FAILED}1 failed with status 1: for x in 'a b'; do ...\n"));
        assert_eq!(run("true\n\n# false\nfalse || true"), "");
        assert!(run("(exit 4)\necho $?").ends_with("\n4\n"), "the status stays for the next line");
    }

    #[test]
    fn the_built_in_recipes_init_lines_are_valid_shell() {
        for builtin in crate::BUILTIN {
            let recipe = crate::Recipe::load(builtin.name).unwrap();
            let own = checked(&recipe.spec.init).unwrap();
            let out = Command::new("sh").args(["-n", "-c", &own]).output().unwrap();
            assert!(out.status.success(), "{}: {own}", builtin.name);
        }
    }
}
