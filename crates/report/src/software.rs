//! Provenance of a result: the simulator, the images and their packages, and the boot, so that two results
//! can be distinguished.

use std::fmt::Write;

use doorbell_results::RunIdentity;

use crate::escape::Esc;
use crate::page;

/// The section of a page.
pub(crate) fn html(version: &str, ran: &RunIdentity, out: &mut String) {
    out.push_str(&page::section("ran", "Software"));
    out.push_str("<div class=\"scroll\">\n<table class=\"numbers few words\">\n<tbody>\n");
    let mut row = |head: &str, text: &str| {
        let _ = writeln!(out, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", Esc(head), Esc(text));
    };
    row("Doorbell", &format!("{version}, commit {}", ran.doorbell_commit));
    for (node, image) in ran.images.iter().enumerate() {
        let whose = if ran.images.len() > 1 { format!(", node {node}") } else { String::new() };
        row(&format!("Image{whose}"), &format!("{}, SHA-256 {}", image.image, image.image_sha256));
        let package = image.kernel_version.as_ref().map_or(String::new(), |version| format!(" ({version})"));
        row(
            &format!("Kernel{whose}"),
            &format!("Linux {}{package}, Debian {}", image.kernel_release, image.suite),
        );
        if let Some(version) = &image.dpdk_version {
            row(&format!("DPDK{whose}"), version);
        }
        let packages: Vec<String> =
            image.packages.iter().map(|package| format!("{} {}", package.name, package.version)).collect();
        row(&format!("Packages{whose}"), &packages.join(", "));
        if let Some(compiler) = &image.compiler {
            row(&format!("Compiler of its programs{whose}"), compiler);
        }
    }
    if !ran.boot.is_empty() {
        row("Boot", &ran.boot);
    }
    out.push_str("</tbody>\n</table>\n</div>\n</section>\n");
}
